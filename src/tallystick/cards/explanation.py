"""A privacy loss in words: what it means for one person, and what the best attacker can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tallystick.cards.meaning import Meaning, Whom, meaning
from tallystick.digits import RESULT, nearest, percent, percent_up, typed, up
from tallystick.drawing import table
from tallystick.printing import html_text

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

NOT_COVERED: Final = "It does not cover groups of people, facts about everyone, or releases that are not counted here."
ATTACKER: Final = "The most the best possible attacker can do"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The meaning of a privacy loss; printed, it is a page of plain words.

    ``typed_as`` is the expression that a person typed, if there is one: its numbers are printed as typed.
    """

    meaning: Meaning
    whom: Whom
    typed_as: str | None = None

    @property
    def headline(self) -> str:
        """The guarantee in one sentence."""
        at = f" at delta {typed(self.meaning.delta)}" if self.meaning.delta else ""
        return f"Epsilon {self._epsilon}{at}, for {self.whom.neighbours}."

    @property
    def _epsilon(self) -> str:
        from tallystick.accounting.expression import as_typed

        if self.typed_as is None:
            return up(self.meaning.epsilon)
        return as_typed(self.meaning.epsilon, self.typed_as, RESULT)

    @property
    def sentence(self) -> str:
        """The odds in one sentence, or that there is no protection."""
        is_open = self.meaning.guess_accuracy >= 1.0
        return self.whom.no_protection if is_open else self.meaning.plain_sentence

    def rows(self) -> Iterator[tuple[str, str, str]]:
        """Return what an attacker can do: label, number and note."""
        words = self.meaning
        for alpha, hit in words.hit_rates.items():
            one_in = f"{round(1 / alpha):,}"
            yield f"{self.whom.found}, with 1 false accusation per {one_in}", percent_up(hit), ""
        cases = f"(in {nearest(100 - 100 * words.exceptions)} of 100 cases)" if words.exceptions else ""
        for prior, belief in words.beliefs.items():
            yield f"a suspicion of {percent(prior)} grows to", percent_up(belief), cases
        yield f"right guesses when {self.whom.guess} are equally likely", percent_up(words.guess_accuracy), ""
        apart = f"(apart from probability {typed(words.delta)})" if words.delta else ""
        yield f"a result is more likely {self.whom.likelier}, by a factor of", up(words.odds_factor), apart

    def lines(self) -> list[str]:
        """Return the explanation line by line."""
        if self.meaning.guess_accuracy >= 1.0:
            return [self.headline, "", self.sentence, "", NOT_COVERED]
        rows = list(self.rows())
        wide = max(len(label) for label, _, _ in rows)
        digits = max(len(number) for _, number, _ in rows)
        shown = [f"  {label:<{wide}}   {number:<{digits}}   {note}".rstrip() for label, number, note in rows]
        return [self.headline, "", self.sentence, "", ATTACKER, *shown, "", NOT_COVERED]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        return f"<Explanation: {self.headline}>"

    def _repr_html_(self) -> str:
        drawn = table((ATTACKER, "", ""), self.rows())
        first, last = (html_text(text) for text in (f"{self.headline} {self.sentence}", NOT_COVERED))
        return f"<p>{first}</p>{drawn}<p>{last}</p>"


def explain(loss: PrivacyLoss, *, delta: float | None = None) -> Explanation:
    """Return what a privacy loss means for one person, in words.

    ``delta`` chooses the epsilon in the headline and changes nothing else.

    >>> import tallystick as ts
    >>> explained = ts.explain(ts.pure_dp(epsilon=1))
    >>> explained.headline
    'Epsilon 1, for one person added to or removed from the data.'
    >>> print(explained.sentence)
    If you are not in the data, about 27 of 100 possible results make the best attacker think you are. If you are,
    about 73 of 100 do.
    """
    return Explanation(meaning(loss, delta=delta), Whom.of(loss))
