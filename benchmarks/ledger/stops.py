"""Tables stopped between their charge and their answer, in every way; see tests/crash/table_stops.py."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from crash.stores import Server

SCRIPT = Path(__file__).resolve().parents[2] / "tests" / "crash" / "table_stops.py"
KILLS, OTHERS, AT_RANDOM = 1000, 150, 2000


def run(scale: float, server: Server) -> list[str]:
    """Rows of the table. DuckDB must not be open when the processes that are to be stopped are forked."""
    sizes = [
        {"--kills": KILLS, "--others": OTHERS},
        {"--random": AT_RANDOM},
    ]
    running = [_begun({name: max(10, round(size * scale)) for name, size in part.items()}) for part in sizes]
    return table([_found(process) for process in running])


def _begun(sizes: dict[str, Any]) -> subprocess.Popen[str]:
    words = [str(word) for pair in sizes.items() for word in pair]
    return subprocess.Popen([sys.executable, SCRIPT, *words], stdout=subprocess.PIPE, text=True)


def _found(process: subprocess.Popen[str]) -> dict[str, Any]:
    told, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{SCRIPT.name} ended with {process.returncode}")
    found: dict[str, Any] = json.loads(told)
    return found


def table(parts: list[dict[str, Any]]) -> list[str]:
    """One row for each way of stopping: how the charges ended, and what was wrong."""
    ends: dict[str, Counter[str]] = {}
    for way, number in (item for part in parts for item in part["done"].items()):
        name, state = way.split(": ")
        ends.setdefault(name, Counter())[state] += number
    rows = []
    for name, states in sorted(ends.items()):
        told = ", ".join(f"{number:,} {state}" for state, number in sorted(states.items()))
        where = "" if name.endswith("random") else f", {len(parts[0]['window'])} points, shuffled"
        wrong = [text for part in parts for text in part["wrong"] if text.startswith(f"{name}: ")]
        said = f"**{len(wrong)} complaints**: {wrong[0]}" if wrong else "each as promised"
        rows.append(f"| table stopped after its charge: {name}{where} | {states.total():,} ({told}) | {said} |")
    return rows
