"""Notes and screens in plain words: whole commands, one account, and texts that stand below their label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ADD = "dataset add men.csv --population men --unit nr --max-groups 1 --max-rows-per-group 1 --limit rho=0.3".split()
QUERY = "query men --measures count --rho 0.3 --why count --key t1 --card c.html".split()


@pytest.fixture
def spent(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    Path("men.csv").write_text("nr,year\n" + "".join(f"{i},1980\n" for i in range(50)))
    for words in (ADD, QUERY):
        assert run(*words).code == 0
    return run


def test_a_budget_that_is_used_up_names_the_whole_command(spent: Any) -> None:
    said = spent("budget").out
    assert "To raise the limit: tallystick account raise men --budget BUDGET --why REASON" in said


def test_one_account_is_one_account(spent: Any) -> None:
    said = spent("ledger", "verify").out
    assert "1 account, 1 charge" in said
    assert "1 accounts" not in said


def test_a_card_in_the_terminal_has_its_texts_below_each_other(spent: Any) -> None:
    said = spent("card", "show", "c.html").out
    lines = said.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("limits "))
    end = lines.index("", start)
    assert end > start + 1
    assert all(line.startswith(" " * 12) for line in lines[start + 1 : end])


def test_a_registered_delta_is_written_as_everywhere(run: Any, spent: Any) -> None:
    assert spent("dataset", "update", "men", "--key-delta", "1e-8").code == 0
    shown = run("dataset", "show", "men").out
    assert "key_delta 1e-8" in shown
    assert "1e-08" not in shown
