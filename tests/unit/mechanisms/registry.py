"""Every verb that builds a mechanism, with arguments and a value that are right: what generated tests start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tallystick.mechanisms import aggregate, keys, noise, response, select
from tallystick.mechanisms.base import Mechanism

ROOMS = {"noise": noise, "select": select, "keys": keys, "response": response, "aggregate": aggregate}
NO_MECHANISM = {
    "noise": {"AdditiveNoise", "Clamp", "Sensitivity", "clamp", "exact_sum", "sensitivity_of"},
    "select": {"Steps", "uniform_box"},
    "keys": {"units_per_key"},
    "response": {"estimate", "in_turn", "protocol"},
    "aggregate": {"blocks_for"},
}


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb, arguments it takes, a value its mechanism takes, and arguments of that mechanism's other methods."""

    name: str
    build: Callable[..., Mechanism[Any, Any]]
    arguments: dict[str, Any]
    value: Any
    asks: dict[str, dict[str, Any]] = field(default_factory=dict)

    def mechanism(self) -> Mechanism[Any, Any]:
        return self.build(**self.arguments)


BOUNDS = {"bounds": (0.0, 8.0), "granularity": 0.5}
CHOOSE = {"error": {"confidence": 0.95, "candidates": 3}}
NOISE = {"error": {"confidence": 0.95}, "interval": {"output": 1.0, "confidence": 0.95}}
LOCAL: dict[str, Any] = {"error": {"confidence": 0.95, "reports": 10}}
SHARE = {**LOCAL, "variance": {"share": 0.5, "reports": 10}}

