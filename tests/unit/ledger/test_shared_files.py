"""A ledger whose files belong to another user of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tallystick as ts
from tallystick.errors import Unavailable


@pytest.fixture
def ledger_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path / "ledger.db"


@pytest.mark.parametrize("ending", ["", "-wal", "-shm"])
def test_a_file_that_the_user_may_not_open_is_named(
    ledger_file: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = f"{ledger_file}{ending}"
    may = os.access
    with ts.Ledger(ledger_file) as first:
        first.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
        with monkeypatch.context() as other_user:
            other_user.setattr(os, "access", lambda name, mode: str(name) != closed and may(name, mode))
            with pytest.raises(Unavailable, match=f"may not open .*ledger.db{ending}, a file of the ledger"):
                ts.Ledger(ledger_file)
        with ts.Ledger(ledger_file) as second:
            assert str(second.open("clinic").remaining) == "rho 1"


def test_a_file_that_may_only_be_read_can_be_read(ledger_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ts.Ledger(ledger_file) as first:
        first.open("clinic", budget=ts.zcdp(rho=1), unit="patient")
    may = os.access
    monkeypatch.setattr(os, "access", lambda name, mode: not mode & os.W_OK and may(name, mode))
    with ts.Ledger(ledger_file, create=False) as second:
        assert str(second.open("clinic").remaining) == "rho 1"
