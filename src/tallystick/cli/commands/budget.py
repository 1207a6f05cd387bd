"""``tallystick budget``: one screen with the limit, what is used, the last charges, and what still fits."""

from __future__ import annotations

import shlex
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from tallystick.cli.output import Answer, Details, Json, Place, Quiet, Screen, deliver
from tallystick.cli.wording import running_command
from tallystick.digits import decimal_down, moment, percent_up, plural, up
from tallystick.errors import InvalidInput, TallystickError
from tallystick.ledger.book import opened, place_of
from tallystick.ledger.denial import counts_that_fit
from tallystick.ledger.filters import WHAT_RHO_IS, why_quoted
from tallystick.printing import visible
from tallystick.tables.layout import Column
from tallystick.tables.layout import lines as lines_of
from tallystick.tables.reporting.words import capital

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.ledger import Account, Event
    from tallystick.ledger.account import Spender
    from tallystick.publish.datasets import Dataset

WIDTH, ROWS = 40, 10
DONE = "COMMITTED"
"""The state of a charge that ended as it should."""


def budget(
    account: Annotated[str | None, typer.Argument(help="The account; needed if there are several.")] = None,
    details: Details = False,
    quiet: Quiet = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw what each person spent, as .svg or .png.")] = None,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Show what is used, what is left and what still fits."""
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
        people = chosen.spent_by()
        if plot is not None:
            from tallystick.plots import save, spending

            save(spending(chosen), plot)
        total = None if quiet and not as_json else sum_that_fits(chosen)
        facts = {
            **chosen.to_dict(),
            "history": [event.to_dict() for event in events],
            "spent_by": [{**each._asdict(), "amount": each.amount.to_dict()} for each in people],
            **({} if plot is None else {"plot": str(plot)}),
            "fits": [{"counts": number, "error": error} for number, error in fits],
            "fitting_sum": None if total is None else total._asdict(),
        }
        asked = {"ledger": place_of(ledger), "account": account}

        def say(_: Console) -> None:
            screen = Screen(quiet)
            screen.result([account_title(chosen), "", *amount_lines(chosen)])
            if not quiet:
                screen.result(["", *history_lines(chosen, events), *spender_lines(people)])
                screen.result(["", *fit_lines(chosen, fits, total)])
            screen.note(detail_lines(chosen) if details else [])

        deliver(Answer("budget", asked, facts, say), as_json=as_json)


def account_title(account: Account) -> str:
    """Return whose budget it is."""
    return f"{account.name}: one budget for each {account.unit}"


def amount_lines(account: Account) -> list[str]:
    """Return limit, used and left as a small table, and the used share as a bar."""
    used, limit, left = account.used, account.limit, account.remaining
    columns = [
        Column("", ("limit", "used", "left"), is_text=True),
        Column("", (str(limit), str(used), left.of_limit(limit)), is_text=True),
        Column("", (account.in_epsilon(limit), account.in_epsilon(used), ""), is_text=True),
    ]
    share = Fraction(used.a0, limit.a0)
    lines = [*lines_of(columns)[1:], f"[{bar(used.a0, limit.a0)}] {percent_up(share)} used"]
    return [f"  {line}" for line in lines]


def history_lines(account: Account, events: list[Event]) -> list[str]:
    """Return the last charges as a table; a state is shown only if it is not the usual one."""
    events = [event for event in events if event.amount.a0 or event.amount.a1]  # steps of a run that is paid as a whole
    shown = events[-ROWS:]
    if not shown:
        return ["  No charges yet."]
    states = tuple("" if event.state == DONE else event.state.lower() for event in shown)
    columns = [
        Column("when", tuple(moment(event.at) for event in shown), is_text=True),
        Column("cost", tuple(str(event.amount) for event in shown), is_text=True),
        *([Column("state", states, is_text=True)] if any(states) else []),
        Column("reason", tuple(visible(event.why) for event in shown), is_text=True),
    ]
    every = f"tallystick charge list {shlex.quote(account.name)}"
    more = [f"last {ROWS} of {len(events):,} charges; all of them: {every}"] if len(events) > ROWS else []
    return [f"  {line}" for line in (*lines_of(columns), *more)]


def spender_lines(people: list[Spender]) -> list[str]:
    """Return what each person spent, if there are several."""
    if len(people) < 2:
        return []
    columns = [
        Column("spent by", tuple(visible(each.name) for each in people), is_text=True),
        Column("charges", tuple(f"{each.charges:,}" for each in people)),
        Column("cost", tuple(str(each.amount) for each in people), is_text=True),
    ]
    return ["", *(f"  {line}" for line in lines_of(columns))]


class FittingSum(NamedTuple):
    """A sum over all rows of a dataset that all of what is left could pay, and its 95 % error."""

    dataset: str
    column: str
    error: float


def sum_that_fits(account: Account) -> FittingSum | None:
    """Return the sum of a column with bounds that what is left could pay; None without such a column or budget."""
    from tallystick.publish import datasets  # start-up: most budgets are asked often

    argument = {"zcdp": "rho", "approx": "epsilon"}.get(account.currency.kind)
    if argument is None or account.closed:
        return None
    for name, dataset in datasets.known(account.ledger).items():
        columns = [column for column, low, _ in dataset.table["bounds"] if not isinstance(low, str)]  # not dates
        if dataset.population != account.name or not columns or dataset.retired is not None:
            continue
        try:
            return FittingSum(name, columns[-1], _error_of_sum(dataset, columns[-1], argument, account))
        except TallystickError:  # no limit per person, or too little is left
            continue
    return None


def _error_of_sum(dataset: Dataset, column: str, argument: str, account: Account) -> float:
    from tallystick.tables.measures import sum as total  # loads the tables

    cost: dict[str, Any] = {argument: float(decimal_down(account.remaining.first))}
    plan = dataset.opened(account).agg(total=total(column)).plan(**cost)
    return float(plan.error()["total"])


def fit_lines(account: Account, fits: list[tuple[int, int]], total: FittingSum | None = None) -> list[str]:
    """Return what could still be published."""
    known = [(number, error) for number, error in fits if number]
    if not known:
        asks, limit = (" --request", "ask for more") if account.is_allowance else ("", "raise the limit")
        higher = f"tallystick account raise {shlex.quote(account.name)} --budget BUDGET --why REASON{asks}"
        return [f"Nothing useful fits what is left. To {limit}: {higher}{running_command().ledger}"]
    offers = [
        f"  {number:,} more count{'s' * (number > 1)} with an error of ±{error} {plural(account.unit)}"
        for number, error in known
    ]
    if total is not None:
        named = f"{visible(total.column)} over all rows of {visible(total.dataset)}"
        offers.append(f"  1 sum of {named} with an error of ±{up(total.error)}")
    return [
        "With what is left you could publish, for example,",
        *(f"{offer}, or" for offer in offers[:-1]),
        f"{offers[-1]}.",
    ]


def detail_lines(account: Account) -> list[str]:
    """Return how the account adds up, and the accounts above and below it."""
    lines = ["", f"{account.kind_in_words}, {account.currency.title}"]
    for below in account.children:
        lines.append(f"{capital(below.kind_in_words)} {below.name}: used {below.used} of {below.limit}")
    parent = account.parent
    lines += [] if parent is None else [f"Part of {parent.name}: used {parent.used} of {parent.limit}"]
    lines += [f"{capital(WHAT_RHO_IS)}."] if account.currency.kind == "zcdp" else []
    return [*lines, *filter(None, [why_quoted(account.limit)])]


def bar(used: int, limit: int) -> str:
    """Return what is used, as a bar of characters.

    >>> bar(1, 2)
    '====================                    '
    """
    full = round(WIDTH * min(max(0, used), limit) / limit)
    return "=" * full + " " * (WIDTH - full)
