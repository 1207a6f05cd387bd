"""``tallystick query``: one question, priced, paid, answered."""

from __future__ import annotations

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
from tallystick.cli.commands.publish import done, say_release
from tallystick.cli.output import Answer, DryRun, Json, Place, Why, deliver, working
from tallystick.ledger.book import opened, place_of
from tallystick.publish import datasets, jobs


def query(
    dataset: Name,
    measures: Measures,
    why: Why,
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
    jobs.check_targets(out, card, keys)
    with opened(ledger) as book, working("asking") as tell:
        held = datasets.find(dataset, book)
        account = book.open(held.population)
        plan = asked.plan(held.opened(account))
        job = jobs.Job(plan, account, held, why, key or f"query-{uuid.uuid4().hex[:16]}", out, card)
        found = done(job, tell, dry_run=dry_run)
    about = {"ledger": place_of(ledger), "dataset": dataset, "why": why, "dry_run": dry_run, **asked.to_data()}
    deliver(Answer("query", about, found, lambda console: say_release(console, found)), as_json=as_json)
