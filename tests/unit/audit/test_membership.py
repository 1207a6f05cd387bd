"""Membership attacks on models whose law is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

import tallystick as ts
from tallystick.audit.membership import confidence, hit_rate, likelihood_ratio, loss_scores
from tallystick.errors import InvalidInput


def world(rng: np.random.Generator, people: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores of one model: members are ``shift`` higher, everybody has a level of their own."""
    member = rng.random(people) < 0.5
    return np.where(member, shift, 0.0) + rng.normal(size=people), member


@pytest.mark.parametrize("alarm", [0.01, 0.1])
def test_hits_at_realised_false_alarms_are_those_of_the_law(alarm: float) -> None:
    rng = np.random.default_rng(1)
    scores, member = world(rng, 40_000, 1.0)
    found = hit_rate(scores, member, alarm=alarm, claim=ts.gdp(mu=1))
    truth = norm.sf(norm.isf(alarm) - 1.0)
    assert found.alarm <= alarm
    assert found.lower - 0.01 <= truth <= found.upper + 0.01
    assert found.allowed is not None
    assert found.power <= found.allowed + 0.02
    assert "members found" in str(found)


def test_a_leak_beyond_the_claim_is_seen_beside_its_ceiling() -> None:
    scores, member = world(np.random.default_rng(2), 20_000, 3.0)
    found = hit_rate(scores, member, alarm=0.01, claim=ts.gdp(mu=0.5))
    assert found.allowed is not None
    assert found.lower > found.allowed


def test_ties_never_accuse_more_than_allowed() -> None:
    scores = np.array([1.0] * 50 + [0.0] * 50)
    member = np.tile([True, False], 50)
    found = hit_rate(scores, member, alarm=0.2)
    assert (found.hits, found.alarms) == (0, 0)
    assert found.threshold == math.inf
    everybody = hit_rate(scores, member, alarm=1.0)
    assert (everybody.hits, everybody.alarms) == (50, 50)
    half = hit_rate(scores, member, alarm=0.5)
    assert (half.hits, half.alarms) == (25, 25)


@pytest.mark.parametrize("online", [True, False])
def test_likelihood_ratios_beat_a_threshold_where_people_differ(online: bool) -> None:
    rng = np.random.default_rng(3)
    people, models = 4000, 40
    level, spread = rng.normal(scale=3, size=people), rng.uniform(0.3, 1.5, size=people)
    member = rng.random(people) < 0.5
    target = level + np.where(member, 1.5, 0.0) + spread * rng.normal(size=people)
    without = level + spread * rng.normal(size=(models, people))
    having = level + 1.5 + spread * rng.normal(size=(models, people))
    ratio = likelihood_ratio(target, without=without, having=having if online else None)
    plain = hit_rate(loss_scores(-target), member, alarm=0.05)
    found = hit_rate(ratio, member, alarm=0.05)
    assert found.lower > plain.upper


def test_few_models_share_their_deviation() -> None:
    rng = np.random.default_rng(4)
    found = likelihood_ratio(np.zeros(3), without=rng.normal(size=(2, 3)))
    assert np.isfinite(found).all()
    assert np.isfinite(likelihood_ratio(np.zeros(3), without=np.zeros((1, 3)))).all()


def test_confidence_is_finite_at_the_ends() -> None:
    assert np.isfinite(confidence([0.0, 0.5, 1.0])).all()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: hit_rate([1.0], [True], alarm=0.1), "member"),
        (lambda: hit_rate([1.0, 2.0], [1, 0], alarm=0.1), "member"),
        (lambda: hit_rate([math.nan, 2.0], [True, False], alarm=0.1), "scores"),
        (lambda: hit_rate([1.0, 2.0], [True, False], alarm=2), "alarm"),
        (lambda: hit_rate([10**400, 2], [True, False], alarm=0.1), "scores"),
        (lambda: likelihood_ratio([1.0], without=[["a"]]), "without"),
        (lambda: likelihood_ratio([1.0], without=[[1.0, 2.0]]), "without"),
        (lambda: likelihood_ratio([1.0], without=[[1.0]], having=[[math.nan]]), "having"),
    ],
)
def test_bad_input_is_named(call: object, argument: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        call()  # type: ignore[operator]
    assert refused.value.argument == argument
