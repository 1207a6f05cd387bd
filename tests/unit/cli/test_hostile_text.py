"""Text from data, files and people reaches no output with a character that a terminal or a reader would obey."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.cli.app import run

BAD = "\x1b[2J\x07\x7f\x9b\u202e\u2066\u200f\u200e\u200b\u2028\u2029\x85\ufeff"
UNSEEN = "\u200b\u200e\u200f"  # a reason may have these: they are no control characters
KEYS = [f"a{BAD}", r"a\x1b[2J", "=1+1", "'=1+1", "plain", "é"]


def raw(text: str) -> set[str]:
    """The characters that must not be in an output."""
    return {character for character in text if not character.isprintable() and character != "\n"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TALLYSTICK_LEDGER", "budget.db")
    with (tmp_path / FILE).open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["patient", COLUMN, "age"])
        rows.writerows([f"p{i}", KEYS[i % len(KEYS)], 20 + i % 50] for i in range(3000))
    (tmp_path / "columns.csv").write_text(f"patient,wa{BAD}rd\n1,a\n", newline="")
    with (tmp_path / "keys.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[COLUMN], *([key] for key in KEYS)])
    return tmp_path


FILE = f"vis{BAD}its.csv"
COLUMN = "ward"


def written(folder: Path) -> dict[str, str]:
    """The text of every file that a command wrote."""
    ends = (".csv", ".json", ".html", ".yaml", ".jsonl", ".svg")
    inputs = (FILE, "keys.csv", "columns.csv")
    paths = [path for path in folder.rglob("*") if path.suffix in ends and path.name not in inputs]
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


STORY = """
0  ledger init
2  account open clinic{bad} --budget 'zcdp(rho=9, delta=1e-5)' --unit patient
2  account open clinic --budget 'zcdp(rho=9, delta=1e-5)' --unit p{bad}
0  account open clinic --budget 'zcdp(rho=9, delta=1e-5)' --unit patient
2  dataset add {file} --name visits{bad} --unit patient --population clinic
2  dataset add missing{bad}.csv --unit patient --population clinic
2  dataset add {file} --name visits --unit x{bad} --population clinic
2  dataset add columns.csv --name odd --unit patient --population clinic
0  dataset add {file} --name visits --unit patient --population clinic {caps} {about} --key-delta 1e-6
0  dataset list
0  dataset show visits
2  dataset show nothing{bad}
2  publish plan visits --by no{bad} --keys keys.csv --measures count --rho 1
2  publish plan visits --by ward --measures 'sum(x{bad})' --rho 1
0  publish plan visits --by ward --keys keys.csv --measures 'count,mean(age)' --rho 1 --out plan.json
2  publish run plan.json --why report{bad} --out table.csv
0  publish run plan.json --why report{unseen} --out table.csv --card card.html --key k
0  publish run plan.json --why other{unseen} --out again.json --key k
2  publish run plan{bad}.json --why x
0  query visits --by ward --private-keys 1e-6 --measures count --rho 0.1 --why q{unseen} --out found.csv
0  sql 'SELECT ward AS "w\'\'=", COUNT(*) AS "=n" FROM visits GROUP BY 1' --why s{unseen} --rho 0.1 --card sql.html
2  sql 'SELECT COUNT(*) AS "n{bad}" FROM visits' --why s --rho 0.1
2  sql 'SELECT "x{bad}" FROM visits' --why s --rho 0.1
2  sql 'SELECT COUNT(*) {bad} FROM visits' --why s --rho 0.1
0  card show card.html
0  card verify card.html --table table.csv
0  card export card.html --out record.yaml
2  card show no{bad}.html
0  budget clinic
0  account show clinic
2  account show no{bad}
0  ledger show
0  ledger verify
0  ledger export --out export.jsonl
0  ledger import export.jsonl --ledger copy{bad}.db
2  ledger show --ledger none{bad}.db
2  epsilon gaussian{bad} --delta 1e-6
0  doctor
"""
CAPS = "--max-groups 1 --max-rows-per-group 1 --type age=number --bounds age=0:100"
ABOUT = "--about window=2026{0} --about curators=c{0} --about region=here --about 'product_type=Summary statistics'"
NEW_EACH_TIME = {f"copy{BAD}.db", "record.yaml"}


def test_no_command_prints_or_writes_a_character_that_is_obeyed(folder: Path, capsys: Any) -> None:
    words = {"bad": BAD, "unseen": UNSEEN, "file": FILE, "caps": CAPS, "about": ABOUT.format(UNSEEN)}
    lines = STORY.strip().split("\n")
    for line, more in ((line, more) for line in lines for more in ([], ["--json"])):
        code, *command = shlex.split(line.format(**words))
        for name in set(command) & NEW_EACH_TIME:
            (folder / name).unlink(missing_ok=True)
        found = run([*command, *([] if command[:2] == ["ledger", "export"] else more)])
        said = capsys.readouterr()
        assert found == int(code), (command, ascii(said.err))
        assert raw(said.out) == set(), (command, ascii(said.out))
        assert raw(said.err) == set(), (command, ascii(said.err))
    texts = written(folder)
    names = {"table.csv", "table.about.csv", "again.json", "found.csv", "card.html", "card.json", "sql.html"}
    assert names | {"plan.json", "record.yaml", "export.jsonl"} <= texts.keys()
    for name, text in texts.items():
        assert raw(text) == set(), (name, ascii(raw(text)))
    _groups_can_be_told_apart(texts)


def _groups_can_be_told_apart(texts: dict[str, str]) -> None:
    from tallystick.printing import csv_value

    shown = [next(iter(row.values())) for row in csv.DictReader(texts["table.csv"].splitlines())]
    assert len(set(shown)) == len(KEYS)
    assert sorted(map(csv_value, shown)) == sorted(KEYS)
    again = json.loads(texts["again.json"])
    assert sorted(row[COLUMN] for row in again["rows"]) == sorted(KEYS)
    card = json.loads(texts["card.json"])
    assert len(set(card["chart"][0]["groups"])) == len(KEYS)
    assert card["decisions"]["purpose"] == f"report{UNSEEN}"


def test_python_objects_show_no_character_that_is_obeyed_and_keep_the_text(folder: Path) -> None:
    account = ts.Ledger("budget.db").open("clinic", budget=ts.zcdp(rho=9, delta=1e-5), unit="patient")
    private = ts.Private(FILE, account=account)
    table = private.table(unit="patient", types={"age": "number"}).per_unit(max_groups=1, max_rows_per_group=1)
    grouped = table.bounds(age=(0, 100)).group_by(COLUMN, keys=KEYS)
    plan = grouped.agg(n=ts.count(), m=ts.mean("age")).plan(rho=1)
    release = plan.release(why=f"r{UNSEEN}")
    made = ts.cards.card(release)
    shown = [str(release), repr(release), release._repr_html_(), release.to_csv(), release.about_csv()]
    shown += [release.to_json(), plan.to_json(), plan.explain(), plan._repr_html_(), repr(table), repr(grouped)]
    shown += [table._repr_html_(), made.to_html(), made.to_json(), account._repr_html_(), release.receipt.to_json()]
    shown += ["".join(account.ledger.export()), account.ledger._repr_html_()]
    for number, text in enumerate(shown):
        assert raw(text) == set(), (number, ascii(raw(text)))
    assert [row[COLUMN] for row in release.rows] == KEYS
    assert json.loads(release.to_json())["rows"][0][COLUMN] == KEYS[0]
    with pytest.raises(ts.errors.TallystickError) as refused:
        private.table(unit=f"x{BAD}")
    assert raw(str(refused.value)) == set()


def test_labels_of_plots_have_no_character_that_is_obeyed(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.text import Text

    from tallystick import plots

    account = ts.Ledger("budget.db").open("clinic", budget=ts.zcdp(rho=9, delta=1e-5), unit="patient")
    table = ts.Private(FILE, account=account).table(unit="patient").per_unit(max_groups=1, max_rows_per_group=1)
    release = table.group_by(COLUMN, keys=KEYS).agg(n=ts.count()).plan(rho=1).release(why="r")
    figures = [plots.released(release), plots.burndown(account)]
    figures.append(plots.rehearsed([("1 x 1", 2.0, 9.0, 0.5, 11.0)], column=f"n{BAD}"))
    for figure in figures:
        figure.canvas.draw()
        texts = "".join(each.get_text() for each in figure.findobj(Text))
        assert raw(texts) == set()
