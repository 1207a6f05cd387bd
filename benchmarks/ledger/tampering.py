"""Row edits, byte flips and rollbacks by the thousand; every one that changes the record must be found."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
from pathlib import Path

from crash.stores import Server, spend
from crash.tampering import disarmed, furnished, random_edit, without_triggers
from tallystick.errors import TallystickError
from tallystick.ledger import Ledger


def found(path: Path, config: Path) -> bool:
    """Whether opening or verifying complains (about the ledger: running out of descriptors would not count)."""
    assert len(os.listdir("/proc/self/fd")) < 100
    try:
        with Ledger(path, create=False, config=config) as ledger:
            return bool(ledger.verify().problems)
    except TallystickError:
        return True


def dump(path: Path) -> str:
    connection = sqlite3.connect(path)
    try:
        return "\n".join(connection.iterdump())
    finally:
        connection.close()


def run(scale: float, server: Server) -> list[str]:
    """Rows of the table."""
    edits, flips, rollbacks = (max(20, round(n * scale)) for n in (14_000, 5_000, 1_000))
    draw = random.Random(3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, original, copy = folder / "config", folder / "budget.db", folder / "copy.db"
        furnished(str(original), config).close()
        missed, made = [], 0
        while made < edits:  # the database itself refuses some of them
            shutil.copyfile(original, copy)
            connection, done = disarmed(str(copy)), []
            without_triggers(connection, lambda c=connection, d=done: d.append(random_edit(c, draw)))
            connection.close()
            if done[0]:
                made += 1
                if not found(copy, config):
                    missed.append(done[0])
        rows = [f"| random row edits (triggers removed for the edit) | {made:,} | {_said(made, missed)} |"]
        rows.append(_flips(folder, original, config, flips, draw))
        rows.append(_rollbacks(folder, rollbacks))
    return rows


def _flips(folder: Path, original: Path, config: Path, flips: int, draw: random.Random) -> str:
    content, reference, missed, caught, harmless = original.read_bytes(), dump(original), [], 0, 0
    copy = folder / "flipped.db"
    for _ in range(flips):
        at = draw.randrange(len(content))
        copy.write_bytes(content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :])
        if found(copy, config):
            caught += 1
        elif dump(copy) == reference:
            harmless += 1
        else:
            missed.append(f"byte {at}")
        for extra in folder.glob("flipped.db-*"):
            extra.unlink()
    return (
        f"| single-bit flips of the file | {flips:,} | {_said(caught, missed)}; {harmless:,} changed nothing readable |"
    )


def _rollbacks(folder: Path, rollbacks: int) -> str:
    missed = []
    config, current, old = folder / "config-2", folder / "current.db", folder / "old.db"
    furnished(str(current), config).close()
    for number in range(rollbacks):
        shutil.copyfile(current, old)
        with Ledger(current, config=config) as ledger, spend(ledger.open("people"), 1):
            pass
        if not found(old, config):
            missed.append(f"rollback {number}")
    return f"| restored old copies (one commit old) | {rollbacks:,} | {_said(rollbacks, missed)} |"


def _said(made: int, missed: list[str]) -> str:
    return f"all {made:,} found" if not missed else f"**{len(missed)} missed**: {missed[0]}"
