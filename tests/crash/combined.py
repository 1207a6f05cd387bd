"""Threads of one process, whose charges share transactions (``combine=True``)."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from crash.killing import AMOUNT, Traces, complaints, in_child
from crash.stores import charge_rows, raised, spend
from tallystick.ledger import Budget, Ledger, combiner
from tallystick.ledger.governance import require_seal
from tallystick.ledger.journal import head

THREADS = 16
PATIENCE = 60.0
"""Seconds after which a thread counts as stuck."""


def together(ledger: Ledger, works: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run each work in a thread, so that the first writes of all begin in this order, in one transaction.

    Returns what each work returned or raised. The limits of a transaction must allow for all of them.
    """
    shared: Any = ledger.store
    outcomes: list[Any] = [None] * len(works)

    def run(number: int) -> None:
        try:
            outcomes[number] = works[number]()
        except BaseException as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(works))]
    with shared.store._mutex:  # the first thread waits here, and the others wait for the first
        for number, thread in enumerate(threads):
            thread.start()
            _await(lambda number=number: _queued(shared) > number)
    join(threads)
    return outcomes


def _queued(shared: Any) -> int:
    with shared._lock:
        return len({*shared._waiting, *filter(None, [shared._leader])})


def _await(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "a thread did not come to its write"
        time.sleep(0.0005)


def join(threads: Sequence[threading.Thread]) -> None:
    """Wait until the threads have ended; fail if one is stuck."""
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a thread is stuck"


def seals_of(ledger: Ledger) -> list[int]:
    """The entries that have seals."""
    with ledger.store.read() as transaction:
        return [int(row[0]) for row in transaction.rows("seals", 0)]


# -- a process that is killed


def opened(place: str, config: Path, probe: Callable[[str], None] | None = None) -> Ledger:
    """A governed ledger whose charges are combined."""
    return Ledger(place, config=config, combine=True, probe=probe)


def govern(place: str, config: Path) -> None:
    """Make the governed ledger of the workers."""
    with Ledger(place, config=config) as ledger:
        ledger.open("people", budget=Budget.zcdp(100), unit="person")
        ledger.govern(why="a service")


def work(ledger: Ledger, seen: int, rounds: int) -> None:
    """Let many threads charge, fail and be denied until the process is killed.

    Two threads use the same keys. They say which data they opened and which answers they gave.
    """
    account = ledger.open("people")
    start = f"{os.getpid()}-{time.monotonic_ns()}"

    def say(kind: str, key: str, text: str = "") -> None:
        os.write(seen, f"{kind}\t{key}\t{text}\n".encode())

    def release(key: str) -> None:
        with spend(account, AMOUNT, key=key) as charge:
            say("touched", key)
            charge.answer = f"answer-{os.urandom(4).hex()}"
        say("delivered", key, charge.answer)

    def settle(key: str) -> None:
        charge = spend(account, AMOUNT, key=key)
        charge.take_and_commit(f"note-{os.urandom(4).hex()}")
        say("delivered", key, charge.answer)

    def fail(key: str) -> None:
        with spend(account, 1, key=key):
            say("touched", key)
            raise ZeroDivisionError

    def deny(key: str) -> None:
        spend(account, 10**15, key=key).begin()

    def run(number: int) -> None:
        for turn in range(rounds):
            action = (release, settle, release, deny, release, fail)[(number % (THREADS // 2) + turn) % 6]
            raised(partial(action, f"{start}-{number % (THREADS // 2)}-{turn}"))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def problems(place: str, config: Path, traces: Traces) -> Iterator[str]:
    """What is wrong after a kill, also a newest entry without a seal, and a key that was charged twice."""
    with Ledger(place, config=config) as ledger:
        with ledger.store.read() as transaction:
            keys = [row[2] for row in charge_rows(transaction) if row[4] != "REFUNDED"]
            newest = head(transaction)
            try:
                require_seal(transaction, ledger.id, newest, ledger.writer.keys_now(transaction, None, newest))
            except Exception as error:
                yield f"the newest entry, {newest.seq}: {error}"
                return
        yield from (f"{key}: charged twice" for key in set(keys) if keys.count(key) > 1)
    yield from complaints(place, config, traces)


# -- broken twins


class Hasty(combiner.Combiner):
    """Seals after the first block, and so before the last one."""

    def _close(self, group: Any, block: Any) -> None:
        self._writer.end(group.whole)
        super()._close(group, block)
        group.whole.turn = None  # the store then seals nothing


class Talkative(combiner.Combiner):
    """Lets the blocks of others return before the transaction is durable."""

    def _close(self, group: Any, block: Any) -> None:
        super()._close(group, block)
        group.end()
        time.sleep(0.003)


class Forgetful(combiner.Combiner):
    """Does not undo a block that fails."""

    def _opened(self, whole: Any, block: Any) -> Any:
        group = super()._opened(whole, block)
        group.undo = lambda: whole.run("savepoint_release")
        return group


def broken(ledger: Ledger, kind: type[combiner.Combiner]) -> Ledger:
    """Let a ledger combine its charges in a broken way."""
    ledger.store = kind(ledger.store.store, ledger.writer)  # type: ignore[attr-defined,assignment]
    return ledger


# -- kills


def at_random(place: str, config: Path, kills: int, draw: random.Random) -> tuple[int, list[str]]:
    """(answers delivered before the kills, what is wrong after them)."""

    def until_killed(seen: int) -> None:
        work(opened(place, config), seen, 10_000)

    delivered, found = 0, []
    for _ in range(kills):
        _, traces = in_child(until_killed, kill_after=draw.randint(1, 60), wait=0.02 * draw.random())
        delivered += len(traces.delivered)
        found += list(problems(place, config, traces))
    return delivered, found


def at_points(place: str, config: Path, draw: random.Random, most: int) -> tuple[int, list[str]]:
    """(named points, what is wrong after a kill at some passage of a point); ``most`` points are tried."""
    names = _points(place, config)
    found = []
    for name in draw.sample(names, most):
        traces = _killed_at(place, config, name, draw.randint(1, 12))
        found += [f"{name}: {text}" for text in problems(place, config, traces)]
    return len(names), found


def _points(place: str, config: Path) -> list[str]:
    """The points of combined transactions that threads pass, in order."""
    reader, writer = os.pipe()

    def scout(seen: int) -> None:
        names: list[str] = []
        ledger = opened(place, config, names.append)
        names.clear()
        work(ledger, seen, 6)
        os.write(writer, "\n".join(dict.fromkeys(names)).encode())

    in_child(scout)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        return [name for name in pipe.read().splitlines() if name.startswith("combined: ")]


def _killed_at(place: str, config: Path, point: str, passage: int) -> Traces:
    """Let threads work in a process that kills itself when it passes a point for that many times."""

    def until_killed(seen: int) -> None:
        left = [passage]
        is_armed: list[bool] = []

        def probe(name: str) -> None:
            if is_armed and name == point:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        ledger = opened(place, config, probe)
        is_armed.append(True)
        work(ledger, seen, 10_000)

    status, traces = in_child(until_killed)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, f"{point} was not reached"
    return traces
