"""``card verify --table``: a file of another form is not a changed table, and a changed table is not a changed card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

ADD = "dataset add men.csv --population men --unit nr --max-groups 1 --max-rows-per-group 1 --limit rho=0.3".split()
QUERY = "query men --measures count_units --rho 0.1 --why count --key t1 --card c.html".split()


@pytest.fixture
def published(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    Path("men.csv").write_text("nr,year\n" + "".join(f"{i},1980\n" for i in range(50)))
    for words in (ADD, [*QUERY, "--out", "t.csv"], [*QUERY, "--out", "t.json"]):
        assert run(*words).code == 0
    return run


@pytest.mark.parametrize("file", ["t.json", "t.about.csv"])
def test_a_file_of_another_form_is_refused_and_not_accused(published: Any, file: str) -> None:
    found = published("card", "verify", "c.html", "--table", file)
    assert found.code == 2, found.errors
    assert "the .csv file of the table" in found.errors
    assert "changed" not in found.errors


def test_a_changed_table_is_said_to_differ_and_the_card_to_agree(published: Any) -> None:
    assert published("card", "verify", "c.html", "--table", "t.csv").code == 0
    text = Path("t.csv").read_text()
    Path("t.csv").write_text(text.replace("\n", "7\n", 2))
    found = published("card", "verify", "c.html", "--table", "t.csv")
    assert found.code == 6
    assert "the table file differs from what was published. Card and ledger agree." in " ".join(found.errors.split())
    assert "does not say what the ledger says" not in found.errors


@pytest.mark.parametrize("options", [(), ("--data-only",)])
def test_intervals_that_only_a_card_of_another_version_vouches_for_are_not_verified(published, options) -> None:
    """A forger widens the intervals of a table, and lets the card name a version that may have computed them."""
    card = json.loads(Path("c.json").read_text())
    card["accounting"]["software"] = "tallystick 0.1.0"
    Path("older.json").write_text(json.dumps(card))
    header, first, *others = Path("t.csv").read_text().splitlines()
    place = next(i for i, name in enumerate(header.split(",")) if name.endswith("_lower"))
    cells = first.split(",")
    cells[place] = "-1000000"
    Path("wider.csv").write_text("\n".join([header, ",".join(cells), *others, ""]))
    found = published("card", "verify", "older.json", "--table", "wider.csv", *options)
    assert found.code == 4, found.errors
    assert "intervals of the published table" in found.errors
    assert "leave --table out" in found.errors
    assert published("card", "verify", "older.json", "--table", "t.csv", *options).code == 0
