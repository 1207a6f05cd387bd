"""Noise that is the same every time, for the tests of programs that use tallystick. It protects no person.

    made = tallystick.testing.released(plan, seed=1)          a table as ``plan.release`` would give it
    noisy = tallystick.testing.deterministic(mechanism, seed=1)(value)

No account pays for either: a plan with an account, a file or a database is refused, and an account refuses the
mechanism. So a test cannot turn into a release by mistake. Whether a mechanism is private is for ``ts.audit``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.mechanisms.exact.randomness import SeededSource

if TYPE_CHECKING:
    from tallystick.mechanisms.base import Mechanism
    from tallystick.tables.plan import Plan
    from tallystick.tables.release import Release

_REFUSED = "deterministic noise is for tests: it protects no person, so no account pays for it"


def released(plan: Plan, *, seed: int) -> Release:
    """The table of a plan on made-up rows in memory, the same for the same seed; it has no receipt and no card.

    >>> import pyarrow
    >>> import tallystick as ts
    >>> rows = ts.Private(pyarrow.table({"who": [1, 2, 3]})).table(unit="who").per_unit(max_rows_per_group=1)
    >>> plan = rows.agg(n=ts.count()).plan(rho=0.5)
    >>> released(plan, seed=1).rows == released(plan, seed=1).rows
    True
    """
    from tallystick.tables.release import Release
    from tallystick.tables.run import integers, noisy, preflight

    if plan.account is not None:
        raise Refused(f"{_REFUSED}. Try: ts.Private(rows) without account=")
    if plan.query.table.source.kind != "memory":
        raise InvalidInput("plan", plan.query.table.source.kind, "a plan on rows in memory that were made up")
    preflight(plan)
    return Release(plan, _as_stored(noisy(plan, integers(plan), SeededSource(check.count("seed", seed)))))


def _as_stored(answer: dict[str, Any]) -> dict[str, Any]:
    """Return plain numbers, as a ledger would."""
    from tallystick.ledger.chain import decode_answer, encode_answer

    stored: dict[str, Any] = decode_answer(encode_answer(answer))
    return stored


@dataclass(frozen=True, slots=True)
class Deterministic:
    """A mechanism whose every call gives what the seed says."""

    mechanism: Mechanism[Any, Any]
    seed: int

    def __call__(self, value: Any) -> Any:
        """Return the answer; equal values give equal answers."""
        return self.mechanism.draw(self.mechanism.prepare(value, strict=True), SeededSource(self.seed))

    @property
    def privacy(self) -> NoReturn:
        """Refuse: no account pays for it."""
        raise Refused(_REFUSED)


def deterministic(mechanism: Mechanism[Any, Any], *, seed: int) -> Deterministic:
    """The mechanism with noise that a seed decides, for tests.

    >>> import tallystick as ts
    >>> noisy = deterministic(ts.noise.add_gaussian(sigma=3, sensitivity=1), seed=1)
    >>> noisy(100) == noisy(100)
    True
    """
    return Deterministic(mechanism, check.count("seed", seed))
