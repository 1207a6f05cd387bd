"""Choosing by score: the law, its price on every pair of neighbours, and what is refused."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from tallystick.accounting import losses as accounting
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput
from tallystick.mechanisms.base import Seeded
from tallystick.mechanisms.exact import lazy_noise, weighted_choice
from tallystick.mechanisms.exact.lazy_noise import LazyNoise, Noise, largest
from tallystick.mechanisms.exact.randomness import SYSTEM, SeededSource
from tallystick.mechanisms.exact.weighted_choice import Scores, Weights, choose_many
from tallystick.mechanisms.select.candidates import (
    ExponentialMechanism,
    NoisyMax,
    PermuteAndFlip,
    TopK,
    exponential,
    noisy_max,
    permute_and_flip,
    top_k,
)
from unit.mechanisms.coverage import ENUMERATION, checks
from unit.mechanisms.neighbours import FEW, LEVELS, Untouched, holds, log_ratio, refuses, worst_profile

SCORES = [np.array(s, dtype=float) for s in itertools.product((0, 1, 2, 4), repeat=3)]
SHIFTS = [np.array(s, dtype=float) for s in itertools.product((-1, 0, 1), repeat=3)]
UPWARD = [np.array(s, dtype=float) for s in itertools.product((0, 1), repeat=3)]


def pairs(law, shifts):
    return [(law(scores), law(scores + shift)) for scores in SCORES for shift in shifts]


def noisy_max_law(scores: np.ndarray, *, scale: float, noise: str) -> np.ndarray:
    """P(argmax = i) by quadrature: integral of the density of one noise times the others' distribution functions."""
    at = np.linspace(-60 * scale, 60 * scale, 60_001)
    step = at[1] - at[0]

    def density(x):
        if noise == "laplace":
            return np.exp(-np.abs(x) / scale) / (2 * scale)
        z = np.clip(x / scale, -600, 600)
        return np.exp(-z - np.exp(-z)) / scale

    def below(x):
        if noise == "laplace":
            return np.where(x < 0, np.exp(np.minimum(x, 0) / scale) / 2, 1 - np.exp(-np.maximum(x, 0) / scale) / 2)
        return np.exp(-np.exp(-np.clip(x / scale, -600, 600)))

    out = []
    for i, score in enumerate(scores):
        others = [below(at - other) for j, other in enumerate(scores) if j != i]
        out.append(float(np.sum(density(at - score) * np.prod(others, axis=0)) * step))
    return np.array(out)


@checks(ENUMERATION, ExponentialMechanism)
def test_the_exponential_mechanism_keeps_its_price_on_every_neighbouring_pair() -> None:
    mechanism = exponential(epsilon=1.0)
    assert holds(mechanism.privacy, pairs(mechanism.probabilities, SHIFTS))


def test_its_price_is_bounded_range_and_nearly_attained() -> None:
    mechanism = exponential(epsilon=1.0)
    # 200 candidates rising and 200 * e^{1/2} falling: the profile comes close to the bounded-range envelope
    up, down = np.zeros(400), np.zeros(400)
    up[:200], down[200:] = 1.0, 1.0
    attained = worst_profile([(mechanism.probabilities(up), mechanism.probabilities(down))], np.array([0.0]))[0]
    assert attained == pytest.approx(float(mechanism.privacy.delta(epsilon=0.0)), rel=1e-6)
    assert float(mechanism.privacy.delta(epsilon=0.0)) < float(accounting.pure_dp(epsilon=1.0).delta(epsilon=0.0))


def test_monotone_scores_need_half_the_noise_and_other_scores_do_not_allow_it() -> None:
    mechanism = exponential(epsilon=1.0, monotone=True)
    assert holds(mechanism.privacy, pairs(mechanism.probabilities, UPWARD))
    assert not holds(mechanism.privacy, pairs(mechanism.probabilities, SHIFTS))


@checks(ENUMERATION, PermuteAndFlip)
def test_permute_and_flip_keeps_pure_epsilon_but_not_the_bounded_range_price() -> None:
    mechanism = permute_and_flip(epsilon=1.0)
    law = pairs(mechanism.probabilities, SHIFTS)
    assert holds(mechanism.privacy, law)
    assert log_ratio(law) > 0.9
    assert not holds(accounting.exponential(epsilon=1.0), law)


def test_permute_and_flip_with_monotone_scores_keeps_its_price() -> None:
    mechanism = permute_and_flip(epsilon=1.0, monotone=True)
    assert holds(mechanism.privacy, pairs(mechanism.probabilities, UPWARD))


