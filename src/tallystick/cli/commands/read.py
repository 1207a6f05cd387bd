"""``tallystick epsilon`` and ``tallystick delta``: the two read-outs of a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

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
    from tallystick.accounting.expression import read_loss

    loss = read_loss(expression)
    found: dict[str, Any]
    if bounds or rigorous:
        enclosure = loss.epsilon_bounds(delta=delta, rigorous=rigorous)
        found = {"epsilon": enclosure.upper, "lower": enclosure.lower, "upper": enclosure.upper}
    else:
        found = {"epsilon": loss.epsilon(delta=delta)}
    _answer("epsilon", {"expression": expression, "delta": delta}, found, f"at delta {given(delta)}", as_json=as_json)


def delta(
    expression: Expression,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The epsilon at which delta is wanted, at least 0.")],
    bounds: BoundsFlag = False,
    rigorous: RigorousFlag = False,
    as_json: Json = False,
) -> None:
    """The smallest delta certified at an epsilon; never below the truth."""
    from tallystick.accounting.expression import read_loss

    loss = read_loss(expression)
    found: dict[str, Any]
    if bounds or rigorous:
        enclosure = loss.delta_bounds(epsilon=epsilon, rigorous=rigorous)
        found = {"delta": enclosure.upper, "lower": enclosure.lower, "upper": enclosure.upper}
    else:
        found = {"delta": loss.delta(epsilon=epsilon)}
    _answer("delta", {"expression": expression, "epsilon": epsilon}, found, f"at epsilon {epsilon:g}", as_json=as_json)


def _answer(name: str, asked: dict[str, Any], found: dict[str, Any], where: str, *, as_json: bool) -> None:
    def say(out: Console) -> None:
        out.print(f"{name} [bold]{up(found[name])}[/bold] {where}", soft_wrap=True)
        if "lower" in found:
            out.print(f"certified: the truth is between {down(found['lower'])} and {up(found['upper'])}")

    deliver(Answer(name, asked, found, say), as_json=as_json)
