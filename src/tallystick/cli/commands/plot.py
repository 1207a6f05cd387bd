"""``tallystick plot``: a picture of a loss in a file."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver, working

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallystick import PrivacyLoss


class Picture(StrEnum):
    """Which picture."""

    tradeoff = "tradeoff"
    profile = "profile"
    steps = "steps"
    positions = "positions"


def plot(
    expression: Expression,
    out: Annotated[Path, typer.Option("--out", help="Where to write it; the ending .svg or .png chooses the format.")],
    kind: Annotated[
        Picture,
        typer.Option(
            "--kind",
            help="What an attacker can do; delta against epsilon; epsilon against steps by every method; or, of a "
            "last_iterate in batches, epsilon against the record's batch.",
        ),
    ] = Picture.tradeoff,
    delta: Annotated[
        float, typer.Option("--delta", help="All but tradeoff: the delta whose epsilon is written out.")
    ] = 1e-5,
    field: Annotated[str | None, typer.Option("--field", help="Of a table: which column (default: the first).")] = None,
    as_json: Json = False,
) -> None:
    """Draw a loss (trade-off, profile, epsilon against steps), or a released table (a file) with its intervals."""
    from tallystick.accounting import check
    from tallystick.accounting.expression import read_loss
    from tallystick.plots import released, save
    from tallystick.plots.released import ENDINGS, read_table

    if expression.lower().endswith(ENDINGS):
        written = save(released(read_table(expression), field), out)
        told = {"file": str(written), "kind": "released"}
        line = str(written)
        asked_for = {"table": expression, "field": field}
        deliver(Answer("plot", asked_for, told, lambda console: console.print(line, markup=False)), as_json=as_json)
        return
    loss = read_loss(expression)
    check.probability("delta", delta)
    with working("drawing"):
        written = save(_figure(loss, kind, delta), out)
    facts = {"file": str(written), "kind": kind.value}
    asked = {"expression": expression, "kind": kind.value, "delta": delta}
    answer = Answer("plot", asked, facts, lambda console: console.print(str(written), soft_wrap=True, markup=False))
    deliver(answer, as_json=as_json)


def _figure(loss: PrivacyLoss, kind: Picture, delta: float) -> Figure:
    from tallystick import plots
    from tallystick.accounting.leaves.last_iterate import iteration_of
    from tallystick.errors import InvalidInput
    from tallystick.plots.steps import curves_of

    if kind is Picture.tradeoff:
        return plots.tradeoff(loss)
    if kind is Picture.profile:
        return plots.profile(loss, mark=delta)
    if kind is Picture.positions:
        iteration = iteration_of(loss)
        if iteration is None:
            raise InvalidInput("kind", kind.value, "a loss that last_iterate(...) made, with its batches")
        epsilons = [float(each.epsilon(delta=delta)) for each in iteration.positions()]
        every = float(iteration.every(iteration.passes).epsilon(delta=delta))
        return plots.positions(epsilons, every=every, delta=delta)
    return plots.steps(curves_of(loss, delta=delta), delta=delta)
