"""The one way to pay for a release: check, charge, draw, commit.

    check                 what needs no data: types, schema, the key's stored answer    costs nothing
    charge                durable in state EXECUTING before anything may be opened
    draw                  the noisy answer
    commit                the answer is stored, then returned

A failure before the charge costs nothing; a failure after it keeps the charge and closes the source (journal.py). A
worker that is killed cannot say so: its lease is short and renewed while it draws, and runs out when it is gone. A
mechanism with its value, a table plan and a training run all pay here, so this order is written once.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

from tallystick import strict_json
from tallystick.errors import (
    AlreadyCommitted,
    BudgetExceeded,
    ChargedAgain,
    IdempotencyConflict,
    InvalidInput,
    NotAuthorised,
    NotCharged,
    OtherReason,
    Refused,
    Remedy,
    TallystickError,
    Unavailable,
)
from tallystick.ledger import journal, views
from tallystick.ledger.authority import STOPPED
from tallystick.ledger.chain import canonical, check_reason, checked, decode_answer, encode_answer
from tallystick.ledger.filters import LARGEST, Amount
from tallystick.ledger.journal import Asked, ChargeRow, Position, Request, Stored, Terms
from tallystick.ledger.retirement import require_not_retired
from tallystick.ledger.software import versions
from tallystick.ledger.texts import space_of
from tallystick.taken_charges import add_charge

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.store import Transaction

LEASE: Final = 600.0
FAILED: Final = (
    "the data were closed while this release ran, by its failure or by that of another release. The charge stays "
    "spent. Whether it has an answer is withheld, because that could depend on the data. Ask again with the same key "
    "once the owner has opened the data"
)
"""One text for every release that was running when its data closed, whether it failed or has an answer."""
INTERRUPTED: Final = (
    "interrupted after the charge had started, so it stays paid; asked with the same key, the ledger says whether an "
    "answer was stored"
)

STOPPED_TEXT: Final = (
    "the service was stopped while this release ran. The charge stays spent, it has no answer, and the data stay open"
)

CHARGING: Final = (
    "interrupted while it was being charged, so it may be paid; asked with the same key, the ledger says whether it is"
)


class PlannedStop(BaseException):
    """Ends a draw because an operator stops the service. ``by`` is the ledger of that operator."""

    def __init__(self, by: Ledger) -> None:
        super().__init__()
        self.by = by


class Payable(Protocol):
    """Anything that can be paid for. Nothing but ``draw`` may look at data, and it is called once, after the charge."""

    @property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of one release."""

    @property
    def request(self) -> str:
        """Public text that tells this request from others under the same key."""

    @property
    def source(self) -> str:
        """Which data are opened, as a public text; empty when the caller holds the value already."""

    def preflight(self) -> None:
        """Raise for everything that can be known to fail without data."""

    def draw(self) -> Any:
        """The noisy answer."""


@dataclass(frozen=True, slots=True)
class Paid:
    """A paid answer; ``fresh`` is False when it was stored before under this key and nothing was charged now."""

    answer: Any
    receipt: Receipt
    fresh: bool


def _older_request(release: Asking) -> str:
    """The text of the same request by an earlier rule; empty if its rule never changed."""
    return str(getattr(release, "older_request", ""))


def _beside(release: Payable) -> tuple[str, ...]:
    """The digests of the other sources that a release reads; none if it is about one source."""
    return tuple(getattr(release, "beside", ()))


def _in_other_words(release: Asking) -> Sequence[str]:
    """The texts of other requests that ask the same question; none if it has no other words."""
    return tuple(getattr(release, "in_other_words", ()))


