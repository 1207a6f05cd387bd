"""``card verify --table``: a file of another form is not a changed table, and a changed table is not a changed card."""

from __future__ import annotations

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
