"""``tallystick ledger``: begin roles, give and take them, and say how many must approve."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, DryRun, Json, Place, Why, deliver, working
from tallystick.cli.proposing import AsRequest, Form, request
from tallystick.cli.question import pairs
from tallystick.cli.wording import running_command
from tallystick.errors import InvalidInput
from tallystick.ledger.book import opened, place_of
from tallystick.ledger.users import name_in, subject_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from tallystick.ledger.book import Ledger

Person = Annotated[str, typer.Argument(metavar="NAME", help="A user, role:NAME of a database, or machine:NAME.")]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="owner, approver, analyst, auditor, operator or runner.")]
Population = Annotated[
    str | None, typer.Option("--population", help="Where the role holds. Without it: in the whole ledger.")
]


def begin_roles(why: Why, ledger: Place = None, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Begin roles: from then on every action needs one."""
    with opened(ledger) as book, working("verifying"):
        number = book.team.begin(why=why, dry_run=dry_run)
        populations = [account.name for account in book.accounts() if account.parent is None]
    facts = {"entry": number, "owner_of": populations, "dry_run": dry_run}
    lines = [
        f"Ledger entry {number} begins the roles of this ledger.",
        f"You are its operator, and owner of: {', '.join(populations) or 'no population yet'}.",
        "Let others work: tallystick ledger grant NAME analyst --population POPULATION --why REASON",
    ]
    _deliver("ledger.begin-roles", ledger, as_json, facts, lines, dry_run=dry_run)


