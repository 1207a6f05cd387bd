"""How many durable transactions and full releases per second many SQLite writers get, with the gate and without it."""

from __future__ import annotations

import os
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tallystick as ts
from tallystick.ledger import Account, Budget, Ledger
from tallystick.ledger.pay import Charge, Terms

Work = Callable[[Account, int], None]


@dataclass(frozen=True)
class Rate:
    """What was measured: operations per second over all writers, and how long single ones took."""

    name: str
    per_second: float
    p50: float
    p99: float
    slowest: float
    syncs: float | None  # of the log, per second, by us; None: SQLite syncs every commit itself

    def row(self) -> str:
        syncs = "one per commit" if self.syncs is None else f"{self.syncs:,.0f}"
        return (
            f"| {self.name} | {self.per_second:,.0f} | {1e3 * self.p50:.1f} | {1e3 * self.p99:.1f} | "
            f"{1e3 * self.slowest:.0f} | {syncs} |"
        )


def transaction(account: Account, number: int) -> None:
    """One durable transaction: a reservation (read the key, spend, insert charge, line and entry, fsync)."""
    Charge(account.ledger, Terms.of(((account, 1, 0),), "{}"), why="benchmark").reserve()


def release(account: Account, number: int) -> None:
    """A full release: price, reserve and start (durable), draw exact noise, store the answer (durable), return it."""
    account.release(MECHANISM, 120.0, why="benchmark")


MECHANISM = ts.noise.add_gaussian(sigma=1000, sensitivity=1)


def measure(
    name: str, work: Work, *, writers: int, seconds: float, gate: bool = True, where: str | None = None
) -> Rate:
    """Run ``work`` in that many warm processes on one file for that long; they start together."""
    with tempfile.TemporaryDirectory(prefix="tallystick-bench-", dir=where) as folder:
        place, config = Path(folder) / "budget.db", Path(folder) / "config"
        with Ledger(place, config=config) as ledger:
            work(ledger.open("people", budget=Budget.zcdp(1_000_000), unit="person"), 0)  # imports and prices, once
        times_reader, times_writer = os.pipe()
        ready_reader, ready_writer = os.pipe()
        go_reader, go_writer = os.pipe()
        children = []
        for _ in range(writers):
            child = os.fork()
            if child == 0:
                os.close(go_writer)
                _write(place, config, work, seconds, gate, (ready_writer, go_reader, times_writer))
            children.append(child)
        os.close(times_writer)
        for _ in children:
            os.read(ready_reader, 1)
        os.close(go_writer)
        with os.fdopen(times_reader, "rb") as pipe:
            content = pipe.read()
        syncs = sum(int.from_bytes(os.read(ready_reader, 8), "big") for _ in children) if gate else None
        for child in children:
            os.waitpid(child, 0)
        for descriptor in (ready_reader, ready_writer, go_reader):
            os.close(descriptor)
        with Ledger(place, config=config) as ledger:
            ledger.verify().require()
    times = sorted(t for (t,) in struct.iter_unpack("d", content))
    rate = None if syncs is None else syncs / seconds
    return Rate(name, len(times) / seconds, _at(times, 0.5), _at(times, 0.99), times[-1], rate)


def _at(times: list[float], share: float) -> float:
    return times[min(len(times) - 1, int(share * len(times)))]


def _write(place: Path, config: Path, work: Work, seconds: float, gate: bool, pipes: tuple[int, int, int]) -> None:
    ready, go, out = pipes
    code = 70
    try:
        ledger = Ledger(place, config=config)
        if not gate:
            store = ledger.store
            os.close(store._gate)  # type: ignore[attr-defined]
            store._gate = -1  # type: ignore[attr-defined]  # the naive version: only SQLite's own busy timeout
            store._durability = None  # type: ignore[attr-defined]  # and its own sync of every commit
            store._connected().execute("PRAGMA synchronous = FULL")  # type: ignore[attr-defined]
        account = ledger.open("people")
        os.write(ready, b"r")
        os.read(go, 1)  # ends when the last holder of the other side, the parent, closes it
        durability = ledger.store._durability  # type: ignore[attr-defined]
        before = durability.syncs if durability else 0
        times, end = [], time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            try:
                work(account, len(times))
            except ts.errors.Unavailable:
                continue
            times.append(time.perf_counter() - start)
        if durability:
            os.write(ready, (durability.syncs - before).to_bytes(8, "big"))
        packed = struct.pack(f"{len(times)}d", *times)
        for at in range(0, len(packed), 4096):
            os.write(out, packed[at : at + 4096])
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(code)


def run(writers: int = 16, seconds: float = 8.0) -> list[Rate]:
    """The rows of the table; the last two, without a disk, show what the ledger itself costs."""
    rates = []
    for what, work in (("transactions", transaction), ("full releases", release)):
        for how, gate in (("gate and shared syncs", True), ("naive: busy timeout, a sync per commit", False)):
            name = f"{what}, {writers} writers, {how}"
            rates.append(measure(name, work, writers=writers, seconds=seconds, gate=gate))
    if Path("/dev/shm").is_dir():
        for what, work in (("transactions", transaction), ("full releases", release)):
            name = f"{what}, {writers} writers, gate and shared syncs, on a RAM disk"
            rates.append(measure(name, work, writers=writers, seconds=seconds, where="/dev/shm"))
    return rates


if __name__ == "__main__":
    for rate in run(seconds=float(sys.argv[1]) if len(sys.argv) > 1 else 8.0):
        print(rate.row(), flush=True)
