"""``tallystick sql``: a statement about registered data sets, priced, paid, answered."""

from __future__ import annotations

import datetime
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import question as ask
from tallystick.cli.commands.publish import interruptible, table
from tallystick.cli.output import Answer, Json, Place, deliver, working
from tallystick.ledger.book import opened, place_of
from tallystick.publish import jobs

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.tables.sql.answer import Answered, Explained

Public = Annotated[
    list[str] | None, typer.Option("--public", metavar="NAME=FILE", help="A public CSV file to join; repeatable.")
]


def sql(
    statement: Annotated[str, typer.Argument(help="The SELECT statement, or - to read it from standard input.")],
    why: Annotated[str | None, typer.Option("--why", help="The reason; it is kept in the record.")] = None,
    rho: ask.Rho = None,
    epsilon: ask.Epsilon = None,
    delta: ask.Delta = None,
    error: ask.Error = None,
    key: ask.Key = None,
    public: Public = None,
    explain: Annotated[bool, typer.Option("--explain", help="Price and error only; opens no data.")] = False,
    out: ask.Out = None,
    ledger: Place = None,
    as_json: Json = False,
) -> None:
    """Ask data sets in SQL. A statement that was asked before gives the same answer again and costs nothing."""
    from tallystick.publish.sql import sql as asked
    from tallystick.tables.keyset import read_public
    from tallystick.tables.sql.answer import Explained

    text = sys.stdin.read() if statement == "-" else statement
    files = ask.pairs("--public", public, "NAME=FILE")
    jobs.check_targets(out, None, *files.values())
    price = {"rho": rho, "epsilon": epsilon, "delta": delta, "error": error}
    with opened(ledger) as book, working("asking") as tell:
        jobs.check_targets(out, None, *jobs.in_use(book))
        rows = {name: read_public(path) for name, path in files.items()}
        answer = interruptible(
            lambda: asked(text, ledger=book, why=why, key=key, public=rows, explain=explain, progress=tell, **price)
        )
    if isinstance(answer, Explained):
        facts = _explained(answer)
    else:
        facts = _answered(answer)
        if out is not None:
            written = answer.to_json() + "\n" if out.suffix.lower() == ".json" else answer.to_csv()
            facts["out"] = str(jobs.write(out, written))
    about = {
        "ledger": place_of(ledger),
        "statement": text,
        "why": why,
        **{k: v for k, v in price.items() if v is not None},
    }
    deliver(Answer("sql", about, facts, lambda console: _say(console, answer, facts)), as_json=as_json)


def _explained(answer: Explained) -> dict[str, Any]:
    plan = answer.plan
    return {
        "explain": True,
        "plan_hash": plan.hash,
        "price": answer.paid,
        "left": answer.left,
        "error": plan.error(),
        "notes": list(answer.statement.notes),
    }


def _answered(answer: Answered) -> dict[str, Any]:
    receipt = answer.release.receipt
    assert receipt is not None
    rows = [[v.isoformat() if isinstance(v, datetime.date) else v for v in row.values()] for row in answer.rows]
    return {
        "explain": False,
        "plan_hash": answer.release.plan.hash,
        "columns": list(answer.columns),
        "rows": rows,
        "notes": list(answer.notes),
        "price": answer.paid,
        "left": answer.left,
        "again": not answer.fresh,
        "charge": receipt.charge,
        "head": receipt.head,
    }


def _say(console: Console, answer: Answered | Explained, facts: dict[str, Any]) -> None:
    if facts["explain"]:
        console.print(str(answer), soft_wrap=True, markup=False)
        return
    if "out" not in facts:
        console.print(table(facts["columns"], facts["rows"]))
    for line in (*facts["notes"], answer.cost, *([facts["out"]] if "out" in facts else [])):  # type: ignore[union-attr]
        console.print(line, soft_wrap=True, markup=False)
