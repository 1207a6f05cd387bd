"""``tallystick publish``: price a table without opening any data, then release it, once per key, with its card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import datasets, publishing
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
from tallystick.cli.output import Answer, Json, deliver, working
from tallystick.cli.place import DryRun, Place, opened, place_of
from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.tables.plan import Plan

app = typer.Typer(help="Price a table, then release it.", no_args_is_help=True, rich_markup_mode=None)
SCHEMA, VERSION = "tallystick/publish-plan", 1


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
    held = datasets.find(dataset, ledger)
    with opened(ledger) as book:
        account = datasets.account_of(held, book)
        query = asked.query(held.opened(account))
        plans = query.suggest(**asked.price) if suggest else (query.plan(**asked.price),)
        chosen = plans[len(plans) // 2]
        facts = [publishing.plan_facts(each, account) for each in plans]
    if out is not None:
        publishing.write(out, _saved(dataset, chosen))
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
    dataset, text = _read(plan)
    held = datasets.find(dataset, ledger)
    publishing.check_targets(out, card)
    with opened(ledger) as book, working("publishing") as tell:
        account = datasets.account_of(held, book)
        priced = publishing.plan_of(text, held, account, source)
        job = publishing.Job(priced, account, held, why, key, out, card)
        found = publishing.dry(job) if dry_run else publishing.release(job, tell)
    about = {"ledger": place_of(ledger), "plan": str(plan), "why": why, "dry_run": dry_run}
    deliver(Answer("publish.run", about, found, lambda console: publishing.say(console, found)), as_json=as_json)


def _saved(dataset: str, plan: Plan) -> str:
    told = {"schema": SCHEMA, "version": VERSION, "dataset": dataset, "plan": json.loads(plan.to_json())}
    return json.dumps(told, indent=1, sort_keys=True) + "\n"


def _read(path: Path) -> tuple[str, str]:
    """The dataset's name and the plan's text."""
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if (told["schema"], told["version"]) != (SCHEMA, VERSION):
            raise ValueError
        return str(told["dataset"]), json.dumps(told["plan"])
    except OSError as error:
        raise InvalidInput("plan", str(path), f"a file that can be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError):
        raise InvalidInput("plan", str(path), "a plan that 'tallystick publish plan --out' wrote") from None
