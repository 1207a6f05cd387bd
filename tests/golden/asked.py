"""The questions that the golden ledgers have answers to: losses, mechanisms, answers, models, statements.

The maker charged them once. The tests ask them again under the same keys. The list belongs to the stored data of
format 2 (``v2/``): change it only together with new golden data of a new format.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tallystick as ts

HERE = Path(__file__).parent
STORED = HERE / "v2"
ROOT = Path("/tmp/tallystick-golden-v2")
"""The folder that holds the registered files. A ledger knows a file by its absolute path, so the path is fixed."""

STORES = ("sqlite", "postgres")
SCHEMA = "tallystick_golden_v2"
"""Schema of the PostgreSQL ledger in the dump. A test replaces the name by that of a fresh schema."""

DATABASE = "tallystick_golden"
SERVER = f"postgresql://postgres@/{DATABASE}?host={ROOT}/server"
"""The registered PostgreSQL source. ``ROOT/server`` is a link to the socket folder of the server of the tests."""

DELTA = 1e-7
"""The delta of charges on accounts in (epsilon, delta)."""

REPLACE = {"adjacency": "replace"}


KINDS = (
    "allocated", "approx_dp", "composed", "correlated", "cut", "discrete_gaussian", "discrete_laplace",
    "discrete_pair", "exponential", "from_profile", "from_tradeoff", "gaussian", "gaussian_mixture", "gdp", "laplace",
    "last_iterate", "objective_perturbation", "pure_dp", "randomized_response", "renyi_dp", "replaced", "sampled",
    "sampled_replaced", "selected", "selected_poisson", "shift_walk", "subset", "truncated", "with_replacement",
    "worst", "zcdp", "zcdp_offset",
)  # fmt: skip
"""The kinds of mechanisms that format 2 has a price for. ``not_private`` has none."""


def losses() -> dict[str, ts.PrivacyLoss]:
    """One privacy loss or more for every kind of mechanism that the accountant knows, under both adjacencies."""
    return {**_noise(), **_stated(), **_sampled(), **_iterated(), **_composed()}


def _noise() -> dict[str, ts.PrivacyLoss]:
    return {
        "gaussian": ts.gaussian(sigma=5),
        "gaussian replace": ts.gaussian(sigma=5, **REPLACE),
        "gaussian_mixture": ts.gaussian_mixture(sigma=8, sensitivities=[0, 1, 3], probabilities=[0.7, 0.2, 0.1]),
        "laplace": ts.laplace(scale=4),
        "discrete_gaussian": ts.discrete_gaussian(sigma=9, sensitivity=2),
        "discrete_laplace": ts.discrete_laplace(scale=9, sensitivity=2),
        "exponential": ts.exponential(epsilon=0.5),
        "randomized_response": ts.randomized_response(flip_prob=0.4, choices=4),
        "randomized_response add_remove": ts.randomized_response(epsilon=0.5, adjacency="add_remove"),
        "sparse_vector": ts.sparse_vector(threshold_scale=9, answer_scale=21, hits=2),
        "correlated": ts.correlated(sigma=9, steps=20, coefficients=[1, 0.5, -0.25], uses=3, separation=2),
        "correlated tree": ts.correlated(sigma=20, steps=20, uses=3, separation=5, **REPLACE),
        "objective_perturbation": ts.objective_perturbation(sigma=4.3, ridge=1),
    }


def _stated() -> dict[str, ts.PrivacyLoss]:
    curve = [(0, 1), (0.25, 0.5), (0.5, 0.25), (1, 0)]
    return {
        "pure_dp": ts.pure_dp(epsilon=0.1),
        "approx_dp": ts.approx_dp(epsilon=0.3, delta=1e-8),
        "gdp": ts.gdp(mu=0.3),
        "zcdp": ts.zcdp(rho=0.05),
        "zcdp delta": ts.zcdp(rho=0.05, delta=1e-8),
        "zcdp offset": ts.zcdp(rho=0.05, delta=1e-8, offset=0.25),
        "renyi_dp": ts.renyi_dp({2: 0.1, 8: 0.4, 16: 0.9}),
        "discrete_pair": ts.discrete_pair([0.125] * 8, [0.0625, 0.1875] * 4),
        "discrete_pair replace": ts.discrete_pair([0.5, 0.25, 0.25], [0.375, 0.375, 0.25], **REPLACE),
        "from_tradeoff": ts.from_tradeoff(curve),
        "from_tradeoff function": ts.from_tradeoff(lambda alpha: (1 - math.sqrt(alpha)) ** 2),
        "from_profile": ts.from_profile([(0.5, 1e-9), (1.0, 1e-10)]),
        "not_private": ts.not_private(why="the list of wards, which is public"),
    }


def _sampled() -> dict[str, ts.PrivacyLoss]:
    cut: dict[str, Any] = {"rate": 0.01, "largest": 30, "population": 1000}
    return {
        "sampled": 100 * ts.gaussian(sigma=2).sampled(rate=0.01),
        "truncated": ts.gaussian(sigma=2).sampled(**cut, cut="anyhow"),
        "cut ranked": ts.gaussian(sigma=2).sampled(**cut, cut="ranked"),
        "cut random": ts.laplace(scale=4).sampled(rate=0.5, largest=3, population=3, cut="random"),
        "allocated": ts.gaussian(sigma=2).allocated(steps=10),
        "subset": ts.gaussian(sigma=2, **REPLACE).subset(batch=3, population=10),
        "with_replacement": ts.gaussian(sigma=4, **REPLACE).subset(batch=3, population=10, replacement=True),
        "sampled_replaced": ts.gaussian(sigma=4).sampled(rate=0.1).as_replace(),
        "propose_test_release": ts.propose_test_release(ts.gaussian(sigma=4), scale=20, delta=1e-9),
        "selected": ts.selected(ts.gdp(mu=0.2), eta=1, gamma=0.1),
        "selected poisson": ts.selected(ts.pure_dp(epsilon=0.2), poisson=3),
    }


def _iterated() -> dict[str, ts.PrivacyLoss]:
    walk: dict[str, Any] = {"steps": 50, "contraction": 0.9, "sigma": 8, "diameter": 3}
    run: dict[str, Any] = {"steps": 20, "contraction": 0.5, "sigma": 8}
    return {
        "shift_walk": ts.shift_walk(tail=3, **walk),
        "last_iterate": ts.last_iterate(**walk),
        "last_iterate cyclic": ts.last_iterate(**run, batches=ts.cyclic(batches=10, position=3), **REPLACE),
        "last_iterate shuffled": ts.last_iterate(**run, batches=ts.shuffled(batches=10)),
        "last_iterate poisson": ts.last_iterate(**run, batches=ts.poisson(rate=0.1)),
        "last_iterate subset": ts.last_iterate(**run, batches=ts.subset(batch=1, population=10), **REPLACE),
    }


def _composed() -> dict[str, ts.PrivacyLoss]:
    mixed = 3 * ts.gaussian(sigma=9) + ts.laplace(scale=9)
    return {
        "no_loss": ts.no_loss(),
        "composed": (ts.gaussian(sigma=6) + 2 * ts.laplace(scale=6)).sampled(rate=0.1),
        "replaced": ts.randomized_response(epsilon=0.3, adjacency="add_remove").as_replace(),
        "worst": ts.worst(ts.pure_dp(epsilon=0.2), mixed),
        "sum": mixed,
        "group": mixed.for_groups(3),
        "unit": 2 * ts.gaussian(sigma=9, unit="person"),
    }


def mechanisms() -> dict[str, tuple[Any, Any]]:
    """Mechanisms with the value that each one was released with; the adjacency is that of the mechanism."""
    ages = np.linspace(20, 90, 71)
    counts = {"north": 400, "south": 300, "east": 2}
    return {
        "add_gaussian": (ts.noise.add_gaussian(sigma=8, sensitivity=1), 100.0),
        "add_gaussian vector": (ts.noise.add_gaussian(sigma=8, sensitivity=1, dimension=3), [1.0, 2.0, 3.0]),
        "add_discrete_gaussian": (ts.noise.add_discrete_gaussian(rho=0.01), 100),
        "add_laplace": (ts.noise.add_laplace(epsilon=0.2, sensitivity=1), 100.0),
        "add_discrete_laplace": (ts.noise.add_discrete_laplace(epsilon=0.2), 100),
        "add_knorm": (ts.noise.add_knorm(epsilon=0.2, norm="linf", sensitivity=1.0), [1.0, 2.0, 3.0]),
        "exponential": (ts.select.exponential(epsilon=0.2), [1, 2, 9]),
        "noisy_max": (ts.select.noisy_max(epsilon=0.2, noise="gumbel"), [1, 2, 9]),
        "permute_and_flip": (ts.select.permute_and_flip(epsilon=0.2), [1, 2, 9]),
        "top_k": (ts.select.top_k(k=2, epsilon=0.2), [1, 2, 9]),
        "median": (ts.select.median(epsilon=0.2, bounds=(0, 110)), ages),
        "quantiles": (ts.select.quantiles(alphas=[0.25, 0.75], epsilon=0.2, bounds=(0, 110)), ages),
        "stable": (ts.keys.stable(epsilon=0.2, delta=1e-8), counts),
        "stable_counts": (ts.keys.stable_counts(epsilon=0.2, delta=1e-8), counts),
        "winsorized_mean": (ts.aggregate.winsorized_mean(bounds=(0, 110), epsilon=0.2), ages),
        "randomize": (ts.response.randomize(epsilon=0.2, choices=("yes", "no")), ["yes", "no", "no"]),
        "unary_encoding": (ts.response.unary_encoding(epsilon=0.2, choices=4), [2, 0]),
        "local laplace": (ts.response.laplace(epsilon=0.2, bounds=(0, 1)), [0.2, 0.4]),
        "sampled median": (ts.sampled(ts.select.median(epsilon=0.2, bounds=(0, 110)), rate=0.5), ages),
    }


def answers() -> dict[str, Any]:
    """One answer of every type that the ledger stores."""
    return {
        "none": None,
        "bool": True,
        "int": 2**70,
        "float": 0.1,
        "nan": math.nan,
        "infinity": -math.inf,
        "text": "naïve ☃ \n",
        "list": [1, [2.5, None], "three"],
        "tuple": (1, "two"),
        "dict": {"a": {"b": [True]}, "": 1},
        "float64": np.array([[1.5, math.nan], [math.inf, -0.0]]),
        "float32": np.array([0.1], dtype=np.float32),
        "int8": np.array([-128, 127], dtype=np.int8),
        "uint64": np.array([2**64 - 1], dtype=np.uint64),
        "booleans": np.array([True, False]),
        "texts": np.array(["a", "é"]),
        "dates": np.array(["2026-02-28", "NaT"], dtype="datetime64[D]"),
        "empty": np.zeros((0, 3)),
        "scalar": np.float32(2.5),
        "whole scalar": np.int64(3),
    }


def rows() -> tuple[Any, Any, Any]:
    """Made-up rows, targets and classes for the estimators."""
    random = np.random.default_rng(2026)
    features = random.uniform(-1, 1, (300, 2))
    targets = np.clip(0.5 * features[:, 0] - 0.25 * features[:, 1], -1, 1)
    return features, targets, (targets > 0).astype(int)


def models() -> dict[str, tuple[Callable[[], Any], str, str]]:
    """Estimators, the targets that each one is fitted to, and the attribute that holds the fitted numbers."""
    both: dict[str, Any] = {"epsilon": 1, "delta": DELTA}
    line: dict[str, Any] = {"row_norm": 2, "target_bounds": (-1, 1)}
    classes: dict[str, Any] = {"row_norm": 2, "classes": [0, 1]}
    box: dict[str, Any] = {"feature_bound": 1.0, "target_bound": 1.0, "coefficient_bound": 1.0}
    settings = [{"coefficient_bound": bound} for bound in (0.5, 1.0)]
    return {
        "linear": (lambda: ts.learn.LinearRegression(**both, **line), "targets", "coef_"),
        "linear gram": (lambda: ts.learn.LinearRegression(**both, **line, method="gram"), "targets", "coef_"),
        "linear pure": (lambda: ts.learn.LinearRegression(epsilon=1, **line), "targets", "coef_"),
        "logistic": (lambda: ts.learn.LogisticRegression(**both, **classes, solver="noisy_gd"), "labels", "coef_"),
        "logistic objective": (
            lambda: ts.learn.LogisticRegression(**both, **classes, solver="objective"), "labels", "coef_",
        ),
        "quantile": (lambda: ts.learn.QuantileRegression(**both, row_norm=1.0, target_bound=1.0), "targets", "coef_"),
        "erm": (lambda: ts.learn.ExponentialERM(epsilon=1, **box), "targets", "coef_"),
        "kng": (lambda: ts.learn.KNormGradient(epsilon=1, **box), "targets", "coef_"),
        "select_model": (
            lambda: ts.learn.select_model(models=[[0], [1], [0, 1]], epsilon=1, **box), "targets", "chosen_",
        ),
        "tune": (
            lambda: ts.learn.tune(
                ts.learn.KNormGradient(epsilon=0.5, **box), candidates=settings, runs=ts.learn.geometric(mean=2),
                score_epsilon=0.5,
            ),
            "targets",
            "best_score_",
        ),
    }  # fmt: skip


RUNS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "blocks": ("zcdp", 7, {"steps": 20, "block": 5}),
    "whole": ("zcdp", 3, {"steps": 6, "block": 2, "whole": True}),
    "turns": ("zcdp", 4, {"steps": 12, "block": 3, "turn": 3}),
    "delta": ("approx", 4, {"steps": 9, "block": 3, "delta": DELTA}),
    "delta whole": ("approx", 4, {"steps": 9, "block": 3, "delta": DELTA, "whole": True}),
}
"""Training runs that were begun: who pays, how many steps were taken, and the options of the run."""

STEP = ts.gaussian(sigma=20)

STATEMENTS: dict[str, dict[str, Any]] = {
    "groups": {"text": "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region ORDER BY n DESC"},
    "units": {"text": "SELECT sex, COUNT(DISTINCT patient_id) AS people FROM visits GROUP BY sex"},
    "condition": {"text": "SELECT SUM(cost) AS cost, COUNT(*) AS n FROM visits WHERE age >= 65 AND ill = 'yes'"},
    "spread": {"text": "SELECT MEDIAN(age) AS middle, STDDEV(cost) AS spread FROM visits", "rho": 0.1},
    "options": {
        "text": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(rho=0.05, max_groups_contributed=1) "
        "region, AVG(cost CLAMPED BETWEEN 0 AND 2000) AS cost FROM visits GROUP BY region"
    },
    "having": {"text": "SELECT region, COUNT(*) * 2 AS twice FROM visits GROUP BY region HAVING COUNT(*) > 1"},
    "per person": {
        "text": "SELECT often, COUNT(*) AS n FROM (SELECT patient_id, COUNT(*) AS often FROM visits "
        "GROUP BY patient_id) AS each GROUP BY often",
        "rho": 0.1,
    },
    "joined": {
        "text": "SELECT r.country, COUNT(*) AS n FROM visits v JOIN regions r ON v.region = r.region "
        "GROUP BY r.country",
        "public": {"regions": "countries.csv"},
        "rho": 0.1,
    },
    "keyed": {"text": "SELECT COUNT(*) AS n FROM visits", "key": "sql again"},
    "two tables": {
        "text": "SELECT p.sex, SUM(c.cost) AS cost FROM people p JOIN costs c ON c.patient_id = p.patient_id "
        "GROUP BY p.sex",
        "rho": 0.02,
    },
    "database": {"text": "SELECT region, SUM(cost) AS cost FROM costs GROUP BY region", "rho": 0.05},
    "server": {"text": "SELECT region, COUNT(*) AS n FROM admissions GROUP BY region", "rho": 0.05},
}  # fmt: skip
"""Statements in SQL and the options that they were asked with."""


TYPES = {"age": "integer", "days": "integer", "cost": "number", "visited": "date"}
LOOSE: dict[str, tuple[Any, str | None]] = {
    "csv": (str(ROOT / "loose.csv"), None),
    "parquet": (str(ROOT / "loose.parquet"), None),
    "duckdb": (str(ROOT / "loose.duckdb"), "costs"),
    "postgres": (SERVER, "loose"),
    "files": ({"visits": str(ROOT / "loose.csv"), "costs": str(ROOT / "loose.duckdb")}, "costs"),
}
"""Sources that were asked without a registration, and the table in each. The ledger knows them by their places."""


def memory() -> Any:
    """A made-up table in memory. The ledger knows it by who pays for it."""
    import pyarrow

    columns = {"patient_id": ["a", "b", "c"], "sex": ["f", "m", "f"], "age": [30, 40, 50]}
    return pyarrow.table(columns)


def loose_plan(name: str, account: Any) -> Any:
    """The plan of a source without a registration."""
    source, table = LOOSE[name] if name in LOOSE else (memory(), None)
    types = TYPES if name == "csv" else {}
    private = ts.Private(source, account=account).table(table, unit="patient_id", types=types)
    capped = private.per_unit(max_groups=1, max_rows_per_group=2).bounds(age=(0, 110))
    return capped.group_by("sex", keys=[("f",), ("m",)]).agg(n=ts.count(), age=ts.mean("age")).plan(rho=0.1)