VERBS = [
    Verb("noise.add_laplace", noise.add_laplace, {"epsilon": 1.0, "sensitivity": 1.0}, 2.5, NOISE),
    Verb(
        "noise.add_laplace, vector",
        noise.add_laplace,
        {"scale": 1.0, "sensitivity": 1.0, "dimension": 2, "changed": 1, "granularity": 0.25},
        [1.0, 2.0],
        NOISE,
    ),
    Verb("noise.add_gaussian", noise.add_gaussian, {"sigma": 1.0, "sensitivity": 1.0}, 2.5, NOISE),
    Verb(
        "noise.add_gaussian, vector",
        noise.add_gaussian,
        {"epsilon": 1.0, "delta": 1e-5, "sensitivity": 1.0, "dimension": 2},
        [1.0, 2.0],
        NOISE,
    ),
    Verb("noise.add_discrete_laplace", noise.add_discrete_laplace, {"epsilon": 1.0, "sensitivity": 2}, 7, NOISE),
    Verb("noise.add_discrete_gaussian", noise.add_discrete_gaussian, {"rho": 0.5}, 7, NOISE),
    Verb(
        "noise.add_discrete_gaussian, vector",
        noise.add_discrete_gaussian,
        {"mu": 0.5, "sensitivity": 1.5, "dimension": 2},
        [7, 8],
        NOISE,
    ),
    Verb(
        "noise.add_knorm",
        noise.add_knorm,
        {"epsilon": 1.0, "norm": "l2", "sensitivity": 1.0},
        [1.0, 2.0],
        {"error": {"confidence": 0.95, "dimension": 2}, "variance": {"dimension": 2}},
    ),
    Verb("select.exponential", select.exponential, {"epsilon": 1.0}, [0.0, 1.0, 2.0], CHOOSE),
    Verb("select.noisy_max", select.noisy_max, {"epsilon": 1.0, "noise": "laplace"}, [0.0, 1.0, 2.0], CHOOSE),
    Verb("select.permute_and_flip", select.permute_and_flip, {"epsilon": 1.0}, [0.0, 1.0, 2.0], CHOOSE),
    Verb("select.top_k", select.top_k, {"k": 2, "epsilon": 1.0}, [0.0, 1.0, 2.0], CHOOSE),
    Verb(
        "select.quantile",
        select.quantile,
        {"alpha": 0.25, "epsilon": 1.0, **BOUNDS},
        [1.0, 2.0, 5.0],
        {"error": {"confidence": 0.95}},
    ),
    Verb(
        "select.median",
        select.median,
        {"epsilon": 1.0, **BOUNDS},
        [1.0, 2.0, 5.0],
        {"error": {"confidence": 0.95}},
    ),
    Verb(
        "select.quantiles",
        select.quantiles,
        {"alphas": [0.25, 0.75], "epsilon": 1.0, **BOUNDS},
        [1.0, 2.0, 5.0],
        {"error": {"confidence": 0.95}},
    ),
    Verb(
        "select.above_threshold",
        select.above_threshold,
        {"threshold": 1.0, "epsilon": 1.0, "hits": 2},
        [0.0, 1.0, 2.0],
        {"error": {"confidence": 0.95, "queries": 10}},
    ),
    Verb(
        "select.on_line",
        select.on_line,
        {"epsilon": 1.0, "sensitivity": 1.0, "base": ([4.0], [1, 2]), **BOUNDS},
        select.Steps([1.0], [0.0, 1.0]),
        {"error": {"confidence": 0.95}},
    ),
    Verb(
        "select.by_rejection",
        select.by_rejection,
        {
            "epsilon": 1.0,
            "sensitivity": 1.0,
            "propose": select.uniform_box([(0, 8)], granularity=0.5),
            "score_bounds": (0.0, 2.0),
        },
        lambda point: point[0] / 4,
        {"error": {"confidence": 0.95, "share": 0.1}},
    ),
    Verb(
        "keys.stable",
        keys.stable,
        {"epsilon": 1.0, "delta": 0.1},
        {"north": 3, "south": 9},
        {"error": {"confidence": 0.95}, "keep_probability": {"size": 3}},
    ),
    Verb(
        "keys.stable_counts",
        keys.stable_counts,
        {"epsilon": 1.0, "delta": 0.1},
        {"north": 3, "south": 9},
        {"error": {"confidence": 0.95}},
    ),
    Verb(
        "response.randomize",
        response.randomize,
        {"epsilon": 1.0, "choices": 3},
        [0, 1, 2],
        {**SHARE, "estimate": {"reports": [0, 1], "confidence": 0.95}},
    ),
    Verb(
        "response.unary_encoding",
        response.unary_encoding,
        {"epsilon": 1.0, "choices": 3},
        [0, 1, 2],
        {**SHARE, "estimate": {"reports": np.ones((2, 3), dtype=bool), "confidence": 0.95}},
    ),
    Verb(
        "response.laplace",
        response.laplace,
        {"epsilon": 1.0, **BOUNDS},
        [1.0, 2.0],
        {**LOCAL, "estimate": {"reports": [1.0, 2.0], "confidence": 0.95}},
    ),
    Verb(
        "aggregate.winsorized_mean",
        aggregate.winsorized_mean,
        {"epsilon": 1.0, "widening": 0.1, **BOUNDS},
        [1.0, 2.0, 5.0],
        {"error": {"confidence": 0.95, "count": 3, "width": 2.0}},
    ),
    Verb(
        "aggregate.sampled",
        aggregate.sampled,
        {"mechanism": select.median(epsilon=1.0, **BOUNDS), "rate": 0.5},
        [1.0, 2.0, 5.0],
        {"error": {"confidence": 0.95}},
    ),
    Verb(
        "aggregate.subsample_and_aggregate",
        aggregate.subsample_and_aggregate,
        {"statistic": len, "blocks": 4, "rho": 1.0, **BOUNDS},
        [1.0, 2.0, 5.0, 5.0, 6.0],
        {"error": {"confidence": 0.95, "width": 2.0}},
    ),
    Verb(
        "aggregate.unbounded_winsorized_mean",
        aggregate.unbounded_winsorized_mean,
        {"epsilon": 8.0, "delta": 0.1},
        [1.0, 2.0, 5.0, 5.0, 6.0],
        {"error": {"confidence": 0.95, "count": 5, "width": 2.0}},
    ),
]

MECHANISMS = sorted({type(verb.mechanism()) for verb in VERBS}, key=lambda kind: kind.__name__)
