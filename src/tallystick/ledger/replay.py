"""Replaying entries: what the tables must contain, derived from the chain alone.

This is a second, independent account of the rules in ``journal.py``: plain dictionaries, no SQL. ``verify`` compares
its result with the tables row by row, so an edit of a row, of an entry, or of both is found.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, NamedTuple

from tallystick.ledger.actions import ANALYST
from tallystick.ledger.authority import FIELDS_OF_MOMENT, ROLE_KINDS, STOPPED, Authority, Forbidden
from tallystick.ledger.chain import canonical, digest
from tallystick.ledger.filters import LARGEST, Filter
from tallystick.ledger.journal import AccountRow, ChargeRow, answer_terms, together
from tallystick.ledger.opening import raise_terms
from tallystick.ledger.partition import Blocks, Partition
from tallystick.ledger.registry import DatasetRow, lasts
from tallystick.ledger.signing import verified
from tallystick.ledger.texts import ERASABLE, SPACES, TEXT_FIELDS

FORMAT_2: Final = "tallystick/ledger/2"
FORMAT_3: Final = "tallystick/ledger/3"
SIGNED: Final = ("principal", "space", "key", "request", "plan_hash", "lines", "source")
"""Fields of the first entry of a charge that the signature of its answer covers."""
ENDED: Final = ("COMMITTED", "REFUNDED", "BURNED")

# What an entry looks like: its fields and their types, for every kind. What they mean is below.

WHOLE: Final = "whole"  # an integer from 0 to the largest amount
TEXT: Final = "text"
TEXT_OR_NONE: Final = "text or none"
WHOLE_OR_NONE: Final = "whole or none"
PAIR: Final = "pair"  # two whole numbers
PAIRS: Final = "pairs"
TRIPLES: Final = "triples"
LIST_OR_NONE: Final = "list or none"
LISTED: Final = "listed"  # a list of texts
HEAD: Final = "head"  # the number of an entry and its hash
TEXTS: Final = "texts"  # an object whose values are texts or nothing
HASH: Final = "hash"  # 64 hexadecimal digits: a digest, a commitment or a public key
SIGNATURE: Final = "signature"  # 128 hexadecimal digits
SALT: Final = "salt"  # 32 hexadecimal digits
NUMBERS: Final = "numbers"  # whole numbers that rise
INTEGERS: Final = "integers"  # a list of whole numbers
OBJECT: Final = "object"  # fields of an entry
NEEDED: Final = "needed"  # an object of whole numbers
ACT: Final = "act"  # a principal, a token or nothing, and a request or nothing
VOUCHED: Final = "vouched"  # a charge, the SHA-256 of its first entry, and the hash of its answer

NAMED: Final = {
    WHOLE: "a whole number in range", TEXT: "a text", TEXT_OR_NONE: "a text", WHOLE_OR_NONE: "a whole number in range",
    PAIR: "two whole numbers in range", PAIRS: "pairs of whole numbers", TRIPLES: "lines of whole numbers in range",
    LIST_OR_NONE: "a list", TEXTS: "an object of texts", LISTED: "a list of texts",
    HEAD: "the number and the hash of an entry", HASH: "a hash", SIGNATURE: "a signature", SALT: "a nonce",
    NUMBERS: "a list of rising whole numbers", VOUCHED: "triples of a charge and two hashes",
    INTEGERS: "a list of whole numbers in range", OBJECT: "an object", NEEDED: "an object of whole numbers in range",
    ACT: "a principal, a token and a request",
}  # fmt: skip
_CHARGE: Final = {"charge": WHOLE, "fence": WHOLE}
_REQUEST: Final = {
    "principal": TEXT, "key": TEXT, "request": TEXT, "why": TEXT, "plan": TEXT, "plan_hash": TEXT,
    "source": TEXT_OR_NONE, "lines": TRIPLES, "lease_until": WHOLE,
}  # fmt: skip
SHAPES: Final[dict[str, dict[str, str]]] = {
    "genesis": {"format": TEXT, "ledger": TEXT},
    "open": {
        "name": TEXT, "parent": WHOLE_OR_NONE, "partition": LIST_OR_NONE, "account_kind": TEXT, "filter": TEXT,
        "unit": TEXT, "adjacency": TEXT, "milestones": TEXT, "limit": PAIR,
    },
    "raise": {"account": WHOLE, "limit": PAIR, "was": PAIR, "why": TEXT, "by": TEXT, "signature": TEXT},
    "close": {"account": WHOLE, "why": TEXT},
    "register": {
        "dataset": TEXT, "account": WHOLE, "source": TEXT_OR_NONE, "least": WHOLE, "note": TEXT, "fixed": TEXTS,
    },
    "clear": {"principal": TEXT, "account": WHOLE, "rows": PAIRS, "why": TEXT},
    "first_use": {"principal": TEXT, "why": TEXT},
    "older": {"principal": TEXT, "why": TEXT, "newest": HEAD, "seen": HEAD},
    "reserve": _REQUEST,
    "begin": _REQUEST,
    "lease": {**_CHARGE, "lease_until": WHOLE},
    "start": _CHARGE,
    "commit": {**_CHARGE, "answer_hash": TEXT},
    "burn": {**_CHARGE, "why": TEXT},
    "refund": {**_CHARGE, "why": TEXT},
}  # fmt: skip
_CHARGE_3: Final = {**_REQUEST, "space": TEXT, "key": HASH, "request": HASH, "why": HASH, "software": TEXTS}
_DECISION: Final = {"principal": TEXT, "why": HASH}
SHAPES_3: Final[dict[str, dict[str, str]]] = {
    **SHAPES,
    "upgrade": {"format": TEXT},
    "raise": {**SHAPES["raise"], "why": HASH},
    "close": {**SHAPES["close"], "why": HASH},
    "register": {**SHAPES["register"], "note": HASH},
    "clear": {**SHAPES["clear"], "why": HASH},
    "first_use": {**SHAPES["first_use"], "why": HASH},
    "older": {**SHAPES["older"], "why": HASH},
    "reserve": _CHARGE_3,
    "begin": _CHARGE_3,
    "commit": {**_CHARGE, "answer_hash": HASH},
    "burn": {**_CHARGE, "why": TEXT, "principal": TEXT, "nonce": SALT},
    "refund": {**_CHARGE, "why": TEXT, "principal": TEXT},
    "govern": {**_DECISION, "public": HASH, "vouched": VOUCHED},
    "key_add": {**_DECISION, "public": HASH},
    "key_retire": {**_DECISION, "public": HASH, "distrusted_from": WHOLE_OR_NONE},
    "erase": {**_DECISION, "entries": NUMBERS, "answers_of": NUMBERS},
    "principal_add": {"principal": TEXT, "person": TEXT, "owner": TEXT_OR_NONE, "subject": HASH},
    "principal_end": {"principal": TEXT, "why": HASH},
    "roles": {"why": HASH},
    "role_grant": {"principal": TEXT, "role": TEXT, "population": WHOLE_OR_NONE, "why": HASH},
    "role_revoke": {"grant": WHOLE, "why": HASH},
    "quorum": {"population": WHOLE, "needed": NEEDED, "why": HASH},
    "break_glass": {"principal": TEXT, "population": WHOLE, "why": HASH},
    "token_add": {
        "principal": TEXT, "roles": LISTED, "population": WHOLE_OR_NONE, "doors": LISTED, "until": WHOLE,
        "ceiling": WHOLE_OR_NONE, "hash": HASH, "name": HASH,
    },
    "token_end": {"token": WHOLE},
    "request": {"effect": OBJECT, "population": WHOLE_OR_NONE, "was": INTEGERS, "why": HASH, "note": HASH},
    "decision": {"request": WHOLE, "decision": TEXT, "grant": WHOLE, "why": HASH},
    "withdraw": {"request": WHOLE},
    "void": {"request": WHOLE},
}  # fmt: skip
"""Shapes of format 3: texts are commitments, and the entries that format 2 does not have."""
OPTIONAL: Final[dict[str, dict[str, str]]] = {
    "genesis": {"subject": HASH},
    "upgrade": {"subject": HASH},
    "open": {"owner": TEXT},
    "register": {"marks": LISTED},
    "reserve": {"item": PAIR},
    "begin": {"item": PAIR},
    "commit": {"release_key": HASH, "signature": SIGNATURE},
}
"""Fields that an entry of a kind may have."""
GOVERNED: Final = "governed"
"""Field of every entry after governance began: the newest entry before it about the keys of the ledger."""
ACT_FIELD: Final = "act"
"""Field that says who acts. Every entry has it once roles began; before that an entry may have it."""


def problem(entry: Any, shapes: Mapping[str, Mapping[str, str]] = SHAPES) -> str:
    """Return what is wrong with the form of an entry; empty when nothing is.

    >>> problem({"kind": "close", "at": 5, "account": 2, "why": "done"})
    ''
    >>> problem({"kind": "close", "at": 5, "account": 2.0, "why": "done"})
    'account is not a whole number in range'
    """
    kind = entry.get("kind") if isinstance(entry, dict) else None
    if not isinstance(kind, str) or kind not in shapes:
        return "it is of no known kind"
    needed, fits = _fields(kind, is_new=shapes is SHAPES_3)
    if not needed <= entry.keys() <= fits.keys():
        return "it lacks a field or has one more"
    for name, value in entry.items():
        wanted, is_fitting = fits[name]
        if not is_fitting(value):
            return f"{name} is not {NAMED[wanted]}"
    return ""


@cache
def _fields(kind: str, *, is_new: bool) -> tuple[frozenset[str], dict[str, tuple[str, Callable[[Any], bool]]]]:
    """The fields that an entry of a kind must have, and all that it may have, with their types and tests."""
    shape = {"kind": TEXT, "at": WHOLE, **(SHAPES_3 if is_new else SHAPES)[kind]}
    more = {**OPTIONAL.get(kind, {}), **({GOVERNED: WHOLE, ACT_FIELD: ACT} if is_new else {})}
    return frozenset(shape), {name: (wanted, _FITS[wanted]) for name, wanted in {**shape, **more}.items()}


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _is_text(value: Any) -> bool:
    return type(value) is str


def _are_whole(width: int, row: Any) -> bool:
    return type(row) is list and len(row) == width and all(map(_is_whole, row))


def _are_rows(width: int, rows: Any) -> bool:
    return type(rows) is list and all(_are_whole(width, row) for row in rows)


def _has_digits(count: int, value: Any) -> bool:
    """True for a text of so many hexadecimal digits in lower case."""
    return type(value) is str and len(value) == count and not value.strip("0123456789abcdef")


_is_hash = partial(_has_digits, 64)


def _are_numbers(value: Any) -> bool:
    return type(value) is list and all(map(_is_whole, value)) and value == sorted(set(value))


def _are_vouched(value: Any) -> bool:
    return type(value) is list and all(
        type(row) is list and len(row) == 3 and _is_whole(row[0]) and all(map(_is_hash, row[1:])) for row in value
    )


def _is_head(value: Any) -> bool:
    return type(value) is list and len(value) == 2 and _is_whole(value[0]) and _is_text(value[1])


def _are_listed(value: Any) -> bool:
    return type(value) is list and bool(value) and all(map(_is_text, value))


def _are_integers(value: Any) -> bool:
    return type(value) is list and all(map(_is_whole, value))


def _is_needed(value: Any) -> bool:
    return type(value) is dict and all(map(_is_whole, value.values()))


def _is_act(value: Any) -> bool:
    is_shaped = type(value) is list and len(value) == 3 and _is_text(value[0])
    return is_shaped and all(each is None or _is_whole(each) for each in value[1:])


def _is_text_or_none(value: Any) -> bool:
    return value is None or type(value) is str


def _are_texts(value: Any) -> bool:
    return type(value) is dict and all(map(_is_text_or_none, value.values()))


_FITS: Final[dict[str, Callable[[Any], bool]]] = {
    WHOLE: _is_whole, TEXT: _is_text, TEXT_OR_NONE: _is_text_or_none,
    WHOLE_OR_NONE: lambda value: value is None or _is_whole(value),
    PAIR: partial(_are_whole, 2), PAIRS: partial(_are_rows, 2), TRIPLES: partial(_are_rows, 3),
    LIST_OR_NONE: lambda value: value is None or type(value) is list,
    TEXTS: _are_texts, LISTED: _are_listed, HEAD: _is_head, HASH: _is_hash,
    SIGNATURE: partial(_has_digits, 128), SALT: partial(_has_digits, 32),
    NUMBERS: _are_numbers, VOUCHED: _are_vouched, INTEGERS: _are_integers, OBJECT: lambda value: type(value) is dict,
    NEEDED: _is_needed, ACT: _is_act,
}  # fmt: skip
"""A test for each type of a field."""


class Broken(Exception):
    """An entry that no correct ledger could contain."""


def _begins_format_3(entry: Any) -> bool:
    """True for the first entry of a ledger of format 3, and for the entry that upgrades a ledger of format 2."""
    return isinstance(entry, dict) and entry.get("format") == FORMAT_3 and entry.get("kind") in ("genesis", "upgrade")


class WriterKey(NamedTuple):
    """A public key that may seal entries and sign answers, from its entry until it is retired."""

    public: str
    added: int
    retired: int | None = None
    distrusted_from: int | None = None
    """First entry that the key may not have written itself, if it was stolen."""

    def is_valid(self, seq: int) -> bool:
        """True if the key may sign the entry ``seq``. The entry that retires a key may be signed by it."""
        return self.added <= seq and (self.retired is None or seq <= self.retired)


def may_sign(keys: Sequence[WriterKey], public: str, seq: int) -> bool:
    """True if a key may sign the entry ``seq``. Only the first key signs the entry that names it."""
    return any(
        key.public == public and key.is_valid(seq) and (key.added < seq or position == 0)
        for position, key in enumerate(keys)
    )


class Accounts(dict[int, AccountRow]):
    """Rows of accounts by number. It notes which ones were put in, so that they can be compared with a table."""

    __slots__ = ("changed",)

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[int] = set()

    def __setitem__(self, number: int, row: AccountRow) -> None:
        super().__setitem__(number, row)
        self.changed.add(number)


@dataclass(slots=True)
class Book:
    """The state after some prefix of the chain."""

    ledger: str = ""
    accounts: Accounts = field(default_factory=Accounts)
    names: dict[str, int] = field(default_factory=dict)
    charges: dict[int, ChargeRow] = field(default_factory=dict)
    keys: dict[tuple[str, str], int] = field(default_factory=dict)
    lines: dict[int, list[tuple[int, int, int]]] = field(default_factory=dict)
    answers: dict[int, str] = field(default_factory=dict)
    datasets: list[DatasetRow] = field(default_factory=list)
    blocks: dict[tuple[int, str], Blocks] = field(default_factory=dict)  # by parent and partition
    children: dict[int, list[int]] = field(default_factory=dict)
    below: dict[int, dict[str | None, tuple[int, int]]] = field(default_factory=dict)
    """By account: the sum of its blocks without a partition (None), and the largest total of each partition."""
    partitions: dict[int, list[Any]] = field(default_factory=dict)
    """How each block of a partition was cut from its parent, by account."""
    signed_from: int = 0
    """First entry whose signatures are checked. The seal of the newest entry covers all entries before it."""
    items: set[tuple[int, int]] = field(default_factory=set)
    """Items of streams that were used: the charge that paid for the stream, and the number."""
    digests: dict[int, str] = field(default_factory=dict)
    """SHA-256 of the bodies of registrations and of first entries of charges, by entry."""
    start: int = 0
    """The entry of the checkpoint from which this book continues."""
    ended: int = 0
    """Charges up to the checkpoint that had ended; they are not in ``charges``."""
    free: int = 0
    """Charges that cost nothing."""
    fixed: dict[str, Any] = field(default_factory=dict)
    marks: dict[str, list[str]] = field(default_factory=dict)
    marked: dict[str, tuple[int, Any]] = field(default_factory=dict)
    sources: dict[int, str | None] = field(default_factory=dict)  # of charges
    payers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Populations that pay for charges. A checkpoint has those of all charges: who may erase rests on them."""
    begun: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What the signature of an answer covers of the first entry of each running charge."""
    signed: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """Charges whose answers each key signed, with the entries."""
    losses: list[str] = field(default_factory=list)
    """Sentences about entries that are lost, by the owner's own word."""
    quarantines: dict[tuple[int, int], tuple[str, int | None, int | None]] = field(default_factory=dict)
    """By charge and population: the source, the entry that cleared it, and the failure that closed it (format 3)."""
    since: int | None = None
    """The entry at which format 3 began."""
    newest_at: int = 0
    governed: int | None = None
    """The newest entry about the keys of the ledger; None before governance."""
    keys_of_writers: list[WriterKey] = field(default_factory=list)
    erased: set[int] = field(default_factory=set)
    """Entries whose texts were erased."""
    erased_answers: set[int] = field(default_factory=set)
    kinds: dict[int, str] = field(default_factory=dict)
    """Kinds of the entries of format 3 that have texts."""
    authority: Authority = field(default_factory=Authority)
    """Principals, roles, tokens and requests."""

    def apply(self, seq: int, body: str, entry: Any = None) -> None:
        """Take one more entry; raises ``Broken`` when a rule is violated. ``entry`` is the body, if it was read."""
        try:
            entry = json.loads(body) if entry is None else entry
            is_new = self.since is not None or _begins_format_3(entry)
            if form := problem(entry, SHAPES_3 if is_new else SHAPES):
                raise Broken(f"entry {seq}: {form}")
            if is_new:
                self._check_new(seq, entry)
            if entry["kind"] in ("register", "reserve", "begin"):
                self.digests[seq] = digest(body)
            if is_new:
                self.authority.judge(seq, entry, self)
            _ACTIONS[entry["kind"]](self, seq, entry)
            if is_new:
                self.authority.take(seq, entry, self)
            self.newest_at = entry["at"]
        except Forbidden as forbidden:
            raise Broken(f"entry {seq}: {forbidden}") from None
        except (KeyError, ValueError, TypeError, AttributeError, IndexError, RecursionError) as error:
            raise Broken(f"entry {seq} cannot be read ({type(error).__name__})") from None

    def _check_new(self, seq: int, entry: dict[str, Any]) -> None:
        """Check what holds for every entry of format 3."""
        self.since = seq if self.since is None else self.since
        self.require(entry["at"] >= self.newest_at, seq, "its time is before that of an earlier entry")
        self.require(entry.get(GOVERNED) == self.governed, seq, "it does not name the newest entry about keys")
        if TEXT_FIELDS.get(entry["kind"], ())[:1] and TEXT_FIELDS[entry["kind"]][0] in entry:
            self.kinds[seq] = entry["kind"]

    def note_distrusted(self, charge: int, seq: int, entry: dict[str, Any]) -> None:
        """Remember which key signed an answer: the key may turn out to be stolen."""
        if "release_key" in entry:
            self.signed.setdefault(entry["release_key"], []).append((charge, seq))

    def distrusted(self) -> list[int]:
        """The charges whose answers a stolen key signed, from the entry on that its owner names."""
        starts = {key.public: key.distrusted_from for key in self.keys_of_writers if key.distrusted_from is not None}
        found = [
            charge for public, start in starts.items() for charge, seq in self.signed.get(public, ()) if seq >= start
        ]
        return sorted(found)

    def is_writer(self, public: str, seq: int) -> bool:
        """True if this key may seal and sign the entry ``seq``."""
        return may_sign(self.keys_of_writers, public, seq)

    def require(self, condition: bool, seq: int, rule: str) -> None:
        """Raise ``Broken`` unless the rule holds."""
        if not condition:
            raise Broken(f"entry {seq}: {rule}")

    def move(self, seq: int, account_id: int, a0: int, a1: int) -> None:
        """Change an account's own total and carry the change upwards; no total may pass its limit."""
        account = self.accounts[account_id]
        own0, own1 = account.own0 + a0, account.own1 + a1
        self.require(own0 >= 0 and own1 >= 0, seq, "a total is negative")
        above = self._charged(seq, account, own0, own1)
        while above is not None:
            account = self.accounts[above]
            above = self._charged(seq, account, account.own0, account.own1)

    def _charged(self, seq: int, account: AccountRow, own0: int, own1: int) -> int | None:
        """Store an account with its new total: own charges and blocks. Return the account above."""
        used0, used1 = own0, own1
        for part0, part1 in self.below.get(account.id, {}).values():
            used0 += part0
            used1 += part1
        self.require(0 <= used0 <= account.limit0 and 0 <= used1 <= account.limit1, seq, "a total passes its limit")
        after = self.accounts[account.id] = account._replace(own0=own0, own1=own1, used0=used0, used1=used1)
        self.carry(after, account.used0, account.used1)
        return account.parent_id

    def carry(self, block: AccountRow, before0: int, before1: int) -> None:
        """Note in the account above that the total of a block was another one before."""
        if block.parent_id is None:
            return
        name = block.partition_name
        parts = self.below.setdefault(block.parent_id, {})
        part0, part1 = parts.get(name, (0, 0))
        if name is None:
            parts[name] = part0 + block.used0 - before0, part1 + block.used1 - before1
        elif block.used0 >= before0 and block.used1 >= before1:
            parts[name] = max(part0, block.used0), max(part1, block.used1)
        else:
            blocks = [self.accounts[number] for number in self.children[block.parent_id]]
            alike = [(each.used0, each.used1) for each in blocks if each.partition_name == name]
            parts[name] = max(used[0] for used in alike), max(used[1] for used in alike)

    def population(self, account_id: int) -> int:
        """The root above an account."""
        above = self.accounts[account_id].parent_id
        return account_id if above is None else self.population(above)

    def path(self, account_id: int) -> tuple[tuple[int, int | None, str | None], ...]:
        """An account and the accounts above it, up to its population: number, parent and partition of each."""
        account = self.accounts[account_id]
        own = (account.id, account.parent_id, account.partition_name)
        return (own,) if account.parent_id is None else (own, *self.path(account.parent_id))

    def closed(self, source: str | None, populations: set[int]) -> bool:
        """True if a failure on the source or on one of the populations is not cleared."""
        return source is not None and any(
            cleared is None and (failure == source or population in populations)
            for (_, population), (failure, cleared, _) in self.quarantines.items()
        )

    def least(self, source: str, population: int) -> int:
        """The least cost of a plan: that of the source where it is registered, or the largest of the population."""
        newest = {row.name: row for row in self.datasets}.values()
        names = {row.name for row in self.datasets if row.source == source}
        prices = [row.least0 for row in newest if row.name in names or (not names and row.population_id == population)]
        return max(prices, default=0)


