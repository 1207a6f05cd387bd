"""Plain data about a request: what it would cost (``Offer``), and what it came to (``Outcome``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallystick.errors import NotDelivered
from tallystick.publish.plain import Plain

if TYPE_CHECKING:
    from tallystick.cards import Card


@dataclass(frozen=True, slots=True)
class Offer(Plain):
    """The cost of a request, its error and whether it fits. No data was opened and nothing was charged."""

    population: str
    price: str
    price_amount: Mapping[str, Any]
    price_epsilon: str
    """The request alone as epsilon; empty if the cost is an epsilon."""
    left: str
    left_amount: Mapping[str, Any]
    fits: bool
    left_of_limit: str = ""
    """What is left beside the limit, for people."""
    cost: str = ""
    """The cost beside what is left, and as epsilon, for people."""
    would_fit: Mapping[str, Any] | None = None
    """The denial that paying would meet, as error data with the remedies that fit."""
    refused: Mapping[str, Any] | None = None
    """The refusal as error data: a key that cannot be used, data that are closed, or a cost below their least cost."""
    again: int | None = None
    """The charge that has the answer already, so that nothing would be charged; None without such a charge."""
    paid_before: Mapping[str, Any] | None = None
    """The warning that the record has the answer under another key, as data; paying would charge for it again."""
    hash: str = ""
    error: Mapping[str, float] = field(default_factory=dict)
    """The 95 % error by measure, in a group of ``group_size`` rows."""
    group_size: int = 1_000
    error_by_size: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    error_words: Mapping[str, str] = field(default_factory=dict)
    confidence: float = 0.95
    groups: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    explained: str = ""
    """How the answer would be made, in lines for people."""
    title: str = ""
    """What is asked, in a line."""
    summary: tuple[str, ...] = ()
    """Error, limits and bounds, in lines for people."""
    details: tuple[str, ...] = ()
    """Noise and guarantee, in lines for people."""


@dataclass(frozen=True, slots=True)
class Payment(Plain):
    """The charge of a request and what is left after it."""

    charge: int
    again: bool
    """True if the record had the answer, so that nothing was charged now."""
    price: str
    price_epsilon: str
    left: str
    population: str
    head: str
    left_of_limit: str = ""
    """What is left beside the limit, for people."""


@dataclass(frozen=True, slots=True)
class Released(Plain):
    """A released table as JSON data: dates are ISO text, in the columns ``dates``."""

    columns: tuple[str, ...]
    groups: tuple[str, ...]
    counts: tuple[str, ...]
    dates: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    about: str
    """The CSV file beside the table, which says what its columns are about."""
    document: Mapping[str, Any]
    """The JSON file of the table, with ``rows`` left empty."""


@dataclass(frozen=True, slots=True)
class Outcome(Plain):
    """Result of a request. A dry run has ``paid`` if the record has the answer, and an ``offer`` if not."""

    key: str | None
    paid: Payment | None = None
    offer: Offer | None = None
    receipt: Mapping[str, Any] | None = None
    table: Released | None = None
    model: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    """Sentences that a person should read beside the result."""
    details: tuple[str, ...] = ()
    """What limits and bounds changed and what each column is, in lines for people."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What one kind of request says besides."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """An outcome in the process that made it: ``made`` is the object that Python returns."""

    outcome: Outcome
    made: Any
    card: Callable[[], Card]
    """Make the privacy card."""


def not_delivered(
    outcome: Outcome, argument: str, path: str | None = None, problem: BaseException | None = None
) -> NotDelivered | None:
    """Return the error about an outcome that cannot be written; None if nothing was paid for.

    ``argument`` is out, card or stdout. ``path`` names the file, and ``problem`` is the error of its writer.
    """
    paid, key = outcome.paid, outcome.key
    if paid is None or key is None:
        return None
    subject = "standard output" if path is None else f"{argument} {path}"
    why = "" if problem is None else f" ({_reason(problem)})"
    return NotDelivered(
        f"{subject} could not be written{why}.",
        argument=argument,
        value=path,
        charge=paid.charge,
        key=key,
        receipt=outcome.receipt,
    )


def _reason(problem: BaseException) -> str:
    """Return the reason that the operating system or the writer of a format gives."""
    source = problem.__context__ or problem  # a refusal of a file was made from the error of the system
    text = getattr(source, "strerror", None) or str(source).partition("\n")[0]
    return text or type(source).__name__
