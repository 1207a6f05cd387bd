"""A charge in the hands of its owner: start it, give it an answer and get a receipt, or let it go."""

from __future__ import annotations

import contextlib
import json
import math
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tallystick import strict_json
from tallystick.errors import AlreadyCommitted, IdempotencyConflict, InvalidInput, Refused, Unavailable
from tallystick.ledger import journal, views
from tallystick.ledger.chain import PLAN_LENGTH, WHY_LENGTH, canonical, checked, digest
from tallystick.ledger.filters import LARGEST, Amount, Filter
from tallystick.ledger.journal import ChargeRow, Line, Position, Request

if TYPE_CHECKING:
    from tallystick.ledger.account import Account
    from tallystick.ledger.book import Ledger

CHARGE_LEASE: Final = 24 * 3600.0


class Terms(NamedTuple):
    """What a charge is about: who pays how much for which plan, and the digest that tells it from other requests."""

    lines: tuple[tuple[Account, int, int], ...]
    asked: tuple[Line, ...]
    plan: str
    plan_hash: str
    digest: str
    source: str | None

    @classmethod
    def of(cls, lines: tuple[tuple[Account, int, int], ...], plan: str, request: str = "", source: str = "") -> Terms:
        """The terms of exact amounts."""
        checked("plan", plan, PLAN_LENGTH, empty=True)
        by_id = sorted(lines, key=lambda line: line[0].id)
        asked = tuple(Line(account.id, a0, a1, account.path) for account, a0, a1 in by_id)
        about = request_digest([line[:3] for line in asked], plan, request)
        return cls(lines, asked, plan, digest(plan), about, digest(source) if source else None)


def request_digest(lines: Sequence[Sequence[int]], plan: str, request: str) -> str:
    """What tells a request from others under the same key: who pays how much for which plan, and the public text."""
    return digest(canonical({"lines": lines, "plan": plan, "request": request}))


