"""Files of an answer: nothing is written over a ledger, over registered data or through a pipe."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tallystick as ts
from tallystick.cli.app import run
from tallystick.errors import InvalidInput
from tallystick.publish.export import Files


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ts.Ledger:
    monkeypatch.chdir(tmp_path)
    for name in ("program.csv", "old.csv"):
        Path(name).write_text("who\n1\n")
    ledger = ts.Ledger("tallystick.db")
    account = ledger.open("people", budget=ts.zcdp(rho=1), unit="person")
    account.register("program", source="program.csv")
    account.register("moved", source="old.csv")
    return ledger


@pytest.mark.parametrize("name", ["program.csv", "tallystick.db", "tallystick.db-wal", "tallystick.db.gate"])
def test_a_file_in_use_is_not_written_to(book: ts.Ledger, name: str) -> None:
    Path("link.csv").symlink_to(name)
    with pytest.raises(InvalidInput, match="would be overwritten"):
        Files(out=Path("link.csv")).check_in(book)


@pytest.mark.parametrize("name", ["program.csv", "tallystick.db"])
def test_an_export_does_not_replace_a_file_in_use(book: ts.Ledger, name: str) -> None:
    before = Path(name).read_bytes()
    assert run(["ledger", "export", "--out", name]) == 2
    assert Path(name).read_bytes() == before


def test_a_training_plan_replaces_nothing_but_another_one(tmp_path: Path, book: ts.Ledger) -> None:
    words = "calibrate dpsgd --epsilon 8 --delta 1e-5 --examples 50000 --batch 1024 --epochs 1".split()
    assert run([*words, "--save", "program.csv"]) == 2
    assert Path("program.csv").read_text() == "who\n1\n"
    assert run([*words, "--save", "plan.json"]) == 0
    assert run([*words, "--save", "plan.json"]) == 0


def test_pipes_and_links_to_nothing_are_refused_before_the_charge(book: ts.Ledger) -> None:
    os.mkfifo("pipe.csv")
    Path("nowhere.csv").symlink_to("missing/file.csv")
    for name in ("pipe.csv", "nowhere.csv"):
        with pytest.raises(InvalidInput):
            Files(out=Path(name)).check_in(book)
