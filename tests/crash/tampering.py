"""An editor with full access to the database: every way to change what the record says."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crash.stores import Clock, spend
from tallystick.accounting.losses import zcdp
from tallystick.ledger import Budget, Ledger, Partition, Signer
from tallystick.ledger.chain import GENESIS, canonical, link
from tallystick.ledger.governance import seal_terms
from tallystick.ledger.journal import Position

TABLES = (
    "entry", "account", "charge", "line", "answer", "dataset", "quarantine", "migration",
    "entry_text", "tag", "secret", "seal", "checkpoint",
)  # fmt: skip
COVERED = ("seal", "checkpoint")
"""Rows of these tables can be missing: a later seal covers the same entries, and a check begins earlier."""


def furnished(place: str, config: Path | None = None, *, governed: bool = False) -> Ledger:
    """A ledger in which every table has rows and every state occurs. Seals and checkpoints need ``governed``."""
    clock = Clock()
    ledger = Ledger(place, clock=clock, config=config)
    people = ledger.open("people", budget=Budget.zcdp(1, 1e-6), unit="person", milestones=[0.25])
    ward = Partition("ward", by="unit id", one_block_per_unit=True)
    blocks = [
        ledger.open(n, budget=Budget.zcdp(0.5, 1e-6), unit="person", parent=people, partition=ward) for n in ("a", "b")
    ]
    people.register("visits", source="visits.csv", note="{}", fixed={"unit": "pid"}, least_price=zcdp(rho=4e-11))
    people.register("visits", source="moved.csv", note="{}", fixed={"unit": "pid"}, update=True)
    for number, block in enumerate(blocks):
        with spend(block, 1000 + number, 7, key=f"block-{number}") as charge:
            charge.answer = [1, 2.5, "three"]
    spend(people, 5000, key="held").reserve()
    spend(people, 6000, key="given back").reserve().refund()
    spend(people, 100, key="running").__enter__()
    burned = spend(people, 50, key="burned")
    burned.__enter__()
    burned.burn()
    for name, cleared in (("people", True), ("guests", False)):
        owner = ledger.open(name, budget=Budget.zcdp(1, 1e-6), unit="person", milestones=[0.25] if cleared else [])
        failed = spend(owner, 60, key=f"failed {name}", source=f"{name}.csv").begin()
        failed.burn()
        if cleared:
            owner.clear(why="looked at the log")
    people.raise_limit(Budget.zcdp(2, 1e-6), why="refresh")
    ledger.open("old", budget=Budget.approx(1), unit="person").close(why="done")
    if governed:
        _govern(ledger)
    return ledger


def _govern(ledger: Ledger) -> None:
    """Begin governance, and let every kind of entry about keys and erasures occur."""
    people = ledger.open("people")
    ledger.govern(why="a team uses it")
    second = Signer(b"2" * 32)
    ledger.add_key(second.public, why="a second host")
    for number in range(2):
        with spend(people, 70, key=f"signed-{number}") as charge:
            charge.answer = number
    ledger.erase(charge.id, why="a name was in it", answers=True)
    ledger.make_checkpoint()
    ledger.retire_key(second.public, why="the host is gone")
    spend(people, 80, key="after the checkpoint").begin().commit("signed, too")


def disarmed(path: str) -> sqlite3.Connection:
    """A connection on which the triggers and checks no longer bind, as an attacker would make it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute("PRAGMA foreign_keys = OFF")
    return connection


def without_triggers(connection: sqlite3.Connection, edit: Callable[[], None]) -> None:
    """Drop the triggers, edit, and put the triggers back, so that only the data differs."""
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    edit()
    for _, sql in triggers:
        connection.execute(sql)


