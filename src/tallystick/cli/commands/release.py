"""``tallystick release``: one private number, for people who want just that.

A number they already have, or the count, mean or a quantile of a column of a CSV file in which every person has one
row. Nothing is recorded: a ledger account is the way to release more than once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Json, console, deliver
from tallystick.digits import ACCOUNTANT, nearest, up, with_error
from tallystick.publish import single

if TYPE_CHECKING:
    from rich.console import Console


def release(
    what: Annotated[
        str, typer.Argument(metavar="NUMBER|count|mean|quantile", help="A number, or a statistic of a CSV file.")
    ],
    epsilon: Annotated[float, typer.Option("--epsilon", help="The pure epsilon to spend.")],
    sensitivity: Annotated[
        float | None, typer.Option("--sensitivity", help="NUMBER: the most one person can change it.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="The CSV file, one row per person.")] = None,
    column: Annotated[str | None, typer.Option("--column", help="The column, by its name in the first row.")] = None,
    equals: Annotated[str | None, typer.Option("--equals", help="count: only rows with this text there.")] = None,
    lower: Annotated[float | None, typer.Option("--lower", help="mean, quantile: public lower bound.")] = None,
    upper: Annotated[float | None, typer.Option("--upper", help="mean, quantile: public upper bound.")] = None,
    alpha: Annotated[float, typer.Option("--alpha", help="quantile: which one; 0.5 is the median.")] = 0.5,
    confidence: Annotated[float, typer.Option("--confidence", help="Confidence of the error that is printed.")] = 0.95,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print cost and error. No data is read and nothing is released.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Add noise to one number, or publish the count, mean or a quantile of a column. Nothing is recorded."""
    source = single.DataOptions(file, column, equals, lower, upper)
    plan = single.propose(what, source, epsilon, sensitivity=sensitivity, alpha=alpha, confidence=confidence)
    asked = {"what": what, "epsilon": epsilon, "column": column, "confidence": confidence, "dry_run": dry_run}
    price = float(plan.privacy.epsilon(delta=0.0))
    facts: dict[str, Any] = {"epsilon": price, "adjacency": str(plan.privacy.adjacency), "error": plan.width}
    facts["value"] = None if dry_run else plan.run()
    deliver(Answer("release", asked, facts, lambda out: _say(out, plan, facts, confidence)), as_json=as_json)
    if not dry_run:
        console(stderr=True).print("Not recorded. An account keeps count of several releases: tallystick account open")


def _say(out: Console, plan: single.Proposal, facts: dict[str, Any], confidence: float) -> None:
    price = f"epsilon {up(facts['epsilon'], ACCOUNTANT)}, if one person's row is added or removed"
    often = f"{nearest(100 * confidence)} times in 100"
    if facts["value"] is None:
        out.print(f"Error  {plan.error}, {often}", soft_wrap=True, markup=False, highlight=False)
    elif facts["error"] is None:
        out.print(f"[bold]{nearest(facts['value'], ACCOUNTANT)}[/bold]", soft_wrap=True, highlight=False)
        out.print(f"Error  {plan.error}, {often}", soft_wrap=True, markup=False, highlight=False)
    else:
        shown = with_error(facts["value"], facts["error"])
        out.print(f"[bold]{shown}[/bold] ({often})", soft_wrap=True, highlight=False)
    out.print(f"Cost   {price}", soft_wrap=True, highlight=False)