@checks(ENUMERATION, NoisyMax)
@pytest.mark.parametrize("monotone", [False, True])
def test_the_laplace_noisy_maximum_keeps_its_price_and_half_the_noise_breaks_it(monotone: bool) -> None:
    mechanism = noisy_max(epsilon=1.0, noise="laplace", monotone=monotone)
    shifts = (
        UPWARD if monotone else [s for s in SHIFTS if s.tolist() in ([1, -1, -1], [1, 0, -1], [-1, 1, 1], [1, 1, -1])]
    )
    scale = float(1 / mechanism.rate)
    far = [np.array([0.0, 0.0, 0.0]), np.array([0.0, 6.0, 6.0]), np.array([0.0, 12.0, 3.0])]

    def of(width):
        def law(scores):
            return noisy_max_law(scores, scale=width, noise="laplace")

        return [(law(scores), law(scores + shift)) for scores in far for shift in shifts]

    assert log_ratio(of(scale)) <= 1 + 1e-6
    assert log_ratio(of(scale / 2)) > 1.1


def test_the_gumbel_noisy_maximum_is_the_exponential_mechanism() -> None:
    scores = np.array([0.0, 1.0, 3.0, 2.5])
    law = noisy_max_law(scores, scale=2.0, noise="gumbel")
    assert law == pytest.approx(exponential(epsilon=1.0).probabilities(scores), abs=1e-6)
    assert noisy_max(epsilon=1.0, noise="gumbel").privacy == exponential(epsilon=1.0).privacy


def test_permute_and_flip_never_loses_more_score_than_the_exponential_mechanism() -> None:
    for scores in map(np.sort, SCORES):
        flipped, drawn = (np.cumsum(m(epsilon=1.0).probabilities(scores)) for m in (permute_and_flip, exponential))
        last = np.append(np.diff(scores) > 0, True)  # the chance of at most each score
        assert (flipped[last] <= drawn[last] + 1e-12).all()
        flip = permute_and_flip(epsilon=1.0).probabilities(scores) @ scores
        assert flip >= exponential(epsilon=1.0).probabilities(scores) @ scores - 1e-12


def test_every_candidate_can_be_chosen_however_bad_so_supports_agree() -> None:
    law = exponential(epsilon=1.0).probabilities([0.0, 500.0])
    assert (law > 0).all()


def test_float_decisions_agree_with_exact_arithmetic_on_the_same_bits() -> None:
    scores = np.array([0.3, 1e-3, 2.0, 1.9999999, -5.0])
    table = Scores.of(scores).weights(Fraction(1, 3))
    source = SeededSource(7)
    words = [source.bits(64) for _ in range(300)]
    for word in words:
        fast = choose_many(table, 1, _Fixed(word))[0]
        assert fast == weighted_choice._refined(table, word, SYSTEM)


@pytest.mark.parametrize("noise", list(Noise))
def test_the_race_in_floats_agrees_with_the_race_in_decimals_on_the_same_bits(noise: Noise) -> None:
    scores = Scores.of(np.array([0.0, 0.5, 1.0, 0.9]))
    source = SeededSource(11)
    for _ in range(200):
        words = source.words(4)
        fast = largest(scores, scale=Fraction(1), noise=noise, how_many=2, source=_Fixed(*(int(w) for w in words)))
        exact = lazy_noise._settle(np.arange(4), scores, words, Fraction(1), noise, 2, SYSTEM)
        assert fast.tolist() == exact.tolist()


def test_float_enclosures_of_noise_contain_the_exact_noise() -> None:
    words = np.concatenate((SeededSource(3).words(500), np.array([0, 1, 2, 2**64 - 1, 2**64 - 2, 2**63], np.uint64)))
    for noise in Noise:
        low, high = lazy_noise._noisy_bounds(np.zeros(words.size), words, 1.0, noise)
        for i, word in enumerate(words):
            exact = LazyNoise.of_word(noise, int(word)).enclose()
            assert low[i] <= exact.low
            assert exact.high <= high[i]


EVEN = Scores.of(np.zeros(2))


def test_ties_of_bits_are_settled_by_more_bits() -> None:
    # The first 64 bits of every noise are equal, so only fresh bits can decide; both must win sometimes.
    winners = {
        int(largest(EVEN, scale=Fraction(1), noise=Noise.LAPLACE, source=_Fixed(2**63, 2**63, then=SYSTEM))[0])
        for _ in range(60)
    }
    assert winners == {0, 1}


def test_huge_and_tiny_scores_work() -> None:
    for mechanism in (exponential(epsilon=1.0), noisy_max(epsilon=1.0), permute_and_flip(epsilon=1.0)):
        assert mechanism.release([-1e307, 0.0, 1e307]) == 2
        assert mechanism.release([1e-300]) == 0
        assert mechanism.release([5e-324, 0.0]) in (0, 1)


