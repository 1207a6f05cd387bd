"""A ledger and its reference model, moved together; every step compares them."""

from __future__ import annotations

import random
from typing import Any

from crash.model import Model, ModelAccount
from crash.stores import Clock, charge_rows, raised
from tallystick.accounting.losses import zcdp
from tallystick.ledger import Budget, Filter, Ledger, Partition
from tallystick.ledger.chain import digest
from tallystick.ledger.pay import Charge, Terms

NAMES = ("people", "ward-a", "ward-b", "window", "others")
LIMITS = {"people": (12, 4), "ward-a": (8, 4), "ward-b": (8, 3), "window": (6, 2), "others": (10, 0)}
SOURCES = ("", "", "", "", "s1", "s2")  # the first is no source; s1 is registered under people, s2 nowhere
KEYS = tuple(f"k{number}" for number in range(12))
WARDS = Partition("ward", by="unit id", one_block_per_unit=True)


def budget(limit: tuple[int, int]) -> Budget:
    return Budget(Filter("zcdp"), limit[0], limit[1])


def random_step(twin: Twin, draw: random.Random) -> None:
    """One step of a long random walk."""
    kind = draw.choices(("take", "again", "move", "renew", "wait", "recover", "raise", "close", "clear"), WEIGHTS)[0]
    lease, started, which = draw.choice((10.0, 100.0)), draw.random() < 0.5, draw.randrange(1000)
    if kind == "take":
        names = draw.sample(NAMES, draw.randint(1, 3))
        lines = tuple((n, draw.randint(0, 5), draw.randint(0, 2)) for n in names)
        twin.take(draw.choice(KEYS), lines, lease, started, draw.choice(SOURCES))
    elif kind == "again":
        twin.again(which, lease, started)
    elif kind == "move":
        twin.move(which, draw.choice(("start", "commit", "burn", "refund", "refund")))
    elif kind == "renew":
        twin.renew(which, lease)
    elif kind == "wait":
        twin.wait(draw.choice((1.0, 10.0, 60.0)))
    elif kind == "recover":
        twin.recover()
    elif kind == "raise":
        twin.raise_limit(draw.choice(NAMES), (draw.randint(1, 20), draw.randint(0, 6)))
    elif kind == "clear":
        twin.clear(draw.choice(NAMES))
    elif draw.random() < 0.1:
        twin.close(draw.choice(NAMES))


WEIGHTS = (30, 20, 30, 4, 6, 4, 5, 1, 6)


class Twin:
    """Performs a step on both sides and fails when they disagree."""

    def __init__(self, place: str, config: Any = None) -> None:
        self.clock = Clock()
        self.ledger = Ledger(place, clock=self.clock, config=config)
        self.model = Model(self.clock.seconds)
        people = self._open("people")
        for ward in ("ward-a", "ward-b"):
            self._open(ward, parent=people, partition=WARDS)
        self._open("window", parent=people)
        self._open("others")
        people.register("visits", source="s1", least_price=zcdp(rho=2e-12))
        self.model.owner, self.model.least = {"s1": "people"}, {"people": 2}
        self.handles: list[tuple[Any, Any, int]] = []
        self.steps = 0

    def _open(self, name: str, **options: Any) -> Any:
        account = self.ledger.open(name, budget=budget(LIMITS[name]), unit="person", **options)
        partition = options.get("partition")
        self.model.accounts[name] = ModelAccount(
            name, LIMITS[name], "people" if options else None, partition.name if partition else None
        )
        return account

    def take(
        self, key: str, lines: tuple[tuple[str, int, int], ...], lease: float, started: bool, source: str = ""
    ) -> None:
        held = tuple((self.ledger.open(name), a0, a1) for name, a0, a1 in lines)
        charge = Charge(self.ledger, Terms.of(held, "{}", "", source), why="model", key=key, lease=lease)
        found = raised(charge.__enter__ if started else charge.reserve)
        expected, twin = self.model.take(key, tuple(sorted(lines)), lease, started=started, source=source)
        self.agree("take", found, expected)
        if twin is not None:
            self.handles.append((charge, twin, twin.fence))

    def again(self, which: int, lease: float, started: bool) -> None:
        """Ask once more for exactly what an earlier key asked for: a retry, or a takeover when its lease ran out."""
        if self.model.charges:
            earlier = self.model.charges[which % len(self.model.charges)]
            self.take(earlier.key, earlier.lines, lease, started, earlier.source)

    def move(self, which: int, action: str) -> None:
        if not self.handles:
            return
        charge, twin, fence = self.handles[which % len(self.handles)]
        expected = self.model.move(twin, fence, action)
        self.agree(action, raised(getattr(charge, action)), expected)

    def renew(self, which: int, lease: float) -> None:
        if self.handles:
            charge, twin, fence = self.handles[which % len(self.handles)]
            self.agree("renew", raised(lambda: charge.renew(lease=lease)), self.model.renew(twin, fence, lease))

    def wait(self, seconds: float) -> None:
        self.clock.seconds += seconds
        self.model.now = self.clock.seconds
        self.steps += 1

    def recover(self) -> None:
        self.agree("recover", self.ledger.recover(), self.model.recover())

    def raise_limit(self, name: str, limit: tuple[int, int]) -> None:
        account = self.ledger.open(name)
        found = raised(lambda: account.raise_limit(budget(limit), why="model"))
        self.agree("raise", found, self.model.raise_limit(name, limit))

    def clear(self, name: str) -> None:
        account = self.ledger.open(name)
        self.agree("clear", raised(lambda: account.clear(why="model")), self.model.clear(name))

    def close(self, name: str) -> None:
        account = self.ledger.open(name)
        self.agree("close", raised(lambda: account.close(why="model")), self.model.close(name))

    def agree(self, action: str, found: object, expected: object) -> None:
        self.steps += 1
        assert found == expected, f"{action}: the ledger said {found}, the model {expected}"
        with self.ledger.store.read() as transaction:
            rows = transaction.rows("accounts")
            charges = charge_rows(transaction)
            failures = transaction.rows("quarantines")
        for row in rows:
            account = self.model.accounts[row[1]]
            wanted = (*account.limit, *account.own, *self.model.used(row[1]), "closed" if account.closed else "open")
            assert (*row[10:16], row[17]) == wanted, row[1]
        numbers = {row[1]: row[0] for row in rows}
        closed = [(digest(source), numbers[name]) for source, names, _ in self.model.failures for name in names]
        assert sorted((row[2], row[1]) for row in failures if row[3] is None) == sorted(closed)
        states = [(c.key, c.state, c.fence) for c in self.model.charges]
        assert [(row[2], row[4], row[5]) for row in charges] == states

    def finish(self) -> None:
        assert self.ledger.verify().problems == ()
        self.ledger.close()