def pay(
    release: Payable,
    account: Account,
    *,
    why: str,
    key: str | None = None,
    delta: float | None = None,
    also: Sequence[Account] = (),
    lease: float = LEASE,
) -> Paid:
    """Charge, draw, store and return; the same key again returns the same answer and charges nothing.

    When the data belong to a source, what went wrong after the charge is not shown: the text is constant.
    A caller who holds the value could see it anyway and gets the error itself.
    """
    charge = account.ledger.charge(
        release.privacy, accounts=(account, *also), why=why, key=key, delta=delta, lease=lease,
        request=release.request, source=release.source, older_request=_older_request(release),
    )  # fmt: skip
    charge.beside = _beside(release)
    charge.item = getattr(release, "item", None)
    stored = charge.stored()
    if stored is not None:
        say_first_reason(account.ledger, stored[1], why)
        return Paid(*stored, fresh=False)
    if release.source:
        charge.rehearse()  # a refusal or a denial comes before a large file is copied
    release.preflight()
    if release.source:  # a plan: other payments here are known by their value
        charge.say_paid_before(_in_other_words(release))
    try:
        charge.begin()
    except AlreadyCommitted as earlier:  # by another worker, in between
        return Paid(earlier.answer, earlier.receipt, fresh=False)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(CHARGING) from None
    paid = _draw(charge, release, lease)
    if paid is None:  # one line for a failure and for an answer that is withheld
        charge.withhold()
        raise Unavailable(FAILED)
    return paid


def _draw(charge: Charge, release: Payable, lease: float) -> Paid | None:
    """Draw and store the answer of a charge that has begun; None if it failed or is withheld."""
    operator = None
    try:
        with _renewed(charge, lease) if release.source else contextlib.nullcontext():
            drawn = release.draw()
        receipt = charge.commit(drawn)
        return None if charge.is_withheld() else Paid(charge.answer, receipt, fresh=True)
    except BaseException as error:
        problem = type(error)
        if not release.source:
            charge.burn_quietly(problem)
            raise
        if isinstance(error, PlannedStop):
            operator = error.by
    if operator is not None:
        charge.stop(operator)
        if charge.is_withheld():
            return None
        raise Unavailable(STOPPED_TEXT)
    # outside the handler, so that the error does not travel along, not even with an interruption of the burning
    charge.burn_quietly(problem)
    if issubclass(problem, KeyboardInterrupt):
        raise KeyboardInterrupt(INTERRUPTED)
    return None


