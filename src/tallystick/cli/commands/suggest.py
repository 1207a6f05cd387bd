"""``tallystick dataset suggest``: caps and bounds from private quantiles, paid for and recorded."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import question as ask
from tallystick.cli.commands.publish import interruptible, say_done
from tallystick.cli.output import Answer, DryRun, Json, Place, Why, deliver, working
from tallystick.errors import InvalidInput, Refused
from tallystick.ledger.book import opened, place_of
from tallystick.printing import visible
from tallystick.publish import datasets, jobs

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.tables.table import Table

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
    from tallystick.publish.suggest import command, lines, registered_as, suggest_caps

    named = {"rho": rho, "epsilon": epsilon, "delta": delta, "pure": pure or None}
    price = {word: value for word, value in named.items() if value is not None}
    limits = ask.intervals("--range", ranges)
    columns = ask.listed(by)
    with opened(ledger) as book, working("suggesting") as tell:
        dataset = datasets.find(name, book)
        account = book.open(dataset.population)
        table = _typed(dataset.opened(account), limits, columns)
        asked = suggest_caps(table, by=columns, ranges=limits, within=within, beyond=beyond, **price)
        job = jobs.Job(asked.plan, account, dataset, why, key, None, None)
        if dry_run:
            facts, found = jobs.dry(job), None
        else:
            found = interruptible(lambda: asked.release(why=why, key=job.name, dataset=name, progress=tell))
            receipt = found.release.receipt
            assert receipt is not None
            applied = apply and (anyway or not found.says_nothing)
            if applied:
                datasets.register(registered_as(found, dataset, anyway=anyway), account, update=True)
            paid = jobs.paid_facts(account, receipt, asked.plan.privacy, fresh=found.release.fresh)
            facts = {"dry_run": False, "key": job.name, "applied": applied, **paid, **found.to_data()}

    def say(console: Console) -> None:
        def say_found() -> None:
            assert found is not None
            for line in lines(found):
                console.print(line, soft_wrap=True, markup=False)

        say_done(console, facts, say_found, same="same key, same suggestion")
        if found is not None:
            more = " --anyway" if found.says_nothing else ""
            console.print(_next(name, command(found), facts["applied"], more), soft_wrap=True, markup=False)

    about = {"ledger": place_of(ledger), "name": name, "why": why, "by": columns, "ranges": limits, **price}
    deliver(Answer("dataset.suggest", about, facts, say), as_json=as_json)
    if apply and found is not None and not facts["applied"]:  # what was paid for is shown, and then it is refused
        print(visible(f"not applied: {found.says_nothing}"), file=sys.stderr)
        raise typer.Exit(Refused.exit_code)


def _next(name: str, options: str, applied: bool, more: str) -> str:
    if applied:
        return f"{name} is registered with {options}"
    return f"not registered yet: the same command with --apply{more}, which costs nothing more, or your own: {options}"


def _typed(table: Table, limits: dict[str, Any], by: list[str]) -> Table:
    """A CSV column is text until somebody says otherwise; say how, in the words of the shell."""
    for column in by:
        ask.known("--by", column, table)
    for column in limits:
        ask.known("--range", column, table)
        kind = table.schema.type_of(column)
        if kind not in ("integer", "number"):
            raise InvalidInput(
                "--range", column, f"a numeric column ({column} is {kind}; a CSV column: 'dataset add ... --update "
                f"--type {column}=number')",
            )  # fmt: skip
    return table
