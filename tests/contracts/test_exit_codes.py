"""Every documented exit code is the code of a real command, and text that is not SQL is a usage error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts import snippets
from tallystick.cli.failure import _LABELS

EPSILON = ["epsilon", "gdp(mu=1)", "--delta", "1e-5"]
COUNT = ["query", "visits", "--measures", "count_units", "--why", "x"]


def documented() -> set[int]:
    page = (snippets.ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    rows = page.split("## Exit codes")[1]
    return {int(code) for code in re.findall(r"^\| (\d+) \|", rows, re.MULTILINE)}


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registered table of 20 people, and one published number with its card."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    Path("visits.csv").write_text("patient\n" + "".join(f"p{i}\n" for i in range(20)))
    added = "dataset add visits.csv --population patients --unit patient --limit rho=0.1,delta=1e-6"
    for words in (added.split(), [*COUNT, "--rho", "0.05", "--key", "k", "--card", "card.html"]):
        code, printed = snippets.run_tallystick(words)
        assert code == 0, printed


def raising(problem: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise problem

    return fail


def a_bug(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("tallystick.accounting.expression.read_loss", raising(ZeroDivisionError()))
    return EPSILON


def a_decision_on_an_own_request(_: pytest.MonkeyPatch) -> list[str]:
    Path("ours").mkdir()
    for words in ("ledger init", "account open clinic --budget zcdp(rho=1)", "ledger govern --why x",
                  "ledger begin-roles --why x", "account request clinic --budget zcdp(rho=2) --why x"):  # fmt: skip
        code, printed = snippets.run_tallystick([*words.split(), "--ledger", "ours/ledger.db"])
        assert code == 0, printed
    return ["account", "approve", "6", "--why", "x", "--ledger", "ours/ledger.db"]


def an_interruption(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("tallystick.accounting.expression.read_loss", raising(KeyboardInterrupt()))
    return EPSILON


def a_forged_card(_: pytest.MonkeyPatch) -> list[str]:
    facts = json.loads(Path("card.json").read_text())
    facts["promise"]["epsilon"] /= 2
    Path("forged.json").write_text(json.dumps(facts))
    return ["card", "verify", "forged.json"]


def a_full_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("tallystick.publish.export.write_result", raising(OSError(28, "No space left on device")))
    return [*COUNT, "--rho", "0.01", "--out", "table.csv"]


COMMANDS: dict[int, list[str] | Callable[[pytest.MonkeyPatch], list[str]]] = {
    0: EPSILON,
    1: a_bug,
    2: ["sql", "hello", "--rho", "0.01", "--why", "x"],
    3: [*COUNT, "--rho", "0.09"],
    4: ["sql", "SELECT * FROM visits", "--rho", "0.01", "--why", "x"],
    5: ["audit", "accounting", "loss", "gdp(mu=1)", "--claimed", "0.1", "--delta", "1e-5"],
    6: a_forged_card,
    7: a_decision_on_an_own_request,
    8: [*COUNT, "--rho", "0.01", "--key", "k"],
    9: ["ledger", "verify", "--ledger", "postgresql://127.0.0.1:1/nothing?connect_timeout=2"],
    10: a_full_disk,
    130: an_interruption,
}


def test_the_page_and_this_file_list_the_same_exit_codes() -> None:
    assert documented() == set(COMMANDS)


@pytest.mark.usefixtures("clinic")
@pytest.mark.parametrize("code", COMMANDS)
def test_a_command_ends_with_the_documented_code(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    given = COMMANDS[code]
    words = given(monkeypatch) if callable(given) else given
    found, printed = snippets.run_tallystick(words)
    assert found == code, printed
    if code not in (0, 5):  # a verdict of an audit is an answer, and has no line about a failure
        assert f"{_LABELS[code]}: " in printed


TEXTS = {
    **dict.fromkeys(("hello", "hello world", "1 + 1", "SELEC COUNT(*) FROM visits", "EXPLAIN", "EXPLAIN hello", ""), 2),
    **dict.fromkeys(("SELECT COUNT(* FROM visits", "SELECT 'open", "SELECT COUNT(*) FROM nowhere"), 2),
    **dict.fromkeys(("DROP TABLE visits", "delete from visits", "BEGIN", "SHOW TABLES", "VALUES (1)"), 4),
    **dict.fromkeys(("SELECT * FROM visits", "SELECT patient FROM visits"), 4),
}


@pytest.mark.usefixtures("clinic")
def test_text_that_is_not_sql_is_a_usage_error_and_other_statements_are_refused() -> None:
    codes = {}
    for text in TEXTS:
        codes[text], printed = snippets.run_tallystick(["sql", text, "--rho", "0.01", "--why", "x"])
        assert "Give " in printed or "Try: " in printed, text
    assert codes == TEXTS
