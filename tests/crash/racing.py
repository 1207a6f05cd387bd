"""Many client processes that all want one unit per attempt, while something disturbs them."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

from crash.stores import Server, raised, spend
from tallystick.ledger import Budget, Filter, Ledger

LEASE = 20.0  # a client whose reply was lost finds its charge burned after this


def race(
    place: str, config: Path, *, processes: int, each: int, limit: int, disturb: Callable[[int], None] | None = None
) -> tuple[dict[str, int], int]:
    """Every attempt wants one unit; returns the outcomes and how often a client had to try again.

    ``disturb`` runs in a process of its own, from the first outcomes to the end, and writes a line when it strikes.
    """
    with Ledger(place, config=config) as ledger:
        ledger.open("people", budget=Budget(Filter("zcdp"), limit, 0), unit="person")
    reader, writer = os.pipe()
    children = [_forked(lambda n=number: _client(place, config, n, each, writer)) for number in range(processes)]
    outcomes: dict[str, int] = {}
    with os.fdopen(reader) as pipe:
        first = pipe.readline()
        breaker = _forked(lambda: disturb(writer)) if disturb else 0
        os.close(writer)
        for line in chain([first], pipe):
            outcomes[line.strip()] = outcomes.get(line.strip(), 0) + 1
            if breaker and line == "end\n" and outcomes["end"] == processes:
                os.kill(breaker, signal.SIGTERM)
    for child in filter(None, (*children, breaker)):
        assert os.waitpid(child, 0)[1] == 0
    del outcomes["end"]
    return outcomes, outcomes.pop("Unavailable", 0)


def _forked(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        code = 70
        try:
            work()
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        finally:
            os._exit(code)
    return child


def _client(place: str, config: Path, number: int, each: int, out: int) -> None:
    try:
        account: Any = None
        for attempt in range(each):
            while True:
                try:
                    account = account or Ledger(place, config=config).open("people")
                    outcome = raised(lambda account=account, attempt=attempt: once(account, f"{number}-{attempt}"))
                except Exception:
                    outcome = "Unavailable"
                os.write(out, f"{outcome}\n".encode())
                if outcome != "Unavailable":
                    break
                time.sleep(0.05)
    finally:
        os.write(out, b"end\n")


def once(account: Any, key: str) -> None:
    with spend(account, 1, key=key, lease=LEASE):
        pass


def restarting(server: Server, *, every: float, times: int) -> Callable[[int], None]:
    """Stops the server at once and starts it again, so many times, until it is told that the race is over."""

    def strike(out: int) -> None:
        over: list[bool] = []
        signal.signal(signal.SIGTERM, lambda *_: over.append(True))
        for _ in range(times):
            server.restart()
            os.write(out, b"restart\n")
            end = time.monotonic() + every
            while time.monotonic() < end and not over:
                time.sleep(0.02)
            if over:
                break

    return strike