class Asking(Protocol):
    """The request, before any data is opened."""

    @property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of one release."""

    @property
    def request(self) -> str:
        """Public text that tells this request from others under the same key."""


def find_answer(asking: Asking, account: Account, *, key: str | None, delta: float | None) -> Paid | None:
    """The answer that is stored for a request under its key, or None. No data is opened and nothing is charged."""
    charge = account.ledger.charge(
        asking.privacy,
        accounts=(account,),
        why="to find an answer",
        key=key,
        delta=delta,
        request=asking.request,
        older_request=_older_request(asking),
    )
    stored = charge.stored()
    return None if stored is None else Paid(*stored, fresh=False)


def check_key(asking: Asking, account: Account, *, key: str | None, delta: float | None) -> None:
    """Raise if the key belongs to another request, or was used and has no answer to give. Nothing is taken."""
    charge = account.ledger.charge(
        asking.privacy,
        accounts=(account,),
        why="to check a key",
        key=key,
        delta=delta,
        request=asking.request,
        older_request=_older_request(asking),
    )
    if charge.stored() is None:
        charge.require_free_key()


def paid_before(asking: Asking, account: Account, *, delta: float | None) -> ChargedAgain | None:
    """The warning that a fresh charge for a request would meet; None if no charge has paid for it."""
    charge = account.ledger.charge(
        asking.privacy,
        accounts=(account,),
        why="to find an answer",
        delta=delta,
        request=asking.request,
        older_request=_older_request(asking),
    )
    charge.stored()  # it is looked up, so no caller forgot to take it
    return charge.paid_before(_in_other_words(asking))


def stored_answer(asking: Asking, account: Account, *, why: str, key: str | None, delta: float | None) -> Paid | None:
    """The stored answer, with a warning if it was charged with another reason; None without an answer."""
    check_reason(why)
    paid = find_answer(asking, account, key=key, delta=delta)
    if paid is not None:
        say_first_reason(account.ledger, paid.receipt, why)
    return paid


def rehearse(
    release: Payable, account: Account, *, why: str, key: str | None = None, delta: float | None = None
) -> Receipt | None:
    """Raise what ``pay`` would before it draws; the receipt where the key has its answer. Nothing is charged."""
    charge = account.ledger.charge(
        release.privacy, accounts=(account,), why=why, key=key, delta=delta,
        request=release.request, source=release.source, older_request=_older_request(release),
    )  # fmt: skip
    charge.beside = _beside(release)
    stored = charge.stored()
    if stored is not None:
        say_first_reason(account.ledger, stored[1], why)
        return stored[1]
    release.preflight()
    if release.source:
        charge.say_paid_before(_in_other_words(release))
    charge.rehearse()
    return None


def say_first_reason(ledger: Ledger, receipt: Receipt, why: str) -> None:
    """Warn a caller who asks again with another reason: a release has one reason, that of its charge."""
    first = ledger.charge_row(receipt.charge)[1]["why"]
    if first != why:
        text = (
            f"ledger entry {receipt.charge} was made with the reason {first!r}; the record keeps that one, not {why!r}"
        )
        warnings.warn(OtherReason(text), stacklevel=4)


def settle(charge: Charge, note: Any) -> Paid:
    """Charge for a release that is made elsewhere, and store a public note, in one transaction."""
    stored = charge.stored()
    if stored is not None:
        return Paid(*stored, fresh=False)
    try:
        receipt = charge.take_and_commit(note)
    except AlreadyCommitted as earlier:  # by another worker, in between
        return Paid(earlier.answer, earlier.receipt, fresh=False)
    return Paid(charge.answer, receipt, fresh=True)


ELSEWHERE: Final = "made elsewhere"
"""The request of a charge for a release that the caller makes without the ledger. Stored charges have this text."""


def pay_elsewhere(account: Account, loss: PrivacyLoss, *, why: str, **options: Any) -> Paid:
    """Charge for a release that the caller makes; the same key charges once and returns the same receipt."""
    charge = account.charge(loss, why=why, request=ELSEWHERE, **options)
    paid = settle(charge, str(loss))
    if not paid.fresh:
        say_first_reason(account.ledger, paid.receipt, why)
    return paid


def charged_delta(account: Account, delta: float | None) -> float | None:
    """The delta at which a plan is charged: an account in (epsilon, delta) takes the plan's own, others need none."""
    return delta if account.currency.kind == "approx" else None


@contextlib.contextmanager
def _renewed(charge: Charge, lease: float) -> Iterator[None]:
    """Renew the lease three times as often as it runs out, as long as the block and its process live."""
    over = threading.Event()

    def renew() -> None:
        while not over.wait(lease / 3):
            with contextlib.suppress(TallystickError):  # a store that is away may be back in time; a lost lease is lost
                charge.renew(lease=lease)

    beat = threading.Thread(target=renew, daemon=True)
    try:
        beat.start()
        yield
    finally:
        over.set()
        if beat.ident is not None:
            beat.join()


@dataclass(frozen=True, slots=True)
class Valued:
    """A mechanism with the value it is about.

    The value may be a function without arguments, called only after the charge is durable; a mechanism that
    ``takes_function`` gets the function itself.
    """

    mechanism: Any
    value: Any
    privacy: PrivacyLoss
    request: str
    source: str = ""

    @property
    def _deferred(self) -> bool:
        return callable(self.value) and not getattr(self.mechanism, "takes_function", False)

    def preflight(self) -> None:
        """Type and shape of the value, where it is there already."""
        prepare = getattr(self.mechanism, "prepare", None)
        if prepare is not None and not self._deferred:
            prepare(self.value, strict=False)

    def draw(self) -> Any:
        """One release of the mechanism."""
        release = getattr(self.mechanism, "release", None) or self.mechanism
        return release(self.value() if self._deferred else self.value)


