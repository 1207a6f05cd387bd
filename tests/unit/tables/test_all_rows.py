"""All rows, counted or over the limits: a lower end always, an upper end by a public maximum of a person's rows."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.tables import run as running
from tallystick.tables.estimates import Noisy
from tallystick.tables.parts import Part, RowsOver
from tallystick.tables.plan import Plan
from tallystick.tables.release import Release, answer_of
from tallystick.tables.reporting.limits import all_rows
from tallystick.tables.reporting.totals import RowsCounted

LIMITS = [
    {"max_groups": 1, "max_rows_per_group": 1},
    {"max_groups": 2, "max_rows_per_group": 3},
    {"max_groups": 3, "max_rows_per_group": 2, "max_rows": 4},
]
GROUPS = "abc"


def asked(rows: list[tuple[int, str]], limits: Mapping[str, int], seen_to: int, account: Any = None) -> Plan:
    table = pa.table({"who": [who for who, _ in rows], "g": [group for _, group in rows]})
    people = ts.Private(table, account=account).table(unit="who").per_unit(**limits)
    return people.group_by("g", keys=list(GROUPS)).agg(n=ts.count()).plan(rho=0.5, caps_seen_to=seen_to)


def exact(plan: Plan) -> tuple[int, int]:
    """Rows that count, and rows over the limits as far as they are counted, without noise."""
    found = running.integers(plan).removed
    over = next(part for part in found if isinstance(part, RowsOver))
    return tuple(int(found[part].ravel()[0]) >> 16 for part in (RowsCounted(), over))


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("seen_to", [1, 3])
def test_the_number_of_all_rows_lies_between_the_two_ends_that_the_theorem_gives(
    limits: Mapping[str, int], seen_to: int
) -> None:
    """Every table of two people with up to four rows in three groups, some with a third of up to 30 rows."""
    draw = random.Random(3)
    reached = set()
    shapes = [list(rows) for size in range(5) for rows in itertools.combinations_with_replacement(GROUPS, size)]
    for one, two in draw.sample(list(itertools.combinations_with_replacement(shapes, 2)), 25):
        heavy = [draw.choice(GROUPS)] * draw.choice((0, 0, 5, 30)) or [draw.choice(GROUPS)]
        people = [one, two, heavy]
        rows = [(who, group) for who, groups in enumerate(people) for group in groups]
        most = max(map(len, people))
        counted, over = exact(asked(rows, limits, seen_to))
        upper = counted + max(1.0, (most - 1) / seen_to) * over
        assert counted + over <= len(rows) <= upper
        reached |= {"lower"} if len(rows) == counted + over else set()
        reached |= {"upper"} if over and len(rows) == upper else set()
    assert "lower" in reached
    assert "upper" in reached or seen_to > 1 or limits != LIMITS[0]


def read(plan: Plan, counted: int, over: int, draw: Any, most: int | None) -> tuple[float, float]:
    """The line of all rows with noise of the plan's own laws."""
    numbers: dict[Part, Noisy] = {}
    for noise in plan.noises:
        true = {RowsCounted: counted, RowsOver: over}.get(type(noise.part), 0)
        value = np.array([[(true << 16) + round(draw.normal(0, noise.law.scale))]])
        numbers[noise.part] = Noisy(value, noise.law, noise.part.scale)
    line = all_rows(plan.query, numbers, 0.95, most)
    assert line is not None
    assert line.lower is not None
    return line.lower, np.inf if line.upper is None else line.upper


def test_the_interval_holds_all_rows_at_its_rate_and_one_that_forgets_heavy_people_does_not() -> None:
    """2,000 draws. 95 % less seven deviations is 91.6 %; the sum of what was counted alone misses nearly always."""
    limits, seen_to, most = {"max_groups": 1, "max_rows_per_group": 2}, 10, 2_000
    plan = asked([(1, "a")], limits, seen_to)
    light, heavy = 3_000, 20
    counted = light + 2 * heavy
    true = light + most * heavy
    over = seen_to * heavy
    draw = np.random.default_rng(5)
    held = blind = 0
    for _ in range(2_000):
        lower, upper = read(plan, counted, over, draw, most)
        held += lower <= true <= upper
        lower, upper = read(plan, counted, over, draw, 1)
        blind += lower <= true <= upper
    assert held / 2_000 > 0.916
    assert blind < 100
    # at the lower end of what is possible: no row beyond those that were counted
    tight = [read(plan, counted, over, draw, most)[0] <= counted + over for _ in range(2_000)]
    assert sum(tight) / 2_000 > 0.95


def test_without_a_public_maximum_the_upper_end_is_not_known() -> None:
    plan = asked([(1, "a")], LIMITS[0], 10)
    numbers = [
        np.full((1 if noise.part in plan.query.removed else 3, noise.part.width), 1 << 20) for noise in plan.noises
    ]
    release = Release(plan, answer_of(plan, None, numbers))
    line = release.all_rows()
    assert line is not None
    assert line.upper is None
    assert "upper end not known" in "\n".join(release.details())
    assert "upper end not known" in release.about_csv()
    known = replace(release, most_rows=50)
    assert "not known" not in "\n".join(known.details())
    assert known.to_csv() == release.to_csv()
    joined = plan.query.table.join([{"g": "a", "more": 1}], on="g").group_by("g", keys=list(GROUPS))
    multiplied = joined.agg(n=ts.count()).plan(rho=0.5)
    draw = np.random.default_rng(1)
    assert read(multiplied, 9, 9, draw, 50)[1] == np.inf
    assert all_rows(plan.query, {}, 0.95) is None  # nothing was paid for
    bare = plan.query.plan(rho=0.5, caps_share=0)
    assert Release(bare, answer_of(bare, None, [np.zeros((3, 1))])).all_rows() is None


def test_the_owner_registers_the_maximum_and_a_statement_uses_it(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    rows = "".join(f"{i},a\n" for i in range(400)) + "0,a\n" * 200
    (tmp_path / "v.csv").write_text("who,g\n" + rows)
    (tmp_path / "g.csv").write_text("g\na\nb\n")
    limits = "--max-groups 1 --max-rows-per-group 1 --limit rho=9 --keys g=g.csv --version 1"
    assert run(*f"dataset add v.csv --population p --unit who {limits}".split()).code == 0
    text = "SELECT g, COUNT(*) AS n FROM v GROUP BY g"
    without = run("sql", text, "--rho", "1", "--why", "x", "--json").document["found"]["all_rows"]
    assert without["upper"] is None
    assert run(*"dataset update v --most-rows 201".split()).code == 0
    again = run("sql", text, "--rho", "1", "--why", "x", "--json").document["found"]
    assert again["again"]  # what is known of the data is not part of the question
    assert again["all_rows"]["lower"] <= 600 <= again["all_rows"]["upper"]
    made = run(*"query v --by g --measures count --rho 1 --why y --json".split()).document["found"]
    assert made["all_rows"]["what"] == "rows in all, with those over the limits"
    assert made["all_rows"]["upper"] > 600


def test_what_is_over_the_limits_is_said_as_a_number_and_a_share(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    (tmp_path / "v.csv").write_text("who\n" + "".join(f"{i}\n" * 3 for i in range(500)))
    assert run(*"dataset add v.csv --population p --unit who --limit rho=9 --max-rows-per-group 1".split()).code == 0
    made = run(*"query v --measures count --rho 1 --why x".split())
    [number] = re.findall(r"At least (\S+) more rows \(6\S* % of rows\)", made.errors)
    assert 700 < float(number.replace(",", "")) <= 1_000
    assert "are not counted in full: the true numbers of rows are higher" in made.errors
