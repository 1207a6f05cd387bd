"""A stream of numbered items under one charge. Each item is used at most once in the life of the ledger.

    stream = AnswerStream(account, key="visits-2027", why="...", items=365, whole=cost, each=cost_of_block)
    stream.open()               charges the whole stream; the same key is charged once
    stream.answer(7, draw)      takes item 7, draws its answer, stores it and returns it; later calls return the same
    stream.take()               takes the next item and stores no answer: a step of a training run

Each block of items is an entry of the chain under the key ``key/N``, where N is the first item of the block. The
entry is durable before any item of the block is used. These entries are the high-water mark of the stream: a process
that opens the stream again, also from a copied checkpoint, gets only the blocks that were never taken.

The mark is right only if every handle cuts the items into the same blocks. So ``open`` records the number of items,
the block size and the cost under ``key``, and refuses a handle with others. A stream that is used in order has this
record in the entry of its first block, because every handle begins there.

    take       one transaction takes the block; a crash later loses the rest of the block
    answer     EXECUTING before the draw, COMMITTED with the answer after it (``pay.py`` has the order)
               a crash in between: after its lease the item is BURNED, and ``answer`` raises AnswerLost for it
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallystick.accounting import check
from tallystick.accounting.losses import no_loss
from tallystick.errors import AnswerLost, IdempotencyConflict, InvalidInput, Refused
from tallystick.ledger import journal
from tallystick.ledger.chain import NAME_LENGTH, check_reason, checked
from tallystick.ledger.pay import LEASE, find_answer, pay, settle
from tallystick.ledger.texts import NAMED

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Charge, Paid, Receipt

SUFFIX_LENGTH: Final = 20
"""Characters of a key that are kept free for ``/N``. N has at most 10 digits (``check.MAX_COUNT``)."""


class Cost(NamedTuple):
    """Privacy loss of one entry, the delta at which its cost is computed, and the public text of its request."""

    loss: PrivacyLoss
    delta: float | None
    request: str


class AnswerStream:
    """Items numbered from 0, paid once, each used at most once by all processes that share the ledger.

    ``whole`` is the cost of the stream, charged by ``open``; then its blocks are marked as taken and cost nothing.
    If ``whole`` is None, every block costs ``each(first, last)`` and is charged when it is taken.
    The request text of ``each(first, last)`` tells the items of this stream from other requests in both cases.

    ``in_order`` is for training runs: only ``take`` is used, from the first item. ``open`` records the text of
    ``whole`` alone, as earlier versions did. So that text must begin with the number of items ("365 steps"), and the
    text of ``each`` with its items ("steps 0 to 10"). Otherwise the record of a stream would pay for another one.

    ``taken`` counts the items that ``take`` returned here. ``receipts`` prove the charges of ``open`` and ``take``.
    Threads may share a stream. A forked child starts after the blocks that its parent holds.
    """

    def __init__(
        self,
        account: Account,
        *,
        key: str,
        why: str,
        items: int,
        whole: Cost | None,
        each: Callable[[int, int], Cost],
        block: int = 1,
        lease: float = LEASE,
        in_order: bool = False,
    ) -> None:
        self.account = account
        self.key = checked_key(key)
        self.why = check_reason(why)
        self.items = check.count("items", items, least=1)
        self.block = check.count("block", block, least=1)
        self.whole = _checked_cost("whole", whole) if whole is not None else None
        if in_order and self.whole is not None:
            _require_start("whole", self.whole, f"{self.items} steps")
        self.each = each
        self.lease = lease
        account.ledger.lease_end(lease)  # refuses a lease that no item could have
        self.in_order = in_order
        self.receipts: list[Receipt] = []
        self.taken = 0
        self._is_open = False
        self._is_recorded = False
        self._paid_as: int | None = None  # the charge that paid for all items
        self._next = 0  # the next item of the block in hand
        self._end = 0  # the end of the block in hand; no block at or after it was tried here
        self._lock = threading.Lock()
        _STREAMS.add(self)

    def __reduce_ex__(self, protocol: Any) -> Any:  # copy, deepcopy and pickle all ask here
        raise Refused("a stream cannot be copied or stored: open it again with the same key, elsewhere too")

    @property
    def position(self) -> int:
        """The next item of the block in hand."""
        return self._next

    @property
    def next_block(self) -> tuple[int, int]:
        """First item and end of the block that ``take`` tries next; both are ``items`` after the last block."""
        return self._end, min(self._end + self.block, self.items)

    def open(self) -> None:
        """Charge the whole stream, unless its blocks are charged one by one. The same key is charged once.

        Refuse a stream that the key has with other items, blocks or cost, and keys of its items that others used.
        """
        with self._lock:
            if not self._is_recorded:
                self._record()
            self._is_recorded = True
            self._is_open = True

    def _record(self) -> None:
        """Record the stream in the ledger, and charge it if it is paid whole."""
        self._cost(0)  # refuses items that have no cost
        cost = self._opening()
        if cost is None:
            self._require_blocks()
            return
        charge = self._charge(cost, self.key)
        if charge.stored() is None:
            self._require_free_keys()
        self._settle(charge, cost.request)
        if self.whole is not None:
            self._paid_as = self.receipts[-1].charge

    def _opening(self) -> Cost | None:
        """Return the cost and request text of ``open``; None if a stream in order pays for its blocks."""
        if self.in_order:
            return self.whole
        shape = f"{self.items} items in blocks of {self.block}"
        if self.whole is None:
            return Cost(no_loss(), None, f"{shape}, each charged")
        return self.whole._replace(request=f"{shape}: {self.whole.request}")

    def _require_blocks(self) -> None:
        """Refuse to charge blocks of a stream that is paid whole, or that other handles cut into other blocks."""
        if has_record(self.account, self.key):
            raise IdempotencyConflict(
                f"the key {self.key!r} belongs to a stream that is paid whole or has other blocks. Use another key"
            )

    def _require_free_keys(self) -> None:
        """Refuse to pay for items whose keys other requests have: they could never be used."""
        ledger, prefix = self.account.ledger, f"{self.key}/"
        with ledger.store.read() as transaction:
            keys = journal.keys_below(transaction, ledger.principal, self.key)
        for key in keys:
            if self._is_block(key.removeprefix(prefix)):
                text = f"the key {key!r} belongs to another request, and stream {self.key!r} needs it for its items"
                raise IdempotencyConflict(f"{text}; use another key for the stream")

    def _is_block(self, suffix: str) -> bool:
        """True if the end of a key is the number of the first item of a block."""
        if not (suffix.isascii() and suffix.isdigit() and len(suffix) < SUFFIX_LENGTH):
            return False
        number = int(suffix)
        return str(number) == suffix and number < self.items and number % self.block == 0

    def take(self) -> int | None:
        """Take the next item that was never taken and return its number; None if no item is left."""
        self._require_open()
        with self._lock:
            while self._next >= self._end:
                if self._end >= self.items:
                    return None
                self._take_block()
            number = self._next
            self._next += 1
            self.taken += 1
            return number

    def answer(self, number: int, draw: Callable[[], Any], *, source: str = "") -> Paid:
        """Return the stored answer of the block that starts at ``number``; if it was never taken, draw it first.

        ``draw`` is called after the item is durably taken, at most once in the life of the ledger. Its answer is
        stored before it is returned. If ``source`` names the data, a failure of ``draw`` closes them and says nothing.
        """
        self._require_open()
        if self.in_order:
            raise Refused("this stream returns its items in order and stores no answers; use take()")
        item = self._item(number, draw, source)
        with self._lock:
            stored = self._find(item, number)  # also refuses a key of another request
            return self._draw(item, number) if stored is None else stored

    def replay(self, number: int) -> Paid | None:
        """Return the stored answer of the block that starts at ``number``, or None. Charges and draws nothing."""
        return self._find(self._item(number, _draw_nothing, ""), number)

    def _require_open(self) -> None:
        if not self._is_open:
            raise Refused("this stream was not opened, so nothing is paid; call open() first")

    def _cost(self, first: int) -> Cost:
        """Return what the block that starts at ``first`` costs: nothing, if the whole stream is paid."""
        last = min(first + self.block, self.items)
        cost = _checked_cost("each", self.each(first, last))
        if self.in_order:
            _require_start("each", cost, f"steps {first} to {last}")
        if self.whole is None:
            return cost
        return Cost(no_loss(), None, cost.request)

    def _charge(self, cost: Cost, key: str) -> Charge:
        """Return a charge that is not taken yet; refuse a key that was used for another request."""
        charge = self.account.charge(cost.loss, why=self.why, key=key, delta=cost.delta, request=cost.request)
        charge.stored()
        return charge

    def _settle(self, charge: Charge, request: str) -> bool:
        """Charge and commit in one transaction. Return False if the key was charged before."""
        paid = settle(charge, {"run": self.key, "request": request})  # stored in ledgers: the words stay
        self.receipts.append(paid.receipt)
        return paid.fresh

    def _take_block(self) -> None:
        """Take the next block, or pass it if it was taken before."""
        first, last = self.next_block
        try:
            is_mine = self._charge_block(first)
        except IdempotencyConflict:
            if self.in_order:  # another handle may have other blocks
                raise
            is_mine = False  # every handle has these blocks, so ``answer`` or another request has the key
        self._end = last
        self._next = first if is_mine else last

    def _charge_block(self, first: int) -> bool:
        """Charge a block. Return False if it was taken before, and raise if its key belongs to another request."""
        cost = self._cost(first)
        charge = self._charge(cost, f"{self.key}/{first}")
        charge.item = self._number(first)
        try:
            return self._settle(charge, cost.request)
        except IdempotencyConflict:  # the block was begun elsewhere and never committed
            charge.stored()  # raises if it is not this block
            return False

    def _item(self, number: int, draw: Callable[[], Any], source: str) -> _Item:
        """Return the block that starts at ``number`` as a release with an answer."""
        first = check.count("number", number, most=self.items - 1)
        if first % self.block:
            raise InvalidInput("number", number, f"the first item of a block of {self.block}")
        cost = self._cost(first)
        return _Item(cost.loss, cost.delta, f"answer to {cost.request}", source, draw, self._number(first))

    def _number(self, first: int) -> tuple[int, int] | None:
        """The number of an item in the chain, where it is unique; None if every item is charged by itself."""
        return None if self._paid_as is None else (self._paid_as, first)

    def _find(self, item: _Item, number: int) -> Paid | None:
        return find_answer(item, self.account, key=f"{self.key}/{number}", delta=item.delta)

    def _draw(self, item: _Item, number: int) -> Paid:
        """Take the item, draw its answer and store it; raise ``AnswerLost`` if it was taken and has no answer."""
        key = f"{self.key}/{number}"
        try:
            return pay(item, self.account, why=self.why, key=key, delta=item.delta, lease=self.lease)
        except IdempotencyConflict:
            if item.is_begun:  # the error is the draw's own
                raise
        raise AnswerLost(
            f"item {number} of stream {self.key!r} was taken but no answer was stored for it, or another principal "
            "has the answer; "
            "the other items of the stream are not affected"
        )

    def _forget_block(self) -> None:
        """Leave the block in hand to the parent process."""
        self._lock = threading.Lock()
        self._next = self._end


@dataclass(slots=True)
class _Item:
    """One item of a stream as ``pay`` sees it."""

    privacy: PrivacyLoss
    delta: float | None
    request: str
    source: str
    answer: Callable[[], Any]
    item: tuple[int, int] | None = None
    is_begun: bool = False

    def preflight(self) -> None:
        """Nothing is known to fail before the draw."""

    def draw(self) -> Any:
        """Return the answer."""
        self.is_begun = True
        return self.answer()


def _checked_cost(argument: str, cost: Any) -> Cost:
    """Return a cost; refuse anything else before it is charged."""
    if not isinstance(cost, Cost) or not isinstance(cost.request, str):
        raise InvalidInput(argument, cost, "a Cost with the text of its request")
    return cost


def _require_start(argument: str, cost: Cost, start: str) -> None:
    """Raise unless the text of a request begins with these words."""
    if not f"{cost.request} ".startswith(f"{start} "):
        raise InvalidInput(argument, cost.request, f"a request text that begins with {start!r}")


def checked_key(key: str) -> str:
    """Return the key of a stream, which leaves room for the number of an item."""
    checked("key", key)
    longest = NAME_LENGTH - SUFFIX_LENGTH
    if len(key) > longest:
        raise InvalidInput("key", f"{len(key)} characters", f"at most {longest} characters")
    return key


def began_in_blocks(account: Account, key: str) -> bool:
    """True if the ledger has a paid first block under this key. Blocks of a stream that is paid whole cost nothing."""
    charge = _charge_under(account, f"{key}/0")
    if charge is None:
        return False
    _, entry = account.ledger.charge_row(charge)
    return any(a0 or a1 for _, a0, a1 in entry["lines"])


def has_record(account: Account, key: str) -> bool:
    """True if the ledger has an entry under this key, and no stream in order began to pay for blocks under it."""
    return _charge_under(account, key) is not None and not began_in_blocks(account, key)


def _charge_under(account: Account, key: str) -> int | None:
    """Return the number of the charge that has this key, or None."""
    ledger = account.ledger
    with ledger.store.read() as transaction:
        charge = journal.charge_under(transaction, ledger.principal, NAMED, key, has_roles=ledger.has_roles)
    return None if charge is None else charge.id


def _draw_nothing() -> Any:
    raise AssertionError("a replay draws nothing")


# A forked child has a copy of every stream. It must not use the items that its parent holds. The hook runs in the
# child before any other Python code, so no thread of the child can see the copied block.

_STREAMS: weakref.WeakSet[AnswerStream] = weakref.WeakSet()


def _forget_blocks() -> None:
    for stream in _STREAMS:
        stream._forget_block()


os.register_at_fork(after_in_child=_forget_blocks)