def _genesis(book: Book, seq: int, entry: dict[str, Any]) -> None:
    book.require(seq == 1, seq, "a second first entry")
    book.require(entry["format"] in (FORMAT_2, FORMAT_3), seq, "a format that is not known")
    book.require(
        uuid.UUID(entry["ledger"]).hex == entry["ledger"], seq, "the ledger's id is not one"
    )  # it names a file
    book.ledger = entry["ledger"]


def _upgrade(book: Book, seq: int, entry: dict[str, Any]) -> None:
    book.require(entry["format"] == FORMAT_3 and book.since == seq, seq, "a second upgrade, or to an unknown format")


def _govern(book: Book, seq: int, entry: dict[str, Any]) -> None:
    book.require(book.governed is None, seq, "governance begins twice")
    for charge, first, answer_hash in entry["vouched"]:
        is_stored = (book.digests.get(charge), book.answers.get(charge)) == (first, answer_hash) or charge <= book.start
        book.require(is_stored, seq, "an answer that was not stored is vouched for")
    book.keys_of_writers.append(WriterKey(entry["public"], seq))
    book.governed = seq


def _key_add(book: Book, seq: int, entry: dict[str, Any]) -> None:
    book.require(book.governed is not None, seq, "a key of a ledger that is not governed")
    known = {key.public for key in book.keys_of_writers}
    book.require(entry["public"] not in known, seq, "a key is added twice")
    book.keys_of_writers.append(WriterKey(entry["public"], seq))
    book.governed = seq


