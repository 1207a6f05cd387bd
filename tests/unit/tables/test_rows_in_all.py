"""A limit on a person's rows in all: its sensitivities against every case, its rule, and who is asked for it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Adjacency
from tallystick.cards import card
from tallystick.cards.check import check_card
from tallystick.errors import InvalidInput, Refused
from tallystick.tables import capping, parts, run, sorted_cells
from tallystick.tables.parts import Caps, Part, Rows, Tree, Units
from tallystick.tables.plan import Plan
from tallystick.tables.table import Query, Table
from unit.tables.tables import spread

SMALL = [(k, most, in_all) for k in (1, 2, 3, 4) for most in (1, 2, 3, 5) for in_all in range(1, 22)]
LIMITS = [(3, 2, 4), (3, 3, 5), (2, 4, 5), (3, 2, 2), (4, 1, 3)]
"""Groups, rows in each, rows in all."""


def vectors(groups: int, most: int, in_all: int) -> Iterator[tuple[int, ...]]:
    """Every way in which the rows of a unit can count."""
    return (own for own in itertools.product(range(most + 1), repeat=groups) if sum(own) <= in_all)


@pytest.mark.parametrize("order", [1, 2])
def test_the_closed_form_is_the_largest_of_all_vectors(order: int) -> None:
    for groups, most, in_all in SMALL:
        largest = max(sum(rows**order for rows in own) for own in vectors(groups, most, in_all))
        assert Caps(groups, most, in_all).most_added(order) == largest, (groups, most, in_all)


def test_without_a_limit_in_all_and_with_one_that_leaves_nothing_out_it_is_the_old_one() -> None:
    for groups, most, in_all in SMALL:
        if groups * most <= in_all:
            for order in (1, 2):
                both = (Caps(groups, most).most_added(order), Caps(groups, most, in_all).most_added(order))
                assert both == (groups * most**order,) * 2


@pytest.mark.parametrize("order", [1, 2])
def test_replacing_a_unit_moves_no_more_than_every_pair_of_vectors(order: int) -> None:
    """The two units may be in the same groups or in others: 2K groups are enough for all pairs."""
    for groups, most, in_all in [(1, 3, 2), (2, 2, 3), (2, 3, 4)]:
        wide = [own for own in vectors(2 * groups, most, in_all) if sum(map(bool, own)) <= groups]
        moved = max(
            sum(abs(a - b) ** order for a, b in zip(*pair, strict=True)) for pair in itertools.product(wide, wide)
        )
        caps = Caps(groups, most, in_all)
        assert Rows().norm(caps, Adjacency.REPLACE, order) == moved


def everybody(cells: int, most: int) -> tuple[pa.Table, int]:
    """Units with every number of rows in each of so many groups, and every place of values at the upper bound."""
    rows: list[dict[str, int]] = []
    sizes = [own for own in itertools.product(range(most + 1), repeat=cells) if any(own)]
    kinds = ("all high", "half high")
    for unit, (own, kind) in enumerate(itertools.product(sizes, kinds)):
        for group, number in enumerate(own):
            for i in range(number):
                high = kind == "all high" or i % 2 == 0
                rows.append({"who": unit, "place": unit * 10 + group, "x": 7 if high else 2})
    return pa.Table.from_pylist(rows), len(sizes) * len(kinds)


def of_each_unit(plan: Plan, units: int) -> dict[Part, list[list[int]]]:
    """What every unit adds to every part; the groups of one unit are nobody else's."""
    exact = run.integers(plan)
    found: dict[Part, list[list[int]]] = {part: [[] for _ in range(units)] for part in exact.numbers}
    for part, numbers in exact.numbers.items():
        for (group,), values in zip(exact.keys or [], numbers.tolist(), strict=True):
            found[part][group // 10] += values
    return found


@pytest.mark.parametrize("limits", LIMITS)
def test_no_unit_of_all_small_ones_adds_more_than_the_sensitivity_and_one_adds_as_much(
    limits: tuple[int, int, int],
) -> None:
    groups, most, in_all = limits
    table, units = everybody(groups, most + 1)
    visits = ts.Private(table).table(unit="who").per_unit(max_groups=groups, max_rows_per_group=most, max_rows=in_all)
    plan = (
        visits.group_by("place", keys=ts.private_keys(delta=1e-6))
        .agg(
            n=ts.count(),
            people=ts.count_units(),
            told=ts.count_units("x"),
            over=ts.units_over_cap(),
            more=ts.rows_over_cap(1),
            total=ts.sum("x", 0, 7),
            spread=ts.variance("x", 0, 7),
            bars=ts.histogram("x", [0, 5, 10]),
            middle=ts.median("x", 0, 8, bins=4),
        )
        .plan(rho=1)
    )
    caps = plan.query.caps
    assert caps.in_all == in_all or caps.max_groups * caps.max_rows <= in_all
    for part, added in of_each_unit(plan, units).items():
        for order in (1, 2):
            largest = max(sum(number**order for number in own) for own in added)
            allowed = part.norm(caps, Adjacency.ADD_REMOVE, order)
            assert largest <= allowed, (part.label, order)
            if not isinstance(part, Tree):  # equal in each of its levels only if all values are in one node
                assert largest == allowed, (part.label, order)
        if isinstance(part, Tree):
            assert max(map(sum, added)) == part.norm(caps, Adjacency.ADD_REMOVE, 1)


def test_every_part_of_a_table_is_judged_by_the_number_that_its_rows_add() -> None:
    visits = ts.Private(pa.table({"who": [1], "place": [1], "x": [1]})).table(unit="who")
    plan = visits.per_unit(max_groups=3, max_rows_per_group=4, max_rows=10).group_by("place", keys=[1, 2, 3, 4])
    asked = plan.agg(n=ts.count(), total=ts.sum("x", 0, 7)).plan(rho=1)
    peaks = {part.kind: part.peak(asked.query.caps) >> 16 for part in asked.query.removed}
    assert peaks == {
        "units over": 1, "units beyond": 1, "rows over": 10, "outside": 10, "units seen": 1, "rows counted": 10,
    }  # fmt: skip


# -- the rule


def test_rows_in_all_are_counted_at_equal_distances() -> None:
    """Read row by row: every mark is in one group, there are R of them, and no group has more than its rows."""
    for own in itertools.product(range(1, 5), repeat=3):
        for in_all in range(1, sum(own)):
            marked = np.array([spread(list(own), in_all, offset) for offset in range(sum(own))])
            assert (marked.sum(axis=1) == in_all).all()
            assert (marked <= own).all()
            # over all places where the marks can begin, each row has one equally often
            assert (marked.sum(axis=0) == in_all * np.array(own)).all()


def test_over_many_salts_every_group_of_a_unit_keeps_its_share() -> None:
    """Of 1 + 9 rows in two groups 5 count, so the small group keeps its row for half of the units.

    The share has standard deviation 0.008 for 4,000 units; seven of them happen by chance with probability 3e-12. With
    the larger group cut to 5 rows first, the small one would keep its row for 5 of 6 units.
    """
    rows = [(who, where) for who in range(4_000) for where in (0, *[1] * 9)]
    table = pa.table({"who": [who for who, _ in rows], "place": [where for _, where in rows]})
    visits = ts.Private(table).table(unit="who").per_unit(max_rows=5)
    plan = visits.group_by("place", keys=[0, 1]).agg(n=ts.count()).plan(rho=1)
    [small, large] = run.integers(plan).numbers[Rows()][:, 0].tolist()
    assert small + large == 5 * 4_000
    assert abs(small / 4_000 - 0.5) < 7 * 0.5 / math.sqrt(4_000)


def test_a_unit_with_few_rows_loses_none_of_them() -> None:
    table = pa.table({"who": [1] * 6 + [2] * 2, "place": [0, 1, 2, 3, 4, 5, 0, 0]})
    plan = ts.Private(table).table(unit="who").per_unit(max_rows=6).group_by("place", keys=range(6))
    exact = run.integers(plan.agg(n=ts.count(), people=ts.count_units()).plan(rho=1))
    assert exact.numbers[Rows()][:, 0].tolist() == [3, 1, 1, 1, 1, 1]
    assert exact.numbers[Units()][:, 0].tolist() == [2, 1, 1, 1, 1, 1]


def test_people_are_counted_in_groups_of_which_no_row_counts() -> None:
    table = pa.table({"who": [1] * 40, "place": [0] * 37 + [1, 2, 3]})
    visits = ts.Private(table).table(unit="who").per_unit(max_groups=4, max_rows_per_group=40, max_rows=4)
    plan = visits.group_by("place", keys=range(4)).agg(n=ts.count(), people=ts.count_units()).plan(rho=1)
    exact = run.integers(plan)
    assert exact.numbers[Units()][:, 0].tolist() == [1, 1, 1, 1]
    assert exact.numbers[Rows()].sum() == 4


def test_what_is_not_paid_for_is_cut_off_where_rows_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that adds more than its rows allow adds no more than that: the limit of the cell, not that of any cell."""
    plan = _asked(_visits(60, 5, 1).per_unit(max_groups=4, max_rows_per_group=3, max_rows=5))
    honest = run.integers(plan).numbers[Rows()].sum()
    monkeypatch.setattr(parts.Rows, "counted", lambda self, value, rows, most: rows)
    assert run.integers(plan).numbers[Rows()].sum() == honest


def _visits(rows: int, units: int, seed: int) -> Table:
    draw = np.random.default_rng(seed)
    held = pa.table({"who": draw.integers(0, units, rows), "place": draw.integers(0, 4, rows)})
    return ts.Private(held).table(unit="who")


def _asked(table: Table, **measures: Any) -> Plan:
    return table.group_by("place", keys=range(4)).agg(**(measures or {"n": ts.count()})).plan(rho=1)


# -- which limits a question has


def _caps(table: Table, *, groups: int = 40, measure: Any = None) -> Caps:
    return table.group_by("place", keys=range(groups)).agg(n=measure or ts.count()).caps


def test_the_limit_in_all_is_one_on_groups_and_on_rows_in_each() -> None:
    visits = _visits(10, 3, 0)
    assert _caps(visits.per_unit(max_rows=60), groups=100) == Caps(60, 60, 60)
    assert _caps(visits.per_unit(max_rows=60)) == Caps(40, 60, 60)
    assert _caps(visits.per_unit(max_groups=5, max_rows_per_group=80, max_rows=60)) == Caps(5, 60, 60)
    assert _caps(visits.per_unit(max_groups=5, max_rows_per_group=12, max_rows=60)) == Caps(5, 12)
    assert visits.per_unit(max_rows=60).agg(n=ts.count()).caps == Caps(1, 60)
    # a number of people has no rows to limit, but a person with 3 rows is in no more than 3 groups
    assert _caps(visits.per_unit(max_rows=3), measure=ts.count_units()) == Caps(3, 1)


def test_a_limit_in_all_that_is_too_large_to_be_one_on_rows_in_each_is_refused_without_one() -> None:
    visits = _visits(10, 3, 0)
    with pytest.raises(Refused, match="without limit") as refusal:
        _caps(visits.per_unit(max_rows=2_000))
    assert refusal.value.remedies[0]["caps"] == ["max_rows_per_group"]
    assert _caps(visits.per_unit(max_rows=2_000, max_rows_per_group=100)) == Caps(40, 100, 2_000)
    with pytest.raises(InvalidInput, match="max_rows"):
        visits.per_unit(max_rows=0)


def test_the_limit_in_all_saves_noise() -> None:
    visits = _visits(10, 3, 0)
    wide = _asked(visits.per_unit(max_groups=14, max_rows_per_group=15)).error()["n"]
    few = _asked(visits.per_unit(max_groups=14, max_rows_per_group=15, max_rows=20)).error()["n"]
    assert few == pytest.approx(wide * math.sqrt((15**2 + 5**2) / (4 * 15**2)), rel=0.05)


# -- stored plans and cards


def test_a_plan_without_the_limit_has_the_form_and_hash_that_it_had_before_there_was_one() -> None:
    table = pa.table({"who": [1, 2], "ward": ["a", "b"], "age": [30, 40]})
    visits = ts.Private(table).table(unit="who").per_unit(max_groups=4, max_rows_per_group=5)
    asked = visits.group_by("ward", keys=ts.private_keys(delta=1e-8))
    plan = asked.agg(n=ts.count(), p=ts.count_units(), a=ts.mean("age", 0, 110), m=ts.median("age", 0, 110)).plan(
        rho=0.02
    )
    assert plan.hash == "4dc9ccd5aec6bef38217d4b899942eb5c26c492875b52527cf5400bb50fb4643"
    assert "in_all" not in plan.to_json()
    assert "in all" not in plan.explain().replace("whos in all", "")
    assert "_most" not in "".join(plan.sql(dialect=dialect) for dialect in ("duckdb", "spark", "postgres"))


def test_a_plan_with_the_limit_is_read_back_and_says_it() -> None:
    plan = _asked(_visits(10, 3, 0).per_unit(max_groups=4, max_rows_per_group=3, max_rows=7))
    again = Plan.from_json(plan.to_json())
    assert again.hash == plan.hash
    assert again.query.caps == Caps(4, 3, 7)
    assert plan.facts()["max_rows_in_all"] == 7
    assert "at most 4 groups, with at most 3 rows in each and 7 rows in all" in plan.explain()
    edited = plan.to_json().replace('"max_rows_in_all": 7', '"max_rows_in_all": 8')
    assert edited != plan.to_json()
    with pytest.raises(Refused, match="edited"):
        Plan.from_json(edited)


def test_what_the_limit_leaves_out_is_said_with_its_numbers(tmp_path: Path) -> None:
    """3,000 people with 10 rows each, of which 4 count; 1,000 with one row."""
    who = [i for i in range(3_000) for _ in range(10)] + list(range(3_000, 4_000))
    table = pa.table({"who": who, "place": [i % 4 for i in range(len(who))]})
    book = ts.Ledger(tmp_path / "x.db")
    account = book.open("people", budget=ts.zcdp(rho=9), unit="person")
    visits = ts.Private(table, account=account).table(unit="who").per_unit(max_rows=4)
    release = _asked(visits).release(why="test")
    said = {line.label: line for line in release.removed()}
    assert abs(said["people with more than 4 rows in all"].value - 3_000) < 200  # type: ignore[operator]
    rows = said["rows over the limits (at most 10 per person)"]
    assert abs(rows.value - 18_000) < 600  # type: ignore[operator]
    assert abs((rows.total or 0) - 31_000) < 900
    assert "of rows) are over the limits per person" in " ".join(str(release).split())
    made = card(release)
    assert made.facts["protected"]["max_rows_in_all"] == 4
    assert made.facts["protected"]["counts"] == "a person counts with at most 4 rows in all"
    assert all(found.holds or found.not_checked for found in check_card(made, book))


# -- ties


@pytest.mark.parametrize("prime", [2, 5])
def test_groups_that_tie_are_put_in_one_order(prime: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are met in another order than that in which they are sorted."""
    monkeypatch.setattr(capping, "PRIME", prime)
    monkeypatch.setattr(sorted_cells, "PRIME", prime)
    draw = np.random.default_rng(3)
    names = np.array(["z", "é", "a", "~", ""])
    held = pa.table({"who": draw.integers(0, 9, 300), "place": names[draw.integers(0, 5, 300)].tolist()})
    visits = ts.Private(held).table(unit="who").per_unit(max_groups=5, max_rows_per_group=9, max_rows=11)
    plan = visits.group_by("place", keys=ts.private_keys(delta=1e-6)).agg(n=ts.count()).plan(rho=1)
    found = []
    for sorts in (True, False):
        with monkeypatch.context() as patched:
            patched.setattr(run, "_programs", {})
            patched.setattr(run, "_sortable", lambda way, sorts=sorts: sorts)
            exact = run.integers(plan)
        found.append(dict(zip(exact.keys or [], exact.numbers[Rows()][:, 0].tolist(), strict=True)))
    assert found[0] == found[1]
    assert sum(found[0].values()) <= 9 * 11


def test_a_question_keeps_the_limit_in_its_data() -> None:
    query = _asked(_visits(10, 3, 0).per_unit(max_rows=7)).query
    assert Query.from_data(query.to_data()).table.max_rows_in_all == 7
