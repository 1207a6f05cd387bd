"""A charge in the hands of its owner: start it, give it an answer, or let it go."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tallystick.errors import AlreadyCommitted, IdempotencyConflict, Refused, Unavailable
from tallystick.ledger import answers, journal, views
from tallystick.ledger.chain import digest
from tallystick.ledger.filters import Amount, Filter
from tallystick.ledger.journal import ChargeRow, Held, Position
from tallystick.ledger.receipt import Receipt

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger


class Charge:
    """An amount taken from one or more accounts before data is touched.

    ``with account.charge(...) as charge`` reserves and starts on entry; a normal exit commits ``charge.answer``;
    an exception burns the charge, because failure may depend on the data. ``account.reserve(...)`` returns the same
    object in state RESERVED, for a caller that starts later or gives it back.
    """

    def __init__(
        self,
        ledger: Ledger,
        take: Callable[[bool], Held],
        lines: tuple[tuple[Account, int, int], ...],
        plan_hash: str,
    ) -> None:
        self._ledger = ledger
        self._plan_hash = plan_hash
        self._take = take
        self._lines = lines
        self._row: ChargeRow | None = None
        self.answer: Any = None
        self.receipt: Receipt | None = None

    @property
    def id(self) -> int:
        """The position of the entry that reserved this charge."""
        return self._held.id

    @property
    def state(self) -> str:
        """RESERVED, EXECUTING, COMMITTED, RELEASED or BURNED, as last seen here; None was taken yet: NEW."""
        return self._row.state if self._row else "NEW"

    @property
    def fence(self) -> int:
        """The fencing token: whoever holds a lower one can no longer start, commit or release."""
        return self._held.fence

    @property
    def lease_until(self) -> int:
        """When the lease ends, in milliseconds since 1970."""
        return self._held.lease_until

    @property
    def amounts(self) -> dict[str, Amount]:
        """What each account pays."""
        return {account.name: Amount(Filter.named(account.filter), a0, a1) for account, a0, a1 in self._lines}

    @property
    def _held(self) -> ChargeRow:
        if self._row is None:
            raise Refused("this charge was not reserved yet; use it in a with statement or call reserve()")
        return self._row

    def reserve(self) -> Charge:
        """Take the amount (state RESERVED); a lease that runs out gives it back."""
        self._adopt(self._take(False))
        return self

    def _begin(self) -> None:
        self._adopt(self._take(True))

    def _adopt(self, held: Held) -> None:
        if held.fresh:
            self._row = held.charge
            return
        raise occupied(self._ledger, held.charge)

    def start(self) -> Charge:
        """RESERVED -> EXECUTING; when this returns, it is durable and data may be opened."""
        with self._ledger.store.write("start") as transaction:
            journal.start(transaction, self._held, self._ledger.now())
        self._row = self._held._replace(state="EXECUTING")
        return self

    def commit(self, answer: Any = None) -> Receipt:
        """EXECUTING -> COMMITTED: store the answer durably, then hand out the receipt."""
        text = answers.encode(answer)
        position, at = self._store(text)
        self._row = self._held._replace(state="COMMITTED", last_seq=position.seq)
        self.answer = answers.decode(text)
        self.receipt = Receipt(
            ledger=self._ledger.id,
            charge=self.id,
            lines=tuple((account.id, account.name, account.filter, a0, a1) for account, a0, a1 in self._lines),
            plan_hash=self._plan_hash,
            request=self._held.request,
            answer_hash=digest(text),
            seq=position.seq,
            head=position.hash,
            at=at,
        )
        return self.receipt

    def _store(self, text: str) -> tuple[Position, int]:
        """Commit, again after a short pause when the store went away: the answer stays the same, so that is safe."""
        reply_lost = False
        for pause in self._ledger.store.pauses:
            try:
                return self._try_to_store(text)
            except Unavailable:
                reply_lost = True
                time.sleep(pause)
            except Refused:
                if not reply_lost:
                    raise
                return self._recorded(text)
        try:
            return self._try_to_store(text)
        except Refused:
            return self._recorded(text)

    def _try_to_store(self, text: str) -> tuple[Position, int]:
        at = self._ledger.now()
        with self._ledger.store.write("commit") as transaction:
            return journal.commit(transaction, self._held, text, at), at

    def _recorded(self, text: str) -> tuple[Position, int]:
        """Where an earlier attempt, whose reply was lost, did commit this very answer; refused when it did not."""
        with self._ledger.store.read() as transaction:
            found = ChargeRow(*(transaction.row("charge_by_id", self.id) or self._held))
            answer = transaction.row("answer_of", self.id)
            if (found.state, found.fence, answer) != ("COMMITTED", self.fence, (text,)):
                raise journal.lost(self._held)
            body = journal.entry_body(transaction, found.last_seq)
            row = transaction.row("entry_at", found.last_seq) or ()
        return Position(int(row[0]), str(row[1])), int(body["at"])

    def burn(self) -> None:
        """EXECUTING -> BURNED: never refunded."""
        with self._ledger.store.write("burn") as transaction:
            journal.burn(transaction, self._held, self._ledger.now(), why="error")
        self._row = self._held._replace(state="BURNED")

    def release(self) -> None:
        """RESERVED -> RELEASED: give the amount back; allowed only while data was not opened."""
        with self._ledger.store.write("release") as transaction:
            journal.release(transaction, self._held, self._ledger.now(), why="released")
        self._row = self._held._replace(state="RELEASED")

    def renew(self, *, lease: float) -> None:
        """Extend the lease by ``lease`` seconds from now; long work calls this now and then."""
        until = self._ledger.lease_end(lease)
        with self._ledger.store.write("renew") as transaction:
            self._row = journal.lease(transaction, self._held, self._ledger.now(), until, take=False)

    def __enter__(self) -> Charge:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state != "EXECUTING":
            return  # committed, burned or lost inside the block
        if kind is not None:
            self._burn_quietly()
            return
        try:
            self.commit(self.answer)
        except BaseException:
            self._burn_quietly()
            raise

    def _burn_quietly(self) -> None:
        """Burn if the store lets us; if not, the charge stays EXECUTING, which is paid just the same."""
        with contextlib.suppress(Unavailable, Refused):
            self.burn()

    def __repr__(self) -> str:
        number = self._row.id if self._row else "new"
        return f"<Charge {number} {self.state} {', '.join(f'{name}: {a}' for name, a in self.amounts.items())}>"

    def _repr_html_(self) -> str:
        return views.charge_html(self)


def occupied(ledger: Ledger, charge: ChargeRow) -> Exception:
    """The error for a key whose charge is not ours to run: committed, burned, or held by someone else."""
    if charge.state == "COMMITTED":
        answer, receipt = ledger.stored_answer(charge)
        return AlreadyCommitted(
            f"key {charge.key!r} was already committed as charge {charge.id}; its stored answer is returned, "
            "nothing was charged again",
            answer=answer,
            receipt=receipt,
        )
    if charge.state == "BURNED":
        return IdempotencyConflict(
            f"charge {charge.id} of key {charge.key!r} was burned: it failed after data could have been read, so it "
            "stays paid and has no answer; use a new key to pay and try again"
        )
    return Unavailable(
        f"charge {charge.id} of key {charge.key!r} is {charge.state} in another worker; "
        "try again when it has finished or its lease has run out"
    )
