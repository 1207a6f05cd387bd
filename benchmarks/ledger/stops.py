"""Tables stopped between their charge and their answer, in every way; see tests/crash/table_stops.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from crash.stores import Server

SCRIPT = Path(__file__).resolve().parents[2] / "tests" / "crash" / "table_stops.py"


def run(scale: float, server: Server) -> list[str]:
    """Rows of the table. DuckDB must not be open when the processes that are to be stopped are forked."""
    sizes = ["--each", str(max(1, round(9 * scale))), "--random", str(max(10, round(2000 * scale)))]
    done = subprocess.run([sys.executable, SCRIPT, *sizes], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    counts = ", ".join(f"{way} {number:,}" for way, number in sorted(found["done"].items()))
    size = f"{len(found['window'])} points between charge and answer, {found['stops']:,} stops ({counts})"
    wrong = found["wrong"]
    said = f"**{len(wrong)} complaints**: {wrong[0]}" if wrong else "each paid for, told nothing, closed until cleared"
    return [f"| tables stopped by kill -9, SIGTERM, SIGINT, a lost or changed file, a full disk | {size} | {said} |"]
