"""What caps and bounds leave out is told where a plan pays for it: the right numbers, at the right price, in words."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.errors import InvalidInput
from tallystick.ledger import Account
from tallystick.mechanisms.exact.randomness import SeededSource
from tallystick.tables import run
from tallystick.tables.output import beside
from tallystick.tables.parts import RowsOver
from tallystick.tables.plan import Plan
from tallystick.tables.release import Release
from tallystick.tables.reporting.words import INTERVALS, NOISE_ONLY
from tallystick.tables.table import Table
from unit.tables.tables import STEPS, WARDS, awkward, removed


@pytest.fixture
def visits() -> Table:
    return ts.Private(awkward()).table(unit="pid").per_unit(max_groups=2, max_rows_per_group=3)


CASES: list[tuple[Callable[[Table], Any], list[str]]] = [
    (
        lambda t: t.group_by("ward", keys=WARDS).agg(n=ts.count()),
        ["units over", "units over", "rows over", "units seen", "rows counted"],
    ),
    (
        lambda t: t.group_by("ward", keys=WARDS[:2]).agg(n=ts.count()),
        ["units over", "rows over", "units seen", "rows counted"],
    ),  # no more than K keys
    (lambda t: t.agg(n=ts.count()), ["units over", "rows over", "units seen", "rows counted"]),
    (lambda t: t.group_by("ward", keys=WARDS).agg(people=ts.count_units()), ["units over", "units seen"]),
    (lambda t: t.agg(people=ts.count_units()), []),
    (
        lambda t: t.agg(a=ts.sum("cost", 0, 9), b=ts.mean("cost", 0, 9)),
        ["units over", "rows over", "outside", "units seen", "rows counted"],
    ),
    (lambda t: replace(t, unit=ts.each_row).agg(n=ts.count()), []),
    (lambda t: replace(t, unit=ts.each_row).agg(h=ts.histogram("cost", [0, 1, 2])), ["outside", "rows counted"]),
]


@pytest.mark.parametrize(("ask", "kinds"), CASES)
def test_what_is_told_follows_from_what_is_public(visits: Table, ask: Callable[[Table], Any], kinds: list[str]) -> None:
    plan = ask(visits).plan(rho=0.1)
    assert [part.kind for part in plan.query.removed] == kinds
    assert ("caps_share" in plan.budget) == bool(kinds)
    assert sum(noise.share for noise in plan.noises if noise.part in plan.query.removed) == pytest.approx(
        0.05 if kinds else 0.0
    )
    assert Plan.from_json(plan.to_json(), source=awkward()).hash == plan.hash
    bare = ask(visits).plan(rho=0.1, caps_totals=False)
    assert [part.kind for part in bare.query.removed] == [kind for kind in kinds if kind not in TOTALS]
    assert Plan.from_json(bare.to_json(), source=awkward()).hash == bare.hash


TOTALS = ("units seen", "rows counted")


def test_a_plan_of_before_is_read_as_it_was() -> None:
    table = ts.Private(pa.table({"u": [1], "g": ["a"], "x": [1.0]})).table(unit="u")
    asked = table.per_unit(max_groups=2, max_rows_per_group=3).group_by("g", keys=["a", "b", "c"])
    asked = asked.agg(n=ts.count(), m=ts.mean("x", 0, 10))
    plan = asked.plan(rho=0.1, caps_share=0)
    assert plan.hash == OLD
    assert "caps_share" not in json.loads(plan.to_json())["budget"]
    assert asked.plan(rho=0.1, caps_totals=False).hash == NO_TOTALS


OLD = "8d54928d2f546c82b46d2d4fe84a85eb1b075e9424960e34b6b131e7d64f1d03"
NO_TOTALS = "1a687853bb3ebf06f0d9f236ef7b7ffcece087b2d81129c8caaacc9290c05e0b"


@pytest.mark.parametrize(
    "words", [{"caps_share": 0.6}, {"caps_share": -1}, {"caps_share": 1e-9}, {"caps_seen_to": 0}, {"caps_totals": 1}]
)
def test_absurd_shares_and_limits_are_refused(visits: Table, words: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=next(iter(words))):
        visits.agg(n=ts.count()).plan(rho=0.1, **words)


def _without(table: pa.Table, unit: int) -> pa.Table:
    return table.filter(pa.compute.or_kleene(pa.compute.not_equal(table["pid"], unit), table["pid"].is_null()))


def _moves(claimed: Plan, computed: Plan, table: pa.Table, units: list[int]) -> list[float]:
    """What leaving each unit out moves, over what is claimed of it."""
    caps, adjacency = claimed.query.caps, claimed.query.table.adjacency
    whole, found = run.integers(computed.on(table)).removed, []
    for unit in units:
        rest = run.integers(computed.on(_without(table, unit))).removed
        for mine, theirs in zip(claimed.query.removed, computed.query.removed, strict=True):
            found.append(int(np.abs(whole[theirs] - rest[theirs]).sum()) / mine.l1(caps, adjacency))
    return found


def test_leaving_a_unit_out_moves_each_by_no_more_than_is_claimed_and_a_limit_not_kept_is_found(visits: Table) -> None:
    table, units = awkward(), [0, 1, 2, 3, 4]
    asked = visits.group_by("ward", "day", keys=ts.private_keys(delta=1e-6)).agg(n=ts.count(), c=ts.mean("cost", 5, 9))
    plan = asked.plan(rho=1, caps_seen_to=2)
    assert max(_moves(plan, plan, table, units)) == 1.0
    wide = tuple(replace(part, seen_to=10**6) if isinstance(part, RowsOver) else part for part in plan.query.removed)
    assert max(_moves(plan, replace(plan, query=replace(plan.query, removed=wide)), table, units)) > 1.0


def _released(plan: Plan, exact: run.Exact, seed: int) -> Release:
    return Release(plan, run.noisy(plan, exact, SeededSource(seed)))


def test_the_intervals_hold_what_was_left_out_and_narrower_ones_do_not(visits: Table) -> None:
    table = awkward()
    plan = visits.agg(n=ts.count(), c=ts.mean("cost", 100, 900)).plan(rho=0.5)
    exact, truth = run.integers(plan.on(table)), removed(plan, table.to_pylist())
    wanted = [number / STEPS for part in plan.query.removed if part.kind not in TOTALS for number in truth[part]]
    draws = [_released(plan, exact, seed) for seed in range(300)]

    totals = [whole / STEPS for whole in _totals(plan, truth)]

    def covered(confidence: float) -> list[float]:
        """Of the numbers, of what they are of, and of the shares."""
        told = [
            line for each in draws for line in zip(each.removed(confidence=confidence), wanted, totals, strict=True)
        ]
        held = [
            [low.lower <= w <= low.upper for low, w, _ in told],
            [low.total_lower <= t <= low.total_upper for low, _, t in told],
            [low.share_lower <= w / t <= low.share_upper for low, w, t in told],
        ]
        return [float(np.mean(each)) for each in held]

    assert min(covered(0.95)) > 0.935
    assert max(covered(0.6)) < 0.75  # intervals of less confidence are found out
    counted = np.array([each.estimates()["n"].upper[0] for each in draws])
    assert np.mean(counted >= 1450) < 0.01  # and the interval of the table does not hold what the caps left out


def _totals(plan: Plan, truth: dict[Any, list[int]]) -> list[int]:
    """What each number is a part of, from a plain reading of the rules."""
    named = {part.kind: numbers[0] for part, numbers in truth.items()}
    of = {"units over": named["units seen"], "rows over": named["rows over"] + named["rows counted"]}
    parts = [part for part in plan.query.removed if part.kind not in TOTALS]
    return [of.get(part.kind, named["rows counted"]) for part in parts for _ in part.told]


def test_a_release_says_what_its_intervals_are_about_wherever_it_is_shown(account: Account, tmp_path: Path) -> None:
    table = ts.Private(awkward(300), account=account).table(unit="pid").per_unit(max_rows_per_group=1)
    made = table.agg(n=ts.count(), c=ts.sum("cost", 0, 10)).plan(rho=0.1).release(why="x")
    assert len(made.removed()) == 4
    assert all(0 <= each.lower <= each.value <= each.upper for each in made.removed())
    for shown in (made.to_json(), made.about_csv()):
        assert INTERVALS in shown
        assert "were over the limits (at most 10 such rows of a patient were counted)" in shown
        assert "had a value of cost above 10" in shown
    for shown in (str(made), made._repr_html_()):
        assert NOISE_ONLY in shown
    assert any("rows over the limits (at most 10 per patient)" in line for line in made.details())
    made.to_csv(tmp_path / "t.csv")
    [first, n, c, *rest] = csv.DictReader(io.StringIO(beside(tmp_path / "t.csv").read_text()))
    assert first["about"] == INTERVALS
    assert n["about"] == "number of rows; a patient counts with at most 1 row"
    assert "total of cost; values below 0 count as 0, above 10 as 10" in c["about"]
    changes = [(each.label, str(each.value)) for each in made.changes]
    assert changes[-1][0] == "rows in all, with those over the limits"
    assert [(line["what"], line["value"]) for line in rest[: len(changes)]] == changes
    errors = {line["what"]: float(line["value"]) for line in rest[len(changes) :]}
    assert errors == {
        f"standard error of {name}_limited": pytest.approx(error) for name, error in made.standard_errors().items()
    }


def test_without_a_share_nothing_is_told(account: Account) -> None:
    table = ts.Private(awkward(300), account=account).table(unit="pid").per_unit(max_rows_per_group=1)
    made = table.agg(n=ts.count()).plan(rho=0.1, caps_share=0).release(why="x")
    assert made.removed() == ()
    assert made.left_out == ""
    assert "Left out" not in str(made)


@pytest.mark.parametrize(
    ("derived", "can_be_outside"),
    [
        (ts.when(ts.col("cost") > 3, 1, 0), False),
        (ts.when(ts.col("cost") > 3, 1), False),
        (ts.when(ts.col("cost") > 3, ts.when(ts.col("cost") > 5, 1, 0.5), 0), False),
        (ts.when(ts.col("cost") > 3, 2, 0), True),
        (ts.when(ts.col("cost") > 3, ts.col("cost"), 0), True),
        (ts.col("cost") - ts.col("cost"), True),
    ],
)
def test_nothing_is_paid_for_values_that_cannot_be_beyond_their_bounds(
    visits: Table, derived: Any, can_be_outside: bool
) -> None:
    plan = visits.derive(made=derived).agg(n=ts.sum("made", 0, 1)).plan(rho=1)
    assert any(part.kind == "outside" for part in plan.query.removed) == can_be_outside
    assert ("Bounds   made below 0" in plan.explain()) == can_be_outside


def test_a_name_that_a_later_step_gives_anew_is_not_the_choice_it_was(visits: Table) -> None:
    totals = visits.derive(made=ts.when(ts.col("cost") > 3, 1, 0)).per_unit_rows(made=ts.unit_sum("made", 0, 1))
    plan = totals.agg(n=ts.sum("made", 0, 1)).plan(rho=1)
    assert any(part.kind == "outside" for part in plan.query.removed)
