"""Approvers see what a request would change: two requests that do different things do not look the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tallystick as ts
from contracts.other_users import acting_as
from unit.cli.test_roles_in_the_shell import Shell

CAPS = "--max-groups 1 --max-rows-per-group 1"


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    found = Shell(capsys)
    Path("stays.csv").write_bytes(Path("visits.csv").read_bytes())
    return found


def shown(shell: Shell, words: str) -> str:
    """What an approver sees of a request, without its number."""
    number = shell.requested(words)
    [found] = [each for each in shell.found("account requests", "bob")["requests"] if each["request"] == number]
    text = shell.succeed("account requests", "bob")
    assert found["change"] in text
    assert all(line in text for line in found["details"])
    return json.dumps([found["change"], found["details"]])


def test_the_end_of_a_dataset_is_shown_as_its_end(shell):
    retired = shown(shell, "dataset retire visits --why 'an old table'")
    removed = shown(shell, "dataset remove visits --why 'a mistake'")
    assert "retire dataset visits of clinic, for good" in retired
    assert "remove the registration of dataset visits of clinic" in removed


def test_the_unit_and_the_neighbours_of_a_dataset_are_shown(shell):
    one = shown(shell, f"dataset add stays.csv --name one --population clinic --unit patient {CAPS} --why x")
    other = shown(shell, f"dataset add stays.csv --name one --population clinic --unit age {CAPS} --why x")
    replaced = shown(
        shell, f"dataset add stays.csv --name one --population clinic --unit patient {CAPS} --replace-one --why x"
    )
    assert "protects each patient against being added or removed" in one
    assert "protects each age against being added or removed" in other
    assert "protects each patient against having its rows replaced" in replaced
    assert f"data: file {Path('stays.csv').resolve()}" in one


def by_program(shell: Shell, **registration: object) -> str:
    """A registration that a program requests; what is shown of it."""
    with acting_as("olga"), ts.Ledger("tallystick.db", create=False) as ledger:
        number = ledger.team.request(
            lambda book: book.open("clinic").register("table", source="stays.csv", **registration), why="a table"
        )
    [found] = [each for each in shell.found("account requests", "bob")["requests"] if each["request"] == number]
    return json.dumps([found["change"], found["details"]])


def test_the_note_of_a_program_is_shown(shell):
    found = by_program(shell, note="rows are visits", fixed={"unit": None, "adjacency": "replace"})
    assert "protects each row against having its rows replaced" in found
    assert "note: rows are visits" in found
    assert "whom it does not say" in by_program(shell, note="rows are visits")


def test_a_note_that_names_another_unit_is_not_believed(shell):
    with ts.Ledger("tallystick.db", create=False) as ledger:
        note = ledger.datasets()["visits"].note
    honest = by_program(shell, note=note, fixed={"unit": "patient", "adjacency": "add_remove"})
    assert "cannot be read" not in honest
    found = by_program(shell, note=note, fixed={"unit": "age", "adjacency": "add_remove"})
    assert "do not approve it unread" in found
    assert "max_groups" not in found


def test_a_name_does_not_pass_for_the_limit_of_a_block(shell):
    name = "'north below clinic with a limit of rho 0.01'"
    found = shown(shell, f"account open {name} --budget zcdp(rho=0.9) --parent clinic --why x")
    assert found.startswith('["open an account with a limit of rho 0.9 (')
