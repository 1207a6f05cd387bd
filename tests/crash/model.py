"""The reference model: what a ledger should do, in a hundred plain lines, with no storage and no chain."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ModelAccount:
    name: str
    limit: tuple[int, int]
    parent: str | None = None
    partition: str | None = None
    own: tuple[int, int] = (0, 0)
    closed: bool = False


@dataclass
class ModelCharge:
    key: str
    request: object
    lines: tuple[tuple[str, int, int], ...]
    state: str
    lease: float
    fence: int = 1
    source: str = ""
    begun: int = 0  # how many failures there were when it began
    ended: int = 0  # how many there were when it ended, its own included


def add(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    return left[0] + right[0], left[1] + right[1]


@dataclass
class Model:
    now: float
    accounts: dict[str, ModelAccount] = field(default_factory=dict)
    charges: list[ModelCharge] = field(default_factory=list)
    owner: dict[str, str] = field(default_factory=dict)  # of sources
    least: dict[str, int] = field(default_factory=dict)  # of populations
    failures: list[tuple[str, set[str], int]] = field(default_factory=list)  # source, populations and number
    failed: int = 0  # how many failures there were, cleared ones included

    def used(self, name: str) -> tuple[int, int]:
        total = self.accounts[name].own
        largest: dict[str, tuple[int, int]] = {}
        for child in self.accounts.values():
            if child.parent == name:
                used = self.used(child.name)
                if child.partition is None:
                    total = add(total, used)
                else:
                    top = largest.get(child.partition, (0, 0))
                    largest[child.partition] = max(top[0], used[0]), max(top[1], used[1])
        for top in largest.values():
            total = add(total, top)
        return total

    def _admit(self, name: str, a0: int, a1: int) -> str:
        self.accounts[name].own = add(self.accounts[name].own, (a0, a1))
        above: str | None = name
        while above is not None:
            account, used = self.accounts[above], self.used(above)
            if account.closed:
                return "Refused"
            if used[0] > account.limit[0] or used[1] > account.limit[1]:
                return "BudgetExceeded"
            above = account.parent
        return "ok"

    def root(self, name: str) -> str:
        parent = self.accounts[name].parent
        return name if parent is None else self.root(parent)

    def closed(self, source: str, lines: tuple[tuple[str, int, int], ...]) -> bool:
        roots = {self.root(name) for name, _, _ in lines}
        return bool(source) and any(source == failed or roots & populations for failed, populations, _ in self.failures)

    def _gate(self, source: str, lines: tuple[tuple[str, int, int], ...]) -> str:
        if self.closed(source, lines):
            return "Quarantined"
        roots, owner = {self.root(name) for name, _, _ in lines}, self.owner.get(source)
        if not source or (owner is not None and owner not in roots):
            return "Refused" if source else "ok"
        paying = [(self.root(name), a0) for name, a0, _ in lines if owner in (None, self.root(name))]
        return "BelowLeastPrice" if any(a0 < self.least.get(root, 0) for root, a0 in paying) else "ok"

    def clear(self, name: str) -> str:
        self.recover()
        root = self.root(name)
        kept = [(s, p - {root}, n) for s, p, n in self.failures if self.owner.get(s) != root]
        kept = [(source, populations, number) for source, populations, number in kept if populations]
        if kept == self.failures:
            return "Refused"
        self.failures = kept
        return "ok"

    def take(self, key: str, lines: tuple[tuple[str, int, int], ...], lease: float, *, started: bool, source: str = ""):
        """(outcome, charge) of asking for a charge."""
        if source:
            self.recover()
        live = [c for c in self.charges if c.key == key and c.state != "REFUNDED"]
        if live:
            return self._meet(live[0], lines, lease, started)
        if (gate := self._gate(source, lines)) != "ok":
            return gate, None
        before = {name: account.own for name, account in self.accounts.items()}
        for line in sorted(lines, key=lambda line: list(self.accounts).index(line[0])):
            outcome = self._admit(*line)
            if outcome != "ok":
                for name, own in before.items():
                    self.accounts[name].own = own
                return outcome, None
        charge = ModelCharge(key, lines, lines, "EXECUTING" if started else "RESERVED", self.now + lease)
        charge.source, charge.begun = source, self.failed
        self.charges.append(charge)
        return "ok", charge

    def _meet(self, charge: ModelCharge, lines: object, lease: float, started: bool):
        if charge.request != lines:
            return "IdempotencyConflict", None
        if self.withheld(charge):
            return "Unavailable", None
        if charge.state == "COMMITTED":
            return "AlreadyCommitted", None
        if charge.state == "BURNED":
            return "IdempotencyConflict", None
        if charge.lease > self.now:
            return "Unavailable", None
        if charge.state == "EXECUTING":
            self.move(charge, charge.fence, "burn")
            return "Unavailable" if self.withheld(charge) else "IdempotencyConflict", None
        if started and self.closed(charge.source, charge.lines):
            return "Quarantined", None
        charge.fence, charge.lease = charge.fence + 1, self.now + lease
        charge.state = "EXECUTING" if started else "RESERVED"
        return "ok", charge

    def withheld(self, charge: ModelCharge) -> bool:
        """Did a failure that is not cleared close the data of an ended charge while it ran, or at its end?"""
        roots = {self.root(name) for name, _, _ in charge.lines}
        return bool(charge.source) and any(
            charge.begun <= number < charge.ended and (failed == charge.source or roots & populations)
            for failed, populations, number in self.failures
        )

    def move(self, charge: ModelCharge, fence: int, action: str) -> str:
        old, new = {
            "start": ("RESERVED", "EXECUTING"),
            "commit": ("EXECUTING", "COMMITTED"),
            "burn": ("EXECUTING", "BURNED"),
            "refund": ("RESERVED", "REFUNDED"),
        }[action]
        if charge.state != old or charge.fence != fence:
            return "Refused"
        if action == "start" and self.closed(charge.source, charge.lines):
            return "Quarantined"
        charge.state = new
        if new == "BURNED" and charge.source:
            self.failures.append((charge.source, {self.root(name) for name, _, _ in charge.lines}, self.failed))
            self.failed += 1
        if new in ("BURNED", "COMMITTED"):
            charge.ended = self.failed
        if new == "REFUNDED":
            for name, a0, a1 in charge.lines:
                self.accounts[name].own = add(self.accounts[name].own, (-a0, -a1))
        return "ok"

    def renew(self, charge: ModelCharge, fence: int, lease: float) -> str:
        if charge.state not in ("RESERVED", "EXECUTING") or charge.fence != fence:
            return "Refused"
        charge.lease = self.now + lease
        return "ok"

    def recover(self) -> tuple[int, int]:
        expired = [c for c in self.charges if c.state in ("RESERVED", "EXECUTING") and c.lease <= self.now]
        waiting = [c for c in expired if c.state == "RESERVED"]
        for charge in expired:
            self.move(charge, charge.fence, "refund" if charge.state == "RESERVED" else "burn")
        return len(waiting), len(expired) - len(waiting)

    def raise_limit(self, name: str, limit: tuple[int, int]) -> str:
        account = self.accounts[name]
        if limit[0] < account.limit[0] or limit[1] < account.limit[1]:
            return "Refused"
        if limit == account.limit:
            return "InvalidInput"
        if account.closed:
            return "Refused"
        account.limit = limit
        return "ok"

    def close(self, name: str) -> str:
        if self.accounts[name].closed:
            return "Refused"
        self.accounts[name].closed = True
        return "ok"
