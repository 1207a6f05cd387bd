"""``tallystick epsilon`` and ``tallystick delta``: the two read-outs of a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver
from tallystick.printing import down, given, up

if TYPE_CHECKING:
    from rich.console import Console

BoundsFlag = Annotated[bool, typer.Option("--bounds", help="Also print the certified lower bound.")]
RigorousFlag = Annotated[
    bool, typer.Option("--rigorous", help="Prove both ends by interval arithmetic; needs tallystick[rigorous].")
]


def epsilon(
    expression: Expression,
    delta: Annotated[float, typer.Option("--delta", help="The probability left out of the promise, in [0, 1].")],
    bounds: BoundsFlag = False,
    rigorous: RigorousFlag = False,
    as_json: Json = False,
) -> None:
    """The smallest epsilon certified at a delta; never below the truth."""
    _read("epsilon", expression, {"delta": delta}, f"at delta {given(delta)}", bounds, rigorous, as_json=as_json)


def delta(
    expression: Expression,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The epsilon at which delta is wanted, at least 0.")],
    bounds: BoundsFlag = False,
    rigorous: RigorousFlag = False,
    as_json: Json = False,
) -> None:
    """The smallest delta certified at an epsilon; never below the truth."""
    _read("delta", expression, {"epsilon": epsilon}, f"at epsilon {given(epsilon)}", bounds, rigorous, as_json=as_json)


def _read(
    name: str, expression: str, at: dict[str, float], where: str, bounds: bool, rigorous: bool, *, as_json: bool
) -> None:
    from tallystick.accounting.expression import read_loss

    loss = read_loss(expression)
    facts: dict[str, float]
    if bounds or rigorous:
        enclosure = getattr(loss, f"{name}_bounds")(**at, rigorous=rigorous)
        facts = {name: enclosure.upper, "lower": enclosure.lower, "upper": enclosure.upper}
    else:
        facts = {name: getattr(loss, name)(**at)}

    def say(out: Console) -> None:
        out.print(f"{name} [bold]{up(facts[name])}[/bold] {where}", soft_wrap=True)
        if "lower" in facts:
            out.print(f"certified: the truth is between {down(facts['lower'])} and {up(facts['upper'])}")

    deliver(Answer(name, {"expression": expression, **at}, facts, say), as_json=as_json)
