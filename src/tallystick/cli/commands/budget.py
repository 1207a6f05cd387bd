"""``tallystick budget``: one screen with the limit, what is used, how it went down, and what still fits."""

from __future__ import annotations

import shlex
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Json, Place, deliver
from tallystick.digits import plural
from tallystick.errors import InvalidInput
from tallystick.ledger.book import opened, place_of
from tallystick.ledger.denial import counts_that_fit
from tallystick.ledger.filters import WHAT_RHO_IS
from tallystick.printing import percent_down

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.ledger import Account, Event

WIDTH, ROWS = 40, 10


def budget(
    account: Annotated[str | None, typer.Argument(help="The account; may be left out when there is one.")] = None,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Limit, used, history as a burn-down bar, and what still fits."""
    with opened(ledger) as book:
        if account is None:
            names = [each.name for each in book.accounts()]
            if len(names) != 1:
                known = ", ".join(names) or "none yet; tallystick account open NAME --budget EXPR"
                raise InvalidInput("account", None, f"one of: {known}")
            account = names[0]
        chosen = book.open(account)
        events = chosen.history()
        fits = counts_that_fit(chosen.remaining)
        facts = {
            **chosen.to_dict(),
            "history": [event.to_dict() for event in events],
            "fits": [{"counts": number, "error": error} for number, error in fits],
        }
        asked = {"ledger": place_of(ledger), "account": account}
        deliver(Answer("budget", asked, facts, lambda out: say(out, chosen, events, fits)), as_json=as_json)


def say(out: Console, account: Account, events: list[Event], fits: list[tuple[int, int]]) -> None:
    """The screen for people."""
    from tallystick.printing import when

    used, limit = account.used, account.limit
    lines = [
        f"{account.name}   {account.kind}, per {account.unit}, {account.currency.title}",
        f"limit {limit}   used {used}   left {account.remaining.text(upward=False)}",
        *(
            [f"limit {account.in_epsilon(limit)}   used {account.in_epsilon(used) or 'nothing'}"]
            if account.in_epsilon(limit)
            else []
        ),
        f"[{bar(limit.a0 - used.a0, limit.a0)}] {percent_down(Fraction(limit.a0 - used.a0, limit.a0))} left",
    ]
    left = account.remaining.a0
    recent = []
    for event in reversed(events):
        recent.append(f"{when(event.at)}  [{bar(left, limit.a0)}]  {event.amount}  {event.state}  {event.why}")
        left += event.amount.a0 if event.paid else 0
        if len(recent) == ROWS:
            break
    if len(events) > ROWS:
        lines.append(
            f"last {ROWS} of {len(events):,} charges; all of them: tallystick charge list {shlex.quote(account.name)}"
        )
    lines += recent[::-1] or ["no charges yet"]
    lines += [f"block {block.name}: used {block.used} of {block.limit}" for block in account.children]
    who = plural(account.unit)
    lines += [f"fits: about {n:,} more count{'s' * (n > 1)} with +-{error} {who} (95 %)" for n, error in fits if n]
    if not any(number for number, _ in fits):
        lines.append("fits: nothing that would be useful; raise the limit: tallystick account raise ...")
    lines += [WHAT_RHO_IS] if account.currency.kind == "zcdp" else []
    parent = account.parent
    if parent is not None:
        lines.append(f"lifetime ({parent.name}): used {parent.used} of {parent.limit}")
    for line in lines:
        out.print(line, soft_wrap=True, markup=False)


def bar(left: int, limit: int) -> str:
    """What is left, as a bar of characters.

    >>> bar(1, 2)
    '####################....................'
    """
    full = round(WIDTH * max(0, left) / limit)
    return "#" * full + "." * (WIDTH - full)