def _key_retire(book: Book, seq: int, entry: dict[str, Any]) -> None:
    others = [key for key in book.keys_of_writers if key.retired is None and key.public != entry["public"]]
    index = next(i for i, key in enumerate(book.keys_of_writers) if key.public == entry["public"])
    key = book.keys_of_writers[index]
    start = entry["distrusted_from"]
    book.require(key.retired is None and len(others) > 0, seq, "the last key is retired, or one is retired twice")
    book.require(start is None or key.added <= start <= seq, seq, "a key is distrusted before it was added")
    book.keys_of_writers[index] = key._replace(retired=seq, distrusted_from=start)
    book.governed = seq


def _erase(book: Book, seq: int, entry: dict[str, Any]) -> None:
    for number in entry["entries"]:
        charge = book.charges.get(number)
        is_known = number <= book.start or book.kinds.get(number) in ERASABLE
        book.require(number < seq and is_known, seq, "a text that cannot be erased")
        book.require(charge is None or charge.state in ENDED, seq, "texts of a running charge are erased")
        is_paid = charge is None or any(a0 or a1 for _, a0, a1 in book.lines[number])
        book.require(is_paid, seq, "texts of a charge that cost nothing are erased")
    for number in entry["answers_of"]:
        is_known = number in book.answers or number <= book.start
        book.require(number < seq and is_known, seq, "an answer is erased that was not stored")
        book.require(number not in book.erased_answers, seq, "an answer is erased twice")
    book.require(bool(entry["entries"] or entry["answers_of"]), seq, "nothing is erased")
    book.require(book.erased.isdisjoint(entry["entries"]), seq, "a text is erased twice")
    book.erased.update(entry["entries"])
    book.erased_answers.update(entry["answers_of"])


