"""Somebody's number against ours: falsified only where the truth itself is known from below."""

from __future__ import annotations

import pytest

import tallystick as ts
from tallystick.audit.recomputed import claimed_epsilon


def test_a_claim_below_the_truth_is_falsified() -> None:
    run = 1000 * ts.gaussian(sigma=1).sampled(rate=0.01)
    assert claimed_epsilon(run, epsilon=1.5, delta=1e-5).falsified
    assert not claimed_epsilon(run, epsilon=1.9, delta=1e-5).falsified
    steady = ts.last_iterate(steps=50, contraction=0.9, sigma=50)  # attained by a quadratic objective
    assert claimed_epsilon(steady, epsilon=0.0, delta=1e-9).falsified


@pytest.mark.parametrize(
    "loss",
    [
        ts.correlated(sigma=4, steps=8, coefficients=[0.01, 0, 0, 1], uses=2),
        ts.last_iterate(steps=100, contraction=1, sigma=5, batches=ts.shuffled(batches=100)),
        ts.last_iterate(steps=100, contraction=1, sigma=5, diameter=1),
        ts.last_iterate(steps=100, contraction=1, sigma=5, diameter=1).sampled(rate=0.5) + ts.gaussian(sigma=5),
    ],
)
def test_what_is_only_proved_to_be_enough_falsifies_nothing(loss: ts.PrivacyLoss) -> None:
    found = claimed_epsilon(loss, epsilon=0.0, delta=1e-5)
    assert not found.falsified
    assert found.epsilon_at_least(delta=1e-5) == 0.0