def test_a_seeded_result_is_marked_as_not_private() -> None:
    assert isinstance(exponential(epsilon=1.0)([1, 2], source=SeededSource(1)), Seeded)


@pytest.mark.parametrize("build", [exponential, noisy_max, permute_and_flip, lambda **k: top_k(k=1, **k)])
@pytest.mark.parametrize(
    "value",
    [[], [[1.0, 2.0]], "scores", ["a", "b"], [1.0, math.nan], [math.inf, 0.0], None, 3.0, range(10**9), [None, 0]],
)
def test_bad_scores_are_refused_before_randomness_is_drawn(build, value) -> None:
    assert refuses(build(epsilon=1.0), value)


@pytest.mark.parametrize("build", [exponential, noisy_max, permute_and_flip, lambda **k: top_k(k=1, **k)])
@pytest.mark.parametrize(
    "wrong", [{"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": math.nan}, {"sensitivity": 0.0}, {"epsilon": "1"}]
)
def test_bad_parameters_are_refused(build, wrong) -> None:
    with pytest.raises(InvalidInput):
        build(**{"epsilon": 1.0, **wrong})


@pytest.mark.parametrize("build", [exponential, noisy_max, permute_and_flip, lambda **k: top_k(k=1, **k)])
def test_monotone_is_refused_when_units_are_replaced(build) -> None:
    with pytest.raises(InvalidInput, match="monotone"):
        build(epsilon=1.0, monotone=True, adjacency=Adjacency.REPLACE)


@pytest.mark.parametrize("build", [exponential, noisy_max, permute_and_flip, lambda **k: top_k(k=1, **k)])
def test_any_kind_of_number_is_taken_as_epsilon_but_not_an_absurd_one(build) -> None:
    for number in (1, np.float32(1), np.float64(1), Fraction(1)):
        assert build(epsilon=number).release([0.0, 1.0]) in (0, 1, (0,), (1,))
    for absurd in ({"epsilon": 1e-200}, {"epsilon": 1.0, "sensitivity": 1e200}):
        with pytest.raises(InvalidInput):
            build(**absurd)


def test_after_a_charge_bad_content_is_mapped_by_a_public_rule_and_bad_type_is_still_refused() -> None:
    assert exponential(epsilon=1e6).release([math.nan, 1.0, -math.inf]) == 1
    with pytest.raises(InvalidInput):
        exponential(epsilon=1.0).release("text", source=Untouched())


def test_top_k_costs_k_choices_and_returns_different_candidates() -> None:
    mechanism = top_k(k=3, epsilon=1.5)
    assert mechanism.privacy == 3 * accounting.exponential(epsilon=0.5)
    assert sorted(top_k(k=4, epsilon=1.0).release([0, 0, 0, 0])) == [0, 1, 2, 3]
    assert refuses(mechanism, [1.0, 2.0])
    assert float(mechanism.privacy.epsilon(delta=0.0)) <= 1.5 + 1e-9


@checks(ENUMERATION, TopK)
def test_top_k_keeps_its_price_on_every_neighbouring_pair() -> None:
    def law(scores):
        keep = np.exp(0.25 * (scores - scores.max()))
        out = []
        for first, second in itertools.permutations(range(3), 2):
            rest = keep.sum() - keep[first]
            out.append(keep[first] / keep.sum() * keep[second] / rest)
        return np.array(out)

    assert holds(top_k(k=2, epsilon=1.0).privacy, pairs(law, SHIFTS), levels=FEW)


def test_the_levels_at_which_profiles_are_compared_reach_past_epsilon() -> None:
    assert LEVELS.min() == 0
    assert LEVELS.max() > 1


class _Fixed(SeededSource):
    """Gives the listed 64-bit words first, then another stream."""

    def __init__(self, *words: int, then=SYSTEM) -> None:
        super().__init__(0)
        self.left, self.then = list(words), then

    def words(self, count: int):
        if self.left:
            taken, self.left = self.left[:count], self.left[count:]
            return np.array(taken, dtype=np.uint64)
        return self.then.words(count)

    def bits(self, count: int) -> int:
        return self.then.bits(count)


def test_zero_counts_are_never_chosen() -> None:
    table = Weights(
        np.array([0.0, 1.0, 0.0]), np.array([0.0, 900.0, 0.0]), np.zeros(3), lambda i: (i % 2, Fraction(900))
    )
    assert set(choose_many(table, 1000, SYSTEM).tolist()) == {1}
