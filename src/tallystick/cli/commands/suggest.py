"""``tallystick dataset suggest``: caps and bounds from private quantiles, paid for and recorded."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tallystick.cli import question as ask
from tallystick.cli.outcomes import Performed, facts_of, say_answer
from tallystick.cli.output import Answer, Details, DryRun, Json, Place, Quiet, Screen, Why, deliver, working
from tallystick.digits import typed
from tallystick.errors import Refused
from tallystick.ledger.book import opened, place_of
from tallystick.printing import visible
from tallystick.publish.request import Cost, Request, answer, rehearse

Ranges = Annotated[
    list[str] | None,
    typer.Option("--range", metavar="COLUMN=LOW:HIGH", help="Choose bounds of this column inside a range you know."),
]


By = Annotated[
    list[str] | None, typer.Option("--by", metavar="COLUMN,...", help="The columns tables will be grouped by.")
]


Apply = Annotated[
    bool, typer.Option("--apply", help="Register these limits and bounds, with the charge as their reason.")
]
Anyway = Annotated[bool, typer.Option("--anyway", help="With --apply: also if noise hides nearly everything.")]


def suggest(
    name: ask.Name,
    why: Why,
    by: By = None,
    ranges: Ranges = None,
    within: Annotated[float, typer.Option("--within", help="Share of the people who stay within each limit.")] = 0.95,
    beyond: Annotated[float, typer.Option("--beyond", help="Share of the values outside each bound.")] = 0.01,
    rho: ask.Rho = None,
    epsilon: ask.Epsilon = None,
    delta: ask.Delta = None,
    pure: ask.Pure = False,
    key: ask.Key = None,
    account: ask.Payer = None,
    apply: Apply = False,
    anyway: Anyway = False,
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
    cost = Cost(rho, epsilon, delta, pure=pure)
    request = Request(Caps(name, tuple(columns), limits, within, beyond, account=account), cost, key, why)
    with opened(ledger) as book, working("suggesting") as tell:
        if dry_run:
            done = Performed(facts_of(rehearse(request, book)))
        else:
            made = answer(request, book, progress=tell)
            applied = apply and register(made.made, name, book, anyway=anyway)
            done = Performed({**facts_of(made.outcome), "applied": applied}, made)
    facts = done.facts
    about = {"ledger": place_of(ledger), "name": name, "why": why, "by": columns, "ranges": limits, **cost.words}
    screen = Screen(quiet)
    answered = Answer("dataset.suggest", about, facts, lambda _: _say(screen, name, facts, details))
    deliver(answered, as_json=as_json, done=done, screen=screen)
    if apply and not dry_run and not facts["applied"]:  # what was paid for is shown, and then it is refused
        print(visible(f"not applied: {facts['says_nothing']}"), file=sys.stderr)
        raise typer.Exit(Refused.exit_code)


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
    caps = [f"--{cap.replace('_', '-')} {found['value']}" for cap, found in facts["caps"].items()]
    ends = {column: found["value"] for column, found in facts["bounds"].items()}
    return " ".join([*caps, *(f"--bounds {column}={typed(low)}:{typed(high)}" for column, (low, high) in ends.items())])
