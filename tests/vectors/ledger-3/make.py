"""Makes the test vectors of ledger format 3: exports, and the result that a checker must give for each.

Run it only to add a vector. A vector that is committed does not change.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path

import tallystick as ts
from tallystick.ledger import Ledger, Partition

HERE = Path(__file__).parent


def years(year: str) -> Partition:
    """The part of a partition that holds one year."""
    return Partition("year", by="public attribute", one_block_per_unit=True, column="year", values=(year,))


def small(folder: str) -> Ledger:
    """Accounts with blocks, charges in every state, closed and cleared data, a raise, governance, two keys, erasure."""
    ticks = itertools.count(1_800_000_000)
    ledger = ts.Ledger(f"{folder}/ledger.db", config=folder, clock=lambda: float(next(ticks)))
    clinic = ledger.open("clinic", budget=ts.zcdp(rho=1, delta=1e-6), unit="patient")
    north = ledger.open("north", budget=ts.zcdp(rho=0.5, delta=1e-6), parent=clinic)
    clinic.register("visits", source="the table of visits", note="public note", fixed={"unit": "patient"})
    clinic.pay(ts.zcdp(rho=0.1), why="annual report", key="annual")
    north.pay(ts.zcdp(rho=0.05), why="the north alone")
    clinic.charge(ts.zcdp(rho=0.01), why="given back").reserve().refund()
    slow = clinic.charge(ts.zcdp(rho=0.01), why="in steps", key="é / slow").reserve()
    slow.renew(lease=3600)
    slow.start().commit({"n": 3.5})
    schools = ledger.open("schools", budget=ts.gdp(mu=2), unit="pupil")
    for year in ("2025", "2026"):
        block = ledger.open(f"schools-{year}", budget=ts.gdp(mu=1), parent=schools, partition=years(year))
        block.pay(ts.gdp(mu=0.5), why=f"the year {year}")
    clinic.raise_limit(ts.zcdp(rho=2, delta=1e-6), why="a second study")
    try:
        ledger.charge(ts.zcdp(rho=0.02), accounts=[clinic], why="it fails", source="the table of visits").begin().burn()
    finally:
        clinic.clear(why="the disk was full")
    ledger.govern(why="a team uses it")
    clinic.pay(ts.zcdp(rho=0.03), why="after governance", key="governed")
    ledger.add_key("ab" * 32, why="the second host")
    ledger.retire_key("ab" * 32, why="the second host is gone")
    erased = clinic.pay(ts.zcdp(rho=0.001), why="about Mrs Miller")
    ledger.erase(erased.charge, why="she asked for it", answers=True)
    north.close(why="the study is over")
    return ledger


def main() -> None:
    """Write the exports and what a checker must say of them."""
    with tempfile.TemporaryDirectory() as folder, small(folder) as ledger:
        report = ledger.verify().require()
        used = {account.name: [account.used.a0, account.used.a1] for account in ledger.accounts()}
        lines = {level: list(ledger.export(level=level)) for level in ("chain", "record", "answers")}
    for level, text in lines.items():
        (HERE / f"{level}.jsonl").write_text("\n".join(text) + "\n", encoding="ascii")
    facts = {"ledger": report.ledger, "entries": report.entries, "head": report.head, "used": used, "sealed": True}
    (HERE / "expected.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
