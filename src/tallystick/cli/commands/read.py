"""``tallystick epsilon`` and ``tallystick delta``: the two values of a privacy loss."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Expression, Json, Quiet, deliver, working
from tallystick.digits import ACCOUNTANT, down, typed, up
from tallystick.errors import TallystickError

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick import PrivacyLoss

BoundsFlag = Annotated[bool, typer.Option("--bounds", help="Print the certified lower bound, too.")]
RigorousFlag = Annotated[
    bool, typer.Option("--rigorous", help="Prove both bounds by interval arithmetic; needs tallystick[rigorous].")
]


def epsilon(
    expression: Expression,
    delta: Annotated[float, typer.Option("--delta", help="Delta of the guarantee, for example 1e-6.")],
    bounds: BoundsFlag = False,
    rigorous: RigorousFlag = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compute the smallest certified epsilon at a delta. It is never below the true value."""
    value = Value("epsilon", expression, {"delta": delta}, f"at delta {typed(delta)}")
    value.deliver(bounds=bounds, rigorous=rigorous, quiet=quiet, as_json=as_json)


def delta(
    expression: Expression,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Epsilon of the guarantee, at least 0.")],
    bounds: BoundsFlag = False,
    rigorous: RigorousFlag = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compute the smallest certified delta at an epsilon. It is never below the true value."""
    value = Value("delta", expression, {"epsilon": epsilon}, f"at epsilon {typed(epsilon)}")
    value.deliver(bounds=bounds, rigorous=rigorous, quiet=quiet, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Value:
    """An epsilon or a delta of an expression: its name, and at which delta or epsilon."""

    name: str
    expression: str
    at: dict[str, float]
    where: str

    def deliver(self, *, bounds: bool, rigorous: bool, quiet: bool, as_json: bool) -> None:
        """Compute the value and print it."""
        facts = self._facts(bounds=bounds or rigorous, rigorous=rigorous)
        asked = {"expression": self.expression, **self.at}
        answer = Answer(self.name, asked, facts, lambda out: self._say(out, facts, quiet=quiet))
        deliver(answer, as_json=as_json)

    def _facts(self, *, bounds: bool, rigorous: bool) -> dict[str, Any]:
        from tallystick.accounting.expression import read_loss

        loss, name = read_loss(self.expression), self.name
        facts: dict[str, Any]
        with working("asking the accountant"):
            if bounds:
                enclosure = getattr(loss, f"{name}_bounds")(**self.at, rigorous=rigorous)
                ends = {"lower": enclosure.lower, "upper": enclosure.upper}
                facts = {name: enclosure.upper, **ends, "rigorous": rigorous}
            else:
                facts = {name: getattr(loss, name)(**self.at)}
            is_infinite = name == "epsilon" and math.isinf(facts[name])
            hint = cut_at_random(loss, self.at["delta"]) if is_infinite else None
        return facts if hint is None else {**facts, "hint": hint}

    def _say(self, out: Console, facts: dict[str, Any], *, quiet: bool) -> None:
        from tallystick.accounting.expression import as_typed, read_loss
        from tallystick.cards.meaning import Whom

        shown = as_typed(facts[self.name], self.expression)
        if quiet:
            out.print(shown, soft_wrap=True, highlight=False)
            return
        out.print(f"{self.name} [bold]{shown}[/bold] {self.where}", soft_wrap=True)
        if "lower" in facts:
            how = "proved by interval arithmetic to be" if facts["rigorous"] else "certified"
            ends = f"{down(facts['lower'], ACCOUNTANT)} and {up(facts['upper'], ACCOUNTANT)}"
            about = Whom.of(read_loss(self.expression)).neighbours
            out.print(f"{how} between {ends} ({about})", soft_wrap=True, markup=False)
        if "hint" in facts:
            out.print(facts["hint"], soft_wrap=True, markup=False)


def cut_at_random(loss: PrivacyLoss, delta: float) -> str | None:
    """Return a line about an infinite epsilon that ``cut="random"`` makes finite; None if it does not.

    >>> from tallystick.accounting.expression import read_loss
    >>> loss = read_loss("9 * gaussian(sigma=2).sampled(rate=0.5, largest=6, population=9, cut='anyhow')")
    >>> print(cut_at_random(loss, 1e-5))
    With cut="random" epsilon is ... It assumes that batches are cut at random and that population= is the ...
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
        f'With cut="random" epsilon is {up(epsilon, ACCOUNTANT)}. It assumes that batches are cut at random and that '
        'population= is the size of the data. cut="anyhow" allows any rule, also one that reveals a person.'
    )


def _random_cuts(part: Any) -> Any:
    """The record of a loss with every batch that was cut anyhow cut at random."""
    if isinstance(part, list):
        return [_random_cuts(each) for each in part]
    if not isinstance(part, dict):
        return part
    inner = {name: _random_cuts(each) for name, each in part.items()}
    return {**inner, "kind": "cut", "random": True} if part.get("kind") == "truncated" else inner
