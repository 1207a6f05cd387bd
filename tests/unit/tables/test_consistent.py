"""A column made to add up does, is the least-squares solution, and its intervals still hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy.optimize import minimize

import tallystick as ts
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.linear import nonnegative, whole
from tallystick.mechanisms.exact.randomness import SeededSource
from tallystick.tables import run
from tallystick.tables.plan import Plan
from tallystick.tables.release import Release

KEYS = [(a, b) for a in range(3) for b in range(8)]


def plan() -> Plan:
    """Most cells are empty or small."""
    random = np.random.default_rng(0)
    a, b = random.integers(0, 3, 900), np.minimum(random.geometric(0.5, 900) - 1, 7)
    table = ts.Private(pa.table({"u": np.arange(900), "a": a, "b": b, "x": random.random(900)})).table(unit="u")
    asked = table.per_unit(max_groups=1, max_rows_per_group=1).group_by("a", "b", keys=KEYS)
    counts = {"n": ts.count(), "people": ts.count_units(), "bars": ts.histogram("x", [0, 0.5, 1])}
    return asked.agg(**counts, x=ts.sum("x", 0, 1), m=ts.mean("x", 0, 1)).plan(rho=0.05)


def released(asked: Plan, draws: int) -> list[Release]:
    exact, source = run.integers(asked), SeededSource(4)
    return [Release(asked, run.noisy(asked, exact, source)) for _ in range(draws)]


def test_everything_adds_up_and_nothing_is_negative() -> None:
    made = released(plan(), 1)[0]
    for field in ("n", "people", "x", "bars[0,0.5)"):
        told = made.consistent(field)
        cells, total = told.data[field], told.margin()[field]
        assert sum(cells) == pytest.approx(total[0])
        assert min(cells) == 0
        by_a = dict(zip(told.margin("a")["a"], told.margin("a")[field], strict=True))
        for a in range(3):
            assert by_a[a] == pytest.approx(sum(cell for key, cell in zip(KEYS, cells, strict=True) if key[0] == a))
        if field != "x":
            assert all(isinstance(cell, int) for cell in cells)
        for row in told.rows:
            assert 0 <= row[f"{field}_lower"] <= row[field] <= row[f"{field}_upper"]
    assert "at least as often" in str(told)


def test_cells_are_the_least_squares_solution() -> None:
    values = np.random.default_rng(1).normal(1, 3, 8)
    found = minimize(
        lambda x: ((x - values) ** 2).sum(), np.full(8, values.sum() / 8), bounds=[(0, None)] * 8,
        constraints={"type": "eq", "fun": lambda x: x.sum() - values.sum()}, tol=1e-12,
    )  # fmt: skip
    assert nonnegative(values) == pytest.approx(found.x, abs=1e-4)
    assert nonnegative(np.array([-1.0, 0.5])).tolist() == [0.0, 0.0]
    assert whole(np.array([0.5, 0.5, 0.5, 0.5])).sum() == 2


def test_intervals_still_hold_and_clipping_would_move_the_total() -> None:
    asked = plan()
    exact = run.integers(asked)
    part = asked.noises[0].part
    truth = exact.numbers[part][:, 0]
    held, total, settled, clipped = [], [], [], []
    for made in released(asked, 200):
        told = made.consistent("n")
        held.append((np.array(told.data["n_lower"]) <= truth) & (truth <= np.array(told.data["n_upper"])))
        margin = told.margin()
        total.append(margin["n_lower"][0] <= 900 <= margin["n_upper"][0])
        settled.append(margin["n"][0] - 900)
        clipped.append(sum(max(0, cell) for cell in made.data["n"]) - 900)
    assert np.mean(held) > 0.94
    assert np.mean(total) > 0.9
    deviation = (asked.noises[0].law.variance * len(KEYS) / 200) ** 0.5
    assert abs(np.mean(settled)) < 4 * deviation
    assert np.mean(clipped) > 6 * deviation  # the twin: cells pulled up one by one


def test_what_does_not_add_up_is_refused() -> None:
    made = released(plan(), 1)[0]
    with pytest.raises(InvalidInput, match="adds up"):
        made.consistent("m")
    with pytest.raises(InvalidInput, match="margin"):
        made.consistent("n").margin("c")
    query = made.plan.query.table.group_by("a", keys=ts.private_keys(delta=1e-6)).agg(n=ts.count())
    with pytest.raises(Refused, match="public keys"):
        released(query.plan(rho=1), 1)[0].consistent("n")
    wide = made.plan.query.table.per_unit(max_groups=2, max_rows_per_group=1).group_by("a", keys=[0, 1, 2])
    with pytest.raises(InvalidInput, match="adds up"):
        released(wide.agg(people=ts.count_units()).plan(rho=1), 1)[0].consistent("people")
