"""The third witness of the sweep, and a case on which it decided against the fast oracle."""

from __future__ import annotations

import math

import pytest

from reference import listing, oracle
from reference.expressions import loss_of

FLAGGED = [
    {"leaf": "discrete_laplace", "count": 1893, "sensitivity": 3, "scale": 1122.0528764364697},
    {"leaf": "gdp", "count": 4783, "mu": 2.140206572012844e-06},
    {"leaf": "pure_dp", "count": 548, "rate": 0.0008901221078904281, "epsilon": 1.2522755425942813},
]
"""The fast oracle put epsilon 5.8e-9 (relative) above our upper bound at delta 6.2e-24."""


@pytest.mark.parametrize("epsilon", [0.05, 0.4])
def test_listing_agrees_with_the_slow_oracle(epsilon: float) -> None:
    terms = [{"leaf": "pure_dp", "count": 9, "epsilon": 0.1}, {"leaf": "gaussian", "count": 1, "sigma": 3.0}]
    found = listing.delta(terms, epsilon=epsilon, direction="remove")
    assert found == pytest.approx(float(oracle.delta(terms, epsilon=epsilon, direction="remove").value), rel=1e-9)


def test_a_list_of_all_outcomes_sides_with_the_accountant() -> None:
    target = 6.210773141574496e-24
    bounds = loss_of(FLAGGED).epsilon_bounds(delta=target)
    ways = ("remove", "add")
    above = max(listing.delta(FLAGGED, epsilon=bounds.upper, direction=way) for way in ways)
    below = max(listing.delta(FLAGGED, epsilon=bounds.lower, direction=way) for way in ways)
    assert above <= target * (1 + 1e-9)
    assert below >= target * (1 - 1e-9)
    # And it would have noticed: a bound 6e-9 off is far outside.
    wrong = max(listing.delta(FLAGGED, epsilon=bounds.upper * (1 - 6e-9), direction=way) for way in ways)
    assert wrong > target * (1 + 1e-7)
    assert math.isfinite(wrong)
