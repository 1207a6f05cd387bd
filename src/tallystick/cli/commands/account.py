"""``tallystick account``: open, show, raise and close budgets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.commands import account_requests
from tallystick.cli.output import Answer, DryRun, Json, Place, Why, deliver
from tallystick.cli.proposing import AsRequest, Form, RequestWhy, reason_of, request
from tallystick.cli.question import listed
from tallystick.digits import typed
from tallystick.errors import InvalidInput
from tallystick.ledger.book import opened, place_of
from tallystick.ledger.filters import WHAT_RHO_IS

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.ledger import Account, Partition

app = typer.Typer(help="Open, show, raise and close budgets.", no_args_is_help=True, rich_markup_mode=None)

Name = Annotated[str, typer.Argument(help="The account's name.")]
BudgetText = Annotated[str, typer.Option("--budget", metavar="EXPR", help='The limit, such as "zcdp(rho=0.5)".')]


@app.command("open")
def open_(
    name: Name,
    budget: BudgetText,
    unit: Annotated[str | None, typer.Option("--unit", help="Who is protected, such as patient.")] = None,
    parent: Annotated[str | None, typer.Option("--parent", help="Make it a block of this account.")] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", help="With --parent: the parent pays the largest block of this name.")
    ] = None,
    by: Annotated[
        str, typer.Option("--by", help="How --partition assigns people: 'unit id' or 'public attribute'.")
    ] = "unit id",
    one_block_per_unit: Annotated[
        bool, typer.Option("--one-block-per-unit", help="You vouch that each person lies in one block.")
    ] = False,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="COLUMN=VALUE", help="With --partition: the rows of this block; repeatable."),
    ] = None,
    milestone: Annotated[
        list[str] | None,
        typer.Option("--milestone", metavar="AMOUNT,...", help="Declare milestones for 'so far' statements."),
    ] = None,
    is_request: AsRequest = False,
    why: RequestWhy = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Open an account. Its filter follows from the budget's type and never changes."""
    from tallystick.accounting.expression import read_loss
    from tallystick.ledger import Budget, Partition
    from tallystick.ledger.opening import named_unit, require_small_delta, warn_of_delta

    reason = reason_of(is_request, why)
    loss, steps = read_loss(budget), _milestones(milestone)
    split: Partition | None = None
    if where and not partition:
        raise InvalidInput("where", where, "--partition NAME beside it: rows are a block's own only in a partition")
    if partition:
        column, values = _predicate(where)
        split = Partition(partition, by=by, one_block_per_unit=one_block_per_unit, column=column, values=values)
    block: dict[str, Any] = {"budget": loss, "unit": unit, "parent": parent, "partition": split, "milestones": steps}
    if is_request:
        request(Form("account.open", ledger, as_json, dry_run), lambda book: book.open(name, **block), why=reason)
        return
    if dry_run:
        limit = Budget.of(loss)
        named_unit(limit, unit)
        require_small_delta(limit)
        warn_of_delta(limit, stacklevel=2)
        if split:
            split.require(limit.protects.adjacency)
        facts: dict[str, Any] = {"name": name, "filter": limit.filter.name, "limit": [limit.limit0, limit.limit1]}
        _deliver("account.open", name, {**facts, "dry_run": True}, ledger, as_json, f"would open {name}: {budget}")
        return
    with opened(ledger, create=True) as book:
        account = book.open(name, **block)
        _deliver("account.open", name, {**account.to_dict(), "dry_run": False}, ledger, as_json, _opened(account))


def _opened(account: Account) -> str:
    used = f", used {account.used}" if account.used.a0 or account.used.a1 else ""
    return (
        f"{account.name} is open: never more than {account.limit} per {account.unit} ({account.currency.title}){used}"
    )


def _milestones(given: list[str] | None) -> tuple[float, ...]:
    try:
        return tuple(float(piece) for piece in listed(given))
    except ValueError:
        raise InvalidInput("milestone", ",".join(given or ()), "amounts, such as 0.1,0.2") from None


def _predicate(where: list[str] | None) -> tuple[str, tuple[str | int, ...]]:
    """The column and the values of a block: whole numbers where all of them are written as such, else texts."""
    pieces = [text.partition("=") for text in where or ()]
    columns = {column.strip() for column, _, _ in pieces}
    if len(columns) > 1 or not all(equals and column.strip() for column, equals, _ in pieces):
        raise InvalidInput("where", where, "COLUMN=VALUE, each time with the same column")
    values = [value.strip() for _, _, value in pieces]
    whole = all(re.fullmatch("0|-?[1-9][0-9]*", value) for value in values)
    return next(iter(columns), ""), tuple(map(int, values) if whole else values)


