"""Processes that share a stream of answers: what each one drew and what each one gave out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tallystick.accounting.losses import zcdp
from tallystick.errors import TallystickError, Unavailable
from tallystick.ledger import Budget, Ledger
from tallystick.ledger.pay import Paid
from tallystick.ledger.stream import AnswerStream, Cost

ITEMS = 6
LEASE = 30.0


def cost_of(first: int, last: int) -> Cost:
    return Cost(zcdp(rho=1), None, f"period {first} to {last}")


def opened(
    ledger: Ledger, kind: type[AnswerStream] = AnswerStream, *, key: str = "board", block: int = 1
) -> AnswerStream:
    """A stream as every process of a test opens it."""
    account = ledger.open("people", budget=Budget.zcdp(100), unit="person")
    plan = Cost(zcdp(rho=1), None, f"{ITEMS} periods")
    stream = kind(account, key=key, why="test", items=ITEMS, whole=plan, each=cost_of, block=block, lease=LEASE)
    stream.open()
    return stream


def say(seen: int, kind: str, number: int, text: str = "") -> None:
    os.write(seen, f"{kind}\t{number}\t{text}\n".encode())


def fresh_table() -> str:
    """A published table that no other draw returns."""
    time.sleep(0.01)  # so that the draws of two processes overlap
    return f"table-{os.getpid()}-{os.urandom(4).hex()}"


def draw_and_say(seen: int, number: int) -> Callable[[], str]:
    def draw() -> str:
        table = fresh_table()
        say(seen, "drawn", number, table)
        return table

    return draw


def answer_all(stream: AnswerStream, seen: int) -> None:
    """Ask for every item in order, as a scheduled refresh does; wait where another process holds the item."""
    for number in range(ITEMS):
        paid = _answer_when_free(stream, seen, number)
        say(seen, "delivered", number, paid.answer)


def _answer_when_free(stream: AnswerStream, seen: int, number: int) -> Paid:
    for _ in range(2000):
        try:
            return stream.answer(number, draw_and_say(seen, number))
        except Unavailable:
            time.sleep(0.01)
    raise TimeoutError


def take_all(stream: AnswerStream, seen: int) -> None:
    while (number := stream.take()) is not None:
        say(seen, "taken", number)


def race(
    place: str, config: Path, work: Callable[[AnswerStream, int], None], kind: type[AnswerStream], processes: int = 3
) -> list[list[str]]:
    """Fork processes that start when all are ready; return the lines that they said."""
    go, start = os.pipe()
    waiting, ready = os.pipe()
    reader, writer = os.pipe()
    children = []
    for _ in range(processes):
        child = os.fork()
        if child == 0:
            code = 70
            try:
                os.close(start)
                with Ledger(place, config=config) as ledger:
                    stream = opened(ledger, kind, block=2 if work is take_all else 1)
                    os.write(ready, b"!")
                    os.read(go, 1)
                    work(stream, writer)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    for _ in children:
        os.read(waiting, 1)
    for end in (go, start, waiting, ready, writer):
        os.close(end)
    with os.fdopen(reader) as pipe:
        lines = pipe.read().splitlines()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * processes
    return [line.split("\t") for line in lines]


def complaints(lines: list[list[str]]) -> Iterator[str]:
    """What is wrong with a race: an item that was taken twice, or that has two answers, or that nobody got."""
    for number in range(ITEMS):
        taken = [text for kind, item, text in lines if kind == "taken" and int(item) == number]
        drawn = [text for kind, item, text in lines if kind == "drawn" and int(item) == number]
        delivered = {text for kind, item, text in lines if kind == "delivered" and int(item) == number}
        if len(taken) > 1:
            yield f"item {number} was taken {len(taken)} times"
        if len(drawn) > 1:
            yield f"item {number} was drawn {len(drawn)} times"
        if len(delivered) > 1:
            yield f"item {number} has {len(delivered)} answers"
        if not taken and not delivered:
            yield f"item {number} was given to no process"


class HastyStream(AnswerStream):
    """A broken twin: it looks whether an item is free, draws, and records the item afterwards."""

    def answer(self, number: int, draw: Callable[[], Any], *, source: str = "") -> Paid:
        stored = self.replay(number)
        if stored is not None:
            return stored
        time.sleep(0.1)  # the others look, too
        drawn = draw()
        try:
            recorded = super().answer(number, lambda: drawn)
        except TallystickError:
            time.sleep(0.05)
            recorded = super().answer(number, lambda: drawn)
        return Paid(drawn, recorded.receipt, fresh=True)


class DeafStream(AnswerStream):
    """A broken twin: it records a block, and does not ask whether the block was taken before."""

    def _settle(self, charge: Any, request: str) -> bool:
        super()._settle(charge, request)
        return True
