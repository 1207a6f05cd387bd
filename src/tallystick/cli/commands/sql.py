"""``tallystick sql``: a statement about registered data sets, priced, paid, answered."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import question as ask
from tallystick.cli.commands.publish import interruptible, say_done, table
from tallystick.cli.output import Answer, DryRun, Json, Place, deliver, working
from tallystick.errors import InvalidInput
from tallystick.ledger.book import opened, place_of
from tallystick.publish import jobs

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.tables.sql.answer import Answered, Explained

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
    explain: Annotated[bool, typer.Option("--explain", help="Price and error only; opens no data.")] = False,
    out: ask.Out = None,
    card: ask.CardFile = None,
    dry_run: DryRun = False,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Ask data sets in SQL. A statement that was asked before gives the same answer again and costs nothing."""
    from tallystick.publish.sql import catalogue
    from tallystick.publish.sql import sql as asked
    from tallystick.tables.sql.statement import planned

    text = _text(statement)
    files = ask.pairs("--public", public, "NAME=FILE")
    jobs.check_targets(out, card, *files.values())
    price: dict[str, Any] = {"rho": rho, "epsilon": epsilon, "delta": delta, "error": error, "pure": pure or None}
    answer: Answered | Explained | None = None
    with opened(ledger) as book, working("asking") as tell:
        jobs.check_targets(out, card, *jobs.in_use(book))
        if dry_run and not explain:
            planned_now = planned(text, catalogue(book, files), **price)
            facts = {"explain": False, **jobs.dry_statement(planned_now, book, why=why, key=key, out=out)}
        else:
            answer = interruptible(
                lambda: asked(
                    text, ledger=book, why=why, key=key, public=files, explain=explain, progress=tell, **price
                )
            )
            facts = _facts(answer, out, card)
    asked_for = {"ledger": place_of(ledger), "statement": text, "why": why, "dry_run": dry_run}
    about = {**asked_for, **{k: v for k, v in price.items() if v is not None}}
    deliver(Answer("sql", about, facts, lambda console: _say(console, answer, facts)), as_json=as_json)


def _text(statement: str) -> str:
    """The statement: what was typed, or standard input for "-"."""
    if statement != "-" and " " not in statement.strip() and statement.strip().lower().endswith(".sql"):
        raise InvalidInput("STATEMENT", statement, f"the statement itself, or - and the file: sql - < {statement}")
    return sys.stdin.read() if statement == "-" else statement


def _facts(answer: Answered | Explained, out: Path | None, card: Path | None) -> dict[str, Any]:
    """What was found, and where it was written."""
    from tallystick.tables.sql.answer import Explained

    if isinstance(answer, Explained):
        return _explained(answer)
    facts = _answered(answer) | ({} if out is None else jobs.write_table(out, answer))
    if card is not None:
        from tallystick import cards

        facts["card"] = str(cards.card(answer).save(card)[0])
    return facts


def _explained(answer: Explained) -> dict[str, Any]:
    plan = answer.plan
    return {
        "explain": True,
        "plan_hash": plan.hash,
        "price": answer.paid,
        "left": answer.left,
        "again": answer.before is not None,
        "error": plan.error(),
        "notes": list(answer.statement.notes),
    }


def _answered(answer: Answered) -> dict[str, Any]:
    receipt, account = answer.release.receipt, answer.release.plan.account
    assert receipt is not None
    assert account is not None
    rows = [[v.isoformat() if isinstance(v, datetime.date) else v for v in row.values()] for row in answer.rows]
    return {
        "explain": False,
        "dry_run": False,
        "plan_hash": answer.release.plan.hash,
        "columns": list(answer.columns),
        "groups": list(answer.groups),
        "counts": list(answer.counts),
        "rows": rows,
        "notes": list(answer.notes),
        "removed": [each.to_data() for each in answer.removed()],
        **jobs.paid_facts(account, receipt, answer.release.plan.privacy, fresh=answer.fresh),
    }


def _say(console: Console, answer: Answered | Explained | None, facts: dict[str, Any]) -> None:
    if facts["explain"]:
        console.print(str(answer), soft_wrap=True, markup=False)
        return

    def say_table() -> None:
        if "out" not in facts:
            console.print(table(facts["columns"], facts["rows"], facts["groups"], facts["counts"]))
        for line in facts["notes"]:
            console.print(line, soft_wrap=True, markup=False)

    say_done(console, facts, say_table, same="asked before")
