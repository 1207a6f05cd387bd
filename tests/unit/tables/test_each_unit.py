"""One row for each unit: what it says is read off the rules, and no other unit has a part in it."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, Refused
from tallystick.tables import run
from tallystick.tables.each_unit import GROUPS, MOST_ROWS
from tallystick.tables.plan import Plan
from tallystick.tables.table import Table
from unit.tables.tables import awkward, md5_of
from unit.tables.test_rules import agrees

BY, VALUES = ("ward", "day"), ("cost", "days")


def asked(visits: Table) -> Plan:
    return (
        visits.filter(ts.col("days") > -4)
        .each_unit(by=BY, values=VALUES)
        .per_unit(max_groups=1, max_rows_per_group=1)
        .agg(
            units=ts.count_units(),
            rows=ts.histogram(MOST_ROWS, [0.5, 1.5, 2.5, 4.5, 1e15]),
            groups=ts.histogram(GROUPS, [0.5, 3.5, 8.5, 1e15]),
            cost=ts.quantile("cost", 0.9, 0, 3000),
            days=ts.sum("days", 0, 60),
        )
        .plan(rho=1, caps_share=0)
    )


def one_row_each(plan: Plan, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rule, row by row in plain Python."""
    own: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["pid"] is not None and row["days"] is not None and row["days"] > -4:
            own[row["pid"]].append(row)
    made = []
    for unit, mine in own.items():
        groups = [tuple(row[c] for c in BY) for row in mine]
        sizes = Counter(group for group in groups if None not in group)
        line = {"pid": unit, GROUPS: len(sizes), MOST_ROWS: max(sizes.values(), default=None)}
        for column in VALUES:
            values = sorted(
                max(-1e300, min(1e300, row[column]))
                for row in mine
                if row[column] is not None and not math.isnan(row[column])
            )
            at = int(md5_of("each_unit", unit)[:8], 16)
            line[column] = values[at % len(values)] if values else None
        made.append(line)
    return made


def test_the_rows_are_those_of_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    table = awkward()
    plan = asked(ts.Private(table).table(unit="pid"))
    wanted = one_row_each(plan, table.to_pylist())
    assert {line[GROUPS] for line in wanted} > {4, 9}
    agrees(plan, run.integers(plan), wanted)
    monkeypatch.setattr("tallystick.tables.run.ROWS_PER_SHARE", 400)
    agrees(plan, run.integers(plan), wanted)


def test_the_rows_are_those_of_the_rule_on_postgresql(postgres: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    table = awkward(300)
    columns = "pid bigint, ward text, day date, ok boolean, cost double precision, days int"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS each_unit")
        connection.execute(f"CREATE TABLE each_unit ({columns})")
        with connection.cursor() as cursor, cursor.copy("COPY each_unit FROM STDIN") as copy:
            for row in table.to_pylist():
                copy.write_row(list(row.values()))
    plan = asked(ts.Private(postgres).table("each_unit", unit="pid"))
    agrees(plan, run.integers(plan), one_row_each(plan, table.to_pylist()))


def test_neither_the_order_of_rows_nor_another_unit_changes_a_units_row() -> None:
    table = awkward(600, seed=3)
    plan = asked(ts.Private(table).table(unit="pid"))
    whole = run.integers(plan)
    order = np.random.default_rng(1).permutation(len(table))
    for part, numbers in run.integers(plan.on(table.take(pa.array(order)))).numbers.items():
        assert np.array_equal(numbers, whole.numbers[part])
    caps, adjacency = plan.query.caps, plan.query.table.adjacency
    for unit in (0, 7, 41):
        left = run.integers(plan.on(table.filter(pa.array([u != unit for u in table.column("pid").to_pylist()]))))
        for part, numbers in left.numbers.items():
            moved = (whole.numbers[part] - numbers).astype(float)
            assert 0 < np.abs(moved).sum() <= part.l1(caps, adjacency)
            assert (moved**2).sum() <= part.l2_squared(caps, adjacency)


def test_every_row_of_a_unit_is_chosen_as_often_as_any_other() -> None:
    """5,000 units with the values 0, 0, 1, 2: the choice goes by rows, not by different values."""
    units = 5_000
    table = pa.table({"who": np.repeat(np.arange(units), 4), "v": np.tile([0, 0, 1, 2], units)})
    plan = (
        ts.Private(table)
        .table(unit="who")
        .each_unit(values=["v"])
        .per_unit(max_groups=1, max_rows_per_group=1)
        .agg(v=ts.histogram("v", [-0.5, 0.5, 1.5, 2.5]))
        .plan(rho=1, caps_share=0)
    )
    (counts,) = run.integers(plan).numbers.values()
    shares = counts[0] / (2**16 * units)
    assert np.abs(shares - [0.5, 0.25, 0.25]).max() < 4 * math.sqrt(0.25 / units)


def test_a_plan_with_the_step_reads_back_and_a_file_can_lie_about_nothing() -> None:
    plan = asked(ts.Private(awkward(90)).table(unit="pid"))
    again = Plan.from_json(plan.to_json(), source=awkward(90))
    assert (again.hash, again.query.table.steps) == (plan.hash, plan.query.table.steps)
    said = json.loads(plan.to_json())
    said["query"]["table"]["steps"][1]["by"] = ["pid"]
    with pytest.raises(Refused):
        Plan.from_json(json.dumps(said))


def test_what_cannot_be_counted_or_chosen_is_refused() -> None:
    visits = ts.Private(awkward(90)).table(unit="pid")
    with pytest.raises(InvalidInput, match="by"):
        visits.each_unit(by=["cost"])
    with pytest.raises(InvalidInput, match="numeric"):
        visits.each_unit(values=["ward"])
    with pytest.raises(Refused, match="each named once"):
        visits.each_unit(by=["ward", "ward"])
    with pytest.raises(Refused, match="a unit has one row"):
        ts.Private(awkward(90)).table(unit=ts.each_row).each_unit()
    odd = ts.Private(pa.table({"who": [1], "Groups": [1.0]})).table(unit="who")
    with pytest.raises(InvalidInput, match="differ"):
        odd.each_unit(values=["Groups"])
