"""``tallystick dataset suggest``: caps and bounds from private quantiles, paid for and recorded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import question as ask
from tallystick.cli.outcomes import Performed, facts_of, interruptible, say_done
from tallystick.cli.output import Answer, DryRun, Json, Place, Why, deliver, working
from tallystick.digits import typed
from tallystick.errors import Refused
from tallystick.ledger.book import opened, place_of
from tallystick.printing import visible
from tallystick.publish.request import Cost, Request, answer, rehearse

if TYPE_CHECKING:
    from rich.console import Console

Ranges = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="COLUMN=LOW:HIGH", help="Choose bounds of this column inside a range you know."),
]


By = Annotated[
    list[str] | None, typer.Option("--by", metavar="COLUMN,...", help="The columns tables will be grouped by.")
]


Apply = Annotated[
    bool, typer.Option("--apply", help="Register these caps and bounds, with the charge as their reason.")
]
Anyway = Annotated[
    bool, typer.Option("--anyway", help="With --apply: also where the noise leaves next to nothing known.")
]


def suggest(
    name: ask.Name,
    why: Why,
    by: By = None,
    ranges: Ranges = None,
    within: Annotated[float, typer.Option("--within", help="The share of the units that keep to each cap.")] = 0.95,
    beyond: Annotated[float, typer.Option("--beyond", help="The share of values beyond each bound.")] = 0.01,
    rho: ask.Rho = None,
    epsilon: ask.Epsilon = None,
    delta: ask.Delta = None,
    pure: ask.Pure = False,
    key: ask.Key = None,
    apply: Apply = False,
    anyway: Anyway = False,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Caps and bounds from private quantiles: every unit has one row, so no caps are needed to ask. It is charged."""
    from tallystick.publish.kinds.caps import Caps
    from tallystick.publish.suggest import apply as register

    limits, columns = ask.intervals("ranges", ranges), ask.listed(by)
    cost = Cost(rho, epsilon, delta, pure=pure)
    request = Request(Caps(name, tuple(columns), limits, within, beyond), cost, key, why)
    with opened(ledger) as book, working("suggesting") as tell:
        if dry_run:
            done = Performed(facts_of(rehearse(request, book)))
        else:
            made = interruptible(lambda: answer(request, book, progress=tell))
            applied = apply and register(made.made, name, book, anyway=anyway)
            done = Performed({**facts_of(made.outcome), "applied": applied}, made)
    facts = done.facts
    about = {"ledger": place_of(ledger), "name": name, "why": why, "by": columns, "ranges": limits, **cost.words}
    answered = Answer("dataset.suggest", about, facts, lambda console: _say(console, name, facts))
    deliver(answered, as_json=as_json, done=done)
    if apply and not dry_run and not facts["applied"]:  # what was paid for is shown, and then it is refused
        print(visible(f"not applied: {facts['says_nothing']}"), file=sys.stderr)
        raise typer.Exit(Refused.exit_code)


def _say(console: Console, name: str, facts: dict[str, Any]) -> None:
    def say_lines() -> None:
        for line in facts["notes"]:
            console.print(line, soft_wrap=True, markup=False)

    say_done(console, facts, say_lines, same="same key, same suggestion")
    if not facts["dry_run"]:
        console.print(_next(name, facts), soft_wrap=True, markup=False)


def _next(name: str, facts: dict[str, Any]) -> str:
    options = _options(facts)
    if facts["applied"]:
        return f"{name} is registered with {options}"
    more = " --anyway" if facts["says_nothing"] else ""
    return f"not registered yet: the same command with --apply{more}, which costs nothing more, or your own: {options}"


def _options(facts: dict[str, Any]) -> str:
    """The options of 'dataset add --update' that say the same."""
    caps = [f"--{cap.replace('_', '-')} {found['value']}" for cap, found in facts["caps"].items()]
    ends = {column: found["value"] for column, found in facts["bounds"].items()}
    return " ".join([*caps, *(f"--bounds {column}={typed(low)}:{typed(high)}" for column, (low, high) in ends.items())])
