"""Each mechanism draws from the law it states, and the same test catches one that is off by a tenth."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.special import gammainc

from statistical import batches
from statistical.exact import REACH, placed_law, quantile_law, subsampled_law, two_quantiles_law, winsorized_law
from statistical.goodness import NEVER, g_test
from tallystick.mechanisms import noise
from tallystick.mechanisms.aggregate import subsample_and_aggregate, unbounded_winsorized_mean, winsorized_mean
from tallystick.mechanisms.aggregate.subsample import SubsampleAndAggregate
from tallystick.mechanisms.aggregate.winsorized import UnboundedWinsorizedMean, WinsorizedMean
from tallystick.mechanisms.exact.lazy_noise import Noise, largest
from tallystick.mechanisms.exact.randomness import SYSTEM
from tallystick.mechanisms.exact.weighted_choice import Scores, Weights, _refined, choose_many
from tallystick.mechanisms.keys.counts import StableCounts, stable_counts
from tallystick.mechanisms.keys.partition import StableKeys, stable
from tallystick.mechanisms.noise.additive import AdditiveNoise
from tallystick.mechanisms.noise.knorm import KNorm, Norm, add_knorm
from tallystick.mechanisms.response import laplace, randomize, unary_encoding
from tallystick.mechanisms.response.choices import RandomizedResponse, UnaryEncoding
from tallystick.mechanisms.response.numbers import LocalLaplace
from tallystick.mechanisms.select.candidates import (
    ExponentialMechanism,
    NoisyMax,
    PermuteAndFlip,
    TopK,
    exponential,
    permute_and_flip,
)
from tallystick.mechanisms.select.continuum import (
    LineExponential,
    RejectionExponential,
    Steps,
    by_rejection,
    on_line,
    uniform_box,
)
from tallystick.mechanisms.select.order_statistics import Cells, Quantile, Quantiles, quantile, quantiles
from tallystick.mechanisms.select.sparse_vector import AboveThreshold, above_threshold
from unit.mechanisms.coverage import LAW, checks

SCORES = np.array([0.0, 2.0, 4.0, 5.0, 6.0])
DRAWS = 5_000


def fits(indices, law: np.ndarray) -> bool:
    return g_test(np.bincount(np.asarray(indices), minlength=law.size), law) > NEVER


def softmax(rate: float) -> np.ndarray:
    weight = np.exp(rate * (SCORES - SCORES.max()))
    return weight / weight.sum()


def race_law(scale: float, density, below) -> np.ndarray:
    at = np.linspace(-80 * scale, 80 * scale, 160_001)
    law = []
    for i, score in enumerate(SCORES):
        others = np.prod([below((at - s) / scale) for j, s in enumerate(SCORES) if j != i], axis=0)
        law.append(float(np.sum(density((at - score) / scale) / scale * others) * (at[1] - at[0])))
    return np.array(law) / sum(law)


def laplace_density(z: np.ndarray) -> np.ndarray:
    return np.exp(-np.abs(z)) / 2


def laplace_below(z: np.ndarray) -> np.ndarray:
    return np.where(z < 0, np.exp(np.minimum(z, 0)) / 2, 1 - np.exp(-np.maximum(z, 0)) / 2)


@checks(LAW, ExponentialMechanism)
def test_the_exponential_mechanism() -> None:
    draws = choose_many(Scores.of(SCORES).weights(exponential(epsilon=1.0).rate), 400_000, SYSTEM)
    assert fits(draws, softmax(0.5))
    assert not fits(draws, softmax(0.45))
    assert not fits(draws, softmax(0.55))
    assert not fits((draws + 1) % 5, softmax(0.5))
    assert fits([exponential(epsilon=1.0).release(SCORES) for _ in range(DRAWS)], softmax(0.5))


@pytest.mark.parametrize("counts", [[1, 1, 1, 1], [3, 0, 10, 2], [10**25, 1, 5, 10**25]])
def test_a_weighted_choice_has_its_law_in_floats_and_in_decimals(counts: list[int]) -> None:
    exponents = [Fraction(0), Fraction(3, 2), Fraction(1, 4), Fraction(2)]
    table = Weights(
        np.array(counts, dtype=float),
        np.array(exponents, dtype=float),
        np.zeros(4),
        lambda i: (counts[i], exponents[i]),
    )
    law = np.array(counts, dtype=float) * np.exp(-np.array(exponents, dtype=float))
    law /= law.sum()
    wrong = law ** np.where(law > 0, 1.05, 1)
    assert fits(choose_many(table, 300_000, SYSTEM), law)
    assert not fits(choose_many(table, 300_000, SYSTEM), np.roll(law, 1))
    if counts[0] < 10**20:
        assert not fits(choose_many(table, 300_000, SYSTEM), wrong / wrong.sum())
    settled = [_refined(table, word, SYSTEM) for word in SYSTEM.words(3000).tolist()]  # as if every draw were in doubt
    assert fits(settled, law)


@checks(LAW, PermuteAndFlip)
def test_permute_and_flip() -> None:
    mechanism = permute_and_flip(epsilon=1.0)
    draws = [mechanism.release(SCORES) for _ in range(DRAWS)]
    assert fits(draws, mechanism.probabilities(SCORES))
    assert not fits(draws, softmax(0.5))
    assert not fits(draws, permute_and_flip(epsilon=1.3).probabilities(SCORES))


@checks(LAW, NoisyMax)
@pytest.mark.parametrize("noise", list(Noise))
def test_the_noisy_maximum(noise: Noise) -> None:
    laws = {
        Noise.LAPLACE: race_law(2.0, laplace_density, laplace_below),
        Noise.EXPONENTIAL: permute_and_flip(epsilon=1.0).probabilities(SCORES),
        Noise.GUMBEL: softmax(0.5),
    }
    draws = [int(largest(Scores.of(SCORES), scale=Fraction(2), noise=noise, source=SYSTEM)[0]) for _ in range(DRAWS)]
    assert fits(draws, laws[noise])
    assert not fits(draws, race_law(1.5, laplace_density, laplace_below))
    assert not fits([(i + 1) % 5 for i in draws], laws[noise])


@checks(LAW, TopK)
def test_the_best_two_in_order() -> None:
    keep = np.exp(0.5 * SCORES)
    order = list(itertools.permutations(range(5), 2))
    law = np.array([keep[a] / keep.sum() * keep[b] / (keep.sum() - keep[a]) for a, b in order])
    place = {pair: i for i, pair in enumerate(order)}
    draws = [
        place[
            tuple(largest(Scores.of(SCORES), scale=Fraction(2), noise=Noise.GUMBEL, how_many=2, source=SYSTEM).tolist())
        ]
        for _ in range(DRAWS)
    ]
    assert fits(draws, law)
    wrong = np.array([keep[a] * keep[b] for a, b in order])
    assert not fits(draws, wrong / wrong.sum())


@checks(LAW, Quantile)
def test_the_private_quantile() -> None:
    data = np.array([1, 1, 4, 6, 6, 6, 9])
    mechanism = quantile(alpha=0.25, epsilon=1.0, bounds=(0, 11), granularity=1.0)
    draws = [int(mechanism.release(data)) for _ in range(DRAWS)]
    rate = float(mechanism.rate)
    assert fits(draws, quantile_law(data, 0.25, rate, 12))
    assert not fits(draws, quantile_law(data, 0.25, 1.3 * rate, 12))
    assert not fits(draws, quantile_law(data, 0.25, 2 * rate, 12))
    assert not fits([11 - i for i in draws], quantile_law(data, 0.25, rate, 12))


def test_cells_of_many_draws() -> None:
    cells = Cells.of(np.array([1, 1, 4, 6, 6, 6, 9]), 0, 11)
    law = np.exp(-cells.weights(Fraction(1, 4), Fraction(1, 2)).exponents) * cells.counts
    draws = choose_many(cells.weights(Fraction(1, 4), Fraction(1, 2)), 400_000, SYSTEM)
    assert fits(draws, law / law.sum())
    wrong = np.exp(-cells.weights(Fraction(1, 4), Fraction(11, 20)).exponents) * cells.counts
    assert not fits(draws, wrong / wrong.sum())


@checks(LAW, LineExponential, RejectionExponential)
def test_the_exponential_mechanism_on_a_line_and_by_rejection() -> None:
    steps = Steps([1.0, 2.5], [0.0, 3.0, 1.0])
    points = np.arange(0, 4.01, 0.5)
    law = np.exp(steps.at(points) / 2) * np.where(points < 3, 1, 2)
    line = on_line(epsilon=1.0, sensitivity=1.0, bounds=(0, 4), granularity=0.5, base=([3.0], [1, 2]))
    draws = [int(2 * line.release(steps)) for _ in range(DRAWS // 2)]
    assert fits(draws, law / law.sum())
    uniform = np.exp(steps.at(points) / 2)
    assert not fits(draws, uniform / uniform.sum())
    rejection = by_rejection(
        epsilon=1.0, sensitivity=1.0, propose=uniform_box([(0, 4)], granularity=0.5), score_bounds=(0, 3)
    )

    def score(point) -> float:
        return float(steps.at(np.array(point))[0])

    again = [int(2 * rejection.release(score)[0]) for _ in range(DRAWS // 4)]
    assert fits(again, uniform / uniform.sum())
    assert not fits(again, law / law.sum())


@checks(LAW, AboveThreshold)
def test_sparse_vector() -> None:
    answers = [0.0, 2.0, 1.0]
    mechanism = above_threshold(threshold=1.0, epsilon=1.0, hits=2)

    def law(threshold_scale: float, answer_scale: float) -> np.ndarray:
        rho = np.linspace(-300, 300, 120_001)
        base = laplace_density(rho / threshold_scale) / threshold_scale * (rho[1] - rho[0])
        low = [laplace_below((rho + 1.0 - a) / answer_scale) for a in answers]
        return np.array([float((base * np.prod(_chances(low, p), axis=0)).sum()) for p in OUTCOMES])

    draws = [OUTCOMES.index(mechanism.release(answers)) for _ in range(2500)]
    right = law(float(mechanism.threshold_scale), float(mechanism.answer_scale))
    assert fits(draws, right / right.sum())
    wrong = law(float(mechanism.threshold_scale), float(mechanism.answer_scale) / 2)
    assert not fits(draws, wrong / wrong.sum())
    # Fresh threshold noise for every answer would have independent outcomes: another law.
    chance = [1 - right[[p[i] is False for p in OUTCOMES]].sum() for i in range(2)]
    assert abs(chance[0] * chance[1] - right[[p[:2] == (True, True) for p in OUTCOMES]].sum()) > 0.02


OUTCOMES = [(True, True)] + [p for p in itertools.product((False, True), repeat=3) if p[:2] != (True, True)]


def _chances(low: list[np.ndarray], pattern: tuple[bool, ...]) -> list[np.ndarray]:
    return [1 - chance if above else chance for chance, above in zip(low, pattern, strict=False)]


@checks(LAW, StableKeys)
def test_optimal_partition_selection() -> None:
    mechanism = stable(epsilon=1.0, delta=0.01)
    size, groups = 4, 100_000
    kept = len(mechanism.release(dict.fromkeys(range(groups), size)))
    law = np.array([1 - mechanism.keep_probability(size), mechanism.keep_probability(size)])
    assert g_test(np.array([groups - kept, kept]), law) > NEVER
    tenth = np.array([1 - 0.9 * law[1], 0.9 * law[1]])
    assert g_test(np.array([groups - kept, kept]), tenth) < NEVER


@checks(LAW, StableCounts)
@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.5}])
def test_noisy_sizes_of_groups(budget) -> None:
    mechanism = stable_counts(delta=0.05, **budget)
    size, groups = mechanism.threshold, 200_000
    shown = mechanism.release(dict.fromkeys(range(groups), size))
    at = np.arange(-60, 61)
    mass = np.exp(-np.abs(at) * 1.0) if "epsilon" in budget else np.exp(-(at**2) / 2.0)
    mass /= mass.sum()
    passed = mass[at >= 0]
    observed = np.bincount(np.array(list(shown.values())) - size, minlength=61)[:61]
    counts = np.append(observed, groups - len(shown))
    assert g_test(counts, np.append(passed, 1 - passed.sum())) > NEVER
    assert g_test(np.append(np.roll(observed, 1), groups - len(shown)), np.append(passed, 1 - passed.sum())) < NEVER


@checks(LAW, RandomizedResponse)
@pytest.mark.parametrize("choices", [2, 5])
def test_randomized_response(choices: int) -> None:
    mechanism = randomize(epsilon=1.0, choices=choices)
    people = 400_000
    reports = np.array(mechanism.release(np.ones(people, dtype=int)))

    def law(m) -> np.ndarray:
        out = np.full(choices, m.lie_probability)
        out[1] = m.truth_probability
        return out

    assert fits(reports, law(mechanism))
    assert not fits(reports, law(randomize(epsilon=0.95, choices=choices)))
    found = mechanism.estimate(reports, confidence=1 - 1e-9)
    assert found.lower[1] <= 1.0 <= found.upper[1] + 1e-12
    assert found.lower[0] <= 0.0 <= found.upper[0]


@checks(LAW, UnaryEncoding)
def test_unary_encoding() -> None:
    mechanism = unary_encoding(epsilon=1.0, choices=3)
    people = 300_000
    bits = mechanism.release(np.zeros(people, dtype=int))
    codes = bits @ np.array([1, 2, 4])
    low = 1 / (math.e + 1)
    ones = np.array([0.5, low, low])
    law = np.array([np.prod([p if c >> i & 1 else 1 - p for i, p in enumerate(ones)]) for c in range(8)])
    assert fits(codes, law)
    assert not fits(codes, law[[0, 2, 1, 3, 4, 6, 5, 7]])


@checks(LAW, LocalLaplace)
def test_local_laplace() -> None:
    mechanism = laplace(epsilon=1.0, bounds=(0, 3), granularity=1.0)
    reports = mechanism.release(np.full(300_000, 2.0)).astype(int)
    at = np.arange(-60, 64)
    law = np.exp(-np.abs(at - 2) / mechanism.steps)
    assert g_test(np.bincount(np.clip(reports, -60, 63) + 60, minlength=124), law / law.sum()) > NEVER
    wrong = np.exp(-np.abs(at - 2) / (1.1 * mechanism.steps))
    assert g_test(np.bincount(np.clip(reports, -60, 63) + 60, minlength=124), wrong / wrong.sum()) < NEVER


@checks(LAW, KNorm)
@pytest.mark.parametrize("norm", list(Norm))
def test_k_norm_noise_has_a_gamma_length_and_a_uniform_direction(norm: Norm) -> None:
    mechanism = add_knorm(epsilon=1.0, norm=norm, sensitivity=1.0, granularity=2.0**-12)
    out = np.array([mechanism.release([0.0, 0.0]) for _ in range(2500)])
    length = {
        Norm.L1: np.abs(out).sum(axis=1),
        Norm.L2: np.hypot(out[:, 0], out[:, 1]),
        Norm.LINF: np.abs(out).max(axis=1),
    }[norm]
    cuts = np.arange(0.5, 6.1, 0.5)

    def cells(scale: float) -> np.ndarray:
        return np.diff(np.concatenate(([0.0], gammainc(2.0, cuts / scale), [1.0])))

    seen = np.searchsorted(cuts, length)
    assert fits(seen, cells(1.0))
    assert not fits(seen, cells(1.25))
    assert not fits(seen, np.diff(np.concatenate(([0.0], gammainc(3.0, cuts), [1.0]))))
    # where on the unit circle of the norm: arc length of the diamond, angle of the circle, side of the square
    x, y = out[:, 0] / length, out[:, 1] / length
    if norm is Norm.L2:
        turn = (np.arctan2(y, x) + math.pi) / (2 * math.pi)
    elif norm is Norm.L1:
        turn = (np.abs(x) + (x < 0) + 2 * (y < 0)) / 4
    else:
        vertical = np.abs(x) >= np.abs(y)
        turn = (np.where(vertical, (y + 1) / 2 + (x < 0), (x + 1) / 2 + 2 + (y < 0))) / 4
    even = np.full(16, 1 / 16)
    assert fits(np.clip((turn * 16).astype(int), 0, 15), even)
    assert not fits(np.clip((turn**1.3 * 16).astype(int), 0, 15), even)


VERBS: dict[str, Any] = {
    "Laplace": noise.add_laplace(scale=2.0, sensitivity=1.0, granularity=0.5),
    "Gaussian": noise.add_gaussian(sigma=2.0, sensitivity=1.0, granularity=0.5),
    "discrete Laplace": noise.add_discrete_laplace(scale=3.0),
    "discrete Gaussian": noise.add_discrete_gaussian(sigma=3.0),
}


@checks(LAW, AdditiveNoise)
@pytest.mark.parametrize("name", VERBS)
def test_additive_noise_around_the_value(name: str) -> None:
    mechanism = VERBS[name]
    size = (2.0 if mechanism.lattice else 3.0) / mechanism.granularity
    at = np.arange(-120, 121)
    steps = np.rint(batches.scalars(mechanism, 7, 400_000) / mechanism.granularity).astype(int)
    off = np.clip(steps - round(7 / mechanism.granularity), -120, 120)

    def law(part: float) -> np.ndarray:
        width = size * part
        mass = np.exp(-np.abs(at) / width) if "Laplace" in name else np.exp(-0.5 * (at / width) ** 2)
        return mass / mass.sum()

    assert g_test(np.bincount(off + 120, minlength=241), law(1.0)) > NEVER
    singles = np.array([mechanism.release(7) for _ in range(8_000)])  # numbers take another path than arrays
    alone = np.clip(np.rint((singles - 7) / mechanism.granularity).astype(int), -120, 120)
    assert g_test(np.bincount(alone + 120, minlength=241), law(1.0)) > NEVER
    assert g_test(np.bincount(alone + 120, minlength=241), law(1.25)) < NEVER
    for wrong in (0.9, 1.1):
        assert g_test(np.bincount(off + 120, minlength=241), law(wrong)) < NEVER
    assert g_test(np.bincount(np.clip(off + 121, 0, 240), minlength=241), law(1.0)) < NEVER


@checks(LAW, Quantiles)
def test_two_private_quantiles_at_once() -> None:
    data = np.array([1, 1, 4, 6, 6, 6, 9])
    mechanism = replace(quantiles(alphas=[0.25, 0.75], epsilon=2.0, bounds=(0, 9), granularity=1.0), tie_bits=1)
    found = batches.two_quantiles(mechanism, data, 200_000).astype(int)
    codes = found[:, 1] * 10 + found[:, 0]
    assert fits(codes, two_quantiles_law(mechanism, data))
    assert not fits(codes, two_quantiles_law(mechanism, data, part=0.9))
    assert not fits(codes, two_quantiles_law(mechanism, data, part=1.1))
    assert not fits(codes, two_quantiles_law(mechanism, data, tie_bits=0)), "all equal records to one side"


def at_reach(sums: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(sums).astype(int), -REACH, REACH) + REACH


@checks(LAW, WinsorizedMean)
@pytest.mark.parametrize("budget", [{"epsilon": 2.0}, {"rho": 0.5}])
def test_the_winsorised_mean(budget: dict[str, float]) -> None:
    numbers = [0, 1, 1, 2, 3, 3]
    mechanism = winsorized_mean(bounds=(0, 3), granularity=1.0, **budget)
    sums = at_reach(batches.winsorized(mechanism, numbers, 300_000))
    assert fits(sums, winsorized_law(mechanism, numbers))
    for wrong in (0.9, 1.1):
        other = replace(mechanism, **{name: wrong * value for name, value in budget.items()})
        assert not fits(sums, winsorized_law(other, numbers))
    assert not fits(np.minimum(sums + 1, 2 * REACH), winsorized_law(mechanism, numbers))


@checks(LAW, SubsampleAndAggregate)
def test_subsample_and_aggregate() -> None:
    records = [0, 1, 2, 3, 3]
    mechanism = subsample_and_aggregate(statistic=np.max, blocks=4, bounds=(0, 3), granularity=1.0, epsilon=4.0)
    sums = at_reach(batches.blocks(mechanism, records, 60_000))
    assert fits(sums, subsampled_law(mechanism, records))
    fewer = replace(mechanism, means=(replace(mechanism.means[0], epsilon=4.8),))
    assert not fits(sums, subsampled_law(fewer, records))
    assert not fits(sums, winsorized_law(mechanism.means[0], [1, 2, 3, 3]))  # always the same pair together


@checks(LAW, UnboundedWinsorizedMean)
def test_where_numbers_of_an_unknown_range_are_placed() -> None:
    mechanism = unbounded_winsorized_mean(epsilon=8.0, delta=0.2)
    numbers = [0.5, 0.75, 3.0, 1.0, 9.0, 1.0, 1.25, 3.5, 5.0, 13.0]
    law = placed_law(mechanism, numbers)
    found = batches.placed(mechanism, numbers, 40_000)
    outcomes = list(law)
    codes = [outcomes.index(tuple(None if x == -1e6 else int(x) for x in row)) for row in found]
    assert fits(codes, np.array(list(law.values())))
    wrong = placed_law(replace(mechanism, epsilon=7.2), numbers)
    assert not fits(codes, np.array([wrong[outcome] for outcome in outcomes]))
