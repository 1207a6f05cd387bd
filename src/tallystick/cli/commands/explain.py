"""``tallystick explain``: say what a privacy loss means for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.cards.explanation import Explanation


def explain(
    expression: Expression,
    delta: Annotated[float | None, typer.Option("--delta", help="Delta of the epsilon that is printed.")] = None,
    as_json: Json = False,
) -> None:
    """Say what a privacy loss means for one person: odds, suspicions, and what the best attacker can do."""
    from tallystick.accounting.expression import read_loss
    from tallystick.cards.explanation import Explanation
    from tallystick.cards.meaning import Whom, meaning

    loss = read_loss(expression)
    words, whom = meaning(loss, delta=delta), Whom.of(loss)
    asked = {"expression": expression, "delta": words.delta}
    found = {**words.to_dict(), "about": whom.to_dict()}
    explained = Explanation(words, whom, typed_as=expression)
    deliver(Answer("explain", asked, found, lambda out: say(out, explained)), as_json=as_json)


def say(out: Console, explained: Explanation) -> None:
    """Print what a loss means, most important first."""
    for line in explained.lines():
        out.print(line, soft_wrap=True, markup=False, highlight=False)
