"""``tallystick compare``: one composition under every accounting method, bounds and approximations told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver, working
from tallystick.digits import typed

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tallystick.theorems.compare import Comparison


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
        out.print(f"{comparison.loss} at delta {typed(delta)}", markup=False, soft_wrap=True)
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
