"""The first write to a ledger on a host that has not seen it before.

A chain cannot show that its newest entries were cut off. A host that has an anchor of the ledger notices. A host
without an anchor does not, so it may read the ledger, and its first write needs one of two things:

    expect_head     the hash of an entry that is known from elsewhere: another host, a receipt, a card
    first_use       the owner's reason to go on without such a hash; it becomes an entry of the chain

A host with an anchor refuses a copy that lacks what it has seen. If no newer copy exists, the owner continues with
``older``, a reason. Its entry names both heads: the entries in between are lost, and so are their charges.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Remedy
from tallystick.ledger import journal
from tallystick.ledger.chain import GENESIS, Anchor, AnchorFile, check_reason, link
from tallystick.ledger.store import Store, Transaction
from tallystick.ledger.texts import committed
from tallystick.ledger.verify import entries
from tallystick.place import Place

HEAD: Final = re.compile("[0-9a-f]{64}")
HOW: Final = (Remedy("accept_head"), Remedy("accept_first_use"))
"""What lets a host write to a ledger that it has not seen."""


class Missing(NamedTuple):
    """Entries that this host has seen and that a copy lacks.

    >>> Missing(Anchor(9, "ab" * 32), Anchor(6, "cd" * 32)).entries
    3
    """

    seen: Anchor
    """The newest entry that this host has seen."""
    newest: Anchor
    """The newest entry of the copy."""

    @property
    def entries(self) -> int | None:
        """Number of the missing entries, at least; None for a copy that has other entries instead."""
        return self.seen.seq - self.newest.seq if self.seen.seq > self.newest.seq else None

    def to_data(self) -> dict[str, Any]:
        """Both heads and the number of missing entries as JSON data."""
        heads = {name: {"seq": each.seq, "head": each.head} for name, each in self._asdict().items()}
        return {"entries": self.entries, **heads}

    @property
    def sentence(self) -> str:
        """The number of missing entries in words."""
        if self.entries is None:
            return f"Entry {self.seen.seq} that this host has seen is missing, and entries before it may be"
        first = self.newest.seq + 1
        if self.entries == 1:
            return f"At least entry {first} is missing"
        return f"At least {self.entries} entries are missing: {first} to {self.seen.seq}"


def check_arguments(expect_head: str | None, first_use: str | None, older: str | None = None) -> None:
    """Raise ``InvalidInput`` if the arguments cannot be used."""
    if expect_head is not None and first_use is not None:
        raise InvalidInput("first_use", "given beside expect_head", "one of the two: a known head needs no first use")
    if older is not None and (expect_head is not None or first_use is not None):
        raise InvalidInput("older", "given beside another one", "one of expect_head, first_use and older")
    if expect_head is not None and not (isinstance(expect_head, str) and HEAD.fullmatch(expect_head)):
        raise InvalidInput("expect_head", expect_head, "the whole hash of an entry: 64 digits of 0-9 and a-f")
    if first_use is not None:
        check_reason(first_use, "first_use")
    if older is not None:
        check_reason(older, "older")


def refusal() -> Refused:
    """The error for a write to a ledger that this host has not seen."""
    return Refused(
        "This host has not seen this ledger before, so it cannot tell whether its newest entries were cut off. "
        "You can read the ledger; nothing was written or charged",
        code="unseen_ledger",
        remedies=HOW,
    )


def refusal_of_older(place: Place, missing: Missing, kept: str) -> LedgerIntegrity:
    """The error for a copy that lacks entries which this host has seen. ``kept`` is the file of the anchor."""
    seen, newest = missing
    is_shorter = missing.entries is not None
    difference = f"its newest entry is {newest.seq}" if is_shorter else f"entry {seen.seq} has another hash"
    return LedgerIntegrity(
        f"{place} is an old or altered copy: entry {seen.seq} was seen with hash {seen.head[:16]}..., but "
        f"{difference} (anchor: {kept}). {missing.sentence}. Restore the newest copy, and keep this one",
        code="older_ledger",
        remedies=[Remedy("accept_older")],
    )


def accept_head(store: Store, anchor: AnchorFile, head: str) -> None:
    """Accept a chain that contains ``head``: its newest entry becomes the anchor of this host."""
    with store.read() as transaction:
        newest = newest_after(transaction, head)
    anchor.require_writable()
    anchor.write(newest)


def newest_after(transaction: Transaction, head: str) -> Anchor:
    """The newest entry of a chain that contains ``head``; every hash up to it is computed again."""
    newest, is_there = Anchor(0, GENESIS), False
    for newest in _recomputed(transaction):
        is_there = is_there or newest.head == head
    if not is_there:
        raise LedgerIntegrity(
            f"None of the {newest.seq} entries of this ledger has the expected head {head[:16]}...: it is an older or "
            "another copy. Use the newest copy, or check the hash"
        )
    return newest


def _recomputed(transaction: Transaction) -> Iterator[Anchor]:
    """All positions of a chain; every hash is computed again, and one that was altered is an error."""
    previous = GENESIS
    for seq, stored, body in entries(transaction):
        previous = link(previous, body)
        if previous != stored:
            altered = f"entry {seq} was altered: its hash does not match"
            raise LedgerIntegrity(altered, remedies=[Remedy("verify_ledger")])
        yield Anchor(seq, previous)


def record_older(transaction: Transaction, at: int, seen: Anchor, *, principal: str, why: str) -> Anchor:
    """Append the owner's decision to go on with a copy that lacks entries; return its position.

    Both heads are in the entry: the newest one of the copy, and the newest one that this host has seen.
    """
    [newest] = deque(_recomputed(transaction), maxlen=1)
    heads = {"newest": [newest.seq, newest.head], "seen": [seen.seq, seen.head]}
    return Anchor(*journal.append(transaction, "older", at, principal=principal, why=committed(why), **heads))


def record_first_use(transaction: Transaction, at: int, *, principal: str, why: str) -> None:
    """Append the owner's decision to use a ledger that this host cannot check."""
    journal.append(transaction, "first_use", at, principal=principal, why=committed(why))
