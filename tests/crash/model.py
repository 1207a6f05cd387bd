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


def add(left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    return left[0] + right[0], left[1] + right[1]


@dataclass
class Model:
    now: float
    accounts: dict[str, ModelAccount] = field(default_factory=dict)
    charges: list[ModelCharge] = field(default_factory=list)

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

    def take(self, key: str, lines: tuple[tuple[str, int, int], ...], lease: float, *, started: bool):
        """(outcome, charge) of asking for a charge."""
        live = [c for c in self.charges if c.key == key and c.state != "REFUNDED"]
        if live:
            return self._meet(live[0], lines, lease, started)
        before = {name: account.own for name, account in self.accounts.items()}
        for line in sorted(lines, key=lambda line: list(self.accounts).index(line[0])):
            outcome = self._admit(*line)
            if outcome != "ok":
                for name, own in before.items():
                    self.accounts[name].own = own
                return outcome, None
        charge = ModelCharge(key, lines, lines, "EXECUTING" if started else "RESERVED", self.now + lease)
        self.charges.append(charge)
        return "ok", charge

    def _meet(self, charge: ModelCharge, lines: object, lease: float, started: bool):
        if charge.request != lines:
            return "IdempotencyConflict", None
        if charge.state == "COMMITTED":
            return "AlreadyCommitted", None
        if charge.state == "BURNED":
            return "IdempotencyConflict", None
        if charge.lease > self.now:
            return "Unavailable", None
        if charge.state == "EXECUTING":
            charge.state = "BURNED"
            return "IdempotencyConflict", None
        charge.fence, charge.lease = charge.fence + 1, self.now + lease
        charge.state = "EXECUTING" if started else "RESERVED"
        return "ok", charge

    def move(self, charge: ModelCharge, fence: int, action: str) -> str:
        old, new = {
            "start": ("RESERVED", "EXECUTING"),
            "commit": ("EXECUTING", "COMMITTED"),
            "burn": ("EXECUTING", "BURNED"),
            "refund": ("RESERVED", "REFUNDED"),
        }[action]
        if charge.state != old or charge.fence != fence:
            return "Refused"
        charge.state = new
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
