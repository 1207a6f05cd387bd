"""What governance costs: releases per second and CPU time per release, with seals and signatures and without them.

The peer is the ledger that is not governed, in the same run. Other trees can be measured beside this one, each in its
own process: `python benchmarks/ledger/governed.py --tree LABEL=FOLDER`. A tree without governance has one row less.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

TREE = Path(__file__).resolve().parents[2]
SIGMA = 1000
RHO = 1_000_000
WARM = 300
"""Releases before the measurement. SQLite's log has then its full length: a sync takes longer while the log grows."""


class Rate(NamedTuple):
    """One run: releases per second, CPU milliseconds per release of all processes, and the median and 99th percentile
    of milliseconds that a release took.
    """

    per_second: float
    cpu: float
    p50: float
    p99: float


class Case(NamedTuple):
    """What is measured: a tree, and whether its ledger is governed."""

    label: str
    folder: Path
    is_governed: bool

    @property
    def name(self) -> str:
        """The name of a row."""
        return f"{self.label}, {'governed' if self.is_governed else 'not governed'}"


# -- the measured process: it imports the package of its own tree


def measure(folder: Path, *, is_governed: bool, writers: int, seconds: float, are_threads: bool) -> Rate:
    """Let that many processes or threads make releases for that long, on one new ledger."""
    from tallystick.ledger import Budget, Ledger

    place, config = folder / "budget.db", folder / "config"
    with Ledger(place, config=config) as ledger:
        account = ledger.open("people", budget=Budget.zcdp(RHO), unit="person")
        if is_governed:
            ledger.govern(why="a benchmark")
        release(account)
    if are_threads:
        lines = [run_threads(writers, place, config, seconds)]
    else:
        with forked(writers, place, config, seconds) as pipe:
            lines = pipe.read().splitlines()
    with Ledger(place, config=config) as ledger:
        ledger.verify().require()
    times = sorted(each for line in lines for each in json.loads(line)["times"])
    cpu = sum(json.loads(line)["cpu"] for line in lines)
    p50, p99 = (1e3 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
    return Rate(len(times) / seconds, 1e3 * cpu / len(times), p50, p99)


def release(account: Any) -> None:
    """A full release: price, begin (durable), draw exact noise, store the answer (durable), return it."""
    import tallystick as ts

    account.release(ts.noise.add_gaussian(sigma=SIGMA, sensitivity=1), 120.0, why="benchmark")


@contextmanager
def forked(writers: int, place: Path, config: Path, seconds: float) -> Iterator[Any]:
    """The output of processes that begin together once all are warm; they have ended when the block ends."""
    reader, writer = os.pipe()
    ready_reader, ready_writer = os.pipe()
    go_reader, go_writer = os.pipe()
    children = []
    for _ in range(writers):
        child = os.fork()
        if child == 0:
            os.close(go_writer)
            run_child(place, config, seconds, -(-WARM // writers), (ready_writer, go_reader, writer))
        children.append(child)
    os.close(writer)
    for _ in children:
        os.read(ready_reader, 1)
    os.close(go_writer)
    with os.fdopen(reader) as pipe:
        yield pipe
    if any(os.waitpid(child, 0)[1] for child in children):
        raise SystemExit("a writer failed")


def run_child(place: Path, config: Path, seconds: float, warm: int, pipes: tuple[int, int, int]) -> None:
    """Make releases until the time is over; write the times and the CPU seconds to the pipe."""
    from tallystick.ledger import Ledger

    ready, go, writer = pipes
    code = 70
    try:
        ledger = Ledger(place, config=config)
        account = ledger.open("people")
        for _ in range(warm):
            release(account)
        os.write(ready, b"r")
        os.read(go, 1)  # ends when the parent closes the other side
        before, times, end = cpu_seconds(), [], time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            release(account)
            times.append(time.monotonic() - now)
        line = json.dumps({"times": times, "cpu": cpu_seconds() - before}) + "\n"
        with os.fdopen(os.dup(writer), "w") as pipe:
            pipe.write(line)
        code = 0
    finally:
        os._exit(code)


def run_threads(writers: int, place: Path, config: Path, seconds: float) -> str:
    """Make releases in that many threads of this process; return what ``run_child`` writes."""
    from tallystick.ledger import Ledger

    times: list[float] = []
    with Ledger(place, config=config) as ledger:
        account = ledger.open("people")
        for _ in range(WARM):
            release(account)
        end = time.monotonic() + seconds

        def run() -> None:
            while (now := time.monotonic()) < end:
                release(account)
                times.append(time.monotonic() - now)

        threads = [threading.Thread(target=run) for _ in range(writers)]
        before = cpu_seconds()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return json.dumps({"times": times, "cpu": cpu_seconds() - before})


def cpu_seconds() -> float:
    """User and system seconds of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# -- the measuring process


def measured(case: Case, writers: int, seconds: float, where: str, *, are_threads: bool) -> Rate:
    """Measure one case in a process of its own, whose package is that of the tree."""
    options = ["--measure", "--writers", str(writers), "--seconds", str(seconds), "--folder", where]
    options += [*(["--governed"] if case.is_governed else []), *(["--threads"] if are_threads else [])]
    environment = {**os.environ, "PYTHONPATH": str(case.folder / "src")}
    done = subprocess.run(
        [sys.executable, __file__, *options], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return Rate(*json.loads(done.stdout))


def cases(trees: Sequence[str]) -> list[Case]:
    """This tree in both ways, and the others as far as they can be governed."""
    found = []
    for label, folder in [
        ("this tree", TREE),
        *((each.partition("=")[0], Path(each.partition("=")[2])) for each in trees),
    ]:
        can_govern = (folder / "src/tallystick/ledger/governance.py").exists()
        found += [Case(label, folder, is_governed) for is_governed in ([False, True] if can_govern else [False])]
    return found


def syncs_per_second(where: str, seconds: float = 1.0) -> float:
    """Bare syncs of 20 kB per second of the folder: what the disk can do."""
    with tempfile.NamedTemporaryFile(dir=where) as file:
        count, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            os.pwrite(file.fileno(), os.urandom(20_000), 20_000 * (count % 50))
            os.fdatasync(file.fileno())
            count += 1
    return count / seconds


def compare(writers: int, rounds: int, seconds: float, where: str, trees: Sequence[str], *, are_threads: bool) -> None:
    """Print one table: every case in every round, in turn, and medians over the rounds."""
    rates: dict[Case, list[Rate]] = {case: [] for case in cases(trees)}
    syncs = []
    for _ in range(rounds):
        syncs.append(syncs_per_second(where))
        for case, found in rates.items():
            found.append(measured(case, writers, seconds, where, are_threads=are_threads))
    first = next(iter(rates.values()))
    print(
        f"\n{writers} {'threads' if are_threads else 'processes'}, {rounds} rounds of {seconds:g} s, {statistics.median(syncs):,.0f} bare syncs per second\n"
    )
    print("| what | releases per second | of this tree, not governed | CPU ms per release | p50 ms | p99 ms |")
    print("|---|---|---|---|---|---|")
    for case, found in rates.items():
        share = statistics.median(ours.per_second / peer.per_second for ours, peer in zip(found, first, strict=True))
        middle = Rate(*(statistics.median(column) for column in zip(*found, strict=True)))
        print(
            f"| {case.name} | {middle.per_second:,.0f} | {share:.2f} | {middle.cpu:.2f} | {middle.p50:.1f} | "
            f"{middle.p99:.1f} |",
            flush=True,
        )


def main() -> None:
    """Read the options; measure one case, or compare all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--folder", default="/var/tmp", help="on a disk, so that a sync costs what it costs")
    parser.add_argument("--tree", action="append", default=[], help="LABEL=FOLDER of another tree")
    parser.add_argument("--threads", action="store_true", help="writers are threads of one process")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--governed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        with tempfile.TemporaryDirectory(prefix="tallystick-bench-", dir=options.folder) as folder:
            rate = measure(
                Path(folder), is_governed=options.governed, writers=options.writers[0], seconds=options.seconds,
                are_threads=options.threads,
            )  # fmt: skip
        print(json.dumps(rate))
        return
    for writers in options.writers:
        compare(writers, options.rounds, options.seconds, options.folder, options.tree, are_threads=options.threads)


if __name__ == "__main__":
    main()
