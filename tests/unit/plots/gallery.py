"""One picture of every plot function, for tests that hold for all pictures."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.figure import Figure

import tallystick as ts
from tallystick import plots, theorems
from tallystick.audit.band import banded
from tallystick.mechanisms.select.noisy_law import pumpkin_prices
from tallystick.plots import mechanisms
from tallystick.theorems.piecewise import PiecewiseTradeoff

CLAIM = ts.gdp(mu=1)
LOPSIDED = PiecewiseTradeoff.of_pair([0.9, 0.1], [0.5, 0.5])
TABLE = {"ward": ["a", "b"], "n": [10, 20], "n_lower": [8, 18], "n_upper": [12, 22]}


def bell(centre: float, width: float = 1.0) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.exp(-(((x - centre) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))


def burndown() -> Figure:
    with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        clinic = ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="patient")
        with clinic.charge(ts.zcdp(rho=0.1), why="table"):
            pass
        try:
            with clinic.charge(ts.zcdp(rho=0.2), why="fails"):
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
        return plots.burndown(clinic)


def spending() -> Figure:
    with tempfile.TemporaryDirectory() as folder, ts.Ledger(f"{folder}/ledger.db") as ledger:
        clinic = ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="patient")
        clinic.pay(ts.zcdp(rho=0.1), why="annual report")
        return plots.spending(clinic)


def errors() -> Figure:
    rows = ts.Private(pa.table({"who": [1], "age": [40.0]})).table(unit="who")
    visits = rows.per_unit(max_rows_per_group=1)
    return plots.errors(visits.agg(n=ts.count(), age=ts.mean("age", 0, 100)).plan(rho=0.1))


def hits() -> Figure:
    members = [True, True, False, False]
    rates = [ts.audit.hit_rate([3, 2, 1, 0], members, alarm=a, claim=CLAIM) for a in (0.0, 0.5)]
    return plots.hits(rates, claim=CLAIM)


def guesses() -> Figure:
    seen = ts.audit.differencing(sum, others=[1, 0], repeats=20)
    return plots.guesses({0.5: seen, 1.0: seen})


def steps() -> Figure:
    curves = [
        plots.Curve("basic", (1, 10, 100), (1.0, 10.0, 100.0)),
        plots.Curve("tight", (1, 10, 100), (1.0, 4.0, 15.0)),
        plots.Curve("copy", (1, 10, 100), (1.0, 4.0, 15.0)),
        plots.Curve("limit theorem", (1, 10, 100), (0.9, 3.9, 14.9), is_bound=False),
    ]
    return plots.steps(curves, delta=1e-5)


@functools.cache
def planned(queries: int) -> Any:
    return ts.adaptive.plan(queries=queries, tau=0.1, beta=0.05)


def samples() -> Figure:
    return plots.samples([planned(queries) for queries in (10, 100)])


def variances() -> Figure:
    counts = [1, 10, 100]
    kinds = {
        "basic": [theorems.laplace_variance_basic(epsilon=1, queries=k) for k in counts],
        "Gaussian": [theorems.gaussian_variance_tight(epsilon=1, delta=1e-6, queries=k) for k in counts],
    }
    return plots.noise_for_queries(kinds, queries=counts)


def staircase() -> Figure:
    return plots.staircase([1, 2, 2, 7], points=[0, 2, 5], chances=[0.1, 0.7, 0.2])


PICTURES: dict[str, Callable[[], Figure]] = {
    "tradeoff": lambda: plots.tradeoff(CLAIM),
    "tradeoffs": lambda: plots.tradeoffs({"f": LOPSIDED, "its inverse": LOPSIDED.inverse(), "again": LOPSIDED}),
    "symmetry": lambda: plots.symmetry(LOPSIDED),
    "sampling": lambda: plots.sampling(PiecewiseTradeoff.of_approx_dp(epsilon=2.0), rate=0.3),
    "limit_band": lambda: plots.limit_band(epsilon=0.1, steps=400),
    "profile": lambda: plots.profile(CLAIM),
    "steps": steps,
    "positions": lambda: plots.positions([0.1, 0.2, 0.9], every=1.0, delta=1e-6),
    "samples": samples,
    "noise": lambda: plots.noise(lambda x: np.exp(-np.abs(x)) / 2, half_width=3.0, unit="people"),
    "errors": errors,
    "rehearsed": lambda: plots.rehearsed([("1 x 1", 2.0, 9.0, 0.5, 11.0), ("1 x 4", 8.0, 1.0, 0.5, 9.0)], column="n"),
    "released": lambda: plots.released(TABLE),
    "burndown": burndown,
    "spending": spending,
    "recovery": lambda: plots.recovery(
        {64: [1.0, 0.9, 0.6], 128: [1.0, 0.85, 0.55]}, noises=[0.1, 0.5, 2.0]
    ),
    "guesses": guesses,
    "linked": lambda: plots.linked({"rows": {1: 0.2, 2: 0.9}, "noisy rows": {1: 0.0, 2: 0.1}}),
    "hits": hits,
    "pair": lambda: plots.pair(bell(1), bell(0), epsilon=0.5, between=(-4, 5)),
    "supporting_lines": lambda: plots.supporting_lines([(0.0, 0.3), (1.0, 0.05), (2.0, 0.0)]),
    "tangent": lambda: plots.tangent(lambda a: np.asarray(CLAIM.tradeoff(alpha=a)), epsilon=1.0),
    "noise_for_queries": variances,
    "tilted": lambda: plots.tilted(np.square, tilts=[-1.0, 1.0], between=(-2, 2)),
    "staircase": staircase,
    "densities": lambda: plots.densities({"n = 5": bell(0, 2), "limit": bell(0)}, between=(-5, 5)),
    "revenue": lambda: plots.revenue(pumpkin_prices([1.0, 1.0, 1.0, 4.01] * 25, epsilon=1.0)),
    "tradeoff_band": lambda: plots.tradeoff_band(banded(CLAIM, "x", 10_000, [100, 1000], [2000, 500], 0.05)),
    "release": lambda: mechanisms.release(100.0, scale=2.0, half_width=6.0, published=97.0, unit="people"),
    "error_in_dimension": lambda: mechanisms.error_in_dimension(epsilon=1.0, delta=1e-6, dimensions=(1, 10, 100)),
    "error_in_people": lambda: mechanisms.error_in_people(epsilon=1.0, people=(100, 10_000, 1_000_000)),
    "rates_in_people": lambda: mechanisms.rates_in_people(epsilon=1.0, people=(100, 10_000, 1_000_000)),
}  # fmt: skip
