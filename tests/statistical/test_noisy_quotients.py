"""Intervals of noisy quotients hold for every count, also for none. The masses of all noises are summed exactly.

Nothing is drawn, so a false alarm is impossible. Each test also judges a wrong interval, and rejects it.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tallystick.inference import Mean, Noise, Released
from tallystick.inference.noise import Quotient
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace
from tallystick.tables.estimates import Noisy, ratio

Z = 1.959963984540054
COUNTS = (0, 1, 2, 3, 5, 8, 10, 15, 20, 100)
MEANS = (0.0, 0.1, 0.5, 0.9, 1.0)


def masses(law: str, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """The noise from its definition, as far as 1e-13 of it is left out."""
    reach = math.ceil(8 * scale + 4) if law == "gaussian" else math.ceil(32 * scale + 4)
    k = np.arange(-reach, reach + 1, dtype=float)
    weights = np.exp(-(k**2) / (2 * scale**2)) if law == "gaussian" else np.exp(-np.abs(k) / scale)
    return k, weights / weights.sum()


def every_release(count: int, mean: float, law: str, scale: float) -> tuple[np.ndarray, ...]:
    """All pairs of a noisy total and a noisy count with their probabilities. The noise is on the whole numbers."""
    k, mass = masses(law, scale)
    total = np.repeat(count * mean + k, k.size)
    size = np.tile(count + k, k.size)
    return total, size, np.outer(mass, mass).ravel()


def held(ends: tuple[np.ndarray, np.ndarray], mean: float, chance: np.ndarray) -> float:
    low, high = ends
    good = (low <= mean + 1e-12) & (mean <= high + 1e-12)
    return float(chance[good].sum())


LAWS = {"gaussian": DiscreteGaussian, "laplace": DiscreteLaplace}
WORLDS = [("gaussian", 0.5), ("gaussian", 1.0), ("gaussian", 3.0), ("gaussian", 10.0), ("laplace", 1.0)]


@pytest.mark.parametrize(("law", "scale"), WORLDS)
def test_a_quotient_is_held_for_every_count(law: str, scale: float) -> None:
    noise = Noise(LAWS[law](scale))
    quotient = Quotient.of(noise, noise, 0.95, 0.0, 1.0)
    for count in COUNTS if scale < 10 else (0, 5, 10, 20):
        for mean in MEANS if scale < 10 else (0.0, 0.9):
            total, size, chance = every_release(count, mean, law, scale)
            assert held(quotient.ends(total, size), mean, chance) >= 0.95 - 1e-9, (count, mean)


@pytest.mark.parametrize("count", [0, 1, 3, 20])
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_the_mean_of_a_table_is_held_for_every_count_and_has_a_value_only_where_zero_is_excluded(
    count: int, mean: float
) -> None:
    law = DiscreteGaussian(2.0)
    total, size, chance = every_release(count, mean, "gaussian", 2.0)
    parts = (Noisy(np.rint(numbers).astype(np.int64)[:, None], law, 1.0) for numbers in (total, size))
    found = ratio(*parts, 1.0, 0.95)
    assert held((found.lower, found.upper), mean, chance) >= 0.95
    nothing = np.isnan(found.value)
    assert np.array_equal(nothing, size <= Z * 2.0 + 0.5)
    assert np.all(found.lower[nothing] == 0.0)
    assert np.all(found.upper[nothing] == 1.0)


def test_an_interval_that_forgets_the_lattice_is_rejected() -> None:
    """Everybody is in the middle of the bounds: the total is its noise, which exceeds 1.96 in 12 of 100 releases."""
    total, size, chance = every_release(20, 0.0, "gaussian", 1.0)
    noise = Noise(DiscreteGaussian(1.0))
    quotient = Quotient.of(noise, noise, 0.95, -0.5, 0.5)
    blind = replace(quotient, total_extra=0.0, count_extra=0.0)
    assert held(quotient.ends(total, size), 0.0, chance) >= 0.95
    assert held(blind.ends(total, size), 0.0, chance) < 0.9


@pytest.mark.parametrize(("count", "most"), [(5, 0.55), (10, 0.75), (20, 0.9)])
def test_intervals_that_are_given_only_for_clear_counts_are_rejected(count: int, most: float) -> None:
    """Everybody at 0.9, noise 10: among the counts above three deviations "95 %" held in 49 to 88 %."""
    total, size, chance = every_release(count, 0.9, "gaussian", 10.0)
    quotient = Quotient.of(Noise(DiscreteGaussian(10.0)), Noise(DiscreteGaussian(10.0)), 0.95, 0.0, 1.0)
    plain = replace(quotient, total_extra=0.0, count_extra=0.0)
    clear = size > 30.0
    low, high = plain.ends(total, size)
    selected = held((low[clear], high[clear]), 0.9, chance[clear]) / chance[clear].sum()
    assert selected < most
    assert held(quotient.ends(total, size), 0.9, chance) >= 0.95


def test_the_mean_of_the_public_class_is_held_for_every_count() -> None:
    """Each release is asked through ``Mean``; a refusal is a miss."""
    noise = Noise(DiscreteGaussian(1.0))
    k, mass = masses("gaussian", 1.0)
    near = np.abs(k) <= 5.0
    for count, mean in ((0, 0.9), (1, 0.9), (2, 0.0), (3, 0.9)):
        missed = 0.0
        for a, chance in zip(k[near], mass[near], strict=True):
            for b, beside in zip(k[near], mass[near], strict=True):
                answer = Mean(Released(count * mean + a, noise), Released(count + b, noise), (0.0, 1.0))
                interval = answer.noise_interval()
                missed += chance * beside * (not interval.lower - 1e-9 <= mean <= interval.upper + 1e-9)
        assert missed + 2.0 * mass[~near].sum() <= 0.05, (count, mean)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_ends_are_those_of_a_search_of_the_inequality(kind: str) -> None:
    """The oracle: every x on a fine grid is tried in the inequality as the page has it."""
    random = np.random.default_rng(3)
    for _ in range(60):
        s, t = random.uniform(0.5, 8.0, 2)
        low = float(random.choice([-1.0, 0.0, -0.3]))
        count, total = float(random.integers(-10, 120)), float(random.integers(-60, 120))
        top, bottom = Noise(LAWS[kind](s)), Noise(LAWS[kind](t))
        quotient = Quotient.of(top, bottom, 0.95, low, 1.0)
        z = Z if kind == "gaussian" else max(Z, math.log(20) / math.sqrt(2))
        each = 1.0 if kind == "gaussian" else math.sqrt(2)
        found = tuple(float(end[0]) for end in quotient.ends(np.array([total]), np.array([count])))
        if count <= z * each * t + 0.5:
            assert found == (low, 1.0)
            continue
        x = np.linspace(low, 1.0, 200_001)
        seen = min(max(total, low * count), count)
        kept = np.abs(seen - x * count) <= z * each * np.hypot(s, x * t) + 1.5 + 0.5 * np.abs(x)
        assert found == pytest.approx((x[kept].min(), x[kept].max()), abs=2e-5)


def test_lattice_noise_is_within_one_step_of_the_continuous_noise_beside_it() -> None:
    """The lemma of the page: P(|K| >= j) lies between P(|Z| >= j) and P(|Z| >= j - 1/2), both ends included."""
    for law in LAWS:
        for scale in (0.2, 0.5, 1.0, 2.5, 10.0):
            k, mass = masses(law, scale)
            for j in range(1, math.ceil(5 * scale) + 1):
                found = float(mass[np.abs(k) >= j].sum())
                outer, inner = (continuous_tail(law, scale, point) for point in (j - 0.5, float(j)))
                assert inner * (1 - 1e-9) - 1e-12 <= found <= outer * (1 + 1e-9) + 1e-12, (law, scale, j)


def continuous_tail(law: str, scale: float, point: float) -> float:
    return math.erfc(point / scale / math.sqrt(2)) if law == "gaussian" else math.exp(-point / scale)


def test_no_sum_of_two_laplace_noises_passes_the_stated_number_of_deviations() -> None:
    """In closed form: P(|a L + b M| > t) = (a^2 e^(-t/a) - b^2 e^(-t/b)) / (a^2 - b^2)."""
    law = DiscreteLaplace(1.0)
    for miss in (1e-6, 1e-3, 0.01, 0.05, 0.1, 0.3, 0.5):
        z = law.deviations(1.0 - miss)
        for b in np.linspace(0.001, 0.999, 120):
            t = z * math.sqrt(2 * (1 + b * b))
            tail = (math.exp(-t) - b * b * math.exp(-t / b)) / (1 - b * b)
            assert tail <= miss * (1 + 1e-9), (miss, b)
