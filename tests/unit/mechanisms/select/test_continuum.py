"""The exponential mechanism on an interval and by rejection."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.randomness import SYSTEM, SeededSource
from tallystick.mechanisms.select.continuum import (
    LineExponential,
    RejectionExponential,
    Steps,
    by_rejection,
    on_line,
    uniform_box,
)
from unit.mechanisms.coverage import ENUMERATION, checks
from unit.mechanisms.neighbours import holds, log_ratio, refuses

BUYERS = np.array([1.0, 1.0, 1.0, 4.01])


def revenue(prices: np.ndarray, buyers: np.ndarray) -> np.ndarray:
    return prices * (buyers[None, :] >= prices[:, None]).sum(axis=1)


def law(mechanism, steps: Steps) -> dict[float, float]:
    """The mechanism's law by looking at every lattice point."""
    points = np.arange(mechanism.lattice.first, mechanism.lattice.last + 1) * mechanism.lattice.granularity
    base = np.array(mechanism.base_weights)[np.searchsorted(mechanism.base_breaks, points, side="right")]
    weight = base * np.exp(mechanism.epsilon / (2 * mechanism.sensitivity) * steps.at(points))
    return dict(zip(points.tolist(), (weight / weight.sum()).tolist(), strict=True))


def sold(buyers: np.ndarray) -> Steps:
    """How many buyers a price keeps: constant between their limits, changed by at most one by one buyer."""
    limits = np.sort(buyers)
    # a buyer at limit b still buys at b, so the count drops just above it
    return Steps(np.nextafter(limits, np.inf), np.arange(limits.size, -1, -1.0))


@pytest.mark.parametrize("base", [None, ([2.0], [1, 3])])
def test_pieces_have_the_masses_of_their_lattice_points(base) -> None:
    mechanism = on_line(epsilon=1.0, sensitivity=1.0, bounds=(0, 5), granularity=0.25, base=base)
    pieces = mechanism.prepare(sold(BUYERS), strict=True)
    weight = pieces.counts * np.array(pieces.base) * np.exp(-0.5 * pieces.scores.behind)
    expected = law(mechanism, sold(BUYERS))
    for start, count, mass in zip(pieces.starts, pieces.counts, weight / weight.sum(), strict=True):
        direct = sum(expected[float(i * 0.25)] for i in range(start, start + count))
        assert mass == pytest.approx(direct, rel=1e-12)


@checks(ENUMERATION, LineExponential)
def test_the_price_holds_when_a_buyer_changes_their_mind() -> None:
    mechanism = on_line(epsilon=1.0, sensitivity=1.0, bounds=(0, 5), granularity=0.25)
    home = np.array(list(law(mechanism, sold(BUYERS)).values()))
    pairs = []
    for limit in np.arange(0, 5.1, 0.3):
        other = np.append(BUYERS, limit)
        pairs.append((home, np.array(list(law(mechanism, sold(other)).values()))))
    assert holds(mechanism.privacy, pairs)


def test_selling_pumpkins_the_exponential_mechanism_avoids_the_cliff_that_noise_falls_off() -> None:
    # Example 7.1: prices just above 4.01 or 1 sell almost nothing; noise lands there half of the time.
    prices = np.arange(0, 5.01, 0.01)
    assert revenue(np.array([4.01]), BUYERS)[0] == pytest.approx(4.01)
    assert revenue(np.array([1.0]), BUYERS)[0] == pytest.approx(4.0)
    assert revenue(np.array([1.01]), BUYERS)[0] == pytest.approx(1.01)
    assert revenue(np.array([4.02]), BUYERS)[0] == 0.0
    crowd = np.repeat(BUYERS, 250)
    income = revenue(prices, crowd)
    weight = np.exp(1.0 / (2 * 4.01) * (income - income.max()))
    expected = float(weight @ income / weight.sum())
    assert expected > 0.97 * income.max()
    noisy = np.random.default_rng(0).laplace(4.01, 4.01, 20_000)
    noisy_income = np.where((noisy > 0) & (noisy < 5), revenue(np.clip(noisy, 0, 5), crowd), 0.0)
    assert noisy_income.mean() < 0.5 * income.max()


def test_outputs_are_lattice_points_and_good_ones() -> None:
    mechanism = on_line(epsilon=40.0, sensitivity=1.0, bounds=(0, 5), granularity=2.0**-8)
    out = np.array([mechanism.release(sold(np.full(50, 2.0))) for _ in range(100)])
    assert (out <= 2.0).all()
    assert (out * 2**8 == np.round(out * 2**8)).all()


