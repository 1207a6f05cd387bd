"""Make the golden ledgers: ``python tests/golden/make.py`` from the top of the checkout.

Made once, with format 2 ("tallystick/ledger/2"). Never rerun it to make a test pass: the files in ``v2/`` are what
users of that format have, and a later version must read them as they are. The noise is fresh in every run, so a rerun
writes other answers, other receipts and other ledger ids.

The maker builds the same ledger twice, in SQLite and in PostgreSQL, with everything that a user keeps beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))


import tallystick as ts
from golden import make_accounts, make_tables, place
from golden.asked import SCHEMA, STORED
from golden.maker import Maker, pack
from tallystick.errors import TallystickError
from tallystick.ledger.book import FORMAT
from tallystick.ledger.store import migrations

TABLES = ("migration", "entry", "account", "charge", "line", "answer", "dataset", "quarantine")
REGIONS = ("north", "east", "south", "west")


def write_data() -> None:
    """Synthetic visits, and public lists of groups."""
    folder = STORED / "data"
    folder.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(2026)
    lines = ["patient_id,region,sex,age,days,cost,visited,ill"]
    for person in range(200):
        age, sex = drawn.randint(18, 95), drawn.choice("fm")
        for _ in range(drawn.choice((1, 1, 2, 3, 5))):
            days = drawn.randint(1, 30)
            where, ill = drawn.choice(REGIONS), drawn.choice(("yes", "no"))
            day = f"2026-{drawn.randint(1, 6):02}-{drawn.randint(1, 28):02}"
            lines.append(f"p{person:03},{where},{sex},{age},{days},{days * 90 + age},{day},{ill}")
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    cells = [f"{region},{sex}" for region in REGIONS for sex in "fm"]
    countries = [f"{region},{'a' if region < 'p' else 'b'}" for region in REGIONS]
    lists = {
        "regions.csv": ["region", *REGIONS],
        "sexes.csv": ["sex", "f", "m"],
        "cells.csv": ["region,sex", *cells],
        "days.csv": ["visited", *(f"2026-01-{day:02}" for day in range(1, 6))],
        "countries.csv": ["region,country", *countries],
    }
    for name, content in lists.items():
        (folder / name).write_text("\n".join(content) + "\n")


def freeze(maker: Maker) -> None:
    """Write the expected numbers and the export."""
    with maker.book() as book:
        report = book.verify().require()
        assert book.underpriced() == []
        facts = {
            "format": FORMAT,
            "made_at": book.now(),
            "ledger": book.id,
            "entries": report.entries,
            "head": report.head,
            "key": book.signer().public,
            "charges": report.charges,
            "accounts": {account.name: account_facts(account) for account in book.accounts()},
            "states": [state(book, number) for number in range(1, report.entries + 1) if is_charge(book, number)],
            "datasets": {name: dataset_facts(each) for name, each in book.datasets().items()},
        }
        lines = "".join(line + "\n" for line in book.export())
    pack(maker.file("export.jsonl.gz"), lines.encode("ascii"))
    text = json.dumps({**facts, **maker.expected}, indent=1, sort_keys=True, ensure_ascii=True)
    maker.file("expected.json").write_text(text + "\n")


def account_facts(account: Any) -> dict[str, Any]:
    """What an account holds, in integers of its currency."""
    parent = account.parent
    amounts = {"limit": account.limit, "used": account.used, "left": account.remaining}
    return {
        "filter": account.filter,
        "unit": account.unit,
        "adjacency": account.adjacency,
        "closed": account.closed,
        "parent": parent.name if parent else None,
        "milestones": list(account.milestones),
        "failures": account.failures(),
        "charges": [[event.charge, event.amount.a0, event.amount.a1] for event in account.history()],
        **{name: [amount.a0, amount.a1] for name, amount in amounts.items()},
    }


def is_charge(book: ts.Ledger, number: int) -> bool:
    """True if an entry with that number began a charge."""
    try:
        book.charge_row(number)
    except TallystickError:
        return False
    return True


def state(book: ts.Ledger, number: int) -> list[Any]:
    """Number, state, principal, key and reason of a charge."""
    row, entry = book.charge_row(number)
    return [row.id, row.state, row.principal, row.key, entry["why"]]


def dataset_facts(dataset: Any) -> dict[str, Any]:
    """A registration with every note that it has had."""
    return {
        "account": dataset.account,
        "sources": sorted(dataset.sources),
        "least": dataset.least_price.a0,
        "notes": list(dataset.notes),
        "fixed": dict(dataset.fixed),
    }


def pack_folder(folder: Path) -> None:
    """Compress the cards, which are the largest files."""
    for path in sorted(folder.rglob("*.html")) + sorted((folder / "cards").glob("*.json")):
        pack(path.with_name(f"{path.name}.gz"), path.read_bytes())
        path.unlink()
    for path in folder.rglob("*.about.csv"):
        path.unlink()


STEPS = (
    make_accounts.open_accounts,
    make_accounts.open_blocks,
    make_accounts.charge_losses,
    make_accounts.charge_answers,
    make_accounts.charge_states,
    make_accounts.release_mechanisms,
    make_tables.register_data,
    make_tables.register_by_program,
    make_tables.close_data,
    make_tables.publish_tables,
    make_tables.publish_in_python,
    make_tables.publish_loose,
    make_tables.ask_statements,
    make_tables.fit_tables,
    make_tables.fit_estimators,
    make_tables.train,
    make_accounts.leave_open,
    freeze,
)


def make(ledger: str, folder: Path, steps: tuple[Any, ...] = STEPS) -> None:
    """One ledger and everything beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.environ["TALLYSTICK_CONFIG_DIR"] = str(folder / "config")
    maker = Maker(ledger, folder)
    for step in steps:
        began = time.monotonic()
        step(maker)
        print(f"{folder.name}: {step.__name__} {time.monotonic() - began:.1f} s", flush=True)
    pack_folder(folder)


