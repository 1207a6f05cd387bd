"""Every error tallystick raises on purpose.

    TallystickError                 exit 1
    ├── InvalidInput                exit 2   an argument is outside what is allowed
    │   ├── ExpressionError                  text that is not a loss expression
    │   ├── EpsilonWithoutDelta              pure epsilon and epsilon at a delta have different costs here
    │   ├── AdjacencyMismatch                losses about different neighbours were mixed
    │   └── UnitMismatch                     losses about different units were mixed
    ├── Contradiction               exit 1   two certified bounds exclude each other: a defect of tallystick
    ├── BudgetExceeded              exit 3   the account cannot pay
    │   └── RunEnded                         a training run has no further step
    ├── Refused                     exit 4   it could break a promise
    │   ├── NotAnswered                      a statement of which a part cannot be shown to be private, or is not known
    │   ├── BelowLeastPrice                  a request that costs less than the least cost of its dataset
    │   ├── NotCertified                     an answer whose population error would be above what was asked for
    │   ├── NoCovariance                     an attribute of a model that was not released
    │   └── Quarantined                      a plan failed on this data; its owner has to look
    ├── ClaimFalsified              exit 5   an audit found evidence against a claim
    ├── LedgerIntegrity             exit 6   the record was altered, or is not the newest
    ├── NotAuthorised               exit 7
    ├── IdempotencyConflict         exit 8   the key was used for another request
    │   ├── AlreadyCommitted                 the key was used for this request; carries the answer
    │   └── AnswerLost                       an item of a stream was taken and has no answer
    ├── Unavailable                 exit 9   busy, missing component, unreachable store
    │   └── NotComputable                    no rigorous route for this composition
    └── NotDelivered                exit 10  an answer is charged and recorded, and could not be written

Nothing raises NotAuthorised yet: its exit code is kept for the service. Five warnings are ours: ChargedAgain,
MostlyNoise, OtherReason, DataChanged, NotCharged and PasswordInPlace.

An error is data: ``code`` (a stable identifier), ``argument`` (the name in Python, never an option), ``value`` and
``remedies`` (remedies.py). ``str(error)`` is Python's sentence; every other interface words the remedies itself, and
nothing reads a sentence to find out what happened. ``to_data`` and ``from_data`` carry an error over a socket.
Messages carry numbers and a way out, never a value read from private data.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Number
from pathlib import PurePath
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar

from tallystick.digits import amount_up, typed
from tallystick.printing import visible
from tallystick.remedies import Remedy as Remedy
from tallystick.remedies import is_plain
from tallystick.wording import INTERFACES, in_python, offered, worded

_LONGEST_SHOWN = 80  # characters of a value in a message
_MOST_SHOWN = 4  # values of a list in a message; a longer one could be a column of private data
TOKEN = re.compile(r"tsk_[0-9A-Za-z_-]+")
"""A token of ``ledger.team``, or a part of one that was typed in the wrong place."""
_PASSWORD = re.compile(r"(\w:/{1,2}[^\s/:@]*):\S*@")
_COLLECTIONS = (list, tuple, set, frozenset, Mapping)
_SINGLE = (str, bytes, Number, datetime.date, datetime.time, datetime.timedelta, PurePath, type)


def _shown(value: object) -> str:
    """Return a value as a message shows it.

    An object that could hold rows of private data is shown by the name of its type: a frame, an array, a long list.
    """
    if not _is_showable(value):
        return _type_text(value)
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return f"{_type_text(value)} too long to print"
    if len(text) > _LONGEST_SHOWN:
        return text[: _LONGEST_SHOWN - 3] + "..."
    return text


def _type_text(value: object) -> str:
    """Name the type of a value, and the length of a list."""
    count = f" with {len(value):,} values" if isinstance(value, _COLLECTIONS) else ""
    return f"a value of type {type(value).__name__}{count}"


def _is_showable(value: object) -> bool:
    """True for a number, a text, a date, an object of this package, and for a few of them in a list."""
    if isinstance(value, _COLLECTIONS):
        return len(value) <= _MOST_SHOWN and all(_is_single(each) for each in _inside(value))
    return _is_single(value)


def _inside(value: Any) -> list[object]:
    """Return what a collection holds: of a mapping its names and its values."""
    return [*value, *value.values()] if isinstance(value, Mapping) else list(value)


def _is_single(value: object) -> bool:
    return value is None or isinstance(value, _SINGLE) or _is_ours(value)


def _is_ours(value: object) -> bool:
    """True for an object of this package."""
    return type(value).__module__.partition(".")[0] == __name__.partition(".")[0]


def _kept(value: Any) -> Any:
    """Return the value that an error keeps: one that a message shows, or a text that names its type."""
    if not _is_showable(value):
        return _type_text(value)
    if isinstance(value, str):
        return _without_secrets(value)
    return _without_secrets(_shown(value)) if _has_secret(value) else value


def _has_secret(value: Any) -> bool:
    """True if there is a token or a password in a text or path, or in a few of them."""
    singles = _inside(value) if isinstance(value, _COLLECTIONS) else [value]
    texts = [repr(each) for each in singles if isinstance(each, str | bytes | PurePath)]
    return any(_without_secrets(text) != text for text in texts)


def _plain(value: Any) -> Any:
    """Return a fact as JSON data without secrets; what has no such form becomes the text that a message shows."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _without_secrets(value)
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {_without_secrets(str(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, int) and abs(value) < 2**63:
        return int(value)
    if _is_ours(value) and hasattr(value, "to_dict"):
        return _plain(value.to_dict())
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):  # an answer; a message shows no array
        return _plain(value.tolist())
    return _without_secrets(_shown(value))


Kind = TypeVar("Kind", bound="Problem")


class Problem:
    """An error or a warning as data: a code, the argument and value it is about, and remedies."""

    code: str = "failed"
    argument: str | None = None
    value: Any = None
    remedies: tuple[Remedy, ...] = ()
    kind: str | None = None
    """The name of the class in the version that wrote the error, if this version does not have it."""
    more: Mapping[str, Any] = MappingProxyType({})
    """Facts of a newer version, which came over a socket."""
    interface: str = "python"
    """The name in ``wording.INTERFACES`` of the interface in whose words ``str`` offers remedies."""
    _facts: ClassVar[tuple[str, ...]] = ()
    """Attributes that ``to_data`` has beside the common ones."""
    _before_offers: ClassVar[str] = ". Try: "

    def __init__(self, message: str = "", *, code: str | None = None, remedies: Iterable[Remedy] = ()) -> None:
        super().__init__(_without_secrets(message))  # type: ignore[call-arg]  # of Exception
        self.remedies = tuple(remedies)
        if code is not None:
            self.code = code

    @property
    def message(self) -> str:
        """The problem alone, in words of no interface; ``str`` adds what works."""
        args: tuple[Any, ...] = self.args  # type: ignore[attr-defined]
        return _visible("" if not args else str(args[0]))

    def text(self, words: Callable[[Remedy], str | None]) -> str:
        """The message, and the remedies in the words of an interface."""
        offers = offered(words, self.remedies)
        if not offers:
            return self.message
        message = self.message.removesuffix(".")
        return _visible(f"{message}{self._before_offers}{', or '.join(offers)}")

    def __str__(self) -> str:
        """The message; text from data or files in it has no character that a terminal would obey."""
        words = INTERFACES[self.interface]
        return self.text(lambda remedy: worded(words, remedy))

    def with_remedies(self, remedies: Iterable[Remedy]) -> Self:
        """Return the problem with other remedies."""
        return _restored(type(self), self.args, {**self.__dict__, "remedies": tuple(remedies)})  # type: ignore[attr-defined]

    def in_words_of(self, interface: str) -> Self:
        """Return the same problem, whose ``str`` offers remedies in the words of an interface."""
        return _restored(type(self), self.args, {**self.__dict__, "interface": interface})  # type: ignore[attr-defined]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, self.__dict__)  # type: ignore[attr-defined]

    def to_data(self) -> dict[str, Any]:
        """The problem as JSON data."""
        facts = {name: _plain(getattr(self, name)) for name in ("argument", "value", *self._facts)}
        remedies = [_plain(remedy.to_data()) for remedy in self.remedies]
        message = self.message.replace("\n", " ")  # a reader shows line feeds from outside as escapes
        kind = type(self).__name__ if self.kind is None else self.kind
        head = {"kind": kind, "code": self.code, "message": message}
        return {**self.more, **head, **facts, "remedies": remedies}


def _without_secrets(text: str) -> str:
    """Return a text without tokens and without the password of a URL in it, also of one with a single slash, as
    ``pathlib`` writes it.

    Places are shown without secrets (place.py). This is the net below: no message can hold a token or such a password.

    >>> _without_secrets("cannot read postgresql:/ana:secret@db/x: no such file")
    'cannot read postgresql:/ana:***@db/x: no such file'
    >>> _without_secrets("there is no account tsk_0123456789abcdef")
    'there is no account tsk_...'
    """
    return TOKEN.sub("tsk_...", _PASSWORD.sub(r"\1:***@", text))


def _visible(text: str) -> str:
    """Return a text without secrets and without characters that a terminal would obey."""
    return visible(_without_secrets(text), lines=True)


def _restored(kind: type[Kind], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> Kind:
    """A problem with these attributes, without a call of ``__init__``."""
    problem = kind.__new__(kind)
    problem.args = args  # type: ignore[attr-defined]
    problem.__dict__.update(attributes)
    return problem


def _amount(amount: Any) -> str:
    """An amount of budget in the digits of results."""
    return f"{amount.filter.rule.symbol} {amount_up(amount.first)}" if hasattr(amount, "filter") else str(amount)


class TallystickError(Problem, Exception):
    """Root of the tree; ``exit_code`` is what the command line returns.

    >>> issubclass(InvalidInput, TallystickError)
    True
    """

    exit_code = 1

    def _render_traceback_(self) -> list[str]:
        """Return the line that a notebook shows instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]

    @staticmethod
    def from_data(data: Any) -> TallystickError:
        """The error that ``to_data`` wrote, of the same class; amounts stay plain data.

        Data of another shape are refused. Classes, facts and remedies of a newer version are kept as they are.

        >>> problem = InvalidInput("sigma", -1, "a finite number > 0", code="outside_domain")
        >>> again = TallystickError.from_data(problem.to_data())
        >>> type(again).__name__, again.code, str(again) == str(problem)
        ('InvalidInput', 'outside_domain', True)
        """
        if not isinstance(data, Mapping) or not is_plain(data):
            raise _not_an_error("data")
        kinds = {kind.__name__: kind for kind in _all_kinds(TallystickError)}
        name = _text_of(data, "kind")
        kind = kinds.get(name, TallystickError)
        named = ("code", "argument", "value", *kind._facts)
        common = {"kind", "message", "remedies", *named}
        attributes = {each: _fact_of(data, each) for each in named}
        attributes["more"] = {str(each): value for each, value in data.items() if each not in common}
        attributes["remedies"] = _remedies_of(data)
        attributes["kind"] = None if name in kinds else name
        if issubclass(kind, InvalidInput):
            _text_of(data, "argument")
            _text_of(data, "allowed")
        message = _text_of(data, "message")
        if _visible(message) != message:
            raise _not_an_error("message")
        return _restored(kind, (message.replace("\n", "\\n"),), attributes)


def _not_an_error(name: str) -> InvalidInput:
    return InvalidInput("error", name, "the data of an error, each field with its type")


def _text_of(data: Mapping[str, Any], name: str) -> str:
    text = data.get(name)
    if not isinstance(text, str):
        raise _not_an_error(name)
    return text


def _fact_of(data: Mapping[str, Any], name: str) -> Any:
    """A field of an error as ``to_data`` writes it; names are texts or None."""
    if name not in data or _plain(data[name]) != data[name]:
        raise _not_an_error(name)
    if name == "code":
        return _text_of(data, name)
    if name in ("argument", "account", "unit", "key", "problem") and data[name] is not None:
        return _text_of(data, name)
    types = _TYPES.get(name)
    is_other = types is not None and not isinstance(data[name], types)
    if is_other or (types is not None and isinstance(data[name], bool)):
        raise _not_an_error(name)
    return data[name]


_AMOUNT: tuple[type, ...] = (Mapping, str, int, float, type(None))
_TYPES: Mapping[str, tuple[type, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("asked", "left", "limit", "least", "pure", "with_delta"), _AMOUNT),
        **dict.fromkeys(("delta", "error"), (int, float)),
        "charge": (int,),
        "reasons": (list, tuple),
        "receipt": (Mapping, type(None)),
    }
)
"""Types of facts that are not texts, as ``to_data`` writes them."""


def _remedies_of(data: Mapping[str, Any]) -> tuple[Remedy, ...]:
    remedies = data.get("remedies")
    if not isinstance(remedies, list | tuple):
        raise _not_an_error("remedies")
    try:
        return tuple(Remedy.from_data(each) for each in remedies)
    except ValueError as problem:
        raise _not_an_error(str(problem)) from None


@contextmanager
def about_dataset(name: str | None) -> Iterator[None]:
    """Add the name of a registered dataset to remedies that change one."""
    try:
        yield
    except TallystickError as problem:
        if name is not None:
            problem.remedies = tuple(remedy.about(name) for remedy in problem.remedies)
        raise


def _all_kinds(kind: type[TallystickError]) -> list[type[TallystickError]]:
    kinds = [kind]
    for below in kind.__subclasses__():
        kinds += _all_kinds(below)
    return kinds


class InvalidInput(TallystickError, ValueError):
    """An argument has a value that is not allowed.

    ``allowed`` is a phrase for every interface, or empty. What differs between interfaces is in ``remedies``.
    ``problem`` is a sentence that says more than that an argument has a value.

    >>> raise InvalidInput("sigma", -1, "a finite number > 0")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: sigma = -1 is not allowed; give a finite number > 0
    >>> raise InvalidInput("column", "sex", "", problem="sex is text. A mean needs a number")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: sex is text. A mean needs a number
    """

    exit_code = 2
    code = "invalid_argument"
    argument: str
    allowed: str
    problem: str | None = None
    _facts: ClassVar[tuple[str, ...]] = ("allowed", "problem")

    def __init__(
        self,
        argument: str,
        value: object,
        allowed: str,
        *,
        code: str | None = None,
        remedies: Iterable[Remedy] = (),
        problem: str | None = None,
    ) -> None:
        message = problem or f"{argument} = {_shown(value)} is not allowed"
        super().__init__(message, code=code, remedies=remedies)
        self.argument, self.value, self.allowed = argument, _kept(value), _without_secrets(allowed)
        self.problem = None if problem is None else _without_secrets(problem)

    def text(self, words: Callable[[Remedy], str | None]) -> str:
        """The message, what is allowed, and the remedies in the words of an interface."""
        ways = [self.allowed] if self.allowed else []
        ways += offered(words, self.remedies)
        given = f"; give {', or '.join(ways)}" if ways else ""
        return _visible(f"{self.message}{given}")

    def about(self, argument: str, value: object) -> InvalidInput:
        """Return the problem of another argument, from which the refused one was made."""
        return InvalidInput(argument, value, self.allowed, code=self.code, remedies=self.remedies, problem=self.problem)


class ExpressionError(InvalidInput):
    """Text that is not a loss expression."""

    code = "invalid_expression"


_UNPAYABLE: Mapping[str | None, str] = {
    "too_much": "more than what is left",
    "too_little": "less than the least cost of the dataset",
    "above_most": "more than the owner allows in a statement",
    "refused": "which this account does not pay",
    None: "which is not offered here",
}
"""Why a cost is not offered, by the reasons of ``ledger.denial.why_not``."""


class EpsilonWithoutDelta(InvalidInput):
    """An epsilon was asked without a delta on an account that counts neither: the caller must say which is meant.

    ``pure`` is the cost of pure epsilon. ``with_delta`` is the cost of epsilon at ``delta``, or None without a cost.
    ``reasons`` says of each why the account cannot pay it, or None if it can.
    """

    code = "epsilon_without_delta"
    _facts = ("allowed", "pure", "delta", "with_delta", "reasons")

    def __init__(
        self,
        epsilon: float,
        *,
        pure: Any,
        delta: float,
        with_delta: Any,
        reasons: tuple[str | None, str | None] = ("too_much", "too_much"),
        remedies: Iterable[Remedy] = (),
    ) -> None:
        super().__init__("epsilon", epsilon, "a delta, or pure epsilon", remedies=remedies)
        self.pure, self.delta, self.with_delta = pure, delta, with_delta
        self.reasons = reasons
        self.args = ("\n".join(self._problem(epsilon)),)

    def _problem(self, epsilon: float) -> Iterator[str]:
        """The two meanings, and the costs that no remedy names because the account cannot pay them."""
        if self.with_delta is None:
            yield f"epsilon {typed(epsilon)} is pure epsilon here, and this account does not count in epsilon"
        else:
            meanings = "can mean two things, and this account is charged differently for each"
            yield f"epsilon {typed(epsilon)} without a delta {meanings}"
        payable = [remedy.kind for remedy in self.remedies]
        if "mean_pure" not in payable:
            yield f"Pure epsilon {typed(epsilon)} costs {_amount(self.pure)}, {_UNPAYABLE[self.reasons[0]]}."
        if "give_delta" not in payable and self.with_delta is not None:
            at = f"Epsilon {typed(epsilon)} at delta {typed(self.delta)}"
            yield f"{at} costs {_amount(self.with_delta)}, {_UNPAYABLE[self.reasons[1]]}."

    def text(self, words: Callable[[Remedy], str | None]) -> str:
        """The two costs, a line each."""
        lines = [self.message, *offered(words, self.remedies), "nothing was charged and no data was read"]
        return _visible("\n".join(lines))


class AdjacencyMismatch(InvalidInput):
    """Two losses speak about different neighbouring relations."""

    code = "adjacency_mismatch"

    def __init__(self, left: object, right: object) -> None:
        super().__init__(
            "adjacency",
            f"{left} with {right}",
            "losses of one adjacency; convert with loss.as_replace(), "
            "or construct with adjacency= where that relation is what you mean",
        )


class UnitMismatch(InvalidInput):
    """Two losses protect different named units."""

    code = "unit_mismatch"

    def __init__(self, left: object, right: object) -> None:
        super().__init__(
            "unit",
            f"{left} with {right}",
            "losses of one unit; a loss for one unit says nothing about another "
            "(if one unit owns k of the other, use loss.for_groups(k) and name the unit)",
        )


class Contradiction(TallystickError):
    """Two certified bounds on one number exclude each other, so one is wrong: a defect, and nothing is answered."""

    code = "contradiction"

    def _render_traceback_(self) -> list[str]:
        import traceback

        return traceback.format_exception(self)  # where it happened is what a report of it needs


class BudgetExceeded(TallystickError):
    """The account cannot pay; nothing was charged and no data was read.

    ``asked``, ``left`` and ``limit`` are amounts in the currency of ``account``, which protects one ``unit``. Each of
    ``remedies`` fits what is left; ``fits`` has them in Python's words.
    """

    exit_code = 3
    code = "budget_exceeded"
    _facts = ("asked", "left", "limit", "account", "unit")

    def __init__(
        self,
        message: str,
        *,
        asked: Any = None,
        left: Any = None,
        limit: Any = None,
        account: str | None = None,
        unit: str | None = None,
        remedies: Iterable[Remedy] = (),
    ) -> None:
        self.asked, self.left, self.limit = asked, left, limit
        self.account, self.unit = account, unit
        super().__init__(message, remedies=remedies)

    def text(self, words: Callable[[Remedy], str | None]) -> str:
        """The message, and a line for each remedy."""
        offers = offered(words, self.remedies)
        lines = [f"  {offer}" for offer in offers]
        heading = ["Any one of these works:"] if offers else []
        return _visible("\n".join([self.message, *heading, *lines]))

    @property
    def fits(self) -> tuple[str, ...]:
        """Offers that would fit, in Python's words."""
        return tuple(offered(in_python, self.remedies))


class RunEnded(BudgetExceeded):
    """There is no further step: the plan is done, or the account cannot pay for the next block."""


class Refused(TallystickError):
    """A request that could break a promise is not done: it is not shown to be private, or the data are closed."""

    exit_code = 4
    code = "refused"


class NotAnswered(Refused):
    """A statement that is not answered: the message says which part of it, where, and what works in its place.

    It may be private and yet not be known here, so the message does not say that it would have broken a promise.
    """

    code = "not_answered"


class NotCertified(Refused):
    """No bound shows that the answer would be as near to the population as was asked for; nothing was charged.

    ``error`` is what can be certified.
    """

    code = "not_certified"

    _facts = ("error",)

    def __init__(self, message: str, *, error: float = 1.0) -> None:
        self.error = error
        super().__init__(message)


class NoCovariance(Refused, AttributeError):
    """An attribute that is missing, so that ``dir``, ``hasattr`` and ``inspect`` continue."""


class BelowLeastPrice(Refused):
    """A request costs less than its dataset's least cost; nothing was charged.

    Whether a request succeeds reveals something, too, so every request has a least cost. ``asked`` and ``least`` are
    amounts.
    """

    code = "below_least_price"
    _facts = ("asked", "least")

    def __init__(self, asked: Any, least: Any, *, remedies: Iterable[Remedy] = ()) -> None:
        self.asked, self.least = asked, least
        message = f"this request costs {_amount(asked)}, and the least cost of this dataset is {_amount(least)}"
        super().__init__(f"{message}. Nothing was charged", remedies=remedies)


class Quarantined(Refused):
    """An earlier plan failed after it had started; the data are closed until their owner clears them."""

    code = "dataset_closed"


class Retired(Refused):
    """The owner of a dataset closed it for new queries, for good."""

    code = "dataset_retired"


class ClaimFalsified(TallystickError):
    """An audit found evidence against a privacy claim."""

    exit_code = 5
    code = "claim_falsified"


class LedgerIntegrity(TallystickError):
    """The ledger was altered, is damaged, or is older than a known anchor."""

    exit_code = 6
    code = "ledger_integrity"


class NotAuthorised(TallystickError):
    """The caller may not do this."""

    exit_code = 7
    code = "not_authorised"


class IdempotencyConflict(TallystickError):
    """The key was already used for a different request."""

    exit_code = 8
    code = "key_conflict"


class AlreadyCommitted(IdempotencyConflict):
    """The key was already used for this very request; ``answer`` is what was stored."""

    code = "already_committed"
    _facts = ("answer", "receipt")

    def __init__(self, message: str, *, answer: Any = None, receipt: Any = None) -> None:
        self.answer, self.receipt = answer, receipt
        super().__init__(message)


class AnswerLost(IdempotencyConflict):
    """The item was taken and its answer was never stored. It stays taken, and no second answer is drawn."""


class Unavailable(TallystickError):
    """A store is busy or unreachable, or an optional component is missing."""

    exit_code = 9
    code = "unavailable"


class NotComputable(Unavailable):
    """A value is defined, but no implemented route can prove a number for it."""

    code = "not_computable"


class NotDelivered(TallystickError):
    """An answer is charged and recorded, and a file or standard output could not be written.

    ``charge`` and ``receipt`` are those of the answer. ``key`` returns it again without a new charge.
    """

    exit_code = 10
    code = "not_delivered"
    _facts = ("charge", "key", "receipt")

    def __init__(
        self,
        problem: str,
        *,
        argument: str,
        value: str | None,
        charge: int,
        key: str,
        receipt: Mapping[str, Any] | None = None,
    ) -> None:
        recorded = f"The answer is recorded: charged as ledger entry {charge}, under the key {key!r}."
        remedy = Remedy("write_again", key=key, argument=argument)
        super().__init__(f"{problem}\n{recorded}", remedies=[remedy])
        self.argument, self.value = argument, value
        self.charge, self.key, self.receipt = charge, key, receipt


class ChargedAgain(Problem, UserWarning):
    """A request is about to be charged that was paid for before: its stored answer is available without a charge.

    The warning comes before the charge, so that a filter that makes it an error saves the cost.
    """

    code = "charged_again"
    _before_offers = ". Unless its data have changed: "


class MostlyNoise(Problem, UserWarning):
    """A query is about to be charged whose answer will be mostly noise, by its plan and public sizes of groups alone.

    The warning comes before the charge, so that a filter that makes it an error saves the cost.
    """

    code = "mostly_noise"


class OtherReason(Problem, UserWarning):
    """A stored answer is given with another reason than its charge has; the record keeps the first one."""

    code = "other_reason"


class DataChanged(Problem, UserWarning):
    """A stored answer is given under an automatic key, and the data were registered or written anew since."""

    code = "data_changed"
    _before_offers = ". For a new release: "


class LargeDelta(UserWarning):
    """The delta of a new limit is large: so many people may be published as they are."""


class NotCharged(UserWarning):
    """A charge was made and dropped before it was taken, so the release that it was meant for is not paid for."""


class PasswordInPlace(UserWarning):
    """The URL of a ledger or source holds a password. Put it into a pass file, a service file or PGPASSWORD."""