def _open(book: Book, seq: int, entry: dict[str, Any]) -> None:
    limit0, limit1 = entry["limit"]
    book.require(entry["name"] not in book.names, seq, "two accounts of one name")
    currency = Filter.named(entry["filter"])
    book.require(limit0 > 0 and (limit1 == 0 or currency.rule.spends_delta), seq, "a limit is wrong")
    kind = "population" if entry["parent"] is None else "block"
    owner = entry.get("owner")
    if entry["account_kind"] == ANALYST:
        is_allowance = entry["parent"] is not None and entry["partition"] is None and owner is not None
        is_allowance = is_allowance and book.accounts[entry["parent"]].kind != ANALYST
        book.require(is_allowance, seq, "an allowance without an owner, or of no account that can pay")
        kind = ANALYST
    plain = entry["account_kind"] == kind and entry["adjacency"] in ("add_remove", "replace")
    book.require(plain and (owner is None or kind == ANALYST), seq, "an account of no known kind")
    steps = json.loads(entry["milestones"])
    book.require(canonical(steps) == entry["milestones"], seq, "milestones that are not canonical JSON")
    rising = type(steps) is list and all(type(step) is int for step in steps) and steps == sorted(set(steps))
    book.require(rising and all(0 < step < limit0 for step in steps), seq, "milestones do not rise to the limit")
    parent = entry["parent"]
    if parent is not None:
        above = book.accounts[parent]
        same = (above.filter, above.unit, above.adjacency) == (entry["filter"], entry["unit"], entry["adjacency"])
        book.require(same, seq, "a block differs from its parent in filter, unit or adjacency")
    partition = None
    if entry["partition"] is not None:
        partition = Partition(*entry["partition"])
        partition.require(entry["adjacency"])
        blocks = book.blocks.setdefault((parent, partition.name), Blocks())
        blocks.require_apart(partition)
        blocks.add(partition)
        book.partitions[seq] = entry["partition"]
    book.names[entry["name"]] = seq
    if parent is not None:
        book.children.setdefault(parent, []).append(seq)
    book.accounts[seq] = AccountRow(
        seq, entry["name"], parent, partition.name if partition else None, entry["account_kind"], entry["filter"],
        entry["unit"], entry["adjacency"], entry["milestones"], owner, limit0, limit1, 0, 0, 0, 0, 0, "open",
    )  # fmt: skip


