"""``tallystick query``: one question, priced, paid, answered."""

from __future__ import annotations

from typing import Annotated

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


def query(
    dataset: Name,
    measures: Measures,
    why: Annotated[str, typer.Option("--why", help="The reason; it is kept in the record.")],
    by: By = None,
    keys: Keys = None,
    private_keys: PrivateKeys = None,
    where: Where = None,
    rho: Rho = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    error: Error = None,
    key: Key = None,
    out: Out = None,
    card: CardFile = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Ask a dataset once: what 'publish plan' and 'publish run' do, in one step. Without --key it is a new release."""
    import uuid

    asked = Asked(
        measures, by, keys, private_keys, where, {"rho": rho, "epsilon": epsilon, "delta": delta, "error": error}
    )
    held = datasets.find(dataset, ledger)
    publishing.check_targets(out, card)
    with opened(ledger) as book, working("asking") as tell:
        account = datasets.account_of(held, book)
        plan = asked.plan(held.opened(account))
        job = publishing.Job(plan, account, held, why, key or f"query-{uuid.uuid4().hex[:16]}", out, card)
        found = publishing.dry(job) if dry_run else publishing.release(job, tell)
    about = {"ledger": place_of(ledger), "dataset": dataset, "why": why, "dry_run": dry_run, **asked.to_data()}
    deliver(Answer("query", about, found, lambda console: publishing.say(console, found)), as_json=as_json)