@app.command()
def show(name: Name, ledger: Place = None, as_json: Json = False) -> None:
    """Show what is used and left of an account. It also shows its limit, blocks and allowances."""
    with opened(ledger) as book:
        account = book.open(name)
        answer = Answer(
            "account.show",
            {"ledger": place_of(ledger), "name": name},
            account.to_dict(),
            lambda out: say(out, account),
        )
        deliver(answer, as_json=as_json)


def say(out: Console, account: Account) -> None:
    """Print an account for people, the limit first."""
    rule = account.currency.rule
    state = "closed" if account.closed else "open"
    used, limit = account.in_epsilon(account.used), account.in_epsilon(account.limit)
    lines = [
        f"{account.name}   {_kind(account)}, one budget for each {account.unit}, {state}",
        f"limit    never more than {account.limit}   ({account.currency.title}; {rule.theorem})",
        *([f"         that is {limit}"] if limit else []),
        *([f"         {WHAT_RHO_IS}"] if account.currency.kind == "zcdp" else []),
        f"used     {account.used}" + (f"   ({used})" if used else ""),
        f"left     {account.remaining.of_limit(account.limit)}",
    ]
    parent = account.parent
    if parent is not None:
        lines.append(f"part of  {parent.name}: used {parent.used} of {parent.limit}")
    for below in account.children:
        lines.append(f"{below.kind_in_words:<8} {below.name}: used {below.used} of {below.limit}")
    for line in lines:
        out.print(line, soft_wrap=True, markup=False)


def _kind(account: Account) -> str:
    """Return the kind of an account, with the person who pays from an allowance."""
    if not account.is_allowance:
        return account.kind_in_words
    [name] = [member.name for member in account.ledger.team.members() if member.id == account.owner]
    return f"{account.kind_in_words} of {name}"


@app.command("raise")
def raise_(
    name: Name,
    budget: BudgetText,
    why: Why,
    is_request: AsRequest = False,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Raise a limit: a new entry with a reason, signed with your key."""
    from tallystick.accounting.expression import read_loss
    from tallystick.ledger.chain import check_reason
    from tallystick.ledger.filters import Amount, quoted_delta
    from tallystick.ledger.opening import check_raise

    check_reason(why)
    loss = read_loss(budget)
    if is_request:
        form = Form("account.raise", ledger, as_json, dry_run)
        request(form, lambda book: book.open(name).raise_limit(loss, why=why), why=why)
        return
    with opened(ledger) as book:
        account = book.open(name)
        limit = check_raise(book.account_row(name), account, loss)
        old, new = account.limit, Amount(account.currency, limit.limit0, limit.limit1)
        before, after = account.quoted_delta(), quoted_delta(new)
        if not dry_run:
            account.raise_limit(loss, why=why)
        facts = {**account.to_dict(), "was": old.to_dict(), "quoted_delta": after, "dry_run": dry_run}
        sentences = [f"{'Would raise' if dry_run else 'Raised'} {name} from {old} to {new}"]
        if old.as_epsilon_at(before):
            is_now = "would then be" if dry_run else "is now"
            sentences.append(f"The limit was {old.as_epsilon_at(before)} and {is_now} {new.as_epsilon_at(after)}")
        if before != after:
            sentences.append(f"Its epsilon is shown at delta {typed(after)} from now on (it was {typed(before)})")
        sentences.append(_EARLIER_CARDS)
        _deliver("account.raise", name, facts, ledger, as_json, "\n".join(sentences))


_EARLIER_CARDS = (
    "Cards made so far show the old limit. Publish again with the same key for cards that show the new one; "
    "this charges nothing"
)


@app.command()
def close(
    name: Name,
    why: Why,
    is_request: AsRequest = False,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Stop all spending from an account, for good."""
    if is_request:
        form = Form("account.close", ledger, as_json, dry_run)
        request(form, lambda book: book.open(name).close(why=why), why=why)
        return
    with opened(ledger) as book:
        account = book.open(name)
        if not dry_run:
            account.close(why=why)
        facts = {**account.to_dict(), "dry_run": dry_run}
        _deliver("account.close", name, facts, ledger, as_json, ("Would close " if dry_run else "Closed ") + name)


def _deliver(command: str, name: str, facts: dict[str, Any], ledger: str | None, as_json: bool, sentence: str) -> None:
    def say_sentence(out: Console) -> None:
        out.print(sentence, soft_wrap=True, markup=False)

    deliver(Answer(command, {"ledger": place_of(ledger), "name": name}, facts, say_sentence), as_json=as_json)


account_requests.register(app)