def _raise(book: Book, seq: int, entry: dict[str, Any]) -> None:
    account = book.accounts[entry["account"]]
    limit0, limit1 = entry["limit"]
    book.require(account.state == "open", seq, "a raise of a closed account")
    book.require([account.limit0, account.limit1] == entry["was"], seq, "a raise from another limit")
    book.require(limit0 >= account.limit0 and limit1 >= account.limit1, seq, "a limit falls")
    terms = raise_terms(book.ledger, account, limit0, limit1, entry["why"])
    book.require(verified(terms, entry["by"], entry["signature"]), seq, "the signature of a raise is wrong")
    book.accounts[account.id] = account._replace(limit0=limit0, limit1=limit1, raises=account.raises + 1)


def _close(book: Book, seq: int, entry: dict[str, Any]) -> None:
    account = book.accounts[entry["account"]]
    book.require(account.state == "open", seq, "an account is closed twice")
    book.accounts[account.id] = account._replace(state="closed")


def _register(book: Book, seq: int, entry: dict[str, Any]) -> None:
    population = book.population(book.accounts[entry["account"]].id)
    row = DatasetRow(
        entry["dataset"], seq, entry["account"], population, entry["source"], entry["least"], entry["note"]
    )
    before = [known for known in book.datasets if known.name == row.name]
    book.require(row.least0 > 0, seq, "a least cost is 0")
    book.require(
        not before or (before[-1].account_id, book.fixed[row.name]) == (row.account_id, entry["fixed"]),
        seq, "a dataset changes whom it protects",
    )  # fmt: skip
    marks = entry.get("marks", [])
    changed = not before or before[-1][4:] != row[4:] or book.marks[row.name] != marks
    book.require(changed, seq, "a registration that changes nothing")
    owners = {known.population_id for known in book.datasets if row.source is not None and known.source == row.source}
    book.require(owners <= {population}, seq, "a source belongs to two populations")
    alike = [book.fixed[known.name] for known in book.datasets if row.source is not None and known.source == row.source]
    book.require(all(fixed == entry["fixed"] for fixed in alike), seq, "a source protects two kinds of units")
    for mark in filter(lasts, marks):
        held = book.marked.setdefault(mark, (population, entry["fixed"]))
        book.require(held == (population, entry["fixed"]), seq, "marked data belong to two populations or units")
    book.fixed[row.name] = entry["fixed"]
    book.marks[row.name] = marks
    book.datasets.append(row)


