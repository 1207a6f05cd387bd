"""``tallystick sql``: a statement about registered datasets: plan it, pay for it, answer it."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from tallystick.cli import question as ask
from tallystick.cli.outcomes import perform, say_answer, say_table
from tallystick.cli.output import Answer, Details, DryRun, Json, Place, Quiet, Screen, deliver, working
from tallystick.errors import InvalidInput
from tallystick.ledger.book import opened, place_of
from tallystick.publish.request import Cost, Request, price

Public = Annotated[
    list[str] | None, typer.Option("--public", metavar="NAME=FILE,...", help="A public CSV or Parquet file to join.")
]


def sql(
    statement: Annotated[str, typer.Argument(help="The SELECT statement, or - to read it from standard input.")],
    why: Annotated[str | None, typer.Option("--why", help="The reason; it is kept in the record.")] = None,
    rho: ask.Rho = None,
    epsilon: ask.Epsilon = None,
    delta: ask.Delta = None,
    pure: ask.Pure = False,
    error: ask.Error = None,
    key: ask.Key = None,
    public: Public = None,
    account: ask.Payer = None,
    explain: Annotated[bool, typer.Option("--explain", help="Cost and error only; opens no data.")] = False,
    out: ask.Out = None,
    card: ask.CardFile = None,
    together: ask.Together = False,
    dry_run: DryRun = False,
    details: Details = False,
    quiet: Quiet = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Query datasets in SQL. A statement that was asked before gives the same answer and costs nothing."""
    from tallystick.publish.catalogue import public_tables
    from tallystick.publish.export import Files
    from tallystick.publish.kinds.statement import Statement

    text = _text(statement)
    named = ask.pairs("public", public, "NAME=FILE")
    files = Files(out, card)
    files.check(*named.values())
    cost = Cost(rho, epsilon, delta, error, pure)
    asked = {"ledger": place_of(ledger), "statement": text, "why": why, "dry_run": dry_run, **cost.words}
    done = None
    screen = Screen(quiet)
    with opened(ledger) as book:
        with working("asking") as tell:
            files.check_in(book)
            request = Request(Statement(text, public_tables(named, book), account, together), cost, key, why)
            if explain:
                facts = _explained(price(request, book).to_data())
            else:
                done = perform(request, book, files, tell, dry_run=dry_run)
                facts = {"explain": False, **done.facts}
        if not dry_run and "plan" in facts:  # the statement itself says EXPLAIN
            facts = _explained(facts["plan"])
        answered = Answer("sql", asked, facts, lambda _: _say(facts, screen, details))
        deliver(answered, as_json=as_json, done=done, screen=screen)


def _text(statement: str) -> str:
    """The statement: what was typed, or standard input for "-"."""
    if statement != "-" and " " not in statement.strip() and statement.strip().lower().endswith(".sql"):
        raise InvalidInput("STATEMENT", statement, f"the statement itself, or - and the file: sql - < {statement}")
    return sys.stdin.read() if statement == "-" else statement


def _explained(offer: dict[str, Any]) -> dict[str, Any]:
    """An offer as EXPLAIN shows it."""
    names = ("price", "left", "error", "notes", "explained", "details")
    shown = {name: offer[name] for name in names}
    return {"explain": True, "plan_hash": offer["hash"], "again": offer["again"] is not None, **shown}


def _say(facts: dict[str, Any], screen: Screen, details: bool) -> None:
    if not facts["explain"]:
        say_answer(facts, screen, lambda: say_table(facts, screen, details=details))
        return
    screen.result(facts["explained"].splitlines())
    screen.note(["", *facts["details"]] if details else [])
