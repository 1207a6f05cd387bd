"""What a contributor wrote into a cell is shown to people; no terminal obeys it and no spreadsheet runs it."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.cli import main
from tallystick.ledger import Account
from tallystick.printing import csv_value
from tallystick.tables.release import Release
from tallystick.tables.reporting.words import INTERVALS

HOSTILE = [
    "\x1b]0;owned\x07",
    "x;=1+1",
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@x",
    "\tx",
    "\rx",
    "a\rb",
    'q"',
    "a,b\n",
    "\u202egro",
    "\x9b2J",
]


@pytest.fixture
def release(account: Account) -> Release:
    table = pa.table({"u": list(range(len(HOSTILE))), "g": HOSTILE})
    visits = ts.Private(table, account=account).table(unit="u").per_unit(max_groups=1, max_rows_per_group=1)
    return visits.group_by("g", keys=HOSTILE).agg(n=ts.count()).plan(rho=0.1).release(why="report")


def test_csv_cells_that_a_spreadsheet_would_run_are_inert_and_numbers_stay_numbers(release: Release) -> None:
    told = list(csv.reader(io.StringIO(release.to_csv(), newline="")))
    assert told[0] == ["g", "n_limited", "n_limited_lower", "n_limited_upper"]
    for row, wanted, given in zip(told[1:], HOSTILE, release.rows, strict=True):
        assert not row[0].startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
        assert csv_value(row[0]) == wanted
        assert row[0].isprintable()
        assert [float(cell) for cell in row[1:]] == [given["n"], given["n_lower"], given["n_upper"]]
    assert [row["g"] for row in json.loads(release.to_json())["rows"]] == HOSTILE
    for other in ";\t":  # where a spreadsheet may end a cell, too
        for line in csv.reader(io.StringIO(release.to_csv(), newline=""), delimiter=other):
            assert not any(cell.startswith(("=", "+", "-", "@")) for cell in line)


def test_no_escape_sequence_of_a_group_reaches_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    keys = [text for text in HOSTILE if "\r" not in text and "\n" not in text]
    for name, rows in (("visits.csv", [("1", key) for key in keys]), ("keys.csv", [("x", key) for key in keys])):
        with Path(name).open("w", newline="") as file:
            csv.writer(file).writerows([("who", "g"), *rows])
    add = "dataset add visits.csv --population p --unit who --max-groups 2 --max-rows-per-group 2 --limit rho=0.5"
    ask = "query visits --by g --keys keys.csv --measures count --rho 0.1 --why x"
    for words in (add, ask, f"{ask} --json", "query visits --by \x1b[2J --measures count --rho 0.1 --why x"):
        main(words.split(" "))
        out = capsys.readouterr()
        shown = (out.out + out.err).replace("\n", "")
        assert shown
        assert shown.isprintable(), words


def test_whatever_a_command_says_is_shown_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.table import Table

    from tallystick.cli.output import console

    grid = Table("head\x1b[2J")
    grid.add_row("cell\x9b2J")
    for words in (grid, "line\x1b]0;x\x07\nnext", "back\u202ewards"):
        console().print(words)
    assert capsys.readouterr().out.replace("\n", "").isprintable()


def test_a_printed_release_is_its_table(account: Account) -> None:
    table = pa.table({"p": list(range(50)), "g": ["a", "b\x1b[2J"] * 25, "v": [1.0] * 50})
    visits = ts.Private(table, account=account).table(unit="p").per_unit(max_groups=1, max_rows_per_group=1)
    made = visits.group_by("g", keys=["a", "b\x1b[2J"]).agg(n=ts.count(), v=ts.mean("v", 0, 2)).plan(rho=0.1)
    release = made.release(why="x")
    header, first, second, empty, *notes = str(release).splitlines()
    assert re.fullmatch(r"g +n_limited ±11 +v_limited \(95 % interval\)", header)
    assert first.startswith("a ")
    assert second.startswith(r"b\x1b[2J ")
    assert empty == ""
    assert notes[0].startswith("Intervals are for the privacy noise only.")
    assert len(notes) <= 2
    assert release.holds.startswith("Limits: a patient counts in at most 1 group, with at most 1 row in each.")
    assert release.holds.endswith(f"{INTERVALS}.")
    assert release.left_out.startswith("Effect of limits and bounds per patient: ")
    for words in ("had more than 1 group", "were over the limits", "had a value of v below 0"):
        assert words in release.left_out
