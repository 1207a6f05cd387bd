"""``tallystick release``: one private number, for people who want just that.

A number they already have, or the count, mean or a quantile of a column of a CSV file in which every person has one
row. Nothing is recorded: a ledger account is the way to release more than once.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Json, console, deliver
from tallystick.digits import ACCOUNTANT, up
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
        bool, typer.Option("--dry-run", help="Say price and error; open no data, release nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Release one number, or a column's count, mean or quantile, with exactly sampled noise."""
    source = single.DataOptions(file, column, equals, lower, upper)
    plan = single.propose(what, source, epsilon, sensitivity=sensitivity, alpha=alpha, confidence=confidence)
    asked = {"what": what, "epsilon": epsilon, "column": column, "confidence": confidence, "dry_run": dry_run}
    price = float(plan.privacy.epsilon(delta=0.0))
    facts: dict[str, Any] = {"epsilon": price, "adjacency": str(plan.privacy.adjacency), "error": plan.width}
    facts["value"] = None if dry_run else plan.run()
    deliver(Answer("release", asked, facts, lambda out: _say(out, plan, facts, confidence)), as_json=as_json)
    if not dry_run:
        console(stderr=True).print("not recorded: losses add up, and an account keeps count (tallystick account open)")


def _say(out: Console, plan: single.Proposal, facts: dict[str, Any], confidence: float) -> None:
    if facts["value"] is not None:
        out.print(f"[bold]{facts['value']!r}[/bold]", soft_wrap=True)
    out.print(f"error: {plan.error} ({confidence:g} of the time)", soft_wrap=True, markup=False)
    out.print(
        f"price: epsilon {up(facts['epsilon'], ACCOUNTANT)} when one person's row is added or removed", soft_wrap=True
    )
