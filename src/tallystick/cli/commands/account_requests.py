"""``tallystick account``: ask for a higher limit, decide on requests, and give allowances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.commands.ledger_upkeep import purge_next
from tallystick.cli.output import Answer, DryRun, Json, Place, Why, deliver
from tallystick.cli.proposing import AsRequest, Form, request, waiting
from tallystick.digits import moment, people
from tallystick.errors import LedgerIntegrity
from tallystick.ledger.book import opened, place_of
from tallystick.ledger.chain import SourceId
from tallystick.ledger.retirement import ends

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger import Ledger
    from tallystick.ledger.team import Asked, Outcome

Name = Annotated[str, typer.Argument(help="The account's name.")]
BudgetText = Annotated[str, typer.Option("--budget", metavar="EXPR", help='The limit, such as "zcdp(rho=0.5)".')]
Number = Annotated[int, typer.Argument(metavar="N", help="Number of a request: see 'account requests'.")]


def _loss(text: str) -> PrivacyLoss:
    from tallystick.accounting.expression import read_loss

    return read_loss(text)


def request_(
    name: Name, budget: BudgetText, why: Why, dry_run: DryRun = False, ledger: Place = None, as_json: Json = False
) -> None:
    """Ask those who approve to raise a limit."""
    loss = _loss(budget)
    raised = lambda book: book.open(name).raise_limit(loss, why=why)  # noqa: E731
    request(Form("account.request", ledger, as_json, dry_run), raised, why=why)


def requests(
    is_open: Annotated[bool, typer.Option("--open", help="Only requests that wait for a decision.")] = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """List requests: what would change, and the decisions so far."""
    with opened(ledger) as book:
        found = [each for each in book.team.requests() if not is_open or each.state == "OPEN"]
        changes = {each.number: _changes(book, each) for each in found}
    facts = {"requests": [_facts(each, changes[each.number]) for each in found]}

    def say(out: Console) -> None:
        for each in found:
            for line in _lines(each, changes[each.number]):
                out.print(line, soft_wrap=True, markup=False)
        if not found:
            out.print("No requests wait." if is_open else "No requests.")

    deliver(Answer("account.requests", {"ledger": place_of(ledger), "open": is_open}, facts, say), as_json=as_json)


def _facts(each: Asked, changes: list[str]) -> dict[str, Any]:
    return {
        "request": each.number,
        "at": each.at,
        "state": each.state,
        "by": each.by,
        "action": each.action,
        "change": each.change,
        "details": changes,
        "population": each.population,
        "why": each.why,
        "approvals": each.approvals,
        "needed": each.needed,
        "may_approve": list(each.deciders),
        "decisions": [{"by": by, "decision": decision, "why": why} for by, decision, why in each.decisions],
    }


def _lines(each: Asked, changes: list[str]) -> list[str]:
    lines = [
        f"{each.number:6d}  {moment(each.at)}  {each.state}  {each.by}: {each.change}",
        *(f"        changes  {line}" for line in changes),
        f"        reason   {each.why}",
        *(f"        {decision:<7}  {by}: {why}" for by, decision, why in each.decisions),
    ]
    if each.state == "OPEN":
        lines.append(f"        has {each.approvals} of {people(each.needed, 'approval')}. {waiting(each)}")
    return lines


def _changes(book: Ledger, each: Asked) -> list[str]:
    """The data of a registration, and the differences from the newest registration of the dataset.

    The data are those of the entry itself. What the note says about them must agree with it.
    """
    from tallystick.publish import datasets

    effect, note = each.effect, each.note
    if effect["kind"] != "register" or ends(note):
        return []
    data = [f"data: {mark}" for mark in effect.get("marks", []) if SourceId.of(mark) == effect["source"]]
    if not datasets.is_own_note(note):
        return [*data, f"note: {note}"]
    name = effect["dataset"]
    try:
        wanted = datasets.read_note(name, each.population or "", note, None)
    except LedgerIntegrity:  # the note of another program
        return [*data, _UNREAD]
    if datasets.protected_by(wanted) != effect["fixed"]:
        return [*data, _UNREAD]
    return [*data, *datasets.differences(datasets.known(book).get(name), wanted)]


_UNREAD = "the registration cannot be read; do not approve it unread"


def _decided(command: str, verb: str, outcome: Outcome, form: Form, asked: dict[str, Any]) -> None:
    facts = {**outcome._asdict(), "dry_run": form.dry_run}
    del facts["effect"]

    def say(out: Console) -> None:
        if form.dry_run:
            out.print("Nothing was changed. Without --dry-run:")
        after = _AFTER[outcome.state].format(outcome.approvals, outcome.needed)
        out.print(f"{verb} request {outcome.request}. {after}", soft_wrap=True)
        if outcome.state == "EXECUTED" and outcome.effect == "erase":
            out.print(purge_next(), soft_wrap=True, markup=False)

    deliver(Answer(command, {"ledger": place_of(form.ledger), **asked}, facts, say), as_json=form.as_json)


_AFTER = {
    "EXECUTED": "It is carried out.",
    "OPEN": "It has {} of {} approvals.",
    "VOID": "It is void, because the state that it was made for has changed. Make a new request.",
    "REJECTED": "It can no longer be approved.",
    "WITHDRAWN": "It can no longer be approved.",
}
"""What follows from a decision, by the state of its request."""


def approve(number: Number, why: Why, dry_run: DryRun = False, ledger: Place = None, as_json: Json = False) -> None:
    """Approve a request. The last approval carries it out."""
    with opened(ledger) as book:
        outcome = book.team.approve(number, why=why, dry_run=dry_run)
    verb = "Did not approve" if outcome.state == "VOID" else "Approved"
    form = Form("account.approve", ledger, as_json, dry_run)
    _decided(form.command, verb, outcome, form, {"request": number, "why": why})


def reject(number: Number, why: Why, dry_run: DryRun = False, ledger: Place = None, as_json: Json = False) -> None:
    """Reject a request, for good."""
    with opened(ledger) as book:
        outcome = book.team.reject(number, why=why, dry_run=dry_run)
    form = Form("account.reject", ledger, as_json, dry_run)
    _decided(form.command, "Rejected", outcome, form, {"request": number, "why": why})


def withdraw(number: Number, dry_run: DryRun = False, ledger: Place = None, as_json: Json = False) -> None:
    """Withdraw a request of your own."""
    with opened(ledger) as book:
        outcome = book.team.withdraw(number, dry_run=dry_run)
    form = Form("account.withdraw", ledger, as_json, dry_run)
    _decided(form.command, "Withdrew", outcome, form, {"request": number})


def allow(
    account: Annotated[str, typer.Argument(help="A population, or a block of it.")],
    person: Annotated[str, typer.Argument(help="Who may pay: a user, role:NAME or machine:NAME.")],
    budget: BudgetText,
    why: Why,
    name: Annotated[str | None, typer.Option("--name", help="What to call the allowance.")] = None,
    is_request: AsRequest = False,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Give a person an allowance. It is a share of a budget, and only this person pays from it."""
    loss = _loss(budget)
    give = lambda book: book.team.allow(person, account, loss, why=why, called=name)  # noqa: E731
    if is_request:
        request(Form("account.allow", ledger, as_json, dry_run), give, why=why)
        return
    with opened(ledger) as book:
        called = book.team.allow(person, account, loss, why=why, called=name, dry_run=dry_run)
    facts = {"name": called, "account": account, "person": person, "dry_run": dry_run}

    def say(out: Console) -> None:
        verb = "Would give" if dry_run else "Gave"
        out.print(f"{verb} {person} the allowance {called}: at most {budget} of {account}.", soft_wrap=True)
        out.print(f"{person} pays from it: tallystick sql STATEMENT --account {called}", soft_wrap=True)

    deliver(Answer("account.allow", {"ledger": place_of(ledger), "why": why}, facts, say), as_json=as_json)


def register(app: typer.Typer) -> None:
    """Add these commands to those of ``tallystick account``."""
    app.command("request")(request_)
    for command in (requests, approve, reject, withdraw, allow):
        app.command()(command)
