"""``tallystick query``: one question, priced, paid, answered."""

from __future__ import annotations

from tallystick.cli import question as ask
from tallystick.cli.commands.publish import done, say_release
from tallystick.cli.output import Answer, DryRun, Json, Place, Why, deliver, working
from tallystick.ledger.book import opened, place_of
from tallystick.publish import datasets, jobs


def query(
    dataset: ask.Name,
    measures: ask.Measures,
    why: Why,
    by: ask.By = None,
    keys: ask.Keys = None,
    private_keys: ask.PrivateKeys = None,
    where: ask.Where = None,
    rho: ask.Rho = None,
    epsilon: ask.Epsilon = None,
    delta: ask.Delta = None,
    error: ask.Error = None,
    caps_share: ask.CapsShare = None,
    caps_seen_to: ask.CapsSeenTo = None,
    key: ask.Key = None,
    out: ask.Out = None,
    card: ask.CardFile = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Ask a data set once: what 'publish plan' and 'publish run' do, in one step. Without --key it is a new release."""
    import uuid

    budget = {"rho": rho, "epsilon": epsilon, "delta": delta, "error": error}
    caps = {"caps_share": caps_share, "caps_seen_to": caps_seen_to}
    question = ask.Question(measures, by, keys, private_keys, where, budget | caps)
    jobs.check_targets(out, card, keys)
    with opened(ledger) as book, working("asking") as tell:
        registered = datasets.find(dataset, book)
        account = book.open(registered.population)
        plan = question.plan(registered.opened(account))
        job = jobs.Job(plan, account, registered, why, key or f"query-{uuid.uuid4().hex[:16]}", out, card)
        facts = done(job, tell, dry_run=dry_run)
    about = {"ledger": place_of(ledger), "dataset": dataset, "why": why, "dry_run": dry_run, **question.to_data()}
    deliver(Answer("query", about, facts, lambda console: say_release(console, facts)), as_json=as_json)