def _clear(book: Book, seq: int, entry: dict[str, Any]) -> None:
    rows = [(charge, population) for charge, population in entry["rows"]]
    book.require(bool(rows) and rows == sorted(set(rows)) and bool(entry["why"].strip()), seq, "nothing is cleared")
    for row in rows:
        source, cleared, cause = book.quarantines[row]
        book.require(cleared is None, seq, "a failure is cleared twice")
        is_over = book.charges[row[0]].state != "EXECUTING" if row[0] in book.charges else True
        book.require(is_over, seq, "data are cleared while a charge on them runs")
        book.quarantines[row] = (source, seq, cause)


def _roles(book: Book, seq: int, entry: dict[str, Any]) -> None:
    book.require(book.governed is not None, seq, "roles of a ledger that is not governed")
    book.require(book.authority.since is None, seq, "roles begin twice")
    book.require("act" in entry, seq, "roles begin without a principal")


def _request(book: Book, seq: int, entry: dict[str, Any]) -> None:
    """A request fixes every field of its effect, but those of the moment: nothing is left to who carries it out."""
    effect = entry["effect"]
    filled = {name: _ANY_VALUE[name] for name in FIELDS_OF_MOMENT.get(effect["kind"], ())}
    wrong = problem({**effect, **filled, "at": entry["at"]}, SHAPES_3)
    book.require(wrong == "", seq, f"what is requested is not an entry: {wrong}")


