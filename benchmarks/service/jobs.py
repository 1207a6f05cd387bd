"""Processor time of a service for each small release, each replay and each refusal, by kind of process.

    python benchmarks/service/jobs.py --jobs 40

The same statements are asked in one process without a service, in the same run. Figures go to
``benchmarks/results/service.md`` with ``--write``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

import served
import tallystick as ts
from served import Service, statement
from tallystick.publish.kinds.statement import Statement
from tallystick.publish.request import Cost, Request, answer, price

TICKS = os.sysconf("SC_CLK_TCK")
RESULTS = ROOT / "benchmarks" / "results" / "service.md"


def seconds(pid: int) -> float:
    """Processor time of a process, with that of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(each) for each in fields[11:15]) / TICKS


def children(pid: int) -> list[int]:
    """The children of a process."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if entry.name.isdigit() and int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


class Meter:
    """Processor time of the processes of a service since it was made."""

    def __init__(self, service: Service) -> None:
        assert service.process is not None
        self.keeper = service.process.pid
        [self.template] = children(self.keeper)
        self.planners = children(self.template)
        self.start = self._now()

    def _now(self) -> dict[str, float]:
        planners = sum(seconds(each) for each in self.planners)
        return {"keeper": seconds(self.keeper), "template and workers": seconds(self.template), "planners": planners}

    def each(self, count: int) -> dict[str, float]:
        """Milliseconds for each of so many requests."""
        now = self._now()
        return {name: 1000 * (now[name] - self.start[name]) / count for name in now}


def texts(count: int, start: int) -> list[str]:
    """Statements, each another question: another name alone would be the same one."""
    where = "FROM visits WHERE ward IN ('north', 'east') AND age >="
    return [
        f"SELECT ward, COUNT(*) AS n, AVG(age) AS a {where} {(start + i) / 1000} GROUP BY ward" for i in range(count)
    ]


def run(jobs: int) -> dict[str, dict[str, float]]:
    """Measure all kinds of requests."""
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        service = served.made(Path(folder) / "s")
        service.start()
        with service.calling("ann") as caller:

            def submit(text: str, rho: float = 0.001) -> Any:
                return caller.ask("submit", request=statement(text, rho=rho), name=None, wait=30)

            for text in texts(4, 10_000):
                submit(text)
            time.sleep(1.0)
            fresh = texts(jobs, 0)
            meter = Meter(service)
            for text in fresh:
                time.sleep(0.05)
                submit(text)
            found["fresh release"] = meter.each(jobs)
            meter = Meter(service)
            for _ in range(5):
                for text in fresh:
                    _patient(submit, text)
            found["replay"] = meter.each(5 * jobs)
            meter = Meter(service)
            for text in texts(jobs, 20_000):
                _patient(lambda each: caller.ask("offer", request=statement(each), sizes=[]), text)
            found["offer"] = meter.each(jobs)
        service.stop()
        found["the same without a service"] = alone(service, jobs)
    return found


def _patient(ask: Any, text: str) -> None:
    """Ask again after a moment if it was too often."""
    while True:
        try:
            ask(text)
            return
        except ts.errors.Unavailable as problem:
            if problem.code != "too_many_requests":
                raise
            time.sleep(0.2)


def alone(service: Service, jobs: int) -> dict[str, float]:
    """Milliseconds of a plan and of a release in one process that has the data and the key."""
    with service.ledger() as book, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        asked = [Request(Statement(text), Cost(rho=0.001), why="alone") for text in texts(jobs + 2, 40_000)]
        for each in asked[:2]:
            answer(each, book)
        began = time.process_time()
        for each in asked[2:]:
            price(each, book)
        planned = time.process_time()
        for each in asked[2:]:
            answer(each, book)
        released = time.process_time()
        for each in asked[2:]:
            answer(each, book)
        again = time.process_time()
    names = ("offer", "release with its plan", "replay")
    times = (planned - began, released - planned, again - released)
    return {name: 1000 * each / jobs for name, each in zip(names, times, strict=True)}


def main() -> None:
    """Print the figures, and write them with ``--write``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = ["# The service", "", "Milliseconds of processor time for each request, two cores, a table of 2,000 rows."]
    lines += ["`python benchmarks/service/jobs.py --write`", "", "| request | process | ms |", "|---|---|---|"]
    for request, times in run(options.jobs).items():
        lines += [f"| {request} | {process} | {each:.1f} |" for process, each in times.items()]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
