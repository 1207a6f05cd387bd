"""How many charges per second the threads of one process make, with combined transactions and without them.

A service has one process that writes (the keeper), and a thread for each client. The ledger is governed and has roles:
every charge is judged, sealed and signed. Every thread pays from the allowance of one of four analysts. Syncs are on.
Empty transactions that are synced are measured in the same run, in turn with the charges: they say what the disk does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

WARM = 400
"""Charges before the measurement. SQLite's log has then its full length: a sync takes longer while the log grows."""
ANALYSTS = 4
RHO = 1_000_000


class Rate(NamedTuple):
    """One run: charges per second, CPU milliseconds of a charge (this process), the median and the 99th percentile of
    the milliseconds that a charge took, and the blocks of a transaction.
    """

    per_second: float
    cpu: float
    p50: float
    p99: float
    batch: float


# -- the measured process


def measure(place: str, config: Path, kind: str, *, combine: bool, threads: int, seconds: float) -> Rate:
    """Let that many threads charge for that long, on one new ledger; verify it."""
    from tallystick.ledger import Ledger

    with Ledger(place, config=config, **({"combine": True} if combine else {})) as ledger:
        charge = CHARGES[kind]
        accounts = prepared(ledger, threads)
        prefer(ledger.store)
        for number in range(WARM):
            charge(accounts[number % threads])
        count = turns_of(ledger.store)
        before, blocks = cpu_seconds(), count()
        times = run_threads(accounts, charge, seconds)
        cpu = cpu_seconds() - before
        transactions = count() - blocks
        ledger.verify().require()
    times.sort()
    p50, p99 = (1e3 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
    per_charge = 1 if kind == "settle" else 2
    return Rate(len(times) / seconds, 1e3 * cpu / len(times), p50, p99, per_charge * len(times) / transactions)


def prepared(ledger: Any, threads: int) -> list[Any]:
    """A governed ledger with roles; the account from which each thread pays."""
    import tallystick as ts

    ledger.open("people", budget=ts.zcdp(rho=RHO), unit="person")
    ledger.govern(why="a benchmark")
    ledger.team.begin(why="a benchmark")
    books = []
    for number in range(ANALYSTS):
        principal = ledger.team.add(f"analyst {number}")
        ledger.team.grant(principal, "analyst", "people", why="a benchmark")
        ledger.team.allow(principal, "people", ts.zcdp(rho=RHO / ANALYSTS), called=f"own {number}", why="a benchmark")
        books.append(ledger.acting_for(principal))
    return [books[number % ANALYSTS].open(f"own {number % ANALYSTS}") for number in range(threads)]


def prefer(store: Any) -> None:
    """With ``--prefer``, let the scheduler of Linux run this process and its server before other sessions."""
    if "--prefer" not in sys.argv:
        return
    connection = getattr(store, "store", store)._connection
    server = [connection.info.backend_pid] if hasattr(connection, "info") else []
    for process in (os.getpid(), *server):
        Path(f"/proc/{process}/autogroup").write_text("-15")


def release(account: Any) -> None:
    """A full release: begin (durable), draw exact noise, store the answer (durable), return it. Two transactions."""
    account.release(mechanism(), 120.0, why="benchmark")


def settle(account: Any) -> None:
    """A charge and its note in one transaction: price, begin and commit (durable)."""
    import tallystick as ts

    account.pay(ts.zcdp(rho=0.0001), why="benchmark")


def mechanism() -> Any:
    """One mechanism for all releases of a thread, as a service that repeats its questions."""
    import tallystick as ts

    if not hasattr(_own, "mechanism"):
        _own.mechanism = ts.noise.add_gaussian(sigma=1000, sensitivity=1)
    return _own.mechanism


_own = threading.local()
CHARGES: dict[str, Callable[[Any], None]] = {"release": release, "settle": settle}


def run_threads(accounts: list[Any], charge: Callable[[Any], None], seconds: float) -> list[float]:
    """The seconds that each charge took."""
    times: list[float] = []
    end = time.monotonic() + seconds

    def run(account: Any) -> None:
        while (now := time.monotonic()) < end:
            charge(account)
            times.append(time.monotonic() - now)

    threads = [threading.Thread(target=run, args=(account,)) for account in accounts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def turns_of(store: Any) -> Callable[[], int]:
    """A function that says how many transactions were written."""
    turns = [0]
    inner = getattr(store, "store", store)
    listen = inner._listener

    def count(seq: int, head: str) -> None:
        turns[0] += 1
        listen(seq, head)

    inner.on_commit(count)
    return lambda: turns[0]


def cpu_seconds() -> float:
    """User and system seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# -- the measuring process


def measured(place: str, config: Path, kind: str, threads: int, seconds: float, *, combine: bool) -> Rate:
    """Measure one case in a process of its own."""
    options = ["--measure", place, str(config), "--kinds", kind, "--threads", str(threads), "--seconds", str(seconds)]
    options += ["--combine"] if combine else []
    options += ["--prefer"] if "--prefer" in sys.argv else []
    done = subprocess.run(
        [sys.executable, __file__, *options], stdout=subprocess.PIPE, text=True, check=True, start_new_session=True
    )
    return Rate(*json.loads(done.stdout))


def empty_on_sqlite(folder: Path, seconds: float) -> float:
    """Synced transactions per second that change one number in the header of a file."""
    with sqlite3.connect(folder / "empty.db", isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        count, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            count += 1
            connection.execute(f"PRAGMA user_version = {count}")
    return count / seconds


def empty_on_postgres(url: str, seconds: float) -> float:
    """Synced transactions per second that write an empty message and no row."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        count, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            count += 1
            connection.execute("SELECT pg_catalog.pg_logical_emit_message(true, '', '')")
    return count / seconds


@contextmanager
def postgres_server(where: str) -> Iterator[str]:
    """The URL of a PostgreSQL server of our own on this disk, with syncs."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
    import psycopg

    from crash import stores

    found = stores.quick_folder
    stores.quick_folder = lambda: where
    try:
        with stores.postgres_server() as server:
            with psycopg.connect(server.url, autocommit=True) as connection:
                settings = [connection.execute(f"SHOW {name}").fetchone() for name in ("fsync", "synchronous_commit")]
                assert settings == [("on",), ("on",)], settings
            yield server.url
    finally:
        stores.quick_folder = found


def fresh_place(store: str, folder: Path, url: str) -> str:
    """A new place for a ledger."""
    if store == "sqlite":
        return str(folder / "budget.db")
    from crash.stores import fresh_schema

    return fresh_schema(url)


def compare(store: str, kind: str, url: str, options: argparse.Namespace) -> None:
    """Print one table: empty transactions, and charges without and with combined transactions, in turn."""
    ways = [False, True] if options.both else [options.combine]
    rates: dict[bool, list[Rate]] = {way: [] for way in ways}
    empty = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="tallystick-bench-", dir=options.folder) as name:
            folder = Path(name)
            empty.append(empty_on_sqlite(folder, 1.0) if store == "sqlite" else empty_on_postgres(url, 1.0))
        for way, found in rates.items():
            with tempfile.TemporaryDirectory(prefix="tallystick-bench-", dir=options.folder) as name:
                folder = Path(name)
                place, config = fresh_place(store, folder, url), folder / "config"
                found.append(measured(place, config, kind, options.threads, options.seconds, combine=way))
    bare = statistics.median(empty)
    print(f"\n{store}, {kind}, {options.threads} threads, {options.rounds} rounds of {options.seconds:g} s, ", end="")
    print(f"{bare:,.0f} empty synced transactions per second, load average {os.getloadavg()[0]:.1f}\n")
    print(
        "| transactions | charges per second | CPU ms per charge | p50 ms | p99 ms | blocks per transaction | of 0.6 x empty x blocks |"
    )
    print("|---|---|---|---|---|---|---|")
    for way, found in rates.items():
        middle = Rate(*(statistics.median(column) for column in zip(*found, strict=True)))
        per_charge = 1 if kind == "settle" else 2
        share = middle.per_second * per_charge / (0.6 * bare * middle.batch)
        name = "combined" if way else "one by one"
        print(
            f"| {name} | {middle.per_second:,.0f} | {middle.cpu:.2f} | {middle.p50:.1f} | {middle.p99:.1f} | "
            f"{middle.batch:.1f} | {share:.2f} |",
            flush=True,
        )


def main() -> None:
    """Read the options; measure one case, or compare all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", nargs="+", default=["sqlite", "postgres"])
    parser.add_argument("--kinds", nargs="+", default=["release", "settle"])
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--folder", default="/var/tmp", help="on a disk, so that a sync costs what it costs")
    parser.add_argument("--combine", action="store_true", help="only with combined transactions")
    parser.add_argument("--apart", action="store_true", help="only without combined transactions")
    parser.add_argument("--prefer", action="store_true", help="measure before other sessions of a busy machine (root)")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.both = not (options.combine or options.apart)
    if options.measure:
        place, config = options.measure
        rate = measure(
            place, Path(config), options.kinds[0], combine=options.combine, threads=options.threads,
            seconds=options.seconds,
        )  # fmt: skip
        print(json.dumps(rate))
        return
    for store in options.stores:
        with postgres_server(options.folder) if store == "postgres" else _nothing() as url:
            for kind in options.kinds:
                compare(store, kind, url, options)


@contextmanager
def _nothing() -> Iterator[str]:
    yield ""


if __name__ == "__main__":
    main()