# A charge in the hands of its owner: start it, give it an answer and get a receipt, or let it go.

CHARGE_LEASE: Final = 24 * 3600.0
_KEY_BYTES: Final = 16
"""Random bytes of a key that no caller gave."""
HOW_TO_CHARGE: Final = (
    "To charge it now, call account.pay(loss, why=...). To charge it for a block of code, write: "
    "with account.charge(loss, why=...) as charge"
)
_PACKAGE: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def _line_of_caller() -> tuple[str, int]:
    """The file and line of the nearest caller that is not part of this package."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


class Charge:
    """An amount taken from one or more accounts before data is touched.

    ``with account.charge(...) as charge`` reserves and starts on entry; a normal exit commits ``charge.answer``;
    after an exception the charge stays spent, because failure may depend on the data. ``account.reserve(...)`` returns
    the same object in state RESERVED, for a caller that starts later or gives it back.

    A charge takes nothing until it is entered, reserved or begun. One that is dropped before that warns with
    ``ts.errors.NotCharged``, which names the line that made it.
    """

    _is_forgotten = False  # until the constructor has succeeded: a refused charge warns of nothing

    def __init__(
        self, ledger: Ledger, terms: Terms, *, why: str, key: str | None = None, lease: float = CHARGE_LEASE
    ) -> None:
        self._ledger = ledger
        self._terms = terms
        self._why = check_reason(why)
        self._key = os.urandom(_KEY_BYTES).hex() if key is None else checked("key", key)
        self._space = space_of(self._key)
        self._named = key is not None  # False: the key was made up just now, so no caller can have used it
        self._lease = lease
        ledger.lease_end(lease)
        self._row: ChargeRow | None = None
        self.item: tuple[int, int] | None = None  # the stream that paid for it, and its number there
        self.beside: tuple[str, ...] = ()  # digests of the other sources that are read, of a join
        self.answer: Any = None
        self.receipt: Receipt | None = None
        self._made_at = _line_of_caller()
        self._is_forgotten = True  # until the charge is taken or looked up

    def __del__(self) -> None:
        if self._is_forgotten:
            file, line = self._made_at
            text = f"{file}:{line} made a charge that was never taken: {self._cost}. {HOW_TO_CHARGE}"
            warnings.warn_explicit(text, NotCharged, file, line)

    @property
    def _cost(self) -> str:
        """The cost that each account would pay, in words."""
        costs = [f"{name} would pay {amount}" for name, amount in self.amounts.items()]
        return ", ".join(costs)

    @property
    def key(self) -> str:
        """The key that returns the answer again without a new charge."""
        return self._key

    @property
    def _asked(self) -> Asked:
        """The key and the question of this charge."""
        ledger = self._ledger
        return Asked(ledger.principal, self._space, self._key, self._terms.about, ledger.has_roles)

    @property
    def has_source(self) -> bool:
        """True if the charge is about data that are opened, and closed if it fails."""
        return self._terms.source is not None

    def dataset(self) -> str | None:
        """Return the name of the registered dataset that the charge is about; None if it has no such name."""
        known = self._ledger.datasets() if self.has_source else {}
        names = (name for name, each in known.items() if self._terms.source in each.sources)
        return next(names, None)

    @property
    def id(self) -> int:
        """The position of the entry that reserved this charge."""
        return self._held.id

    @property
    def state(self) -> str:
        """RESERVED, EXECUTING, COMMITTED, REFUNDED or BURNED, as last seen here; None was taken yet: NEW."""
        return self._row.state if self._row else "NEW"

    @property
    def fence(self) -> int:
        """The fencing token: a holder of a lower one can no longer start, commit or refund."""
        return self._held.fence

    @property
    def lease_until(self) -> int:
        """When the lease ends, in milliseconds since 1970."""
        return self._held.lease_until

    @property
    def amounts(self) -> dict[str, Amount]:
        """Amount that each account pays."""
        return {account.name: Amount(account.currency, a0, a1) for account, a0, a1 in self._terms.lines}

    @property
    def _held(self) -> ChargeRow:
        if self._row is None:
            raise Refused("this charge was not reserved yet; use it in a with statement or call reserve()")
        return self._row

    def reserve(self) -> Charge:
        """Take the amount (state RESERVED); a lease that runs out gives it back."""
        return self._take(started=False)

    def begin(self) -> Charge:
        """Take the amount and start in one durable step (state EXECUTING): when this returns data may be opened."""
        return self._take(started=True)

    def _take(self, *, started: bool) -> Charge:
        self._taken(started=started, text=None)
        return self

    def _taken(self, *, started: bool, text: str | None) -> Stored | None:
        """Take the amount; with ``text`` also store that answer in the same transaction, and return its place."""
        self._is_forgotten = False
        add_charge(self)
        ledger, terms, until = self._ledger, self._terms, self._ledger.lease_end(self._lease)
        if terms.source is not None:
            ledger.recover()  # a worker that was killed closes its source, too
        stored = None
        try:
            with ledger.write("begin" if started else "reserve") as transaction:
                at = ledger.now()
                wanted = self._wanted(until)  # in the turn: before it, this process may not know who acts
                claim = journal.reserve(transaction, wanted, at, started=started)
                if claim.fresh and text is not None:
                    stored = journal.commit(transaction, claim.charge, text, at)
        except BudgetExceeded as problem:
            raise self._with_remedies(problem) from None
        if not claim.fresh:
            raise occupied(ledger, claim.charge, self._asked)
        self._row = claim.charge
        return stored

    def _wanted(self, until: int) -> Request:
        """The request of this charge, by who acts now."""
        terms, is_named = self._terms, self._named
        self._named = True  # a caller who asks again has the key
        return Request(
            principal=self._ledger.principal,
            key=str(self._key),
            space=self._space,
            why=self._why,
            plan=terms.plan,
            plan_hash=terms.plan_hash,
            lines=terms.asked,
            lease_until=until,
            about=terms.about,
            source=terms.source,
            named=is_named,
            beside=self.beside,
            item=self.item,
            software=versions() if terms.source is not None else {},
        )

    def take_and_commit(self, answer: Any = None) -> Receipt:
        """Take the amount and commit a public answer in one transaction: a failure leaves all of it or nothing."""
        text = encode_answer(answer)
        place = self._taken(started=True, text=text)
        assert place is not None
        return self._committed(text, place)

    def rehearse(self) -> None:
        """Raise the refusal or the denial that taking the amount would meet; nothing is taken."""
        self._is_forgotten = False
        terms = self._terms
        self.require_free_key()
        try:
            with self._ledger.store.read() as transaction:
                if terms.source is not None:
                    journal.admit(transaction, terms.source, terms.asked)
                    require_not_retired(transaction, self.beside)
                for line in terms.asked:
                    journal.would_spend(transaction, line)
        except BudgetExceeded as problem:
            raise self._with_remedies(problem) from None

    def require_free_key(self) -> None:
        """Raise if the key was used and has no answer to give."""
        if not self._named:
            return
        with self._ledger.store.read() as transaction:
            charge = self._under_key(transaction)
        if charge is not None and charge.state != "COMMITTED":
            raise occupied(self._ledger, charge, self._asked)

    def _under_key(self, transaction: Transaction) -> ChargeRow | None:
        """The charge that has this key, in the state that may be told, or None."""
        charge = journal.charge_under(
            transaction, self._ledger.principal, self._space, self._key, has_roles=self._ledger.has_roles
        )
        return None if charge is None else charge._replace(state=journal.told_state(transaction, charge))

    def _with_remedies(self, problem: BudgetExceeded) -> BudgetExceeded:
        """The denial of one payer, with what would fit in place of the same loss."""
        from tallystick.accounting.loss import PrivacyLoss
        from tallystick.ledger.denial import for_loss

        if len(self._terms.lines) != 1 or not self._terms.plan:
            return problem
        account = self._terms.lines[0][0]
        try:
            loss = PrivacyLoss.from_json(self._terms.plan)
        except InvalidInput:  # charged by exact amounts, for a plan that is a text of the caller
            return problem
        return for_loss(problem, account, loss)

    def stored(self) -> tuple[Any, Receipt] | None:
        """The answer and receipt stored under this key for this very request, if any; takes nothing."""
        self._is_forgotten = False
        if not self._named:
            return None
        with self._ledger.store.read() as transaction:
            charge = self._under_key(transaction)
            if charge is None:
                return None
            journal.require_same(transaction, charge, self._terms.about)
        if charge.state == journal.WITHHELD:
            raise Unavailable(FAILED)
        return self._ledger.stored_answer(charge, self._asked) if charge.state == "COMMITTED" else None

    def look_up(self) -> tuple[ChargeRow, Receipt | None] | None:
        """Ask the ledger for the charge of this request under this key, and for its receipt; None if nothing was taken.

        This object may know less: an interruption can come between the end of a transaction and its note here.
        A reader could come before a transaction that the store still finishes, so the question waits for its turn.
        """
        with self._ledger.store.write("look up") as transaction:
            row = self._under_key(transaction)
            if row is None:
                return None
            is_same = journal.is_same(transaction, row, self._terms.about)
        charge = self._ledger.told(row)
        if not is_same or charge.state == "REFUNDED":
            return None
        is_stored = charge.state == "COMMITTED"
        return charge, self._ledger.stored_answer(charge, self._asked)[1] if is_stored else None

    def say_paid_before(self, in_other_words: Sequence[str] = ()) -> None:
        """Warn where this question has its answer under another key; the data may have changed since."""
        told = self.paid_before(in_other_words)
        if told is not None:
            warnings.warn(told, stacklevel=5)

    def paid_before(self, in_other_words: Sequence[str] = ()) -> ChargedAgain | None:
        """The warning that this very request, or one of the same question in other words, has its answer."""
        about = self._terms.about
        with self._ledger.store.read() as transaction:
            for text in dict.fromkeys((*about.texts, *in_other_words)):
                charge = journal.charge_like(transaction, self._ledger.principal, about, text)
                if charge is not None:
                    return _charged_again(charge, is_same_request=text in about.texts)
        return None

    def start(self) -> Charge:
        """RESERVED -> EXECUTING; when this returns, it is durable and data may be opened."""
        with self._ledger.write("start") as transaction:
            journal.start(transaction, self._held, self._ledger.now())
        self._row = self._held._replace(state="EXECUTING")
        return self

    def commit(self, answer: Any = None) -> Receipt:
        """EXECUTING -> COMMITTED: store the answer durably, then return the receipt."""
        text = encode_answer(answer)
        return self._committed(text, self._store(text))

    def _committed(self, text: str, stored: Stored) -> Receipt:
        """Remember that this answer is stored there, and make the receipt."""
        self._row = self._held._replace(state="COMMITTED", last_seq=stored.position.seq)
        self.answer = decode_answer(text)
        self.receipt = Receipt(
            ledger=self._ledger.id,
            charge=self.id,
            lines=tuple((account.id, account.name, account.filter, a0, a1) for account, a0, a1 in self._terms.lines),
            plan_hash=self._terms.plan_hash,
            request=self._held.request,
            answer_hash=stored.answer_hash,
            seq=stored.position.seq,
            head=stored.position.hash,
            at=stored.at,
        )
        return self.receipt

    def _store(self, text: str) -> Stored:
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

    def _try_to_store(self, text: str) -> Stored:
        at = self._ledger.now()
        with self._ledger.write("commit") as transaction:
            return journal.commit(transaction, self._held, text, at)

    def _recorded(self, text: str) -> Stored:
        """Position at which an earlier attempt, whose reply was lost, committed this answer; refused if it did not."""
        with self._ledger.store.read() as transaction:
            charge = ChargeRow(*(transaction.row("charge_by_id", self.id) or self._held))
            answer = transaction.row("answer_of", self.id)
            if (charge.state, charge.fence) != ("COMMITTED", self.fence) or answer is None or answer[0] != text:
                raise journal.lost(self._held)
            body = journal.stored_entry(transaction, charge.last_seq)
            row = transaction.row("entry_at", charge.last_seq) or ()
        return Stored(Position(int(row[0]), str(row[1])), int(body["at"]), body["answer_hash"])

    def is_withheld(self) -> bool:
        """True if the data of this charge were closed while it ran, and its owner has not cleared them yet."""
        if not self.has_source:
            return False
        with self._ledger.store.read() as transaction:
            row = transaction.row("charge_by_id", self.id)
            return row is not None and journal.told_state(transaction, ChargeRow(*row)) == journal.WITHHELD

    def withhold(self) -> None:
        """Forget the outcome: until the owner has cleared the failure, this object tells no more than the ledger."""
        self.answer, self.receipt = None, None
        self._row = self._held._replace(state=journal.WITHHELD)

    def burn(self) -> None:
        """EXECUTING -> BURNED: never refunded."""
        with self._ledger.write("burn") as transaction:
            journal.burn(transaction, self._held, self._ledger.now(), why="error", principal=self._ledger.principal)
        self._row = self._held._replace(state="BURNED")

    def stop(self, operator: Ledger) -> None:
        """EXECUTING -> BURNED by an operator who stops the service: paid, and the data stay open."""
        if not operator.has_roles:
            raise Refused("only an operator stops a release, and this ledger has no roles", code="no_roles")
        with operator.write("burn") as transaction:
            journal.burn(transaction, self._held, operator.now(), why=STOPPED, principal=operator.principal)
        self._row = self._held._replace(state="BURNED")

    def refund(self) -> None:
        """RESERVED -> REFUNDED: give the amount back; allowed only while data was not opened."""
        with self._ledger.write("refund") as transaction:
            journal.refund(
                transaction, self._held, self._ledger.now(), why="given back", principal=self._ledger.principal
            )
        self._row = self._held._replace(state="REFUNDED")

    def renew(self, *, lease: float) -> None:
        """Extend the lease by ``lease`` seconds from now; long work calls this now and then."""
        until = self._ledger.lease_end(lease)
        with self._ledger.write("renew") as transaction:
            self._row = journal.lease(transaction, self._held, self._ledger.now(), until, take=False)

    def __enter__(self) -> Charge:
        return self.begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state != "EXECUTING":
            return  # committed, burned or lost inside the block
        if kind is not None:
            self.burn_quietly(kind)
            return
        try:
            self.commit(self.answer)
        except BaseException as problem:
            self.burn_quietly(type(problem))
            raise

    def burn_quietly(self, error: type[BaseException] | None = None) -> None:
        """Burn if the store lets us; if not, the charge stays EXECUTING, which is paid just the same.

        The operator's log gets the class of the error, the plan's hash and the time: no message, which could hold data.
        """
        with contextlib.suppress(Unavailable, Refused, NotAuthorised):
            self.burn()
        if self._terms.source is None:
            return  # the holder of the value gets the error itself
        kind = error.__qualname__ if error is not None else ""
        failure = {"at": self._ledger.now(), "charge": self.id, "plan_hash": self._terms.plan_hash, "error": kind[:200]}
        self._ledger.log_failure(canonical(failure))

    def __repr__(self) -> str:
        if self._row is None:
            return f"<Charge, not charged yet: {self._cost}. {HOW_TO_CHARGE}>"
        return f"<Charge {self._row.id} {self.state} {', '.join(f'{name}: {a}' for name, a in self.amounts.items())}>"

    def _repr_html_(self) -> str:
        return views.charge_html(self)


def _charged_again(earlier: ChargeRow, *, is_same_request: bool) -> ChargedAgain:
    """The warning about an earlier charge; its key answers the very same request alone."""
    paid = f"ledger entry {earlier.id} paid for the same question of the same source"
    if is_same_request:
        remedies = [Remedy("reuse_key", key=earlier.key)]
        return ChargedAgain(f"{paid}; under a new key it is charged again", remedies=remedies)
    return ChargedAgain(f"{paid} in other words, under key {earlier.key!r}; in these words it is charged again")


def occupied(ledger: Ledger, charge: ChargeRow, asked: Asked) -> Exception:
    """The error for a key whose charge is not ours to run: committed, burned, withheld, or held by someone else."""
    charge = ledger.told(charge)
    if charge.state == journal.WITHHELD:
        return Unavailable(FAILED)
    if charge.state == "COMMITTED":
        answer, receipt = ledger.stored_answer(charge, asked)
        return AlreadyCommitted(
            f"key {charge.key!r} was already committed as ledger entry {charge.id}; its stored answer is returned, "
            "nothing was charged again",
            answer=answer,
            receipt=receipt,
        )
    if charge.state == "BURNED":
        return IdempotencyConflict(
            f"ledger entry {charge.id} of key {charge.key!r} was burned: it failed after data could have been read, so "
            "it stays paid and has no answer; use a new key to pay and try again"
        )
    return Unavailable(
        f"ledger entry {charge.id} of key {charge.key!r} is {charge.state} in another worker; "
        "try again when it has finished or its lease has run out"
    )


# Receipts: the other half of the tally stick, kept by the person who got the answer.

RECEIPT_FORMAT: Final = "tallystick/receipt/1"


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a charge was recorded: it names one entry of one chain by its hash.

    The hash commits to every earlier entry, so a ledger that was cut, restored or rewritten no longer matches.

    >>> receipt = Receipt("0" * 32, 2, ((1, "clinic", "zcdp", 5, 0),), "a" * 64, "b" * 64, "c" * 64, 3, "d" * 64, 0)
    >>> Receipt.from_json(receipt.to_json()) == receipt
    True
    """

    ledger: str
    charge: int
    lines: tuple[tuple[int, str, str, int, int], ...]  # account id, account name, filter, a0, a1
    plan_hash: str
    request: str
    answer_hash: str
    seq: int
    head: str
    at: int

    def _plausible(self) -> bool:
        """True if every field has its type and range; only a ledger can say if it is true."""
        numbers = [self.charge, self.seq, self.at, *(n for i, _, _, a0, a1 in self.lines for n in (i, a0, a1))]
        texts = [self.ledger, self.plan_hash, self.request, self.answer_hash, self.head]
        texts += [text for _, name, currency, _, _ in self.lines for text in (name, currency)]
        return (
            all(type(number) is int and 0 <= number <= LARGEST for number in numbers)
            and all(type(text) is str for text in texts)
            and len(self.lines) > 0
        )

    @property
    def how_to_verify(self) -> str:
        """Command that checks this receipt."""
        return "tallystick ledger verify --ledger <ledger> --receipt <this file>"

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as JSON data."""
        return {"format": RECEIPT_FORMAT, **asdict(self), "how_to_verify": self.how_to_verify}

    def to_json(self) -> str:
        """The receipt as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """Read a receipt back; anything that is not one is refused."""
        try:
            data: dict[str, Any] = strict_json.read(text, longest=1_000_000)
            fields = {name: value for name, value in data.items() if name not in ("format", "how_to_verify")}
            fields["lines"] = tuple((i, name, currency, a0, a1) for i, name, currency, a0, a1 in fields["lines"])
            receipt = cls(**fields)
            if not receipt._plausible() or not strict_json.same(data, json.loads(receipt.to_json())):
                raise ValueError
            return receipt
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InvalidInput("receipt", "this text", f"a JSON receipt of format {RECEIPT_FORMAT}") from None
