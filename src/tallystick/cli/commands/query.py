"""``tallystick query``: one question: plan it, pay for it, answer it."""

from __future__ import annotations

from tallystick.cli import question as ask
from tallystick.cli.outcomes import perform, say_release
from tallystick.cli.output import Answer, Details, DryRun, Json, Place, Quiet, Screen, Why, deliver, working
from tallystick.ledger.book import opened, place_of
from tallystick.publish import datasets
from tallystick.publish.request import Request


def query(
    dataset: ask.Name,
    measures: ask.Measures,
    why: Why,
    by: ask.By = None,
    keys: ask.Keys = None,
    private_keys: ask.PrivateKeys = None,
    where: ask.Where = None,
    derive: ask.Derive = None,
    join: ask.Join = None,
    other: ask.Other = None,
    rho: ask.Rho = None,
    epsilon: ask.Epsilon = None,
    delta: ask.Delta = None,
    pure: ask.Pure = False,
    error: ask.Error = None,
    caps_share: ask.CapsShare = None,
    caps_seen_to: ask.CapsSeenTo = None,
    key: ask.Key = None,
    out: ask.Out = None,
    card: ask.CardFile = None,
    account: ask.Payer = None,
    source: ask.Moved = None,
    together: ask.Together = False,
    dry_run: DryRun = False,
    details: Details = False,
    quiet: Quiet = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Query a dataset: 'publish plan' and 'publish run' in one step. Without --key it is a new release."""
    from tallystick.publish.export import Files
    from tallystick.publish.kinds.question import Question
    from tallystick.tables.sql.written import statement_of

    budget = {"rho": rho, "epsilon": epsilon, "delta": delta, "error": error, "pure": pure or None}
    caps = {"caps_share": caps_share, "caps_seen_to": caps_seen_to}
    question = ask.TableOptions(measures, by, keys, private_keys, where, budget | caps, derive, join, other)
    files = Files(out, card)
    files.check(keys)
    about = {"ledger": place_of(ledger), "dataset": dataset, "why": why, "dry_run": dry_run, **question.to_data()}
    with opened(ledger) as book:
        with working("asking") as tell:
            registered = datasets.find(dataset, book)
            (plan,) = question.plans(registered.opened(datasets.payer(registered, book, account)), registered)
            files.check_in(book, source)
            what = Question.of(dataset, plan, account=account, source=source, is_new=True, all_groups=together)
            in_sql = statement_of(plan.query, dataset)
            done = perform(Request(what, key=key, why=why), book, files, tell, dry_run=dry_run)
        facts = {**done.facts, "sql": in_sql}
        more = ["", f"In SQL: {in_sql}"]
        screen = Screen(quiet)
        made = Answer("query", about, facts, lambda _: say_release(facts, screen, details=details, more=more))
        deliver(made, as_json=as_json, done=done, screen=screen)