_ANY_VALUE: Final = {"by": "0" * 64, "signature": "0" * 128, "principal": ""}
"""Values that fit the fields of ``FIELDS_OF_MOMENT``."""


def _nothing(book: Book, seq: int, entry: dict[str, Any]) -> None:
    """The entry changes only who may do what, which ``authority`` keeps."""


def _first_use(book: Book, seq: int, entry: dict[str, Any]) -> None:
    book.require(bool(entry["why"].strip()), seq, "a first use without a reason")


def _older(book: Book, seq: int, entry: dict[str, Any]) -> None:
    (newest, _), (seen, head) = entry["newest"], entry["seen"]
    book.require(bool(entry["why"].strip()), seq, "an older copy without a reason")
    book.require(newest == seq - 1, seq, "an older copy with another head than the one before")
    many = f"at least {seen - newest} entries" if seen > newest else "entries"
    book.losses.append(
        f"entry {seq} continues with an older copy: {many} up to entry {seen} (hash {head[:16]}...) are lost. Their "
        "charges are in no total unless they were charged again"
    )


def _reserve(book: Book, seq: int, entry: dict[str, Any]) -> None:
    name = (entry["principal"], entry["key"])
    book.require(name not in book.keys, seq, "two live charges of one key")
    book.require(digest(entry["plan"]) == entry["plan_hash"], seq, "the plan does not have its hash")
    lines = [(i, a0, a1) for i, a0, a1 in entry["lines"]]
    if any(a0 == a1 == 0 for _, a0, a1 in lines):
        book.require(not json.loads(entry["plan"]).get("terms"), seq, "a plan that loses something costs nothing")
    book.require(lines == sorted(set(lines)) and len(lines) > 0, seq, "lines are missing or out of order")
    _admitted(book, seq, entry["source"], lines)
    for account_id, a0, a1 in lines:
        book.require(_all_open(book, account_id), seq, "a charge on a closed account")
        book.move(seq, account_id, a0, a1)
    book.require(entry.get("space", SPACES[0]) in SPACES, seq, "a key of no known name space")
    state = "EXECUTING" if entry["kind"] == "begin" else "RESERVED"
    book.keys[name] = seq
    book.lines[seq] = lines
    book.free += all(a0 == a1 == 0 for _, a0, a1 in lines)
    book.sources[seq] = entry["source"]
    book.payers[seq] = tuple(sorted({book.population(account_id) for account_id, _, _ in lines}))
    book.begun[seq] = {name: entry.get(name) for name in SIGNED}
    if "item" in entry:
        item = (entry["item"][0], entry["item"][1])
        book.require(item not in book.items, seq, "an item of a stream is used twice")
        book.items.add(item)
    book.charges[seq] = ChargeRow(seq, *name, entry["request"], state, 1, entry["lease_until"], seq)


