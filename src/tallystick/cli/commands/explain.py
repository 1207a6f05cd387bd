"""``tallystick explain``: a loss in odds, beliefs and hit rates, for somebody who has never heard of epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver
from tallystick.digits import RESULT, nearest, percent, percent_up, typed, up

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.cards import Meaning
    from tallystick.cards.meaning import Whom


def explain(
    expression: Expression,
    delta: Annotated[float | None, typer.Option("--delta", help="Delta of the epsilon that is printed.")] = None,
    as_json: Json = False,
) -> None:
    """Say what a privacy loss means for one person: odds, suspicions, and what the best attacker can do."""
    from tallystick.accounting.expression import read_loss
    from tallystick.cards import meaning
    from tallystick.cards.meaning import Whom

    loss = read_loss(expression)
    words, whom = meaning(loss, delta=delta), Whom.of(loss)
    asked = {"expression": expression, "delta": words.delta}
    found = {**words.to_dict(), "about": whom.to_dict()}
    deliver(Answer("explain", asked, found, lambda out: say(out, words, whom, expression)), as_json=as_json)


def say(out: Console, words: Meaning, whom: Whom, expression: str | None = None) -> None:
    """Print what a loss means, most important first; ``expression`` is what a person typed, if there is one."""
    for line in lines(words, whom, expression):
        out.print(line, soft_wrap=True, markup=False, highlight=False)


def lines(words: Meaning, whom: Whom, expression: str | None = None) -> list[str]:
    """Return what a loss means, line by line."""
    from tallystick.accounting.expression import as_typed

    epsilon = up(words.epsilon) if expression is None else as_typed(words.epsilon, expression, RESULT)
    at = f" at delta {typed(words.delta)}" if words.delta else ""
    headline = f"Epsilon {epsilon}{at}, for {whom.neighbours}."
    if words.guess_accuracy >= 1.0:
        return [headline, "", whom.no_protection, "", NOT_COVERED]
    table = [(label, number, note) for label, number, note in _table(words, whom)]
    wide = max(len(label) for label, _, _ in table)
    numbers = max(len(number) for _, number, _ in table)
    rows = [f"  {label:<{wide}}   {number:<{numbers}}{note}".rstrip() for label, number, note in table]
    return [
        headline,
        "",
        words.plain_sentence,
        "",
        "The most the best possible attacker can do",
        *rows,
        "",
        NOT_COVERED,
    ]


def _table(words: Meaning, whom: Whom) -> Iterator[tuple[str, str, str]]:
    """Return rows of what an attacker can do: label, number, note."""
    for alpha, hit in words.hit_rates.items():
        one_in = f"{round(1 / alpha):,}"
        yield f"{whom.found}, with 1 false accusation per {one_in}", percent_up(hit), ""
    cases = f"   (in {nearest(100 - 100 * words.exceptions)} of 100 cases)" if words.exceptions else ""
    for prior, belief in words.beliefs.items():
        yield f"a suspicion of {percent(prior)} grows to", percent_up(belief), cases
    yield f"right guesses when {whom.guess} are equally likely", percent_up(words.guess_accuracy), ""
    apart = f"   (apart from probability {typed(words.delta)})" if words.delta else ""
    yield f"a result is more likely {whom.likelier}, by a factor of", up(words.odds_factor), apart


NOT_COVERED = "It does not cover groups of people, facts about everyone, or releases that are not counted here."
