"""``tallystick publish``: price a table without opening any data, then release it, once per key, with its card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import publishing
from tallystick.cli.asking import (
    Asked,
    By,
    CardFile,
    Delta,
    Epsilon,
    Error,
    Key,
    Keys,
    Measures,
    Name,
    Out,
    PrivateKeys,
    Rho,
    Where,
)
from tallystick.cli.output import Answer, DryRun, Json, Place, deliver, working
from tallystick.publish import datasets, jobs
from tallystick.publish.place import opened, place_of

if TYPE_CHECKING:
    from rich.console import Console

app = typer.Typer(help="Price a table, then release it.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def plan(
    dataset: Name,
    measures: Measures,
    by: By = None,
    keys: Keys = None,
    private_keys: PrivateKeys = None,
    where: Where = None,
    rho: Rho = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    error: Error = None,
    suggest: Annotated[bool, typer.Option("--suggest", help="Show three plans: cheaper, asked, more exact.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Write the plan to this .json file.")] = None,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Price and error of a table, before anything is spent. Opens no data: it works with the data file deleted."""
    asked = Asked(
        measures, by, keys, private_keys, where, {"rho": rho, "epsilon": epsilon, "delta": delta, "error": error}
    )
    with opened(ledger) as book:
        held = datasets.find(dataset, book)
        account = book.open(held.population)
        query = asked.query(held.opened(account))
        plans = query.suggest(**asked.price) if suggest else (query.plan(**asked.price),)
        chosen = plans[len(plans) // 2]
        facts = [jobs.plan_facts(each, account) for each in plans]
    if out is not None:
        jobs.write(out, jobs.saved(dataset, chosen))
    found: dict[str, Any] = {"plan": facts[len(plans) // 2], "saved": None if out is None else str(out)}
    if suggest:
        found["suggestions"] = facts

    def say(console: Console) -> None:
        lines = publishing.suggestion_lines(facts) if suggest else publishing.plan_lines(facts[0], chosen)
        if out is not None:
            lines += ["", str(out), f"next: tallystick publish run {out} --key NAME --why TEXT --out table.csv"]
        for line in lines:
            console.print(line, soft_wrap=True, markup=False)

    about = {"ledger": place_of(ledger), "dataset": dataset, **asked.to_data()}
    deliver(Answer("publish.plan", about, found, say), as_json=as_json)


@app.command()
def run(
    plan: Annotated[Path, typer.Argument(help="A plan that 'publish plan --out' wrote.")],
    why: Annotated[str, typer.Option("--why", help="Why; kept in the record and shown on the card.")],
    key: Key = None,
    out: Out = None,
    card: CardFile = None,
    source: Annotated[str | None, typer.Option("--source", help="Where the data is now, if it moved.")] = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Charge, compute, add noise, record, hand out. The same key again: the same bytes, and no second charge."""
    dataset, text = jobs.read_saved(plan)
    jobs.check_targets(out, card, plan)
    with opened(ledger) as book, working("publishing") as tell:
        held = datasets.find(dataset, book)
        account = book.open(held.population)
        priced = jobs.plan_of(text, held, account, source)
        job = jobs.Job(priced, account, held, why, key, out, card)
        found = publishing.done(job, tell, dry_run=dry_run)
    about = {"ledger": place_of(ledger), "plan": str(plan), "why": why, "dry_run": dry_run}
    deliver(Answer("publish.run", about, found, lambda console: publishing.say(console, found)), as_json=as_json)
