"""The exact inversion against sums over every count and every noise, written from the definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from tallystick.errors import InvalidInput, Refused
from tallystick.inference import LocalShare, Noise, Released, cells, posterior_share
from tallystick.inference.shares import NoisyBinomial, binomial, clopper_pearson, noise_then_sampling
from tallystick.mechanisms.noise import add_discrete_laplace, add_gaussian
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.mechanisms.noise.laplace import DiscreteLaplace


def law_by_definition(law, reach: int = 400):
    k = np.arange(-reach, reach + 1)
    scale = law.scale
    weight = np.exp(-(k**2) / (2 * scale**2)) if law.name == "gaussian" else np.exp(-np.abs(k) / scale)
    return k, weight / weight.sum()


def table(n: int, p: float, law):
    """Pr[Binomial + noise = y] for every y."""
    k, weight = law_by_definition(law)
    mass = np.convolve(binom.pmf(np.arange(n + 1), n, p), weight)
    return np.arange(k[0], k[-1] + n + 1), mass


LAWS = [DiscreteGaussian(0.4), DiscreteGaussian(6.0), DiscreteLaplace(0.7), DiscreteLaplace(8.0)]


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("threshold", [None, 12])
def test_tails_are_the_sums_of_the_definition(law, threshold):
    for n, p in [(30, 0.0), (30, 0.2), (30, 1.0), (200, 0.03)]:
        y, mass = table(n, p, law)
        if threshold is not None:
            mass = np.where(y >= threshold, mass, 0.0)
            if mass.sum() < 1e-12:
                continue
            mass = mass / mass.sum()
        made = NoisyBinomial(n, Noise(law), threshold)
        for seen in (threshold or -5, 13, 20, 31):
            assert made.at_most(seen, p) == pytest.approx(mass[y <= seen].sum(), rel=1e-7, abs=1e-12)
            assert made.at_least(seen, p) == pytest.approx(mass[y >= seen].sum(), rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("seen", [0, 3, 17, 40])
def test_the_ends_are_where_the_two_tails_reach_half_the_miss(law, seen):
    low, high = Released(seen, law, of=40).population_interval(confidence=0.9)
    for p, inside in ((low - 1e-4, False), (low + 1e-4, True), (high - 1e-4, True), (high + 1e-4, False)):
        if 0 <= p <= 1:
            y, mass = table(40, p, law)
            assert (min(mass[y <= seen].sum(), mass[y >= seen].sum()) >= 0.05) == inside


def test_the_exact_coverage_of_a_lattice_is_never_below_the_confidence():
    law = DiscreteGaussian(1.5)
    n = 25
    ends = {y: tuple(Released(y, law, of=n).population_interval()) for y in range(-12, n + 13)}
    for p in np.linspace(0.001, 0.999, 60):
        y, mass = table(n, float(p), law)
        kept = sum(m for one, m in zip(y, mass, strict=True) if one in ends and ends[one][0] <= p <= ends[one][1])
        assert kept >= 0.95 - 1e-9


def test_a_count_that_noise_made_negative_has_the_interval_of_zero_and_never_an_empty_one():
    noise = DiscreteGaussian(5.0)
    zero = Released(0, noise, of=100).population_interval()
    for value in (-1, -12, -40):
        found = Released(value, noise, of=100).population_interval()
        assert (found.lower, found.upper) == (0.0, zero.upper)
    assert Released(140, noise, of=100).population_interval().lower > 0.85


def test_wide_lattices_and_continuous_noise_agree_with_the_normal_law():
    offsets = np.array([-9.0, -4.0, -1.0, 0.0, 2.0, 7.0])
    for noise in (Noise.gaussian(sigma=2.0), Noise.of(add_gaussian(sigma=2.0, sensitivity=1.0))):
        assert noise.at_most(offsets) == pytest.approx(norm.cdf(offsets / 2.0), rel=2e-5)
        assert np.all(noise.at_most(offsets) >= norm.cdf(offsets / 2.0) * (1 - 1e-6))
    laplace = Noise.laplace(scale=2.0)
    assert laplace.at_most(offsets[:3]) == pytest.approx(np.exp(offsets[:3] / 2.0) / 2.0, rel=2e-6)


def test_a_binomial_window_has_all_its_mass_in_order():
    for n, p in [(10, 0.3), (10**6, 1e-4), (10**8, 0.25)]:
        k, mass = binomial(n, p)
        assert mass.sum() == pytest.approx(1.0)
        assert (mass @ k) == pytest.approx(n * p, rel=1e-9)
        at = int(np.argmax(mass))
        assert mass[at] == pytest.approx(binom.pmf(k[at], n, p), rel=1e-6)


def test_the_fallback_is_valid_and_wider():
    exact = Released(30, DiscreteGaussian(5.0), of=200).population_interval()
    half = DiscreteGaussian(5.0).half_width(0.01)
    low, high = noise_then_sampling(30, half, 200, 0.05)
    assert low < exact.lower < exact.upper < high
    assert clopper_pearson(0, 5, 0.05)[0] == 0.0
    assert clopper_pearson(5, 5, 0.05)[1] == 1.0


def test_suppression_is_said_and_reaches_further_down():
    blind = Released(21, DiscreteGaussian(6.0), of=200)
    shown = Released(21, DiscreteGaussian(6.0), of=200, shown_from=20)
    assert shown.population_interval().lower < blind.population_interval().lower
    assert shown.noise_interval().lower < blind.noise_interval().lower
    assert "shown only where it reached 20" in str(shown.population_interval())
    assert Released(21, DiscreteLaplace(6.0), shown_from=20).noise_interval().lower == -math.inf


def test_far_above_the_threshold_suppression_changes_nothing():
    blind, shown = (Released(90, DiscreteGaussian(6.0), shown_from=t) for t in (None, 20))
    for one, other in zip(blind.noise_interval(), shown.noise_interval(), strict=True):
        assert abs(one - other) <= 1.0 + 1e-6  # the plain one is symmetric on the lattice


def test_what_nothing_valid_is_known_for_is_refused():
    with pytest.raises(Refused, match="one unit is one row"):
        Released(10, DiscreteLaplace(1.0)).population_interval()


@pytest.mark.parametrize(
    "given",
    [
        {"value": math.nan},
        {"noise": 3.0},
        {"of": 0},
        {"about": 3},
        {"shown_from": 11},
    ],
)
def test_bad_input_is_named(given):
    with pytest.raises(InvalidInput):
        Released(**{"value": 10, "noise": DiscreteLaplace(1.0), **given})


def test_cells_share_one_law():
    made = cells([3, 4], noise=add_discrete_laplace(epsilon=1), about=["a", "b"], of=10)
    assert [one.about for one in made] == ["a", "b"]
    with pytest.raises(InvalidInput, match="one for each value"):
        cells([3, 4], noise=DiscreteLaplace(1.0), about=["a"])


def test_local_tails_are_those_of_two_binomials():
    answer = LocalShare(12, 30, if_true=0.7, if_false=0.2)
    for people in (0, 9, 30):
        mass = np.convolve(
            binom.pmf(np.arange(people + 1), people, 0.7), binom.pmf(np.arange(31 - people), 30 - people, 0.2)
        )
        assert answer._at_most(12, people) == pytest.approx(mass[:13].sum(), rel=1e-9)
        assert answer._at_least(12, people) == pytest.approx(mass[12:].sum(), rel=1e-9)


def test_lies_alone_never_make_a_local_interval_empty():
    answer = LocalShare(3, 100, if_true=0.7, if_false=0.3)
    assert answer.noise_interval().lower == answer.population_interval().lower == 0.0
    assert answer.noise_interval().upper > 0.05
    assert answer.population_interval().upper > 0.05


def test_a_count_below_zero_has_a_noise_interval_of_counts():
    found = Released(-40, DiscreteGaussian(5.0), of=100).noise_interval()
    assert found.lower == 0.0
    assert found.upper == pytest.approx(DiscreteGaussian(5.0).half_width(0.05))


def test_laws_that_are_almost_no_noise_keep_their_tails():
    for scale in (1e-3, 0.02, 0.05):
        noise = Noise(DiscreteLaplace(scale))
        exact = math.exp(-1 / scale) / (1 + math.exp(-1 / scale))
        assert noise.at_least(np.array([1.0]))[0] == pytest.approx(exact, rel=1e-9, abs=1e-280)


def test_sums_over_all_counts_are_bounded():
    with pytest.raises(InvalidInput, match="may be suppressed"):
        Released(10, DiscreteLaplace(1.0), of=10**8, shown_from=5)
    with pytest.raises(InvalidInput, match="summed over all counts"):
        posterior_share(Released(10, DiscreteLaplace(1.0), of=10**8), prior=(1, 1))