def members(ledger: Place = None, as_json: Json = False) -> None:
    """List the people and machines of a ledger, with their roles."""
    with opened(ledger) as book:
        found, has_roles = book.team.members(), book.has_roles
    facts = {"members": [each._asdict() for each in found]}

    def say(out: Console) -> None:
        for each in found:
            roles = [f"{role} on {'the whole ledger' if of is None else of}" for role, of in each.roles]
            state = "ended" if each.ended else ", ".join(roles) or "no role"
            out.print(f"{each.name}  {state}", soft_wrap=True, markup=False)
        if not has_roles:
            out.print("This ledger has no roles: every user who can open it and has a key may do everything.")

    deliver(Answer("ledger.members", {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def grant(
    name: Person,
    role: Role,
    why: Why,
    population: Population = None,
    is_request: AsRequest = False,
    ledger: Place = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Give a role to a person or machine."""
    if is_request:
        _request_grant(Form("ledger.grant", ledger, as_json, dry_run), name, role, population, why)
        return
    with opened(ledger) as book:
        number = book.team.grant(name, role, population, why=why, dry_run=dry_run)
        unknown = _unknown(book, name)
    facts = {"name": name, "role": role, "population": population, "entry": number, "dry_run": dry_run}
    lines = [f"{name} is {role} of {population or 'the whole ledger'}: ledger entry {number}.", *unknown]
    _deliver("ledger.grant", ledger, as_json, facts, lines, dry_run=dry_run)


def _unknown(book: Ledger, name: str) -> list[str]:
    """Return a warning if the machine or the database does not have a user with this name."""
    if not book.team.lacks_user(name):
        return []
    shown = name_in(subject_named(name, book.subject))
    missing = "This database does not have a role" if shown.startswith("role:") else "This machine does not have a user"
    undo = f"tallystick ledger end {shlex.quote(name)} --why REASON{running_command().ledger}"
    return [f"{missing} {shown.removeprefix('role:')}. If the name is wrong: {undo}"]


def _request_grant(form: Form, name: str, role: str, population: str | None, why: str) -> None:
    """A request is one entry. So a person whom the ledger does not know is named before it."""
    if not form.dry_run:
        with opened(form.ledger) as book:
            book.team.add(name)
    request(form, lambda book: book.team.grant(name, role, population, why=why), why=why)


def revoke(
    name: Person,
    role: Role,
    why: Why,
    population: Population = None,
    is_request: AsRequest = False,
    ledger: Place = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Take a role from a person or machine. Its tokens lose it at once."""
    take = lambda book: book.team.revoke(name, role, population, why=why)  # noqa: E731
    if is_request:
        request(Form("ledger.revoke", ledger, as_json, dry_run), take, why=why)
        return
    with opened(ledger) as book:
        number = book.team.revoke(name, role, population, why=why, dry_run=dry_run)
    facts = {"name": name, "role": role, "population": population, "entry": number, "dry_run": dry_run}
    lines = [f"{name} is no longer {role} of {population or 'the whole ledger'}: ledger entry {number}."]
    _deliver("ledger.revoke", ledger, as_json, facts, lines, dry_run=dry_run)


def end(name: Person, why: Why, ledger: Place = None, dry_run: DryRun = False, as_json: Json = False) -> None:
    """End a person or machine, with all roles and tokens. For operators."""
    with opened(ledger) as book:
        known = {name: each.entry for each in book.team.members() for name in (each.id, each.name)}
        number = book.team.end(name, why=why, dry_run=dry_run)
    facts = {"name": name, "entry": number, "named_in": known.get(name), "dry_run": dry_run}
    lines = [f"{name} has no role and no token any more: ledger entry {number}."]
    if name in known:
        lines.append(f"To erase the name, too: tallystick ledger erase {known[name]} --why REASON")
    _deliver("ledger.end", ledger, as_json, facts, lines, dry_run=dry_run)


def quorum(
    population: Annotated[str, typer.Argument(help="The population's name.")],
    needed: Annotated[
        list[str], typer.Option("--needed", metavar="money=2,...", help="Approvals: money, people, data, erasure.")
    ],
    why: Why,
    is_request: AsRequest = False,
    ledger: Place = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Set how many must approve, for each kind of action."""
    numbers = _numbers(needed)
    change = lambda book: book.team.set_quorum(population, numbers, why=why)  # noqa: E731
    if is_request:
        request(Form("ledger.quorum", ledger, as_json, dry_run), change, why=why)
        return
    with opened(ledger) as book:
        number = book.team.set_quorum(population, numbers, why=why, dry_run=dry_run)
    facts = {"population": population, "needed": numbers, "entry": number, "dry_run": dry_run}
    said = ", ".join(f"{name} {each}" for name, each in numbers.items())
    lines = [f"Approvals that {population} needs: {said}. Ledger entry {number} records it."]
    _deliver("ledger.quorum", ledger, as_json, facts, lines, dry_run=dry_run)


def _numbers(needed: list[str]) -> dict[str, int]:
    given = pairs("needed", needed, "money=2,people=1")
    if not all(text.isascii() and text.isdigit() and len(text) <= 3 for text in given.values()):
        raise InvalidInput("needed", ",".join(needed), "whole numbers of approvals, such as money=2,people=1")
    return {name: int(text) for name, text in given.items()}


def break_glass(
    name: Person,
    population: Annotated[str, typer.Option("--population", help="The population's name.")],
    why: Why,
    ledger: Place = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Make a person approver without approvals, in an emergency.

    For operators. Every later card of the population shows it.
    """
    with opened(ledger) as book:
        number = book.team.break_glass(name, population, why=why, dry_run=dry_run)
    facts = {"name": name, "population": population, "entry": number, "dry_run": dry_run}
    lines = [
        f"{name} is approver of {population}, without an approval: ledger entry {number}.",
        f"Every later card of {population} shows this.",
    ]
    _deliver("ledger.break-glass", ledger, as_json, facts, lines, dry_run=dry_run)


def _deliver(
    command: str, ledger: str | None, as_json: bool, facts: Mapping[str, Any], lines: list[str], *, dry_run: bool
) -> None:
    def say(out: Console) -> None:
        if dry_run:
            out.print("Nothing was changed. Without --dry-run:")
        for line in lines:
            out.print(line, soft_wrap=True, markup=False)

    deliver(Answer(command, {"ledger": place_of(ledger)}, facts, say), as_json=as_json)


def register(app: typer.Typer) -> None:
    """Add these commands to those of ``tallystick ledger``."""
    for command in (begin_roles, members, grant, revoke, end, quorum, break_glass):
        app.command()(command)
