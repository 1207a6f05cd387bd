"""``tallystick dataset suggest``: caps and bounds from private quantiles, paid for and recorded."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import question as ask
from tallystick.cli.outcomes import Performed, facts_of, say_answer
from tallystick.cli.output import Answer, Details, DryRun, Json, Place, Quiet, Screen, Why, deliver, working
from tallystick.digits import typed
from tallystick.errors import InvalidInput, Refused
from tallystick.ledger.book import opened, place_of
from tallystick.printing import visible
from tallystick.publish.datasets import find
from tallystick.publish.export import Files
from tallystick.publish.request import Cost, Request, answer, rehearse
from tallystick.tables.steps import EachRow

if TYPE_CHECKING:
    from tallystick.ledger.book import Ledger
    from tallystick.publish.kinds.caps import Caps

Ranges = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="COLUMN=LOW:HIGH", help="Choose bounds of this column inside a range you know."),
]


By = Annotated[
    list[str] | None, typer.Option("--by", metavar="COLUMN,...", help="The columns tables will be grouped by.")
]


Within = Annotated[
    float | None,
    typer.Option("--within", help="Choose limits that this share of the people keep to, such as 0.95."),
]
Groups = Annotated[
    int | None, typer.Option("--groups", metavar="N", help="How many groups tables will have, if it is public.")
]
PerQuery = Annotated[
    list[str] | None,
    typer.Option("--per-query", metavar="rho=X,...", help="What a table will cost (default: as much as this)."),
]
Plot = Annotated[Path | None, typer.Option("--plot", help="Draw the errors under several limits to this .svg or .png.")]


Apply = Annotated[
    bool, typer.Option("--apply", help="Register these limits and bounds, with the charge as their reason.")
]
Anyway = Annotated[bool, typer.Option("--anyway", help="With --apply: also if noise hides nearly everything.")]


def suggest(
    name: ask.Name,
    why: Why,
    by: By = None,
    ranges: Ranges = None,
    within: Within = None,
    beyond: Annotated[float, typer.Option("--beyond", help="Share of the values outside each bound.")] = 0.01,
    groups: Groups = None,
    per_query: PerQuery = None,
    rho: ask.Rho = None,
    epsilon: ask.Epsilon = None,
    delta: ask.Delta = None,
    pure: ask.Pure = False,
    key: ask.Key = None,
    account: ask.Payer = None,
    apply: Apply = False,
    anyway: Anyway = False,
    plot: Plot = None,
    dry_run: DryRun = False,
    details: Details = False,
    quiet: Quiet = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Suggest limits and bounds from private quantiles. This is charged."""
    from tallystick.publish.kinds.caps import Caps
    from tallystick.publish.suggest import apply as register

    limits, columns = ask.intervals("ranges", ranges), ask.listed(by)
    cost, price = Cost(rho, epsilon, delta, pure=pure), ask.price("per_query", per_query)
    kind = Caps(name, tuple(columns), limits, within, beyond, groups, price, account=account)
    request, files = Request(kind, cost, key, why), Files(plot=plot)
    with opened(ledger) as book, working("suggesting") as tell:
        if plot is not None:
            _require_errors(kind, book)
            files.check_in(book)
        if dry_run:
            done = Performed(facts_of(rehearse(request, book)))
        else:
            made = answer(request, book, progress=tell)
            applied = apply and register(made.made, name, book, anyway=anyway)
            done = Performed({**facts_of(made.outcome), "applied": applied}, made, files)
    facts = done.facts
    about = {"ledger": place_of(ledger), "name": name, "why": why, "by": columns, "ranges": limits, **cost.words}
    screen = Screen(quiet)
    answered = Answer("dataset.suggest", about, facts, lambda _: _say(screen, name, facts, details))
    deliver(answered, as_json=as_json, done=done, screen=screen)
    if apply and not dry_run and not facts["applied"]:  # what was paid for is shown, and then it is refused
        print(visible(f"not applied: {facts['says_nothing']}"), file=sys.stderr)
        raise typer.Exit(Refused.exit_code)


def _require_errors(kind: Caps, book: Ledger) -> None:
    """Refuse a picture of errors where limits are not chosen by their error, before anything is charged."""
    if kind.within is not None:
        raise InvalidInput("plot", kind.within, "no --within", problem="limits within a share have no errors to draw")
    if isinstance(find(kind.dataset, book).opened().unit, EachRow):
        raise InvalidInput("plot", kind.dataset, "people", problem="where rows are protected there are no limits")


def _say(screen: Screen, name: str, facts: dict[str, Any], details: bool) -> None:
    def say_lines() -> None:
        screen.result(facts["notes"])
        screen.note(["", *facts["details"]] if details else [])

    say_answer(facts, screen, say_lines)
    if not facts["dry_run"]:
        screen.note(_next(name, facts))


def _next(name: str, facts: dict[str, Any]) -> list[str]:
    """Return whether the suggestion was saved, and the command that saves it or another one."""
    options = _options(facts)
    if facts["applied"]:
        return [f"Saved: {name} now has {options}."]
    more = " --anyway" if facts["says_nothing"] else ""
    return [
        f"Not saved. To save these, repeat the command with --apply{more} (no further cost).",
        f"To set your own: tallystick dataset update {name} {options}",
    ]


def _options(facts: dict[str, Any]) -> str:
    """The options of 'dataset add --update' that say the same."""
    caps = [f"--{cap.replace('_', '-')} {value}" for cap, value in facts["limits"].items() if value is not None]
    ends = {column: found["value"] for column, found in facts["bounds"].items()}
    return " ".join([*caps, *(f"--bounds {column}={typed(low)}:{typed(high)}" for column, (low, high) in ends.items())])
