"""Neighbours on which everything of ours is attacked: every verb, every estimator, every measure of a table.

``test_ours.py`` makes a few draws of each in ``make test``; ``tests/campaigns/audit_twins.py`` makes many.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import tallystick as ts
from tallystick.mechanisms import select
from unit.mechanisms.registry import VERBS

Pair = tuple[Any, Any]
CHOICES: Pair = ([0.0, 3.0, 3.0], [1.0, 2.0, 2.0])
ADDED: Pair = ([1.0, 2.0, 5.0], [1.0, 2.0, 5.0, 8.0])
MANY = [1.0] * 20 + [1.5] * 19

OF_VERBS: dict[str, Pair] = {
    "noise.add_laplace": (2.5, 3.5),
    "noise.add_laplace, vector": ([1.0, 2.0], [1.0, 3.0]),
    "noise.add_gaussian": (2.5, 3.5),
    "noise.add_gaussian, vector": ([1.0, 2.0], [1.6, 2.8]),
    "noise.add_discrete_laplace": (7, 9),
    "noise.add_discrete_gaussian": (7, 8),
    "noise.add_discrete_gaussian, vector": ([7, 8], [8, 9]),
    "noise.add_knorm": ([1.0, 2.0], [1.6, 2.8]),
    "select.exponential": CHOICES,
    "select.noisy_max": CHOICES,
    "select.permute_and_flip": CHOICES,
    "select.top_k": CHOICES,
    "select.quantile": ADDED,
    "select.median": ADDED,
    "select.quantiles": ADDED,
    "select.above_threshold": ([0.0, 0.0, 1.0], [1.0, 1.0, 0.0]),
    "select.on_line": (select.Steps([1.0], [0.0, 1.0]), select.Steps([1.0], [1.0, 0.0])),
    "select.by_rejection": (lambda point: point[0] / 4, lambda point: min(2.0, point[0] / 4 + 1)),
    "keys.stable": ({"north": 9}, {"north": 9, "south": 1}),
    "keys.stable_counts": ({"north": 9}, {"north": 9, "south": 1}),
    "response.randomize": ([0, 1, 2], [1, 1, 2]),
    "response.unary_encoding": ([0, 1, 2], [1, 1, 2]),
    "response.laplace": ([0.0, 2.0], [8.0, 2.0]),
    "aggregate.sampled": ADDED,
    "aggregate.winsorized_mean": ([1.0, 2.0, 5.0], [8.0, 2.0, 5.0]),
    "aggregate.subsample_and_aggregate": ([1.0, 2.0, 5.0, 5.0, 6.0], [8.0, 2.0, 5.0, 5.0, 6.0]),
    "aggregate.unbounded_winsorized_mean": ([*MANY, -900.0], [*MANY, 900.0]),
}

PROMISED = {
    "select.quantiles": ts.pure_dp(epsilon=1),
    "aggregate.winsorized_mean": ts.pure_dp(epsilon=1, adjacency="replace"),
    "select.top_k": ts.pure_dp(epsilon=1),
    "aggregate.subsample_and_aggregate": ts.zcdp(rho=1, adjacency="replace"),
    "aggregate.unbounded_winsorized_mean": ts.approx_dp(epsilon=8, delta=0.1, adjacency="replace"),
}
"""Where the curve of the loss itself takes seconds: what was asked for."""


@dataclass(frozen=True, slots=True)
class Attack:
    """Something of ours, or a function that uses it, with neighbours and what it claims."""

    name: str
    f: Any
    neighbours: Pair
    claim: ts.PrivacyLoss


def mechanisms() -> Iterator[Attack]:
    for verb in VERBS:
        built = verb.mechanism()
        yield Attack(verb.name, built, OF_VERBS[verb.name], PROMISED.get(verb.name, built.privacy))


ROWS = np.array([[0.5, 0.2], [0.1, 0.4], [-0.3, 0.2], [0.2, -0.6], [0.6, 0.8]])
CLASSES = np.array([0, 1, 0, 1, 1])
NUMBERS = np.array([0.1, 0.5, -0.2, 0.3, 1.0])
FEWER: Pair = (slice(0, 5), slice(0, 4))
"""Rows of the neighbours: the last one, the longest, leaves."""

ESTIMATORS: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "LogisticRegression": (
        lambda: ts.learn.LogisticRegression(epsilon=1, delta=1e-6, row_norm=1, classes=[0, 1]),
        CLASSES,
    ),
    "LinearRegression": (lambda: ts.learn.LinearRegression(epsilon=1, row_norm=1, target_bounds=(-1, 1)), NUMBERS),
    "QuantileRegression": (
        lambda: ts.learn.QuantileRegression(epsilon=1, delta=1e-6, row_norm=1, target_bound=1),
        NUMBERS,
    ),
    "ExponentialERM": (
        lambda: ts.learn.ExponentialERM(epsilon=1, feature_bound=1, target_bound=1, coefficient_bound=1),
        NUMBERS,
    ),
    "KNormGradient": (
        lambda: ts.learn.KNormGradient(epsilon=1, feature_bound=1, target_bound=1, coefficient_bound=1),
        NUMBERS,
    ),
    "select_model": (
        lambda: ts.learn.select_model(
            models=[[0], [1]], epsilon=1, feature_bound=1, target_bound=1, coefficient_bound=1
        ),
        NUMBERS,
    ),
}
NOT_FITTED_ALONE = {"tune"}
"""Chooses among fits of other estimators: its law is judged in tests/unit/learn/test_tune.py."""


def fitted(build: Callable[[], Any], targets: np.ndarray) -> Callable[[slice], Any]:
    def fit(rows: slice) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # recorded nowhere, and slow noise
            model = build().fit(ROWS[rows], targets[rows])
        if hasattr(model, "coef_"):
            return [*np.ravel(model.coef_).tolist(), *np.ravel(getattr(model, "intercept_", 0.0)).tolist()]
        return [repr(value) for name, value in sorted(vars(model).items()) if name.endswith("model_")]

    return fit


def estimators() -> Iterator[Attack]:
    for name, (build, targets) in ESTIMATORS.items():
        delta = getattr(build(), "delta", None) or 0.0  # the promise: curves of some losses take many seconds
        promise = ts.approx_dp(epsilon=1, delta=delta) if delta else ts.pure_dp(epsilon=1)
        yield Attack(name, fitted(build, targets), FEWER, promise)


MEASURES: dict[str, Any] = {
    "count": ts.count,
    "count_units": ts.count_units,
    "rows": ts.rows,
    "people": ts.people,
    "count_units_with": lambda: ts.count_units("v"),
    "units_over_cap": ts.units_over_cap,
    "rows_over_cap": lambda: ts.rows_over_cap(3),
    "sum": lambda: ts.sum("v", 0, 16),
    "mean": lambda: ts.mean("v", 0, 16),
    "variance": lambda: ts.variance("v", 0, 16),
    "standard_deviation": lambda: ts.standard_deviation("v", 0, 16),
    "median": lambda: ts.median("v", 0, 16),
    "quantile": lambda: ts.quantile("v", 0.25, 0, 16),
    "histogram": lambda: ts.histogram("v", [0, 4, 8, 16]),
}


def small(heavy: bool) -> pa.Table:
    """Three light units, and one with many rows in both groups, all values at the top."""
    rows = [(1, "a", 1.0), (2, "b", 2.0), (3, "a", 3.0), *([(9, g, 99.0) for g in "ab"] * 4 if heavy else [])]
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(("u", "g", "v"))})


TABLES: Pair = (small(True), small(False))


def plan(measure: str, **budget: float) -> Any:
    visits = ts.Private(small(heavy=True)).table(unit="u").per_unit(max_groups=1, max_rows_per_group=2)
    asked = visits.group_by("g", keys=["a", "b"])
    return asked.agg(found=MEASURES[measure]()).plan(**budget)


def plans() -> Iterator[Attack]:
    for measure in MEASURES:
        made = plan(measure, rho=0.5)
        yield Attack(f"plan of {measure}", made, TABLES, made.privacy)
    made = plan("count", epsilon=1.0)
    yield Attack("plan of count, pure", made, TABLES, made.privacy)
    visits = ts.Private(small(heavy=True)).table(unit="u").per_unit(max_groups=1, max_rows_per_group=2)
    learned = visits.group_by("g", keys=ts.private_keys(delta=1e-3)).agg(n=ts.count()).plan(epsilon=1.0)
    yield Attack("plan with groups from the data", learned, TABLES, learned.privacy)
