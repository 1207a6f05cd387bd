"""``tallystick compare``: one composition under every accounting method, with bounds and approximations marked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver, working
from tallystick.digits import typed

if TYPE_CHECKING:
    from rich.console import Console


def compare(
    expression: Expression,
    delta: Annotated[float, typer.Option("--delta", help="Delta of the guarantee, for example 1e-6.")],
    details: Annotated[bool, typer.Option("--details", help="Say how each method found its value.")] = False,
    as_json: Json = False,
) -> None:
    """Compare accounting methods: the epsilon of each, best first, and its distance from the true value."""
    import tallystick as ts
    from tallystick.accounting.expression import read_loss

    loss = read_loss(expression)
    with working("asking every accountant"):
        comparison = ts.compare(loss, delta=delta)

    def say(out: Console) -> None:
        out.print(f"Epsilon at delta {typed(delta)} of {expression}", markup=False, soft_wrap=True, highlight=False)
        for line in (*comparison.lines(), *(comparison.notes() if details else ["", "How: --details"])):
            out.print(line, markup=False, soft_wrap=True, highlight=False)

    asked = {"expression": expression, "delta": delta}
    deliver(Answer("compare", asked, comparison.to_dict(), say), as_json=as_json)
