"""A line about caps and bounds that is too noisy to tell anything says so, on every screen and in every file."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

RULE = "Too noisy to tell: the 95 % interval holds 0 and half of the total."
TINY = ("--rho", "0.0001", "--why", "x")
QUERIES = {
    "query": ("query", "visits", "--measures", "count,mean(age)", "--key", "k"),
    "sql": ("sql", "SELECT COUNT(*) AS n, AVG(age) AS age FROM visits", "--key", "k"),
}


@pytest.fixture
def few(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Register 20 people, none of whom is over a cap or a bound."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    rows = [f"p{i},{20 + i}" for i in range(20)]
    Path("visits.csv").write_text("\n".join(["patient,age", *rows, ""]))
    limits = "--max-groups 1 --max-rows-per-group 2 --bounds age=0:110 --limit rho=0.1,delta=1e-6"
    added = run(*f"dataset add visits.csv --population patients --unit patient {limits}".split())
    assert added.code == 0, added.errors


def has_share(line: dict[str, Any]) -> bool:
    """True if a line tells a share: by chance, so few rows can look like many."""
    return not line["too_noisy"] and (line["share_lower"] > 0 or line["share_upper"] < 1)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("query", QUERIES)
def test_lines_that_noise_has_emptied_say_so_everywhere(run: Any, query: str) -> None:
    asked = (*QUERIES[query], *TINY)
    lines = run(*asked, "--json").document["found"]["removed"]
    noisy = [line for line in lines if line["too_noisy"]]
    assert len(lines) == 4
    assert noisy  # the interval is hundreds wide, for a table of 20 people
    for line in noisy:
        assert line["said"].startswith("too noisy to tell how many ")
        assert line["lower"] == 0
        assert line["upper"] > 0
        assert line["share_upper"] >= 0.5

    screen = run(*asked, "--out", "t.csv", "--card", "card.html", "--details").errors
    assert "It is too noisy to tell how many " in screen
    assert "rows are over the limits per patient" in screen or "of rows may be over the limits per patient" in screen
    assert screen.count("too noisy to tell\n") == len(noisy)
    with Path("t.about.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    about = {line["what"]: row for line in lines for row in rows if row["about"].startswith(line["said"])}
    names = {row["what"] for row in about.values()}
    assert "patients with more than 2 rows in a group" in names
    assert not any("cap" in name or "unit" in name for name in names)
    page = Path("card.html").read_text()
    shown = run("card", "show", "card.html").out
    facts = json.loads(Path("card.json").read_text())
    on_card = {line["what"]: line for line in facts["left_out"]}
    for line in lines:
        assert about[line["what"]]["about"].startswith(line["said"])
        assert about[line["what"]]["too_noisy"].lower() == str(line["too_noisy"]).lower()
        assert int(about[line["what"]]["upper"]) == line["upper"]
        if not has_share(line):  # cards say a share that is known
            assert line["said"][1:] in page  # it may begin a sentence
            assert line["said"][0].upper() + line["said"][1:] in shown
        assert on_card[line["what"]]["too_noisy"] is line["too_noisy"]
        assert on_card[line["what"]]["upper"] == line["upper"]
    for text in (about[noisy[0]["what"]]["about"], page, shown):
        assert RULE in text
    assert run("card", "verify", "card.html").code == 0


@pytest.mark.usefixtures("few")
def test_json_files_of_tables_and_statements_have_the_flag(run: Any) -> None:
    for name, words in QUERIES.items():
        out = f"{name}.json"
        assert run(*words[:-2], *TINY, "--key", name, "--out", out).code == 0
        removed = json.loads(Path(out).read_text())["removed"]
        assert any(line["too_noisy"] for line in removed), name
