"""The whole trade-off at once: the band holds, a claim above it is refuted, and finite laws are judged exactly."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import tallystick as ts
from tallystick.audit.band import banded, tradeoff_band
from tallystick.audit.known import known_laws
from tallystick.errors import InvalidInput


def test_the_band_covers_the_truth_at_all_thresholds_together() -> None:
    rng = np.random.default_rng(1)
    mu, draws, level, audits = 1.0, 400, 0.2, 120
    cuts = np.linspace(-2, 3, 40)
    alarms, misses = norm.sf(cuts), norm.cdf(cuts - mu)
    outside = refuted = 0
    for _ in range(audits):
        one, two = np.sort(rng.normal(size=draws) + mu), np.sort(rng.normal(size=draws))
        found = banded(ts.gdp(mu=mu), "x", draws, draws - np.searchsorted(two, cuts), np.searchsorted(one, cuts), level)
        high, low = np.array(found.upper), np.array(found.lower)
        held = (low[:, 0] <= alarms) & (alarms <= high[:, 0]) & (low[:, 1] <= misses) & (misses <= high[:, 1])
        outside += not held.all()
        refuted += found.falsified
        assert found.falsified <= (not held.all())
    assert outside <= binom.ppf(1 - 1e-6, audits, level)
    assert refuted <= outside


def test_a_claim_above_the_band_is_refuted_and_one_below_is_not() -> None:
    rng = np.random.default_rng(2)

    def noisy(x: float) -> float:
        return round(x + rng.normal(), 2)

    for pair in ((0.0, 1.5), (1.5, 0.0)):  # whichever is larger
        found = tradeoff_band(noisy, neighbours=pair, claim=ts.gdp(mu=1), draws=8000)
        assert found.falsified
        assert 1.0 < found.mu_at_least < 1.5
        assert found.epsilon_at_least(delta=1e-3) > 0
        assert found.refutes == "the claimed curve"
        below = [b < ts.gdp(mu=1).tradeoff(alpha=a) for a, b in found.upper]
        assert any(below)
        assert found.to_dict()["upper"] == found.upper
    fine = tradeoff_band(noisy, neighbours=(0.0, 1.0), claim=ts.gdp(mu=1), draws=8000, significance=1e-9)
    assert not fine.falsified
    assert "Can catch  at best" in str(fine)


def test_a_score_of_the_caller_must_be_larger_on_the_first_data_set() -> None:
    rng = np.random.default_rng(3)
    found = tradeoff_band(
        lambda x: x + rng.normal(), neighbours=(3.0, 0.0), claim=ts.gdp(mu=1), draws=4000, score=lambda y: y
    )
    assert found.falsified
    assert found.score == "<lambda>"


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"neighbours": [0, 1]}, "neighbours"),
        ({"claim": None}, "claim"),
        ({"thresholds": 1}, "thresholds"),
        ({"score": 3}, "score"),
        ({"score": lambda y: math.nan}, "score"),
        ({"draws": 2}, "draws"),
        ({"significance": 1}, "significance"),
    ],
)
def test_bad_input_is_named(changed: dict[str, Any], argument: str) -> None:
    given: dict[str, Any] = {"neighbours": (0, 1), "claim": ts.pure_dp(epsilon=1), "draws": 60, **changed}
    with pytest.raises(InvalidInput) as refused:
        tradeoff_band(lambda x: x, **given)
    assert refused.value.argument == argument


def geometric(at: int, epsilon: float, width: int = 60) -> dict[int, Fraction]:
    """Discrete Laplace noise on a line of few points, in fractions: what is beyond is at the ends."""
    decay = Fraction(math.exp(-epsilon))
    weights = {x: (1 - decay) / (1 + decay) * decay ** abs(x - at) for x in range(-width + 1, width)}
    for end in (-width, width):
        weights[end] = decay ** abs(end - at) / (1 + decay)
    return weights


def test_two_known_laws_are_judged_without_a_draw() -> None:
    here, there = geometric(0, 0.5), geometric(1, 0.5)
    honest = known_laws(here, there, claim=ts.pure_dp(epsilon=0.500001))
    assert not honest.falsified
    assert honest.epsilon_at_least(delta=0) == pytest.approx(0.5, rel=1e-8)
    assert honest.epsilon_at_least(delta=0) <= 0.5
    too_small = known_laws(here, there, claim=ts.pure_dp(epsilon=0.499))
    assert too_small.falsified
    assert (too_small.significance, too_small.p_value) == (0.0, 0.0)
    assert not known_laws(here, there, claim=ts.discrete_laplace(scale=2)).falsified
    # a mass that only one law has: delta, and no epsilon
    with_leak = {"a": Fraction(9, 10), "b": Fraction(1, 10)}
    leak = known_laws(with_leak, {"a": 1.0}, claim=ts.approx_dp(epsilon=3, delta=0.05))
    assert leak.falsified
    assert leak.epsilon_at_least(delta=0.05) == 700.0
    assert not known_laws(with_leak, {"a": 1.0}, claim=ts.approx_dp(epsilon=3, delta=0.101)).falsified
    assert math.isfinite(leak.mu_at_least)
    assert leak.to_dict()["corners"][0] == (0.0, 0.0)


def test_an_exact_gaussian_table_has_its_own_mu() -> None:
    edges = np.linspace(-3, 4, 300)  # further out a difference of normal tails has few digits
    here, there = (dict(enumerate(np.diff(norm.cdf(np.r_[-np.inf, edges, np.inf] - m)).tolist())) for m in (1.0, 0.0))
    found = known_laws(here, there, claim=ts.gdp(mu=1))
    assert not found.falsified
    assert 0.98 < found.mu_at_least <= 1.0 + 1e-9
    assert known_laws(here, there, claim=ts.gdp(mu=0.97)).falsified


@pytest.mark.parametrize(
    ("first", "argument"),
    [
        ({}, "first"),
        ([0.5, 0.5], "first"),
        ({"a": 0.5}, "first"),
        ({"a": 1.5, "b": -0.5}, "first"),
        ({"a": "x"}, "first"),
    ],
)
def test_what_is_no_law_is_named(first: Any, argument: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        known_laws(first, {"a": 1.0}, claim=ts.pure_dp(epsilon=1))
    assert refused.value.argument == argument
    with pytest.raises(InvalidInput):
        known_laws({"a": 1.0}, {"a": 1.0}, claim=1.0)  # type: ignore[arg-type]