def _admitted(book: Book, seq: int, source: str | None, lines: list[tuple[int, int, int]]) -> None:
    if source is None:
        return
    populations = {book.population(account_id) for account_id, _, _ in lines}
    book.require(not book.closed(source, populations), seq, "a charge on closed data")
    owners = {row.population_id for row in book.datasets if row.source == source}
    book.require(not owners or bool(owners & populations), seq, "a source is paid by another population")
    for account_id, a0, _ in lines:
        population = book.population(account_id)
        if not owners or population in owners:
            book.require(a0 >= book.least(source, population), seq, "a charge below the least cost")


def _all_open(book: Book, account_id: int) -> bool:
    current: int | None = account_id
    while current is not None:
        if book.accounts[current].state != "open":
            return False
        current = book.accounts[current].parent_id
    return True


def _held(book: Book, seq: int, entry: dict[str, Any], *states: str) -> ChargeRow:
    charge = book.charges[entry["charge"]]
    book.require(charge.state in states, seq, f"{entry['kind']} of a charge that is {charge.state}")
    return charge


def _lease(book: Book, seq: int, entry: dict[str, Any]) -> None:
    charge = _held(book, seq, entry, "RESERVED", "EXECUTING")
    taken = entry["fence"] == charge.fence + 1 and charge.state == "RESERVED"
    book.require(taken or entry["fence"] == charge.fence, seq, "a fence is wrong")
    book.charges[charge.id] = charge._replace(fence=entry["fence"], lease_until=entry["lease_until"], last_seq=seq)


def _mover(old: str, new: str) -> Callable[[Book, int, dict[str, Any]], None]:
    def move(book: Book, seq: int, entry: dict[str, Any]) -> None:
        charge = _held(book, seq, entry, old)
        book.require(entry["fence"] == charge.fence, seq, "a fence is wrong")
        source = book.sources[charge.id]
        populations = {book.population(account_id) for account_id, _, _ in book.lines[charge.id]}
        if new == "EXECUTING":
            book.require(not book.closed(source, populations), seq, "a start on closed data")
        is_stopped = new == "BURNED" and entry["why"] == STOPPED
        if is_stopped:
            book.require(book.authority.since is not None, seq, "a planned stop in a ledger without roles")
        if new == "BURNED" and source is not None and not is_stopped:
            _close_data(book, charge.id, source, sorted(populations))
        book.charges[charge.id] = charge._replace(state=new, last_seq=seq)
        if new in ENDED and new != "COMMITTED":
            del book.begun[charge.id]
        if new == "COMMITTED":
            _check_signature(book, seq, entry, charge)
            del book.begun[charge.id]
            book.answers[charge.id] = entry["answer_hash"]
            book.note_distrusted(charge.id, seq, entry)
        if new == "REFUNDED":
            del book.keys[charge.principal, charge.key]
            for account_id, a0, a1 in book.lines[charge.id]:
                book.move(seq, account_id, -a0, -a1)

    return move


def _close_data(book: Book, failed: int, source: str, populations: list[int]) -> None:
    """Close the data of a failed charge; since format 3 also those of the charges that run together with it."""
    if book.since is None:
        book.quarantines |= {(failed, population): (source, None, None) for population in populations}
        return
    if any(charge == failed for charge, _ in book.quarantines):
        return  # closed while it ran
    running = {failed: (source, populations)}
    for number, row in book.charges.items():
        about = book.sources[number]
        if row.state == "EXECUTING" and about is not None:
            payers = sorted({book.population(account_id) for account_id, _, _ in book.lines[number]})
            running[number] = (about, payers)
    for number in together(failed, running):
        about, payers = running[number]
        book.quarantines |= {(number, population): (about, None, failed) for population in payers}


def _check_signature(book: Book, seq: int, entry: dict[str, Any], charge: ChargeRow) -> None:
    """Check the signature of an answer. It is there if and only if the ledger is governed."""
    if book.governed is None:
        book.require("release_key" not in entry and "signature" not in entry, seq, "a signature before governance")
        return
    book.require(book.is_writer(entry["release_key"], seq), seq, "an answer is signed by a key that may not")
    if seq >= book.signed_from:
        terms = answer_terms(book.ledger, charge.id, charge.fence, book.begun[charge.id], entry["answer_hash"])
        is_signed = verified(terms, entry["release_key"], entry["signature"])
        book.require(is_signed, seq, "the signature of an answer is wrong")


_ACTIONS: dict[str, Callable[[Book, int, dict[str, Any]], None]] = {
    "genesis": _genesis,
    "upgrade": _upgrade,
    "govern": _govern,
    "key_add": _key_add,
    "key_retire": _key_retire,
    "erase": _erase,
    "roles": _roles,
    **dict.fromkeys(("principal_add", *sorted(ROLE_KINDS)), _nothing),
    "request": _request,
    "open": _open,
    "raise": _raise,
    "close": _close,
    "register": _register,
    "clear": _clear,
    "first_use": _first_use,
    "older": _older,
    "reserve": _reserve,
    "begin": _reserve,
    "lease": _lease,
    "start": _mover("RESERVED", "EXECUTING"),
    "commit": _mover("EXECUTING", "COMMITTED"),
    "burn": _mover("EXECUTING", "BURNED"),
    "refund": _mover("RESERVED", "REFUNDED"),
}
