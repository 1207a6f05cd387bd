"""Releases on neighbouring tables, intervals over many releases, and the law of private keys.

Noise is drawn from a seeded source after the engine has run once, so thousands of releases take seconds.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import gammaincc
from sqlglot import exp

import tallystick as ts
from statistical.goodness import NEVER, at_least, at_most, refuted
from tallystick.mechanisms.exact.randomness import SeededSource
from tallystick.tables import run
from tallystick.tables.budget import UNITS
from tallystick.tables.dialects import DuckWords
from tallystick.tables.parts import Caps
from tallystick.tables.plan import Plan
from tallystick.tables.release import Release
from tallystick.tables.run import Exact

RUNS = 40_000


def heavy(with_unit: bool) -> pa.Table:
    """Forty light units, and one with ten rows in each of six groups, all values at the top."""
    units = [*range(40), *([99] * 60 if with_unit else [])]
    groups = [i % 6 for i in range(40)] + ([i % 6 for i in range(60)] if with_unit else [])
    values = [1.0] * 40 + ([10.0] * 60 if with_unit else [])
    return pa.table({"u": units, "g": groups, "v": values})


def plan_of(table: pa.Table, **budget: float) -> Plan:
    visits = ts.Private(table).table(unit="u").per_unit(max_groups=2, max_rows_per_group=3)
    asked = visits.group_by("g", keys=list(range(6)))
    return asked.agg(n=ts.count(), people=ts.count_units(), v=ts.sum("v", 0, 16)).plan(**budget)


def scores(plan: Plan, exact: Exact, whole: Exact, less: Exact, seed: int) -> np.ndarray[Any, Any]:
    """The most telling number of each release: the log-likelihood ratio of the two tables, up to a constant."""
    source = SeededSource(seed)
    total = np.zeros(RUNS)
    for noise in plan.noises:
        held = ((each.numbers | each.removed)[noise.part].ravel().tolist() for each in (exact, whole, less))
        for value, with_unit, without in zip(*held, strict=True):
            if with_unit == without:
                continue
            seen = noise.law.draw(RUNS, source) + value
            if noise.law.name == "gaussian":
                total += seen * ((with_unit - without) / noise.law.scale**2)
            else:
                total += (np.abs(seen - without) - np.abs(seen - with_unit)) / noise.law.scale
    return total


def samples(plan: Plan) -> tuple[Any, Any]:
    whole, less = run.integers(plan.on(heavy(True))), run.integers(plan.on(heavy(False)))
    assert any((whole.numbers[part] != less.numbers[part]).any() for part in whole.numbers)
    return scores(plan, whole, whole, less, 1), scores(plan, less, whole, less, 2)


def claim_of(plan: Plan) -> dict[float, float]:
    return {epsilon: plan.privacy.delta(epsilon=epsilon) for epsilon in (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)}


@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"epsilon": 1.5}, {"epsilon": 1.5, "delta": 1e-3}])
def test_neighbouring_tables_cannot_be_told_apart_better_than_the_plan_says(budget: dict[str, float]) -> None:
    plan = plan_of(heavy(True), **budget)
    left, right = samples(plan)
    assert not refuted(left, right, claim_of(plan))


@pytest.mark.parametrize("budget", [{"rho": 0.5}, {"epsilon": 1.5}])
def test_the_same_test_finds_a_twin_whose_caps_are_switched_off(budget: dict[str, float]) -> None:
    plan = plan_of(heavy(True), **budget)
    loose = replace(plan, query=replace(plan.query, caps=Caps(10_000, 1024)))
    left, right = samples(loose)
    assert refuted(left, right, claim_of(plan))


def released(plan: Plan, exact: Exact, runs: int, seed: int) -> list[Release]:
    source = SeededSource(seed)
    return [Release(plan, run.noisy(plan, exact, source)) for _ in range(runs)]


@pytest.mark.parametrize("budget", [{"rho": 0.3}, {"epsilon": 2.0}])
def test_intervals_cover_at_their_nominal_rate(budget: dict[str, float]) -> None:
    rng = np.random.default_rng(5)
    size = 3000
    table = pa.table({"u": np.arange(size), "age": rng.integers(20, 80, size), "cost": rng.gamma(2, 400, size)})
    visits = ts.Private(table).table(unit="u").per_unit(max_rows_per_group=1)
    plan = visits.agg(
        n=ts.count(),
        people=ts.count_units(),
        total=ts.sum("cost", 0, 4096),
        shifted=ts.sum("age", 10, 90),
        mean=ts.mean("cost", 0, 4096),
        spread=ts.variance("age", 0, 100),
        middle=ts.median("age", 0, 100),
        top=ts.quantile("age", 0.9, 0, 100),
        bars=ts.histogram("age", [0, 50, 100]),
    ).plan(**budget)
    age, cost = table.column("age").to_numpy(), np.clip(table.column("cost").to_numpy(), 0, 4096)
    truth = {
        "n": size,
        "people": size,
        "total": cost.sum(),
        "shifted": age.sum(),
        "mean": cost.mean(),
        "spread": age.var(),
        "middle": np.sort(age)[math.ceil(0.5 * size) - 1],
        "top": np.sort(age)[math.ceil(0.9 * size) - 1],
        "bars[0,50)": (age < 50).sum(),
        "bars[50,100]": (age >= 50).sum(),
    }
    runs = 1000
    exact = run.integers(plan)
    hits = dict.fromkeys(truth, 0)
    for release in released(plan, exact, runs, seed=11):
        for name, found in release.estimates().items():
            slack = 1e-4 * abs(truth[name])  # flooring to the step: at most 2^-24 of the range per row
            hits[name] += bool(found.lower[0] - slack <= truth[name] <= found.upper[0] + slack)
    for name, number in hits.items():
        assert at_most(number, runs) >= 0.95, (name, number)
    for name in ("n", "total", "shifted", "mean"):  # one or two noises: not much wider than it must be
        assert at_least(number := hits[name], runs) <= 0.98, (name, number)


def test_predicted_errors_are_those_of_the_noise() -> None:
    plan = plan_of(heavy(True), rho=0.5)
    exact = run.integers(plan)
    runs = released(plan, exact, 2000, seed=4)
    for name, half in plan.error(confidence=0.9).items():
        part = dict(plan.query.measures)[name].parts()[0]
        true = exact.numbers[part][0, 0] * part.scale
        inside = sum(abs(release.estimates()[name].value[0] - true) <= half for release in runs)
        assert at_least(inside, 2000) <= 0.9 + 0.05
        assert at_most(inside, 2000) >= 0.9


def exact_tail(law: Any, least: int) -> float:
    """P(noise >= least) summed from the mass function, far beyond where it matters."""
    points = np.arange(least, least + 60 * math.ceil(math.sqrt(law.variance)) + 60, dtype=np.int64)
    return float(math.fsum(law.mass(points).tolist()))


@pytest.mark.parametrize("budget", [{"rho": 0.05}, {"rho": 4.0}, {"epsilon": 1.0}])
@pytest.mark.parametrize("groups", [1, 7])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_a_group_of_one_unit_is_shown_no_more_often_than_delta_allows(
    budget: dict[str, float], groups: int, delta: float
) -> None:
    visits = ts.Private(heavy(True)).table(unit="u").per_unit(max_groups=groups, max_rows_per_group=1)
    plan = visits.group_by("g", keys=ts.private_keys(delta=delta)).agg(n=ts.count()).plan(**budget)
    assert plan.threshold is not None
    law = next(noise.law for noise in plan.noises if noise.part == UNITS)
    shown = exact_tail(law, plan.threshold - 1)
    assert 1 - (1 - shown) ** groups <= delta
    # and the threshold is not higher than it must be
    assert 1 - (1 - exact_tail(law, plan.threshold - 2)) ** groups > delta


def test_lone_groups_appear_as_rarely_as_computed_and_only_above_the_threshold() -> None:
    table = pa.table({"u": [1, 2], "g": ["mine", "yours"]})
    visits = ts.Private(table).table(unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    plan = visits.group_by("g", keys=ts.private_keys(delta=0.05)).agg(n=ts.count()).plan(rho=0.5)
    exact = run.integers(plan)
    runs = 4000
    seen = sum(len(release) for release in released(plan, exact, runs, seed=9))
    assert at_least(seen, 2 * runs) <= plan.lone_probability
    assert at_most(seen, 2 * runs) >= plan.lone_probability * 0.5
    assert NEVER < plan.lone_probability <= 0.05


def kept_evenly(units: list[Any], groups: list[Any], most: int) -> float:
    """Every unit is in every group and keeps ``most`` of them: p-value that each group is kept equally often.

    For subsets drawn evenly, counts have variance N q (1 - q) and correlation -1/(G - 1), so this is chi-square
    with G - 1 degrees of freedom.
    """
    table = pa.table({"u": np.repeat(units, len(groups)), "g": np.tile(groups, len(units))})
    visits = ts.Private(table).table(unit="u").per_unit(max_groups=most, max_rows_per_group=1)
    plan = visits.group_by("g", keys=list(groups)).agg(people=ts.count_units()).plan(rho=1)
    counts = run.integers(plan).numbers[UNITS][:, 0]
    assert counts.sum() == most * len(units)
    share = most / len(groups)
    spread = len(units) * share * (1 - share) * len(groups) / (len(groups) - 1)
    return float(gammaincc((len(groups) - 1) / 2, float(((counts - len(units) * share) ** 2).sum()) / spread / 2))


@pytest.mark.parametrize(
    ("units", "groups", "most"),
    [
        (list(range(20_000)), list(range(30)), 10),
        ([i << 40 for i in range(20_000)], list(range(11)), 10),
        ([f"patient-{i:07d}" for i in range(10_000)], [f"ward {i}" for i in range(40)], 1),
    ],
)
def test_which_groups_a_unit_keeps_favours_none(units: list[Any], groups: list[Any], most: int) -> None:
    assert kept_evenly(units, groups, most) > NEVER


def test_the_same_test_finds_an_order_that_favours_the_first_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(self: DuckWords, salt: str, pieces: Any) -> Any:
        number = pieces[0][0] if salt.endswith("group") else exp.Literal.number("0")
        return exp.Anonymous(this="PRINTF", expressions=[exp.Literal.string("%032x"), number])

    def last_eight(self: DuckWords, digest: Any, start: int) -> Any:
        tail = exp.Anonymous(this="RIGHT", expressions=[digest.copy(), exp.Literal.number("8")])
        return self.cast(exp.DPipe(this=exp.Literal.string("0x"), expression=tail), "integer")

    monkeypatch.setattr(DuckWords, "digest", plain)
    monkeypatch.setattr(DuckWords, "digits", last_eight)
    monkeypatch.setattr(run, "_programs", {})  # SQL is written once for a plan, and this one was asked above
    assert kept_evenly(list(range(2_000)), list(range(30)), 10) < NEVER
