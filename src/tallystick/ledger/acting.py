"""The principal who acts: the user of the system or the database, or the owner of a token. No caller chooses it.

A ledger without roles records who acted, and refuses no user. Once roles began, every entry is judged before it is
appended (``authority.py``), with the state that the hashed chain gives.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from tallystick.errors import LedgerIntegrity, NotAuthorised, Remedy
from tallystick.ledger import journal
from tallystick.ledger.actions import ACTIONS, YES
from tallystick.ledger.authority import FINISHING, PERSON, Act, Authority, Forbidden, State, Token, effect_of, seen
from tallystick.ledger.texts import committed, opens
from tallystick.ledger.users import CHOSEN, name_in

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.journal import Turn
    from tallystick.ledger.replay import Book
    from tallystick.ledger.store import Transaction

TOKEN_START: Final = "tsk_"
_TOKEN_BYTES: Final = 32
_ID_BYTES: Final = 16
_CHECK_DIGITS: Final = 6
HOLDER_KINDS: Final = frozenset(("lease", "start", "commit", "burn", "refund"))
"""Entries about a charge that may have begun in the same transaction. The replay before the seal judges them."""


FINISHING_OPERATIONS: Final = ("renew", "commit", "burn", "refund")
"""Operations by which a principal who has ended finishes a charge."""


class Proposed(Exception):
    """Ends an operation whose change was noted for a request: what it would return is undone."""


def new_token() -> str:
    """A new token: 256 random bits with six check digits, so that a typing error is seen before it is sent.

    >>> token = new_token()
    >>> token.startswith("tsk_"), token_digest(token) == token_digest(token)
    (True, True)
    """
    body = os.urandom(_TOKEN_BYTES).hex()
    return f"{TOKEN_START}{body}{_check_digits(body)}"


def _check_digits(body: str) -> str:
    return f"{zlib.crc32(body.encode()) & 0xFFFFFF:06x}"


def token_digest(token: str) -> str:
    """The SHA-256 of a token, as the chain has it; refused if the token has a typing error."""
    body = token.removeprefix(TOKEN_START) if isinstance(token, str) else ""
    is_shaped = isinstance(token, str) and token.startswith(TOKEN_START) and token.isascii()
    if not is_shaped or len(body) != 2 * _TOKEN_BYTES + _CHECK_DIGITS:
        raise NotAuthorised("this is not a token of tallystick", code="bad_token")
    if _check_digits(body[:-_CHECK_DIGITS]) != body[-_CHECK_DIGITS:]:
        raise NotAuthorised("the token has a typing error", code="bad_token")
    return hashlib.sha256(token.encode()).hexdigest()


def introduce(ledger: Ledger, transaction: Transaction, turn: Turn, operation: str = "") -> None:
    """Set who acts in a turn; name a principal that is new to a ledger without roles."""
    book = ledger.writer.book_to_write(transaction)
    has_roles = book is not None and book.authority.since is not None
    known = ledger.acting if has_roles else None
    if has_roles and known is None:
        require_own_name(ledger)
    own = _own_principal(ledger, transaction, book) if known is None else known.principal
    turn.act = act = known or Act(own or new_principal())
    if ledger.captured is not None:
        turn.capture = ledger.captured
    turn.book = book
    if book is not None and has_roles:
        turn.seen, turn.items = _reader(book), book.items
        problem = None if book.authority.is_active(act.principal) else unknown(ledger)
        if problem is not None and operation not in FINISHING_OPERATIONS:
            raise problem
        turn.judge = None if turn.capture is not None else Judge(book, problem)
        return
    if own is None:
        journal.append(
            transaction, "principal_add", ledger.now(),
            principal=act.principal, person=PERSON, owner=None, subject=committed(ledger.subject),
        )  # fmt: skip


def require_own_name(ledger: Ledger) -> None:
    """Refuse a user whose name says nothing: roles are given to names."""
    if ledger.subject.startswith(CHOSEN):
        raise NotAuthorised(
            "this process runs in a user namespace, where a user can take the name of another one. Nothing was "
            "changed. Run it outside, as in: no 'unshare', no container without root",
            code="chosen_name",
        )


def _reader(book: Book) -> Callable[[Mapping[str, Any]], tuple[int, ...]]:
    """Reads the state on which an entry depends."""
    return lambda entry: seen(effect_of(entry), book)


def _own_principal(ledger: Ledger, transaction: Transaction, book: Book | None) -> str | None:
    """The id of the user, looked up once for a process, and again if it has ended; None if no entry names the user."""
    known = ledger.writer.actors.get(ledger.subject)
    if known is None or (book is not None and not book.authority.is_active(known)):
        known = principal_of(transaction, ledger.subject)
    if known is not None and transaction.turn.sealed is None:  # an entry of this transaction may still be undone
        ledger.writer.actors[ledger.subject] = known
    return known


def new_principal() -> str:
    """A new id for a principal. It says nothing about the name."""
    return os.urandom(_ID_BYTES).hex()


def principal_of(transaction: Transaction, subject: str) -> str | None:
    """The id of a subject, from the newest entry that names it; None if no entry does.

    The text alone proves nothing. One that was edited to be a subject's name does not keep the subject out.
    """
    numbers = [(int(number), str(salt)) for number, salt in transaction.rows("subject_entry", subject)]
    for number, salt in reversed(numbers):
        entry = journal.stored_entry(transaction, number)
        if opens(str(entry.get("subject")), salt, subject):
            return _named_by(entry)
    if numbers:
        raise LedgerIntegrity(f"the name in entry {numbers[0][0]} was altered", remedies=[Remedy("verify_ledger")])
    return None


def _named_by(entry: Mapping[str, Any]) -> str:
    """The principal that an entry names."""
    return str(entry["principal"] if entry["kind"] == "principal_add" else entry["act"][0])


def names_in(transaction: Transaction) -> dict[str, str]:
    """The names of principals by id, from the entries that name them. Erased names are absent."""
    numbers = [int(number) for number, _ in transaction.rows("subjects")]
    return {_named_by(journal.stored_entry(transaction, number)): name_at(transaction, number) for number in numbers}


def name_at(transaction: Transaction, number: int) -> str:
    """The name in an entry that names a principal, as it is shown."""
    return name_in(journal.text_shown(transaction, number, "subject"))


def unknown(ledger: Ledger) -> NotAuthorised:
    """The refusal of a user without a role."""
    if ledger.acting is not None:
        return NotAuthorised(
            "the principal of this request is unknown or has ended. Nothing was changed", code="unknown_principal"
        )
    return NotAuthorised(
        f"{name_in(ledger.subject)} has no role in this ledger. Nothing was changed. An owner gives one",
        code="unknown_principal",
        remedies=[Remedy("give_role", name=name_in(ledger.subject))],
    )


class Judge:
    """Checks the entries of one turn, one after the other, before they are appended."""

    def __init__(self, book: Book, problem: NotAuthorised | None = None) -> None:
        self._state = _View(book, book.authority)
        self._problem = problem
        """The refusal of a principal who is unknown or has ended, and who may only finish a charge that runs."""
        self._is_copy = False

    @property
    def state(self) -> State:
        """The state before the next entry of the turn."""
        return self._state

    def __call__(self, seq: int, entry: Mapping[str, Any]) -> None:
        """Raise ``NotAuthorised`` if the principal may not write the entry."""
        if entry["kind"] in HOLDER_KINDS and entry["charge"] not in self._state.charges:
            return
        if self._problem is not None and entry["kind"] not in FINISHING:
            raise self._problem
        try:
            self._state.authority.judge(seq, entry, self._state)
        except Forbidden as problem:
            raise refused(problem) from None
        if entry["kind"] in ("reserve", "begin", *HOLDER_KINDS):
            return  # only one entry of a turn counts for a token
        if not self._is_copy:
            self._state.authority = self._state.authority.copy()
            self._is_copy = True
        self._state.authority.take(seq, entry, self._state)


class _View:
    """The state before the next entry of a turn: that of the book, with the authority of the entries in the turn."""

    def __init__(self, book: Book, authority: Authority) -> None:
        self.authority = authority
        self.accounts, self.charges, self.lines = book.accounts, book.charges, book.lines
        self.payers, self.sources = book.payers, book.sources
        self.datasets, self.quarantines, self.governed = book.datasets, book.quarantines, book.governed
        self.erased, self.erased_answers = book.erased, book.erased_answers
        self.population = book.population


def refused(problem: Forbidden) -> NotAuthorised:
    """The refusal of an entry, in words for its writer."""
    text = str(problem)
    sentence = text[0].upper() + text[1:]
    remedies = [Remedy(kind) for code, kind in _REMEDIES.items() if code == problem.code]
    return NotAuthorised(f"{sentence}. Nothing was changed", code=problem.code, remedies=remedies)


_REMEDIES: Final = {"needs_approval": "make_request", "not_authorised": "show_members"}
"""Kinds of remedies of refusals, by the code of the rule."""


def is_present(book: Book, act: Act, at: int) -> bool:
    """True if a principal has not ended, and its token may be used at this time."""
    authority = book.authority
    if not authority.is_active(act.principal):
        return False
    token = None if act.via is None else authority.tokens.get(act.via)
    if act.via is None:
        return True
    return token is not None and token.principal == act.principal and token.ended is None and at <= token.until


def may(book: Book, act: Act, action: str, population: str | None) -> bool:
    """True if a role of the principal, and of its token, may do this at once."""
    number = None if population is None else book.names.get(population)
    if population is not None and number is None:
        return False
    top = None if number is None else book.population(number)
    return ACTIONS[action].cell(book.authority.usable_roles(act, top)) == YES


def token_in(book: Book | None, text: str, at: int) -> Token:
    """The token with this text; one refusal for a token that is unknown, that has ended, or that is too old."""
    digest = token_digest(text)
    found = None if book is None else book.authority.token_of(digest, at)
    if found is None:
        raise NotAuthorised("this token is not accepted: it is unknown or has ended", code="dead_token")
    return found
