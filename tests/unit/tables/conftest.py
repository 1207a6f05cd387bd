"""Every query test has its own config directory; some have a ledger account, some a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tallystick as ts
from crash.stores import config, postgres, postgres_with_icu  # noqa: F401
from tallystick.ledger import Account, Ledger


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    with Ledger(tmp_path / "budget.db") as ledger:
        yield ledger.open("clinic", budget=ts.zcdp(rho=0.5, delta=1e-6), unit="patient")
