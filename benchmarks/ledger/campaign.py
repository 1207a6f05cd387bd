"""The long tests of the ledger, and the table of what they found: ``make campaign-ledger``.

    python benchmarks/ledger/campaign.py [--scale 0.1] [--part kills --part races ...] [--out FILE]

Scale 1 is the full size (hours on a busy machine); the sizes that were really run are printed in the table.
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks" / "ledger")]

import faults
import kills
import power
import races
import stops
import tampering
import throughput
import walks

from crash.stores import Server, postgres_server
from ramdisk import quick_folder

Part = Callable[[float, Server], list[str]]
PARTS: dict[str, Part] = {
    "kills": kills.run,
    "power": power.run,
    "stops": stops.run,
    "races": races.run,
    "tampering": tampering.run,
    "faults": faults.run,
    "model": walks.run,
}


@contextmanager
def timed(name: str) -> Iterator[None]:
    start = time.perf_counter()
    print(f"{name} ...", file=sys.stderr, flush=True)
    yield
    print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def raw_syncs(seconds: float = 2.0) -> float:
    """fdatasync of 20 kB per second by one process: what the disk itself allows while we measure."""
    with tempfile.NamedTemporaryFile() as file:
        done, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            os.pwrite(file.fileno(), b"x" * 20_000, 20_000 * done)
            os.fdatasync(file.fileno())
            done += 1
    return done / seconds


def speed(writers: int, seconds: float) -> list[str]:
    """The throughput table, with the state of the machine around it."""
    before, load = raw_syncs(), os.getloadavg()[0]
    rates = throughput.run(writers, seconds)
    after = raw_syncs()
    machine = (
        f"In the same minutes one process alone did {before:,.0f} (before) and {after:,.0f} (after) bare `fdatasync` "
        f"calls of 20 kB per second; load average {load:.1f} before we began, on {os.cpu_count()} cores."
    )
    heading = ["| what | per second | p50 ms | p99 ms | slowest ms | syncs per second |", "|---|---|---|---|---|---|"]
    return [*heading, *(rate.row() for rate in rates), "", machine]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--part", action="append", choices=[*PARTS, "speed"])
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    chosen = given.part or [*PARTS, "speed"]
    lines = [f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {os.cpu_count()} cores.", ""]
    with tempfile.TemporaryDirectory(prefix="tallystick-campaign-") as config:
        os.environ["TALLYSTICK_CONFIG_DIR"] = config
        if set(chosen) & set(PARTS):
            lines += ["| what was done | size | found |", "|---|---|---|"]
            tempfile.tempdir = quick_folder()  # these are about killed processes, not about power cuts
            with postgres_server() as server:
                for name in PARTS:
                    if name in chosen:
                        with timed(name):
                            rows = PARTS[name](given.scale, server)
                        print("\n".join(rows), file=sys.stderr, flush=True)
                        lines += rows
            lines.append("")
        tempfile.tempdir = None
        if "speed" in chosen:
            with timed("speed"):
                lines += speed(16, given.seconds)
    text = "\n".join(lines) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