def make_sqlite(folder: Path, steps: tuple[Any, ...] = STEPS) -> None:
    """The ledger in a file."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "budget.db"
        make(str(path), folder, steps)
        pack(folder / "budget.db.gz", whole(path))
        failures = path.with_name("budget.db.failures")
        if failures.exists():
            shutil.copyfile(failures, folder / failures.name)


def whole(path: Path) -> bytes:
    """The file with everything that was in its log."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path.read_bytes()


def make_postgres(url: str) -> None:
    """The ledger in a schema, dumped as SQL."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
    folder = STORED / "postgres"
    ledger = f"{url}&options=-csearch_path%3D{SCHEMA}"
    make(ledger, folder)
    pack(folder / "ledger.sql.gz", dumped(ledger).encode())


def dumped(ledger: str) -> str:
    """The schema as its migrations make it, and every row.

    The tables are filled before the triggers exist, as ``pg_dump`` would do it.
    """
    import psycopg

    tables, triggers = (step.sql for step in migrations("postgres"))
    lines = [f"CREATE SCHEMA {SCHEMA};", f"SET search_path = {SCHEMA};", tables]
    with psycopg.connect(ledger, autocommit=True) as connection:
        for table in TABLES:
            lines += inserts(connection, table)
        lines += [triggers, *inserts(connection, "failure")]
    return "\n".join(lines) + "\n"


def inserts(connection: Any, table: str) -> list[str]:
    """One statement for every row of a table."""
    from psycopg.sql import Literal

    lines = []
    for row in connection.execute(f"SELECT * FROM {table} AS one ORDER BY one").fetchall():
        values = ", ".join(Literal(value).as_string(connection) for value in row)
        lines.append(f"INSERT INTO {table} VALUES ({values});")
    return lines


def main() -> None:
    """Make both ledgers."""
    from crash.stores import postgres_server

    if STORED.exists() and "--again" not in sys.argv:
        raise SystemExit(f"{STORED} exists: golden data is made once")
    warnings.simplefilter("ignore")
    write_data()
    owner = f"maker {os.getpid()} {time.time_ns()}"
    with postgres_server() as server, place.filled(owner):
        place.serve(server.url)
        make_sqlite(STORED / "sqlite")
        make_sqlite(STORED / "notes", (make_tables.register_notes, freeze))
        make_postgres(server.url)
    place.remove(owner)


if __name__ == "__main__":
    main()
