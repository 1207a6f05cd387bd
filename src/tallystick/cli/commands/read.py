"""``tallystick epsilon`` and ``tallystick delta``: the two read-outs of a loss."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver, working
from tallystick.digits import ACCOUNTANT, down, typed, up
from tallystick.errors import TallystickError

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick import PrivacyLoss

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
    _read("epsilon", expression, {"delta": delta}, f"at delta {typed(delta)}", bounds, rigorous, as_json=as_json)


def delta(
    expression: Expression,
    epsilon: Annotated[float, typer.Option("--epsilon", help="The epsilon at which delta is wanted, at least 0.")],
    bounds: BoundsFlag = False,
    rigorous: RigorousFlag = False,
    as_json: Json = False,
) -> None:
    """The smallest delta certified at an epsilon; never below the truth."""
    _read("delta", expression, {"epsilon": epsilon}, f"at epsilon {typed(epsilon)}", bounds, rigorous, as_json=as_json)


def _read(
    name: str, expression: str, at: dict[str, float], where: str, bounds: bool, rigorous: bool, *, as_json: bool
) -> None:
    from tallystick.accounting.expression import as_typed, read_loss

    loss = read_loss(expression)
    facts: dict[str, Any]
    with working("asking the accountant"):
        if bounds or rigorous:
            enclosure = getattr(loss, f"{name}_bounds")(**at, rigorous=rigorous)
            facts = {name: enclosure.upper, "lower": enclosure.lower, "upper": enclosure.upper, "rigorous": rigorous}
        else:
            facts = {name: getattr(loss, name)(**at)}
        hint = cut_at_random(loss, at["delta"]) if name == "epsilon" and math.isinf(facts[name]) else None
    if hint is not None:
        facts["hint"] = hint

    def say(out: Console) -> None:
        shown = as_typed(facts[name], expression)
        out.print(f"{name} [bold]{shown}[/bold] {where}", soft_wrap=True)
        if "lower" in facts:
            how = "proved by interval arithmetic" if rigorous else "certified"
            article = "an" if name == "epsilon" else "a"
            ends = f"{down(facts['lower'], ACCOUNTANT)} and {up(facts['upper'], ACCOUNTANT)}"
            out.print(f"{how}: this loss has {article} {name} between {ends}", soft_wrap=True)
        if hint is not None:
            out.print(hint, soft_wrap=True, markup=False)

    deliver(Answer(name, {"expression": expression, **at}, facts, say), as_json=as_json)


def cut_at_random(loss: PrivacyLoss, delta: float) -> str | None:
    """A line for an infinite epsilon that cut="random" makes finite: ``cut="anyhow"`` allows any rule.

    >>> from tallystick.accounting.expression import read_loss
    >>> loss = read_loss("9 * gaussian(sigma=2).sampled(rate=0.5, largest=6, population=9, cut='anyhow')")
    >>> print(cut_at_random(loss, 1e-5))
    cut="random" is finite, epsilon ..., where batches are cut at random and population= is the size of the data; ...
    >>> cut_at_random(read_loss("gaussian(sigma=1)"), 0.0) is None
    True
    """
    from tallystick.accounting.loss import PrivacyLoss

    record = json.loads(loss.to_json())
    other = _random_cuts(record)
    if other == record:
        return None
    try:
        epsilon = PrivacyLoss.from_json(json.dumps(other)).epsilon(delta=delta)
    except TallystickError:
        return None  # not everything that may be cut anyhow may be cut at random
    if math.isinf(epsilon):
        return None
    return (
        f'cut="random" is finite, epsilon {up(epsilon, ACCOUNTANT)}, where batches are cut at random and population= '
        'is the size of the data; cut="anyhow" allows any rule, also one that gives a unit away'
    )


def _random_cuts(part: Any) -> Any:
    """The record of a loss with every batch that was cut anyhow cut at random."""
    if isinstance(part, list):
        return [_random_cuts(each) for each in part]
    if not isinstance(part, dict):
        return part
    inner = {name: _random_cuts(each) for name, each in part.items()}
    return {**inner, "kind": "cut", "random": True} if part.get("kind") == "truncated" else inner
