"""``--request``: ask those who approve for a change, instead of making it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, deliver
from tallystick.digits import people
from tallystick.errors import InvalidInput
from tallystick.ledger.book import opened, place_of

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.ledger import Ledger
    from tallystick.ledger.team import Asked

AsRequest = Annotated[bool, typer.Option("--request", help="Ask those who approve, and change nothing yet.")]
RequestWhy = Annotated[str | None, typer.Option("--why", help="With --request: the reason; it is kept in the record.")]


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer to a request: its command, its place, and how it is printed."""

    command: str
    ledger: str | None
    as_json: bool
    dry_run: bool = False


def reason_of(is_request: bool, why: str | None) -> str:
    """The reason of a request; refused if it is missing, or if there is no request that it is for."""
    if is_request and why is None:
        raise InvalidInput("why", None, "the reason of the request")
    if why is not None and not is_request:
        raise InvalidInput("why", why, "--why beside --request; without a request this command keeps no reason")
    return why or ""


def request(form: Form, operation: Callable[[Ledger], Any], *, why: str) -> None:
    """Make a request for what an operation would do, and print its number and who may approve it."""
    with opened(form.ledger) as book:
        number = book.team.request(operation, why=why, dry_run=form.dry_run)
        found = None if form.dry_run else next(each for each in book.team.requests() if each.number == number)
    asked = {"ledger": place_of(form.ledger), "why": why}
    facts = {"request": None, "dry_run": True} if found is None else {**_facts(found), "dry_run": False}
    deliver(Answer(form.command, asked, facts, lambda out: _say(out, found)), as_json=form.as_json)


def _facts(found: Asked) -> dict[str, Any]:
    return {"request": found.number, "needed": found.needed, "may_approve": list(found.deciders)}


def _say(out: Console, found: Asked | None) -> None:
    if found is None:
        out.print("Nothing was changed. Without --dry-run this makes a request.")
        return
    lines = [f"Request {found.number}: {found.change}. Nothing is changed yet.", waiting(found)]
    for line in lines:
        out.print(line, soft_wrap=True, markup=False)


def waiting(found: Asked) -> str:
    """The approvals that a request still needs, and from whom."""
    more = max(found.needed - found.approvals, 1)
    if not found.deciders:
        return f"It needs {people(more, 'approval')}, and no approver is left: an owner gives the role."
    names = ", ".join(found.deciders)
    how = f"tallystick account approve {found.number} --why REASON"
    return f"It needs {people(more, 'approval')} by: {names}. They type: {how}"
