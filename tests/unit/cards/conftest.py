"""One small release to make cards of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.tables.measures import parse
from tallystick.tables.private import Private

WARDS = ["north", "south"]


@dataclass
class Clinic:
    """A ledger with one account and a table of 300 visits by 100 people."""

    ledger: Any
    account: Any
    file: Path

    def table(self, unit: Any = "patient", **options: Any) -> Any:
        private = Private(str(self.file), account=self.account, **options)
        return private.table(unit=unit, types={"age": "number"}).per_unit(max_groups=2, max_rows_per_group=2)

    def plan(self, measures: str = "count,mean(age,0,110)", rho: float = 0.05) -> Any:
        return self.table().group_by("ward", keys=WARDS).agg(**parse(measures)).plan(rho=rho)

    def release(self, *, why: str = "annual report", key: str = "t1") -> Any:
        return self.plan().release(why=why, key=key)


@contextmanager
def opened(folder: Path) -> Iterator[Clinic]:
    """Open a clinic whose files are in this folder."""
    file = folder / "visits.csv"
    rows = (f"p{i % 100},{WARDS[i % 2]},{20 + i % 60}\n" for i in range(300))
    file.write_text("patient,ward,age\n" + "".join(rows))
    with ts.Ledger(folder / "ledger.db") as ledger:
        account = ledger.open("patients-2026", budget=ts.zcdp(rho=0.5, delta=1e-6), unit="patient")
        yield Clinic(ledger, account, file)


@pytest.fixture
def clinic(tmp_path: Path) -> Iterator[Clinic]:
    with opened(tmp_path) as found:
        yield found
