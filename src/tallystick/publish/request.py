"""One request: what is asked of registered data, at which cost, under which key, and why.

    request = Request(Statement("SELECT COUNT(*) AS n FROM visits"), Cost(rho=0.01), why="weekly report")
    price(request, book)        an Offer: no data is opened and nothing is charged
    rehearse(request, book)     what ``run`` would say, in a dry run
    run(request, book)          an Outcome: checked, charged, computed, recorded

Requests, offers and outcomes are plain data, so they can cross a socket. ``answer`` is ``run`` for a caller in the same
process, who gets the object of Python and its card too. Files are written after the outcome, by ``export.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from tallystick import strict_json
from tallystick.errors import InvalidInput
from tallystick.ledger.chain import check_reason, checked
from tallystick.publish.kinds import Kind
from tallystick.publish.outcome import Answer, Offer, Outcome
from tallystick.publish.plain import Plain, read_fields

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.publish.work import Work

FORMAT = "tallystick/request/1"
LONGEST = 200_000_000
"""Characters of a request or a saved plan, which may list a million public groups."""


@dataclass(frozen=True, slots=True)
class Cost(Plain):
    """The cost that a request names; a saved plan has its own."""

    rho: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    error: float | None = None
    """The 95 % error wanted, instead of a cost."""
    pure: bool = False
    """True if an epsilon without a delta is meant as pure epsilon."""

    @property
    def words(self) -> dict[str, Any]:
        """The arguments of a plan that are given."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in named.items() if value is not None and value is not False}


@dataclass(frozen=True, slots=True)
class Request(Plain):
    """A query, its cost, its key and its reason."""

    what: Kind
    cost: Cost = Cost()
    key: str | None = None
    why: str | None = None

    def key_or(self, default: str | None) -> str | None:
        """Return the key that is named, or ``default``. An empty key is named, and refused."""
        return default if self.key is None else self.key

    def check(self) -> None:
        """Refuse a key or a reason that no charge can have. A cost may be asked before there is a reason."""
        if self.key is not None:
            checked("key", self.key)
        if self.why is not None:
            check_reason(self.why)

    def to_data(self) -> dict[str, Any]:
        """Return the request as JSON data."""
        return {"format": FORMAT, **Plain.to_data(self)}

    @classmethod
    def from_data(cls, data: Any) -> Request:
        """Return the request that ``to_data`` wrote; anything else is refused."""
        with strict_json.written("request", FORMAT):
            if data["format"] != FORMAT:
                raise InvalidInput("format", data["format"], FORMAT)
            return read_fields(cls, {name: value for name, value in data.items() if name != "format"})

    @classmethod
    def from_json(cls, text: str | bytes) -> Request:
        """Return the request of a JSON text, read strictly."""
        return cls.from_data(strict_json.read(text, name="request", allowed=f"JSON of {FORMAT}", longest=LONGEST))


def price(request: Request, book: Ledger, principal: str | None = None, *, group_sizes: Sequence[int] = ()) -> Offer:
    """Return what a request would cost; no data is opened and nothing is charged.

    A key or a reason that ``run`` would refuse is refused here too, or is in ``Offer.refused`` if the key belongs to
    another request. The reason may be missing: only ``run`` needs it.
    ``group_sizes`` are rows in a group, for errors that depend on it.
    """
    return _work(request, book, principal).offer(group_sizes)


def rehearse(request: Request, book: Ledger, principal: str | None = None) -> Outcome:
    """Return what ``run`` would say, or raise what it would raise before it charges; no row is read."""
    work = _work(request, book, principal)
    earlier = work.rehearse()
    if earlier is None:
        return Outcome(work.key, offer=work.offer(), dry_run=True)
    return _told(request, work, Outcome(work.key, paid=work.payment(earlier, fresh=False), dry_run=True))


def run(
    request: Request,
    book: Ledger,
    principal: str | None = None,
    *,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Check, charge, compute, record, and return the outcome; the same key again charges nothing.

    ``principal`` pays and keeps its keys apart from those of others; None is the principal of the ledger.
    ``progress`` gets the name of each stage as it begins. An error of it becomes the warning ``ProgressFailed`` after
    the answer is stored; it does not stop the release.
    """
    return answer(request, book, principal, progress=progress).outcome


def answer(
    request: Request,
    book: Ledger,
    principal: str | None = None,
    *,
    progress: Callable[[str], None] | None = None,
) -> Answer:
    """Return the outcome of ``run`` with the object that Python returns, and its card."""
    work = _work(request, book, principal)
    work.warn_of_noise()
    made = work.answer(progress)
    _told(request, work, made.outcome)
    return made


def _told(request: Request, work: Work, outcome: Outcome) -> Outcome:
    """Return the outcome; warn if the caller named no key and the data changed after the charge that has its answer."""
    if request.key is None and outcome.paid is not None and outcome.paid.again:
        work.say_changed(outcome.paid)
    return outcome


def _work(request: Request, book: Ledger, principal: str | None) -> Work:
    request.check()
    return request.what.work(request, book if principal is None else book.acting_for(principal))
