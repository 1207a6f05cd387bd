"""``tallystick compare``: one composition under every accounting method, bounds and approximations told apart."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver, working
from tallystick.printing import given

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tallystick import PrivacyLoss
    from tallystick.plots import Curve
    from tallystick.theorems.compare import Comparison

POINTS = 9
REPEATS = 100


def compare(
    expression: Expression,
    delta: Annotated[float, typer.Option("--delta", help="The delta at which every method is read.")],
    as_json: Json = False,
) -> None:
    """One composition under every method: which epsilon, and is it a bound or an approximation?"""
    import tallystick as ts
    from tallystick.accounting.expression import read_loss

    loss = read_loss(expression)
    with working("asking every accountant"):
        comparison = ts.compare(loss, delta=delta)

    def say(out: Console) -> None:
        out.print(f"{comparison.loss} at delta {given(delta)}", markup=False, soft_wrap=True)
        if comparison.about:
            out.print(comparison.about, markup=False, soft_wrap=True)
        out.print(table_of(comparison))

    asked = {"expression": expression, "delta": delta}
    deliver(Answer("compare", asked, comparison.to_dict(), say), as_json=as_json)


def table_of(comparison: Comparison) -> Table:
    """The rows for a person; bounds are printed rounded up."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method")
    table.add_column("epsilon", justify="right")
    table.add_column("")
    table.add_column("how")
    for row in comparison:
        shown = row.shown
        table.add_row(row.method, shown, str(row.kind), row.note, style="bold" if row is comparison.rows[-1] else None)
    return table


def curves_of(loss: PrivacyLoss, *, delta: float, points: int = POINTS) -> list[Curve]:
    """Epsilon against steps by every method, from one step to the whole loss.

    A step is the loss with its counts divided by what they have in common; a loss that cannot be divided is repeated.
    Of an iteration a step is a pass, every iterate is released, and the last iterate alone is one more line.
    """
    from tallystick.accounting.leaves.last_iterate import iteration_of
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.plots import Curve
    from tallystick.theorems.compare import Kind, epsilon_against_steps, last_iterate_against_steps

    iteration = iteration_of(loss)
    if iteration is not None:
        loss = iteration.every(iteration.passes)
    shared = math.gcd(*(count for _, count in loss.terms)) if loss.terms else 1
    one = PrivacyLoss(tuple((leaf, count // shared) for leaf, count in loss.terms), loss.protects, loss.group)
    most = shared if shared > 1 else REPEATS
    ladder = sorted({round(most ** (i / (points - 1))) for i in range(points)})
    curves = list(epsilon_against_steps(one, delta=delta, steps=ladder))
    if iteration is not None:
        curves.append(last_iterate_against_steps(iteration, delta=delta, passes=ladder))
    return [
        Curve(
            curve.method,
            curve.steps,
            tuple(math.inf if epsilon is None else epsilon for epsilon in curve.epsilons),
            is_bound=curve.kind is not Kind.APPROXIMATION,
        )
        for curve in curves
    ]
