"""Arguments that are no numbers of a sensible size: refused by name, without a warning; never another exception."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput

pytestmark = pytest.mark.filterwarnings("error")

LOSS = ts.gaussian(sigma=1).sampled(rate=0.1) + ts.pure_dp(epsilon=1)
HUGE = [10**400, Fraction(10**400), 10**5000]
TWO = np.array([0.5, 0.1])


@pytest.mark.parametrize("huge", HUGE, ids=["whole", "fraction", "too long to print"])
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("delta", lambda x: LOSS.epsilon(delta=x)),
        ("epsilon", lambda x: LOSS.delta(epsilon=x)),
        ("alpha", lambda x: LOSS.tradeoff(alpha=x)),
        ("alpha", lambda x: LOSS.power(alpha=x)),
        ("order", lambda x: LOSS.renyi(order=x)),
        ("prior", lambda x: LOSS.posterior(prior=x)),
        ("prior", lambda x: LOSS.bayes_risk(prior=x)),
        ("sensitivities", lambda x: ts.gaussian_mixture(sigma=1, sensitivities=[0, x], probabilities=[0.5, 0.5])),
        ("probabilities", lambda x: ts.gaussian_mixture(sigma=1, sensitivities=[0, 1], probabilities=[0.5, x])),
        ("p", lambda x: ts.discrete_pair([0.5, x], [0.5, 0.5])),
        ("matrix", lambda x: ts.correlated(matrix=x, sigma=1)),
        ("curve[2]", lambda x: ts.renyi_dp({2: x})),
    ],
)
def test_numbers_that_are_no_doubles_are_refused(name: str, read: Callable[[Any], Any], huge: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(huge)
    assert refused.value.argument == name


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("sensitivities", lambda: ts.gaussian_mixture(sigma=1, sensitivities=[0, 5e-324], probabilities=[0.5, 0.5])),
        ("epsilon", lambda: ts.exponential(epsilon=5e-324)),
        ("epsilon", lambda: ts.renyi_dp({2: 1e308})),
        ("epsilon", lambda: LOSS.delta_bounds(epsilon=1e308)),
        ("t", lambda: LOSS.privacy_loss().characteristic_function(1e308)),
        ("cut", lambda: ts.gaussian(sigma=1).sampled(rate=0.1, largest=2, population=10, cut=TWO)),
        ("direction", lambda: LOSS.privacy_loss("x")),
        ("direction", lambda: LOSS.privacy_loss(None)),
        ("direction", lambda: LOSS.delta(epsilon=1, direction=TWO)),
        ("rigorous", lambda: LOSS.epsilon_bounds(delta=0.1, rigorous=TWO)),
        ("rigorous", lambda: LOSS.delta_bounds(epsilon=0.1, rigorous="yes")),
    ],
)
def test_what_is_allowed_is_said(name: str, read: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInput) as refused:
        read()
    assert refused.value.argument == name


def test_the_largest_arguments_that_are_allowed_are_read() -> None:
    assert LOSS.delta_bounds(epsilon=1e300).upper < 1e-300
    assert LOSS.renyi(order=1e308) == LOSS.renyi(order=np.longdouble("1e4000")) == math.inf
    assert ts.pure_dp(epsilon=1).renyi(order=1e308) == 1.0
    assert ts.renyi_dp({2: 1e250}).epsilon(delta=1e-5) >= 1e250
    assert (3 * ts.exponential(epsilon=1e-300)).renyi(order=2) > 0.0
    assert ts.exponential(epsilon=1e-300).delta_bounds(epsilon=0).upper >= 2.4999e-301
    assert ts.gaussian(sigma=1).privacy_loss("add").mean == 0.5
