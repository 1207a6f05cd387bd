"""Each sampler has exactly the law it states, and the same test catches noise that is slightly wrong."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from statistical.goodness import NEVER, follows, g_test
from tallystick.mechanisms.exact import integer_noise, uniform
from tallystick.mechanisms.exact.coins import Probability, exp_probability, flip
from tallystick.mechanisms.exact.integer_noise import discrete_gaussian, discrete_laplace
from tallystick.mechanisms.exact.randomness import SYSTEM, Source

DRAWS = 200_000
"""Enough for the twins: of a scale that is 10 % off (or a shift by one, at scales up to 10) the G statistic is about
noncentral chi-squared. The noncentrality 2 DRAWS D is at least 1,149 (D in nats) and the tightest test, of 578 degrees
of freedom at scale 70, rejects above 806 with noncentrality 1,874: a twin is missed with probability below 1e-100."""
COINS = 1_000_000
Law = tuple[NDArray[np.int64], NDArray[np.float64]]


def exact(weight, reach: int) -> Law:  # type: ignore[no-untyped-def]
    """Support and probabilities at 30 digits, with everything farther away in the end cells."""
    with mpmath.workdps(30):
        support = np.arange(-reach, reach + 1)
        weights = [weight(int(k)) for k in support]
        far = mpmath.nsum(weight, [reach + 1, mpmath.inf]) if reach < 200 else mpmath.mpf(0)
        weights[-1] += far
        weights[0] += far
        total = mpmath.fsum(weights)
        return support, np.array([float(w / total) for w in weights])


def laplace_law(scale: float) -> Law:
    return exact(lambda k: mpmath.exp(-abs(k) / mpmath.mpf(scale)), math.ceil(25 * scale) + 3)


def gaussian_law(sigma: float) -> Law:
    return exact(lambda k: mpmath.exp(-(k**2) / (2 * mpmath.mpf(sigma) ** 2)), math.ceil(7 * sigma) + 4)


SAMPLERS = {"laplace": integer_noise.laplace_law, "gaussian": integer_noise.gaussian_law}
LAWS = {"laplace": (discrete_laplace, laplace_law), "gaussian": (discrete_gaussian, gaussian_law)}


@pytest.mark.parametrize("scale", [0.3, 1.0, 3.7, 10.0])
@pytest.mark.parametrize("name", LAWS)
def test_integer_noise_has_its_exact_law_and_wrong_noise_is_caught(name: str, scale: float) -> None:
    draw, law = LAWS[name]
    support, probabilities = law(scale)
    assert follows(draw(scale, size=DRAWS, source=SYSTEM), support, probabilities)
    assert not follows(draw(0.9 * scale, size=DRAWS, source=SYSTEM), support, probabilities)
    assert not follows(draw(1.1 * scale, size=DRAWS, source=SYSTEM), support, probabilities)
    assert not follows(draw(scale, size=DRAWS, source=SYSTEM) + 1, support, probabilities)


def test_rounded_continuous_noise_is_not_discrete_noise() -> None:
    rng = np.random.default_rng(5)
    assert not follows(np.rint(rng.laplace(scale=1.0, size=DRAWS)).astype(np.int64), *laplace_law(1.0))
    assert not follows(np.rint(rng.normal(0.0, 0.5, DRAWS)).astype(np.int64), *gaussian_law(0.5))


@pytest.mark.parametrize("name", LAWS)
def test_draws_in_small_batches_have_the_same_law_as_large_ones(name: str) -> None:
    draw, law = LAWS[name]
    sample = np.concatenate([draw(2.0, size=500, source=SYSTEM) for _ in range(200)])
    assert follows(sample, *law(2.0))


@pytest.mark.parametrize("name", LAWS)
def test_blocks_and_rejection_have_the_law_that_inversion_has(name: str) -> None:
    draw, law = LAWS[name]
    scale = 70.0  # just large enough for blocks, small enough to enumerate
    assert follows(draw(scale, size=DRAWS, source=SYSTEM), *law(scale))
    assert not follows(draw(1.1 * scale, size=DRAWS, source=SYSTEM), *law(scale))


@pytest.mark.parametrize("name", LAWS)
def test_the_path_that_asks_for_more_bits_keeps_the_law(name: str) -> None:
    # Words of 9 bits leave most draws inside an enclosure, where 64-bit words leave one in 2^57.
    coarse = SAMPLERS[name](Fraction(3), word=9)
    assert follows(coarse.draw(3000, SYSTEM), *LAWS[name][1](3.0))


@pytest.mark.parametrize("name", LAWS)
def test_the_path_that_settles_a_rejection_with_integers_keeps_the_law(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        integer_noise, "_TRUST", 0.5
    )  # distrust floats so much that every doubtful coin is settled exactly
    assert follows(LAWS[name][0](70.0, size=60_000, source=SYSTEM), *LAWS[name][1](70.0))


@pytest.mark.parametrize("scale", [3.0, 70.0])
@pytest.mark.parametrize("name", LAWS)
def test_single_draws_have_the_law_that_arrays_have(name: str, scale: float) -> None:
    # An array of one is drawn in plain integers: by inversion at 3, in blocks with rejection at 70.
    draw, law = LAWS[name]
    singles = np.array([draw(scale, size=1, source=SYSTEM)[0] for _ in range(40_000)])
    assert follows(singles, *law(scale))
    assert not follows(singles, *law(1.1 * scale))
    assert not follows(singles, *law(0.9 * scale))
    assert not follows(singles + math.ceil(scale / 10), *law(scale))


@pytest.mark.parametrize("name", LAWS)
def test_a_single_draw_that_asks_for_more_bits_keeps_the_law(name: str) -> None:
    coarse = SAMPLERS[name](Fraction(3), word=9)
    assert follows(np.array([coarse.one(SYSTEM) for _ in range(3000)]), *LAWS[name][1](3.0))


@pytest.mark.parametrize("scale", [1e6, 1e12])
@pytest.mark.parametrize("name", LAWS)
def test_large_scales_have_the_right_spread_and_uniform_low_digits(name: str, scale: float) -> None:
    draw, _ = LAWS[name]
    for factor, right in ((1.0, True), (0.9, False), (1.1, False)):
        sample = draw(scale * factor, size=DRAWS, source=SYSTEM).astype(np.float64)
        # Lattice effects are below 1e-6 of a cell: compare with the continuous law.
        if name == "laplace":
            level = np.where(sample < 0, 0.5 * np.exp(sample / scale), 1 - 0.5 * np.exp(-sample / scale))
        else:
            from scipy.special import ndtr

            level = ndtr(sample / scale)
        cells = np.minimum((level * 100).astype(np.int64), 99)
        assert (g_test(np.bincount(cells, minlength=100), np.full(100, 0.01)) > NEVER) is right
    digits = draw(scale, size=DRAWS, source=SYSTEM) % 64
    assert g_test(np.bincount(digits, minlength=64), np.full(64, 1 / 64)) > NEVER


@pytest.mark.parametrize("scale", [1e-3, 1e-200])
def test_tiny_scales_give_zero_and_take_no_time(scale: float) -> None:
    assert not discrete_laplace(scale, size=10_000, source=SYSTEM).any()
    assert not discrete_gaussian(scale, size=10_000, source=SYSTEM).any()


def rational_coin(probability: Fraction) -> Probability:
    return lambda digits: digits.of(probability)


@pytest.mark.parametrize("probability", [Fraction(1, 3), Fraction(1, 2**70 + 1), 0.1, Fraction(999, 1000)])
def test_a_rational_coin_has_its_probability(probability: float | Fraction) -> None:
    heads = int(flip(rational_coin(Fraction(probability)), COINS, SYSTEM).sum())
    assert g_test(np.array([heads, COINS - heads]), np.array([float(probability), 1 - float(probability)])) > NEVER


def test_a_coin_breaks_ties_by_later_digits() -> None:
    class Tied(Source):
        """Repeats the digits of 1/3 for one word, then gives the words of a list."""

        __slots__ = ("later",)
        private = False

        def __init__(self, later: int) -> None:
            self.later = [(1 << 64) // 3, later]

        def read(self, count: int) -> memoryview:
            word = self.later.pop(0)
            return memoryview(bytearray(word.to_bytes(8, "little" if len(self.later) else "big")))

    third = rational_coin(Fraction(1, 3))
    assert flip(third, 1, Tied((1 << 64) // 3 - 1))[0]
    assert not flip(third, 1, Tied((1 << 64) // 3 + 1))[0]


@pytest.mark.parametrize("exponent", [0.01, 1, 4.5, Fraction(1, 3)])
def test_an_exponential_coin_has_its_probability(exponent: float | Fraction) -> None:
    chance = math.exp(-float(exponent))
    heads = int(flip(exp_probability(Fraction(exponent)), COINS, SYSTEM).sum())
    assert g_test(np.array([heads, COINS - heads]), np.array([chance, 1 - chance])) > NEVER
    wrong = int(flip(exp_probability(Fraction(exponent) * Fraction(11, 10)), COINS, SYSTEM).sum())
    assert g_test(np.array([wrong, COINS - wrong]), np.array([chance, 1 - chance])) < NEVER


@pytest.mark.parametrize("upper", [1, 2, 3, 10, 1000, 2**63])
def test_uniform_integers_are_uniform(upper: int) -> None:
    sample = uniform.integers(upper, size=200_000, source=SYSTEM)
    assert sample.min() >= 0
    if upper <= 1000:
        assert g_test(np.bincount(sample, minlength=upper), np.full(upper, 1 / upper)) > NEVER
    else:
        assert g_test(np.bincount(sample >> 57, minlength=64), np.full(64, 1 / 64)) > NEVER
