"""Every value that is not allowed raises an error that names its argument; nothing ever becomes NaN."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick as ts
from sweeps import share

NAN, INF = math.nan, math.inf
UNIT = ts.gaussian(sigma=1.0)
Call = Callable[[], object]


def table() -> list[tuple[str, str, Call]]:
    """(label, argument that must be named, call)"""
    rows: list[tuple[str, str, Call]] = []

    def each(argument: str, values: list[object], call: Callable[[object], object], label: str) -> None:
        rows.extend((f"{label}({argument}={value!r})", argument, lambda v=value: call(v)) for value in values)  # type: ignore[misc]

    not_positive: list[object] = [0.0, -1.0, NAN, INF, -INF, "one", None]
    not_nonnegative: list[object] = [-1e-9, NAN, "one", None]
    not_probability: list[object] = [-1e-9, 1.0000001, NAN, INF, "half", None]
    not_count: list[object] = [-1, 1.5, NAN, INF, 10**9 + 1, "two"]
    each("sigma", not_positive, lambda v: ts.gaussian(sigma=v), "gaussian")
    each("sigma", not_positive, lambda v: ts.discrete_gaussian(sigma=v), "discrete_gaussian")
    each("scale", not_positive, lambda v: ts.laplace(scale=v), "laplace")
    each("scale", not_positive, lambda v: ts.discrete_laplace(scale=v), "discrete_laplace")
    each("mu", [-1.0, NAN, INF, "x", None], lambda v: ts.gdp(mu=v), "gdp")
    for name in ("pure_dp", "exponential", "randomized_response"):
        each("epsilon", not_nonnegative, lambda v, make=getattr(ts, name): make(epsilon=v), name)
    each("epsilon", [-1.0, NAN], lambda v: ts.approx_dp(epsilon=v, delta=0.1), "approx_dp")
    each("delta", not_probability, lambda v: ts.approx_dp(epsilon=1.0, delta=v), "approx_dp")
    each("flip_prob", [-0.1, 1.1, NAN], lambda v: ts.randomized_response(flip_prob=v), "randomized_response")
    each("choices", [1, 0, 2.5, NAN, -3], lambda v: ts.randomized_response(epsilon=1, choices=v), "randomized_response")
    each("sensitivity", [-1, 1.5, NAN], lambda v: ts.discrete_gaussian(sigma=1, sensitivity=v), "discrete_gaussian")
    each("sensitivity", [-1, 1.5, NAN], lambda v: ts.discrete_laplace(scale=1, sensitivity=v), "discrete_laplace")
    each("rho", [-1.0, NAN, "x"], lambda v: ts.zcdp(rho=v), "zcdp")
    each("rate", not_probability, lambda v: UNIT.sampled(rate=v), "sampled")
    each("count", not_count, lambda v: v * UNIT, "times")
    each("delta", not_probability, lambda v: UNIT.epsilon(delta=v), "epsilon")
    each("delta", not_probability, lambda v: UNIT.epsilon_bounds(delta=v), "epsilon_bounds")
    each("epsilon", [NAN, "one", None, INF], lambda v: UNIT.delta(epsilon=v), "delta")
    each("epsilon", [NAN, "one", None, INF], lambda v: UNIT.delta_bounds(epsilon=v), "delta_bounds")
    each("alpha", not_probability, lambda v: UNIT.tradeoff(alpha=v), "tradeoff")
    each("alpha", not_probability, lambda v: UNIT.power(alpha=v), "power")
    each("prior", not_probability, lambda v: UNIT.posterior(prior=v), "posterior")
    each("order", [0.0, -2.0, NAN, "x"], lambda v: UNIT.renyi(order=v), "renyi")
    each("k", [0, -1, 1.5, NAN], lambda v: UNIT.for_groups(v), "for_groups")
    replaced = ts.gaussian(sigma=1.0, adjacency=ts.Adjacency.REPLACE)
    each("batch", [-1, 11, 1.5, NAN], lambda v: replaced.subset(batch=v, population=10), "subset")
    each("population", [0, -1, 1.5, NAN], lambda v: replaced.subset(batch=1, population=v), "subset")
    return rows


ROWS = table()


@pytest.mark.parametrize(("label", "argument", "call"), ROWS, ids=[r[0] for r in ROWS])
def test_a_value_that_is_not_allowed_is_refused_by_name(label: str, argument: str, call: Call) -> None:
    with pytest.raises(ts.errors.TallystickError) as caught:
        call()
    assert argument in str(caught.value)


BAD_CURVES: dict[str, Call] = {
    "increasing trade-off": lambda: ts.from_tradeoff(lambda a: a),
    "trade-off above the diagonal": lambda: ts.from_tradeoff(lambda a: 1.0),
    "concave trade-off": lambda: ts.from_tradeoff(lambda a: max(0.0, 1 - a**4 - 0.2) if a < 0.9 else 0.0),
    "trade-off of nan": lambda: ts.from_tradeoff(lambda a: NAN),
    "negative trade-off": lambda: ts.from_tradeoff(lambda a: -1.0),
    "increasing profile": lambda: ts.from_profile(lambda e: min(1.0, 0.1 + 0.1 * e)),
    "profile above one": lambda: ts.from_profile(lambda e: 2.0),
    "profile of nan": lambda: ts.from_profile(lambda e: NAN),
    "negative profile": lambda: ts.from_profile(lambda e: -0.5),
    "p does not sum to one": lambda: ts.discrete_pair([0.5, 0.4], [0.5, 0.5]),
    "q does not sum to one": lambda: ts.discrete_pair([0.5, 0.5], [0.5, 0.6]),
    "unlike lengths": lambda: ts.discrete_pair([0.5, 0.5], [1.0]),
    "negative probability": lambda: ts.discrete_pair([1.5, -0.5], [0.5, 0.5]),
    "nan probability": lambda: ts.discrete_pair([NAN, 1.0], [0.5, 0.5]),
    "empty vectors": lambda: ts.discrete_pair([], []),
    "empty Renyi curve": lambda: ts.renyi_dp({}),
    "Renyi order below one": lambda: ts.renyi_dp({0.5: 1.0}),
    "negative Renyi epsilon": lambda: ts.renyi_dp({2: -1.0}),
    "nan Renyi epsilon": lambda: ts.renyi_dp({2: NAN}),
    "both kinds of response": lambda: ts.randomized_response(epsilon=1.0, flip_prob=0.2),
    "no kind of response": lambda: ts.randomized_response(),
    "broken json": lambda: ts.PrivacyLoss.from_json("{"),
    "foreign json": lambda: ts.PrivacyLoss.from_json("[1, 2, 3]"),
    "unknown leaf in json": lambda: ts.PrivacyLoss.from_json('{"version": 1, "terms": [{"leaf": "magic"}]}'),
    "nan inside json": lambda: ts.PrivacyLoss.from_json(UNIT.to_json().replace("1.0", "NaN").replace(":1", ":NaN")),
    "arrays with a nan": lambda: UNIT.epsilon(delta=np.array([1e-5, NAN])),
}


@pytest.mark.parametrize("name", BAD_CURVES)
def test_what_is_not_a_curve_or_a_pair_is_refused(name: str) -> None:
    with pytest.raises(ts.errors.TallystickError):
        BAD_CURVES[name]()


@given(sigma=st.floats(1e-3, 1e6), times=st.integers(1, 10**9), delta=st.floats(0, 1), epsilon=st.floats(0, 1e4))
def test_extreme_gaussians_never_give_nan(sigma: float, times: int, delta: float, epsilon: float) -> None:
    loss = times * ts.gaussian(sigma=sigma)
    assert loss.epsilon(delta=delta) >= 0
    assert 0 <= loss.delta(epsilon=epsilon) <= 1


EXTREMES = {
    "strong pure": lambda: 10**9 * ts.pure_dp(epsilon=50.0),
    "weak pure": lambda: ts.pure_dp(epsilon=1e-12),
    "zero epsilon": lambda: 1000 * ts.pure_dp(epsilon=0.0),
    "delta one": lambda: ts.approx_dp(epsilon=0.0, delta=1.0),
    "narrow Laplace": lambda: 5 * ts.laplace(scale=1e-3),
    "wide Laplace": lambda: 1000 * ts.laplace(scale=1e6),
    "narrow discrete Gaussian": lambda: 3 * ts.discrete_gaussian(sigma=0.05),
    "disjoint pair": lambda: ts.discrete_pair([1.0, 0.0], [0.0, 1.0]),
    "equal pair": lambda: 7 * ts.discrete_pair([0.5, 0.5], [0.5, 0.5]),
    "rare sampling": lambda: 10**6 * ts.gaussian(sigma=1.0).sampled(rate=1e-9),
    "almost full sampling": lambda: 10 * ts.gaussian(sigma=1.0).sampled(rate=1 - 1e-12),
    "strong sampled step": lambda: 10 * ts.gaussian(sigma=0.05).sampled(rate=0.01),
}


@pytest.mark.parametrize("name", share(EXTREMES, 3))
def test_extreme_losses_are_read_without_nan(name: str) -> None:
    loss = EXTREMES[name]()
    for delta in (0.0, 1e-30, 1e-6, 0.5, 1.0):
        bounds = loss.epsilon_bounds(delta=delta)
        assert 0 <= bounds.lower <= bounds.upper
    for epsilon in (0.0, 1e-6, 1.0, 1000.0):
        low_high = loss.delta_bounds(epsilon=epsilon)
        assert 0 <= low_high.lower <= low_high.upper <= 1
