"""``tallystick explain``: a loss in odds, beliefs and hit rates, for somebody who has never heard of epsilon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver
from tallystick.digits import RESULT, percent, percent_up, typed, up

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.cards import Meaning
    from tallystick.cards.meaning import Whom


def explain(
    expression: Expression,
    delta: Annotated[
        float | None, typer.Option("--delta", help="Which epsilon to quote; changes nothing else.")
    ] = None,
    as_json: Json = False,
) -> None:
    """What a loss means to one person: odds, beliefs, and what the best attacker can do."""
    from tallystick.accounting.expression import read_loss
    from tallystick.cards import meaning
    from tallystick.cards.meaning import Whom

    loss = read_loss(expression)
    words, whom = meaning(loss, delta=delta), Whom.of(loss)
    asked = {"expression": expression, "delta": words.delta}
    found = {**words.to_dict(), "about": whom.to_dict()}
    deliver(Answer("explain", asked, found, lambda out: say(out, words, whom, expression)), as_json=as_json)


def say(out: Console, words: Meaning, whom: Whom, expression: str | None = None) -> None:
    """Print the sentences, most important first; ``expression`` is what a person typed, if there is one."""
    from tallystick.accounting.expression import as_typed

    out.print(words.plain_sentence, style="bold", soft_wrap=True, markup=False)
    out.print()
    for alpha, hit in words.hit_rates.items():
        out.print(f"hit rate   with {percent(alpha)} false alarms, at most {percent_up(hit)} of {whom.found} are found")
    apart = f", except in {percent(words.exceptions)} of cases" if words.exceptions else ", whatever the result"
    for prior, belief in words.beliefs.items():
        out.print(f"belief     from {percent(prior)} sure to at most {percent_up(belief)} sure{apart}")
    out.print(f"coin flip  guessing {whom.guess} is right at most {percent_up(words.guess_accuracy)} of the time")
    apart = f", plus {typed(words.delta)}" if words.delta else ""
    factor = up(words.odds_factor)
    out.print(
        f"odds       results are at most {factor} times as likely {whom.likelier}{apart}", soft_wrap=True, markup=False
    )
    epsilon = up(words.epsilon) if expression is None else as_typed(words.epsilon, expression, RESULT)
    out.print(f"promise    epsilon {epsilon} at delta {typed(words.delta)}")
    out.print(f"about      {whom.neighbours}", soft_wrap=True, markup=False)
