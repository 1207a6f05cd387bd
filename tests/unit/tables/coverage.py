"""How often the intervals of a table hold what they say they are about: samples of a known population, as groups.

Every group of one table is a sample of its own: units are drawn anew, so one run of the engine and one draw of noise
give as many independent releases as there are groups. What caps removed is of the whole table, so its noise is drawn
again and again on one table. Names that start with "naive" are the usual mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import integrate, stats

import tallystick as ts
from tallystick.mechanisms.exact.randomness import SeededSource
from tallystick.tables import run
from tallystick.tables.plan import Plan
from tallystick.tables.release import Release, answer_of

UNITS, TOP = 150, 60.0
WORLDS: dict[str, tuple[int, int, dict[str, float]]] = {
    "rows alike": (6, 3, {"rho": 20}),
    "one row each": (1, 1, {"rho": 20}),
    "one row each, Laplace": (1, 1, {"epsilon": 40}),
    "one row each, little noise": (1, 1, {"rho": 2000}),
}
"""Rows per unit at most, the cap on them, and the budget."""
LAW = stats.gamma(2.0, scale=10.0)
"""Of a value. Its mean is 20, and 1.7 % of the values are beyond the bound."""


def samples(count: int, seed: int, most: int = 6) -> pa.Table:
    """Units with one to so many rows, alike in every other unit: rows of one unit are not independent draws."""
    random = np.random.default_rng(seed)
    rows = random.integers(1, most + 1, count * UNITS)
    unit = np.repeat(np.arange(count * UNITS), rows)
    own = LAW.rvs(count * UNITS, random_state=random)[unit]
    other = LAW.rvs(len(unit), random_state=random)
    return pa.table({"u": unit, "g": unit // UNITS, "x": np.where(unit % 2 == 0, own, other)})


def plan_of(table: pa.Table, count: int, most: int, budget: dict[str, float]) -> Plan:
    """All kinds of measures of every sample."""
    visits = ts.Private(table).table(unit="u").per_unit(max_groups=1, max_rows_per_group=most)
    return visits.group_by("g", keys=list(range(count))).agg(
        n=ts.count(),
        total=ts.sum("x", 0, TOP),
        mean=ts.mean("x", 0, TOP),
        spread=ts.variance("x", 0, TOP),
        deviation=ts.standard_deviation("x", 0, TOP),
        middle=ts.median("x", 0, TOP, bins=64),
        top=ts.quantile("x", 0.9, 0, TOP, bins=64),
        bars=ts.histogram("x", [0, 20, TOP]),
    ).plan(**budget)  # fmt: skip


def population() -> dict[str, float]:
    """What the clamped population has, from the law of a value; how many rows a unit has does not depend on it."""
    beyond = float(LAW.sf(TOP))
    first, second = (integrate.quad(lambda x, k=k: x**k * LAW.pdf(x), 0, TOP)[0] + beyond * TOP**k for k in (1, 2))
    variance = second - first**2
    return {
        "mean": first,
        "spread": variance,
        "deviation": variance**0.5,
        "middle": float(LAW.ppf(0.5)),
        "top": float(LAW.ppf(0.9)),
    }


def covered(world: str, count: int, seed: int) -> dict[str, float]:
    """By name of interval, the share that held what it is about."""
    rows, most, budget = WORLDS[world]
    table = samples(count, seed, rows)
    plan = plan_of(table, count, most, budget)
    exact = run.integers(plan)
    whole = {**exact.numbers, **exact.removed}
    own = Release(plan, answer_of(plan, None, [whole[noise.part] for noise in plan.noises])).estimates()
    made = Release(plan, run.noisy(plan, exact, SeededSource(seed)))
    found: dict[str, float] = {}
    for name, estimate in made.estimates().items():
        truth = own[name].value
        found[f"own value, {name}"] = float(np.mean((estimate.lower <= truth) & (truth <= estimate.upper)))
    for name, truth in population().items():
        answers = made.answers(name).values()
        found[f"population, {name}"] = _share(truth in one.population_interval() for one in answers)
        found[f"naive: own value taken for the population, {name}"] = _share(
            truth in one.noise_interval() for one in answers
        )
    if rows == 1:
        shares = made.answers("bars[0,20)", of=UNITS).values()
        found["population, share below 20"] = _share(LAW.cdf(20) in one.population_interval() for one in shares)
        return found
    uncapped = np.bincount(table["g"].to_numpy(), minlength=count)
    n = made.estimates()["n"]
    found["naive: capped taken for uncapped, n"] = float(np.mean((n.lower <= uncapped) & (uncapped <= n.upper)))
    return found


def removed(draws: int, seed: int) -> dict[str, float]:
    """The same for what caps and bounds removed, over the noise."""
    table = samples(30, seed)
    table = table.set_column(1, "g", pa.array(np.arange(len(table)) % 10))
    visits = ts.Private(table).table(unit="u").per_unit(max_groups=2, max_rows_per_group=1)
    plan = visits.group_by("g", keys=list(range(10))).agg(n=ts.count(), mean=ts.mean("x", 5, TOP)).plan(rho=0.5)
    exact, source = run.integers(plan), SeededSource(seed)
    own = Release(
        plan, answer_of(plan, None, [{**exact.numbers, **exact.removed}[n.part] for n in plan.noises])
    ).removed()
    held: dict[str, list[bool]] = {}
    for _ in range(draws):
        for line, true in zip(Release(plan, run.noisy(plan, exact, source)).removed(), own, strict=True):
            for name, kept in _holds(line, true).items():
                held.setdefault(f"{name}, {line.what}", []).append(kept)
    return {name: _share(iter(kept)) for name, kept in sorted(held.items())}


def _holds(line: Any, true: Any) -> dict[str, bool]:
    """Whether the intervals of one line hold what a release without noise says."""
    guessed = [end / max(1, line.total) for end in (line.lower, line.upper)]
    return {
        "removed": line.lower <= true.value <= line.upper,
        "removed, of how many": line.total_lower <= true.total <= line.total_upper,
        "removed, share": line.share_lower <= true.share <= line.share_upper,
        "naive: share of a total taken for exact": guessed[0] <= true.share <= guessed[1],
    }


def _share(held: Iterator[Any]) -> float:
    return float(np.mean(list(held)))