def random_edit(connection: sqlite3.Connection, draw: random.Random) -> str:
    """Change, remove or copy one random row of a random table; returns what was done."""
    table = draw.choice([t for t in TABLES if connection.execute(f"SELECT count(*) FROM {t}").fetchone()[0]])
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
    row = draw.choice(rows)
    where = " AND ".join(f"{column} IS ?" for column in columns)
    kind = draw.choice(["update", "update", "update", "update" if table in COVERED else "delete", "insert"])
    if kind == "delete":
        connection.execute(f"DELETE FROM {table} WHERE {where}", row)
        return f"delete from {table}"
    column = draw.randrange(len(columns))
    changed = list(row)
    changed[column] = altered(row[column], draw)
    try:
        if kind == "update":
            connection.execute(f"UPDATE {table} SET {columns[column]} = ? WHERE {where}", (changed[column], *row))
        else:
            changed[0] = altered(row[0], draw)
            connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", changed)
    except sqlite3.DatabaseError:
        return ""  # the database itself refused (types, uniqueness)
    return f"{kind} {table}.{columns[column]}"


def altered(value: Any, draw: random.Random) -> Any:
    if value is None:
        return draw.choice(["x", 1])
    if isinstance(value, int):
        return value + draw.choice([-2, -1, 1, 2, 1000])
    text = str(value)
    if not text or draw.random() < 0.2:
        return text + "0"
    at = draw.randrange(len(text))
    replaced = draw.choice([c for c in "0123456789abcdefRZ" if c != text[at]])
    return text[:at] + replaced + text[at + 1 :]


def rewritten(connection: sqlite3.Connection, seq: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change one entry and recompute every later hash: the best a forger without the anchor can do."""
    previous, rows = GENESIS, connection.execute("SELECT seq, body FROM entry ORDER BY seq").fetchall()
    for number, body in rows:
        if number == seq:
            fields = json.loads(body)
            change(fields)
            body = canonical(fields)
        previous = link(previous, body)
        connection.execute("UPDATE entry SET hash = ?, body = ? WHERE seq = ?", (previous, body, number))


def edited(place: str, *edits: tuple[str, tuple[Any, ...]]) -> None:
    """Run statements as whoever owns the store, without triggers and checks; put the triggers back."""
    if not place.startswith("postgresql"):
        connection = disarmed(place)

        def edit() -> None:
            for statement, values in edits:
                connection.execute(statement, values)

        without_triggers(connection, edit)
        connection.close()
        return
    import psycopg

    with psycopg.connect(place, autocommit=True) as server:
        for state in ("DISABLE", "ENABLE"):
            for statement, values in edits if state == "ENABLE" else ():
                server.execute(statement.replace("?", "%s").encode(), values)
            for table in TABLES:
                server.execute(f"ALTER TABLE {table} {state} TRIGGER ALL".encode())


def newest_in(place: str) -> tuple[Any, ...]:
    """Number and hash of the newest entry in the table, whoever wrote it."""
    [found] = rows_of(place, "SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1")
    return tuple(found)


def rows_of(place: str, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    """The rows that a statement finds, read beside the ledger."""
    if not place.startswith("postgresql"):
        connection = sqlite3.connect(place)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()
    import psycopg

    with psycopg.connect(place, autocommit=True) as server:
        return server.execute(statement.replace("?", "%s").encode(), values).fetchall()


def append_forged(place: str, body: dict[str, Any], *, seal: Signer | None = None) -> int:
    """Append an entry with its true hash, as whoever can INSERT; with ``seal`` also a seal by that key."""
    [(seq, head)] = rows_of(place, "SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1")
    [(first,)] = rows_of(place, "SELECT body FROM entry WHERE seq = 1")
    text = canonical(body)
    position = Position(seq + 1, link(head, text))
    edits: list[tuple[str, tuple[Any, ...]]] = [("INSERT INTO entry VALUES (?, ?, ?)", (*position, text))]
    if seal is not None:
        signature = seal.sign(seal_terms(json.loads(first)["ledger"], position))
        edits.append(("INSERT INTO seal VALUES (?, ?, ?)", (position.seq, seal.public, signature)))
    edited(place, *edits)
    return position.seq