class Charge:
    """An amount taken from one or more accounts before data is touched.

    ``with account.charge(...) as charge`` reserves and starts on entry; a normal exit commits ``charge.answer``;
    an exception burns the charge, because failure may depend on the data. ``account.reserve(...)`` returns the same
    object in state RESERVED, for a caller that starts later or gives it back.
    """

    def __init__(
        self, ledger: Ledger, terms: Terms, *, why: str, key: str | None = None, lease: float = CHARGE_LEASE
    ) -> None:
        self._ledger = ledger
        self._terms = terms
        self._why = checked("why", why, WHY_LENGTH)
        self._key = uuid.uuid4().hex if key is None else checked("key", key)
        self._named = key is not None  # False: the key was made up just now, so nobody can have used it
        self._lease = lease
        ledger.lease_end(lease)
        self._row: ChargeRow | None = None
        self.answer: Any = None
        self.receipt: Receipt | None = None

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
        """The fencing token: whoever holds a lower one can no longer start, commit or refund."""
        return self._held.fence

    @property
    def lease_until(self) -> int:
        """When the lease ends, in milliseconds since 1970."""
        return self._held.lease_until

    @property
    def amounts(self) -> dict[str, Amount]:
        """What each account pays."""
        return {account.name: Amount(Filter.named(account.filter), a0, a1) for account, a0, a1 in self._terms.lines}

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
        ledger, terms, until = self._ledger, self._terms, self._ledger.lease_end(self._lease)
        wanted = Request(
            ledger.principal, self._key, terms.digest, self._why, terms.plan, terms.plan_hash, terms.asked, until,
            terms.source, self._named,
        )  # fmt: skip
        self._named = True
        if terms.source is not None:
            ledger.recover()  # a worker that was killed closes its source, too
        with ledger.store.write("begin" if started else "reserve") as transaction:
            held = journal.reserve(transaction, wanted, ledger.now(), started=started)
        if not held.fresh:
            raise occupied(ledger, held.charge)
        self._row = held.charge
        return self

    def stored(self) -> tuple[Any, Receipt] | None:
        """The answer and receipt stored under this key for this very request, if any; takes nothing."""
        if not self._named:
            return None
        with self._ledger.store.read() as transaction:
            row = transaction.row("charge_by_key", self._ledger.principal, self._key)
        if row is None:
            return None
        charge = ChargeRow(*row)
        journal.require_same(charge, self._terms.digest)
        return self._ledger.stored_answer(charge) if charge.state == "COMMITTED" else None

    def start(self) -> Charge:
        """RESERVED -> EXECUTING; when this returns, it is durable and data may be opened."""
        with self._ledger.store.write("start") as transaction:
            journal.start(transaction, self._held, self._ledger.now())
        self._row = self._held._replace(state="EXECUTING")
        return self

    def commit(self, answer: Any = None) -> Receipt:
        """EXECUTING -> COMMITTED: store the answer durably, then hand out the receipt."""
        text = encode_answer(answer)
        position, at = self._store(text)
        self._row = self._held._replace(state="COMMITTED", last_seq=position.seq)
        self.answer = decode_answer(text)
        self.receipt = Receipt(
            ledger=self._ledger.id,
            charge=self.id,
            lines=tuple((account.id, account.name, account.filter, a0, a1) for account, a0, a1 in self._terms.lines),
            plan_hash=self._terms.plan_hash,
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

    def refund(self) -> None:
        """RESERVED -> REFUNDED: give the amount back; allowed only while data was not opened."""
        with self._ledger.store.write("refund") as transaction:
            journal.refund(transaction, self._held, self._ledger.now(), why="given back")
        self._row = self._held._replace(state="REFUNDED")

    def renew(self, *, lease: float) -> None:
        """Extend the lease by ``lease`` seconds from now; long work calls this now and then."""
        until = self._ledger.lease_end(lease)
        with self._ledger.store.write("renew") as transaction:
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
        with contextlib.suppress(Unavailable, Refused):
            self.burn()
        if self._terms.source is None:
            return  # whoever holds the value gets the error itself
        kind = error.__qualname__ if error is not None else ""
        told = {"at": self._ledger.now(), "charge": self.id, "plan_hash": self._terms.plan_hash, "error": kind[:200]}
        self._ledger.store.log_failure(canonical(told))

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


# Answers in the record: canonical JSON with dtype, shape and values; never pickle.
#
# The same answer always becomes the same bytes, and the bytes always become the same answer.

LARGEST_ANSWER: Final = 64 * 1024 * 1024
DEEPEST: Final = 32
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ARRAY_KINDS: Final = "biufUM"


def encode_answer(answer: Any) -> str:
    """The canonical text of an answer: None, bool, int, float, str, lists, string-keyed dicts, numpy arrays.

    >>> encode_answer([1, 2.5])
    '{"list":[{"int":1},{"float":2.5}]}'
    """
    text = canonical(_encode(answer, 0))
    if len(text) > LARGEST_ANSWER:
        raise InvalidInput("answer", f"{len(text)} bytes", f"at most {LARGEST_ANSWER} bytes; store a digest instead")
    return text


def decode_answer(text: str) -> Any:
    """The answer of a canonical text.

    >>> decode_answer(encode_answer({"n": 3}))
    {'n': 3}
    """
    return _decode(json.loads(text))


def _encode(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise InvalidInput("answer", "nested values", f"at most {DEEPEST} levels")
    if value is None:
        return None
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, float):
        return {"float": _number(float(value))}
    if isinstance(value, str):
        return {"str": str(value)}
    if isinstance(value, list | tuple):
        return {"list" if isinstance(value, list) else "tuple": [_encode(item, depth + 1) for item in value]}
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise InvalidInput("answer", "a dict with other keys", "a dict with string keys")
        return {"dict": {name: _encode(item, depth + 1) for name, item in value.items()}}
    return _encode_array(value)


def _encode_array(value: Any) -> Any:
    import numpy as np

    if not isinstance(value, np.ndarray | np.generic):
        raise InvalidInput("answer", type(value).__name__, "numbers, text, lists, dicts or numpy arrays")
    array = np.asarray(value)
    if array.dtype.kind not in _ARRAY_KINDS or (array.dtype.itemsize > 8 and array.dtype.kind in "fiu"):
        raise InvalidInput("answer", f"dtype {array.dtype}", "booleans, integers, floats, text or dates")
    dtype = array.dtype.newbyteorder("=")
    plain = array.astype("int64") if array.dtype.kind == "M" else array
    values = [_number(item) if isinstance(item, float) else item for item in plain.ravel().tolist()]
    return {
        "array" if isinstance(value, np.ndarray) else "scalar": {
            "dtype": _dtype_name(dtype),
            "shape": list(array.shape),
            "values": values,
        }
    }


def _dtype_name(dtype: Any) -> str:
    name: str = dtype.name if dtype.kind in "biufM" else f"U{dtype.itemsize // 4}"
    return name


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decode(value: Any) -> Any:
    if value is None:
        return None
    ((tag, held),) = value.items()
    return _DECODERS[tag](held)


def _decode_float(held: Any) -> float:
    return _NOT_FINITE[held] if isinstance(held, str) else float(held)


def _decode_array(held: dict[str, Any]) -> Any:
    import numpy as np

    dtype = np.dtype(held["dtype"])
    if dtype.kind == "M":
        return np.array(held["values"], dtype="int64").astype(dtype).reshape(held["shape"])
    values = [_NOT_FINITE[v] for v in held["values"] if isinstance(v, str)] if dtype.kind == "f" else []
    if values:
        held = {**held, "values": [_decode_float(v) for v in held["values"]]}
    return np.array(held["values"], dtype=dtype).reshape(held["shape"])


_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": bool,
    "int": int,
    "str": str,
    "float": _decode_float,
    "list": lambda held: [_decode(item) for item in held],
    "tuple": lambda held: tuple(_decode(item) for item in held),
    "dict": lambda held: {name: _decode(item) for name, item in held.items()},
    "array": _decode_array,
    "scalar": lambda held: _decode_array(held)[()],
}


# Receipts: the other half of the tally stick, kept by whoever got the answer.

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
        """Whether every field has its type and range; whether it is true only a ledger can say."""
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
        """What to type to check this receipt."""
        return "tallystick ledger verify --ledger <ledger> --receipt <this file>"

    def to_json(self) -> str:
        """The receipt as JSON text."""
        return json.dumps({"format": RECEIPT_FORMAT, **asdict(self), "how_to_verify": self.how_to_verify}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """Read a receipt back; anything that is not one is refused."""
        try:
            told: dict[str, Any] = strict_json.read(text, longest=1_000_000)
            held = {name: value for name, value in told.items() if name not in ("format", "how_to_verify")}
            held["lines"] = tuple((i, name, currency, a0, a1) for i, name, currency, a0, a1 in held["lines"])
            found = cls(**held)
            if not found._plausible() or not strict_json.same(told, json.loads(found.to_json())):
                raise ValueError
            return found
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InvalidInput("receipt", "this text", f"a JSON receipt of format {RECEIPT_FORMAT}") from None
