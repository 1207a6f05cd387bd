"""``tallystick release``: one private number, for people who want just that.

A number they already have, or the count, mean or a quantile of a column of a CSV file in which every person has one
row. Nothing is recorded: a ledger account is the way to release more than once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli import columns
from tallystick.cli.output import Answer, Json, console, deliver
from tallystick.errors import InvalidInput
from tallystick.printing import nearest, up

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick import PrivacyLoss

COUNT, MEAN, QUANTILE = "count", "mean", "quantile"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a release would cost and how wrong it would be, before any data is read; ``run`` reads and releases."""

    privacy: PrivacyLoss
    error: str
    width: float | None
    run: Callable[[], float]


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
    source = DataOptions(file, column, equals, lower, upper)
    if what == COUNT:
        plan = _count(source, epsilon, confidence)
    elif what == MEAN:
        plan = _mean(source, epsilon, confidence)
    elif what == QUANTILE:
        plan = _quantile(source, epsilon, alpha, confidence)
    else:
        plan = _number(what, epsilon, sensitivity, confidence)
    asked = {"what": what, "epsilon": epsilon, "column": column, "confidence": confidence, "dry_run": dry_run}
    price = float(plan.privacy.epsilon(delta=0.0))
    facts: dict[str, Any] = {"epsilon": price, "adjacency": str(plan.privacy.adjacency), "error": plan.width}
    facts["value"] = None if dry_run else plan.run()
    deliver(Answer("release", asked, facts, lambda out: _say(out, plan, facts, confidence)), as_json=as_json)
    if not dry_run:
        console(stderr=True).print("not recorded: losses add up, and an account keeps count (tallystick account open)")


def _say(out: Console, plan: Proposal, facts: dict[str, Any], confidence: float) -> None:
    if facts["value"] is not None:
        out.print(f"[bold]{facts['value']!r}[/bold]", soft_wrap=True)
    out.print(f"error: {plan.error} ({confidence:g} of the time)", soft_wrap=True, markup=False)
    out.print(f"price: epsilon {up(facts['epsilon'])} when one person's row is added or removed", soft_wrap=True)


@dataclass(frozen=True, slots=True)
class DataOptions:
    """The options that say where data are and what is public about them."""

    file: Path | None
    column: str | None
    equals: str | None
    lower: float | None
    upper: float | None

    def path(self) -> Path:
        if self.file is None:
            raise InvalidInput("--file", None, "the CSV file to read")
        return self.file

    def named(self) -> str:
        if self.column is None:
            raise InvalidInput("--column", None, "the name of the column to read")
        return self.column

    def bounds(self) -> tuple[float, float]:
        if self.lower is None or self.upper is None:
            raise InvalidInput(
                "--lower", None, "--lower and --upper: public bounds, chosen without looking at the data"
            )
        return self.lower, self.upper


def _number(text: str, epsilon: float, sensitivity: float | None, confidence: float) -> Proposal:
    from tallystick.mechanisms import noise

    try:
        value = float(text)
    except ValueError:
        raise InvalidInput("what", text, f"a number, or one of {COUNT}, {MEAN}, {QUANTILE}") from None
    if sensitivity is None:
        raise InvalidInput("--sensitivity", None, "the most one person can change the number")
    mechanism = noise.add_laplace(epsilon=epsilon, sensitivity=sensitivity)
    mechanism.prepare(value, strict=True)
    width = mechanism.error(confidence=confidence)
    return Proposal(mechanism.privacy, f"within {nearest(width)}", width, lambda: _float(mechanism.release(value)))


def _count(source: DataOptions, epsilon: float, confidence: float) -> Proposal:
    from tallystick.mechanisms import noise

    path = source.path()
    if source.equals is not None:
        source.named()
    mechanism = noise.add_discrete_laplace(epsilon=epsilon, sensitivity=1)
    width = float(mechanism.error(confidence=confidence))

    def run() -> float:
        return int(_float(mechanism.release(columns.rows_matching(path, source.column, source.equals))))

    return Proposal(mechanism.privacy, f"within {nearest(width)} rows", width, run)


def _mean(source: DataOptions, epsilon: float, confidence: float) -> Proposal:
    """Noisy sum of distances from the middle of the bounds, over a noisy count; half of epsilon each."""
    from tallystick.mechanisms import noise

    path, column, (low, high) = source.path(), source.named(), source.bounds()
    middle, reach = (low + high) / 2, (high - low) / 2
    size = noise.add_discrete_laplace(epsilon=epsilon / 2, sensitivity=1)
    total = noise.add_laplace(epsilon=epsilon / 2, sensitivity=noise.sensitivity_of("sum", lower=-reach, upper=reach))

    def run() -> float:
        centred = [number - middle for number in columns.numbers(path, column)]
        away = _float(total.release(noise.exact_sum(centred, lower=-reach, upper=reach)))
        count = max(_float(size.release(len(centred))), 1.0)
        return min(max(middle + away / count, low), high)

    width = float(total.error(confidence=confidence))
    words = f"the sum of the column is within {nearest(width)}, so the mean within that over the number of rows"
    return Proposal(total.privacy + size.privacy, words, width, run)


def _quantile(source: DataOptions, epsilon: float, alpha: float, confidence: float) -> Proposal:
    from tallystick.mechanisms import select

    path, column = source.path(), source.named()
    mechanism = select.quantile(alpha=alpha, epsilon=epsilon, bounds=source.bounds())
    width = mechanism.error(confidence=confidence)
    words = f"the rank is within {nearest(width)} rows"
    return Proposal(mechanism.privacy, words, width, lambda: _float(mechanism.release(columns.numbers(path, column))))


def _float(value: Any) -> float:
    return float(value)