def test_a_base_measure_of_zero_is_respected() -> None:
    mechanism = on_line(epsilon=1.0, sensitivity=1.0, bounds=(0, 4), granularity=1.0, base=([2.0], [0, 1]))
    assert {mechanism.release(Steps([], [0.0])) for _ in range(200)} == {2.0, 3.0, 4.0}


def test_rejection_clamps_scores_to_public_bounds_and_bounds_the_proposals() -> None:
    mechanism = by_rejection(
        epsilon=1.0, sensitivity=1.0, propose=uniform_box([(0, 1)], granularity=0.5), score_bounds=(0, 6)
    )
    assert mechanism.proposals == pytest.approx(math.exp(3))
    strong = by_rejection(
        epsilon=20.0, sensitivity=1.0, propose=uniform_box([(0, 1)], granularity=0.5), score_bounds=(0, 1)
    )
    found = [strong.release(lambda point: 1e9 if point[0] == 0.5 else math.nan) for _ in range(20)]
    assert found.count((0.5,)) >= 18


def test_a_score_that_fails_is_the_worst_score_after_a_charge_and_an_error_before() -> None:
    mechanism = by_rejection(
        epsilon=1.0, sensitivity=1.0, propose=uniform_box([(0, 1)], granularity=0.5), score_bounds=(0, 1)
    )
    assert mechanism.release(lambda point: 1 / 0) in {(0.0,), (0.5,), (1.0,)}
    with pytest.raises(ZeroDivisionError):
        mechanism(lambda point: 1 / 0, source=SeededSource(1))


def test_rejection_that_could_take_forever_is_refused() -> None:
    with pytest.raises(InvalidInput, match="proposals"):
        by_rejection(epsilon=100.0, sensitivity=1.0, propose=uniform_box([(0, 1)]), score_bounds=(0, 10))


def test_a_uniform_box_is_uniform_over_its_corners() -> None:
    propose = uniform_box([(0, 1), (0, 1)], granularity=1.0)
    seen = [propose(SYSTEM) for _ in range(400)]
    assert all(40 < seen.count((float(a), float(b))) < 175 for a in (0, 1) for b in (0, 1))


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1.0],
        Steps([1.0], [1.0]),
        Steps([math.nan], [0.0, 1.0]),
        Steps([], []),
        Steps([2.0, 1.0], [0.0, 0.0, 0.0]),
        Steps([1.0], ["a", "b"]),
    ],
)
def test_bad_scores_are_refused_before_randomness_is_drawn(value) -> None:
    assert refuses(on_line(epsilon=1.0, sensitivity=1.0, bounds=(0, 5)), value)


def test_a_score_that_is_no_function_is_refused() -> None:
    mechanism = by_rejection(epsilon=1.0, sensitivity=1.0, propose=uniform_box([(0, 1)]), score_bounds=(0, 1))
    assert refuses(mechanism, 3.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0},
        {"bounds": (1, 0)},
        {"sensitivity": 0},
        {"base": ([1.0], [1])},
        {"base": ([1.0, 0.5], [1, 1, 1])},
        {"base": ((), (0,))},
        {"base": ([9.0], [0, 1])},
    ],
)
def test_bad_parameters_are_refused(wrong) -> None:
    with pytest.raises(InvalidInput):
        on_line(**{"epsilon": 1.0, "sensitivity": 1.0, "bounds": (0, 5), **wrong})


@checks(ENUMERATION, RejectionExponential)
def test_the_price_by_rejection_holds_on_every_pair_of_scores() -> None:
    # Accepted proposals are uniform points weighted exp(-rate (top - score)), whatever the scores: a softmax.
    mechanism = by_rejection(
        epsilon=1.0, sensitivity=1.0, propose=uniform_box([(0, 2)], granularity=1.0), score_bounds=(0, 3)
    )

    def law(scores) -> np.ndarray:
        clamped = [
            mechanism.prepare(lambda point, s=scores: s[int(point[0])], strict=True)((float(i),)) for i in range(3)
        ]
        weight = np.exp(np.array(clamped) / 2)
        return weight / weight.sum()

    tables = list(itertools.product((-1.0, 0.0, 1.0, 2.5, 4.0), repeat=3))
    moves = [move for move in itertools.product((-1.0, 0.0, 1.0), repeat=3) if any(move)]
    pairs = [(law(scores), law(np.add(scores, move))) for scores in tables for move in moves]
    assert holds(mechanism.privacy, pairs)
    assert log_ratio(pairs) > 0.8
