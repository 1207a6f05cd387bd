"""The first write to a ledger on a host that has not seen it before.

A chain cannot show that its newest entries were cut off. A host that has an anchor of the ledger notices. A host
without an anchor does not, so it may read the ledger, and its first write needs one of two things:

    expect_head     the hash of an entry that is known from elsewhere: another host, a receipt, a card
    first_use       the owner's reason to go on without such a hash; it becomes an entry of the chain
"""

from __future__ import annotations

import re
from typing import Final

from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Remedy
from tallystick.ledger import journal
from tallystick.ledger.chain import GENESIS, Anchor, AnchorFile, check_reason, link
from tallystick.ledger.store import Store, Transaction
from tallystick.ledger.verify import entries

HEAD: Final = re.compile("[0-9a-f]{64}")
HOW: Final = (Remedy("accept_head"), Remedy("accept_first_use"))
"""What lets a host write to a ledger that it has not seen."""


def check_arguments(expect_head: str | None, first_use: str | None) -> None:
    """Raise ``InvalidInput`` if the two arguments cannot be used."""
    if expect_head is not None and first_use is not None:
        raise InvalidInput("first_use", "given beside expect_head", "one of the two: a known head needs no first use")
    if expect_head is not None and not (isinstance(expect_head, str) and HEAD.fullmatch(expect_head)):
        raise InvalidInput("expect_head", expect_head, "the whole hash of an entry: 64 digits of 0-9 and a-f")
    if first_use is not None:
        check_reason(first_use, "first_use")


def refusal() -> Refused:
    """The error for a write to a ledger that this host has not seen."""
    return Refused(
        "This host has not seen this ledger before, so it cannot tell whether its newest entries were cut off. "
        "You can read the ledger; nothing was written or charged",
        code="unseen_ledger",
        remedies=HOW,
    )


def accept_head(store: Store, anchor: AnchorFile, head: str) -> None:
    """Accept a chain that contains ``head``: its newest entry becomes the anchor of this host."""
    with store.read() as transaction:
        newest = newest_after(transaction, head)
    anchor.require_writable()
    anchor.write(newest)


def newest_after(transaction: Transaction, head: str) -> Anchor:
    """The newest entry of a chain that contains ``head``; every hash up to it is computed again."""
    previous, seq, is_there = GENESIS, 0, False
    for seq, stored, body in entries(transaction):
        previous = link(previous, body)
        if previous != stored:
            altered = f"entry {seq} was altered: its hash does not match"
            raise LedgerIntegrity(altered, remedies=[Remedy("verify_ledger")])
        is_there = is_there or previous == head
    if not is_there:
        raise LedgerIntegrity(
            f"None of the {seq} entries of this ledger has the expected head {head[:16]}...: it is an older or another "
            "copy. Use the newest copy, or check the hash"
        )
    return Anchor(seq, previous)


def record_first_use(transaction: Transaction, at: int, *, principal: str, why: str) -> None:
    """Append the owner's decision to use a ledger that this host cannot check."""
    journal.append(transaction, "first_use", at, principal=principal, why=why)
