"""A loss in plain words: what the best attacker sees, how sure they can become, and how often they are right.

Every number comes from the trade-off curve of the loss, so every sentence is about the best possible attacker, who
knows everything except whether one person is in the data (or what else the loss protects, see ``Whom``).
Nothing is graded: there is no "strong" here, only odds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting.adjacency import ANY_UNIT, Adjacency, Protects
from tallystick.digits import plural
from tallystick.ledger.filters import USUAL_DELTA
from tallystick.rounding import up

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

PRIORS = (0.01, 0.001)
FALSE_ALARMS = (0.01, 0.001)
EXCEPTIONS = 0.01
LITTLE = 1.02


@dataclass(frozen=True, slots=True)
class Meaning:
    """The numbers behind the sentences, and the first of these, about whom the loss protects.

    ``false_alarm`` and ``hit`` belong to the attacker's most even-handed test (as many misses as false accusations).
    ``hit_rates[a]`` is the most people found by a test that accuses a share ``a`` of those who are not in the data.
    ``beliefs[p]`` is how sure someone who began with belief ``p`` can become, except in a share ``exceptions`` of cases
    (0 where the loss is bounded; rare results of an unbounded loss can convince any attacker, and are set apart).
    """

    epsilon: float
    delta: float
    false_alarm: float
    hit: float
    guess_accuracy: float
    hit_rates: dict[float, float]
    beliefs: dict[float, float]
    exceptions: float
    plain_sentence: str

    @property
    def odds_factor(self) -> float:
        """e^epsilon: with you in the data no result is likelier by more than this factor, apart from delta."""
        if self.epsilon >= 700:
            return math.inf
        return up(math.exp(self.epsilon), slack=1e-15) if self.epsilon > 0.0 else 1.0

    def to_dict(self) -> dict[str, Any]:
        """The numbers of the meaning for machines."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "odds_factor": self.odds_factor,
            "sentence": self.plain_sentence,
            "false_alarm": self.false_alarm,
            "hit": self.hit,
            "guess_accuracy": self.guess_accuracy,
            "hit_rate_at_false_alarm": {f"{alpha:g}": hit for alpha, hit in self.hit_rates.items()},
            "belief_from_prior": {f"{prior:g}": belief for prior, belief in self.beliefs.items()},
            "belief_exceptions": self.exceptions,
        }


def meaning(loss: PrivacyLoss, *, delta: float | None = None, unit: str | None = None) -> Meaning:
    """Read what ``loss`` means; ``delta`` only chooses which epsilon is quoted (0 where that costs little, else 1e-6).

    ``unit`` is whom the sentence is about where the loss does not name it. Shares of people found,
    beliefs and accuracy are upper bounds for every attacker.

    >>> import tallystick as ts
    >>> print(meaning(ts.pure_dp(epsilon=1)).plain_sentence)
    If you are not in the data, about 27 of 100 possible results make the best attacker think you are. If you are,
    about 73 of 100 do.
    """
    even = _even_handed(loss)
    hit = _at_least(1 - Fraction(even))
    quoted, epsilon = _quoted(loss) if delta is None else (delta, float(loss.epsilon(delta=delta)))
    exceptions, belief = _exceptions(loss)
    powers = np.asarray(loss.power(alpha=np.array(FALSE_ALARMS)), dtype=float)
    return Meaning(
        epsilon=epsilon,
        delta=quoted,
        false_alarm=even,
        hit=hit,
        guess_accuracy=_at_least((1 + Fraction(float(loss.total_variation()))) / 2),
        hit_rates=dict(zip(FALSE_ALARMS, powers.tolist(), strict=True)),
        beliefs={PRIORS[0]: belief}
        | {prior: float(loss.posterior(prior=prior, delta=exceptions)) for prior in PRIORS[1:]},
        exceptions=exceptions,
        plain_sentence=Whom.of(loss, unit=unit).sentence(*frequencies(even, hit)),
    )


def _quoted(loss: PrivacyLoss) -> tuple[float, float]:
    """The delta that is quoted, 0 if the whole promise can be for almost the same epsilon, and that epsilon."""
    whole, usual = float(loss.epsilon(delta=0.0)), float(loss.epsilon(delta=USUAL_DELTA))
    return (0.0, whole) if whole <= LITTLE * usual else (USUAL_DELTA, usual)


def _exceptions(loss: PrivacyLoss) -> tuple[float, float]:
    """Return 0 if every result leaves almost the same belief, and the belief of the first prior."""
    prior = PRIORS[0]
    always, nearly = float(loss.posterior(prior=prior)), float(loss.posterior(prior=prior, delta=EXCEPTIONS))
    return (0.0, always) if always <= LITTLE * nearly else (EXCEPTIONS, nearly)


def _even_handed(loss: PrivacyLoss) -> float:
    """The share a with f(a) = a, rounded down: a test with fewer false accusations misses at least as many."""
    if loss.tradeoff(alpha=0.5) >= 0.5:
        return 0.5
    low, high = 1e-12, 0.5
    if loss.tradeoff(alpha=low) < low:
        return 0.0
    while high - low > 1e-12 * high:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if loss.tradeoff(alpha=middle) >= middle else (low, middle)
    return low


def _at_least(exact: Fraction) -> float:
    """A double that is not below an exact number."""
    near = float(exact)
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


def frequencies(without: float, within: float) -> tuple[str, str, str]:
    """Whole numbers of the smallest power of ten, from a hundred up, in which neither error rounds to nothing."""
    for exponent in range(2, 7):
        out_of = 10**exponent
        if round(without * out_of) >= 1 and round((1 - within) * out_of) >= 1:
            return f"{round(without * out_of):,}", f"{round(within * out_of):,}", f"{out_of:,}"
    return "fewer than 1", "all", "1,000,000"


# Whom the words are about.

SOMEBODY = frozenset(
    "person people individual human patient client customer user member student pupil employee worker resident citizen "
    "respondent participant subject voter subscriber visitor passenger driver donor inmate child adult".split()
)


def is_somebody(unit: str) -> bool:
    """True if a unit's name is a word for a person, to whom a sentence can speak.

    >>> is_somebody("patient_id"), is_somebody("aircraft")
    (True, False)
    """
    return unit.lower().removesuffix("_id").removesuffix("s") in SOMEBODY


@dataclass(frozen=True, slots=True)
class Whom:
    """The unit, the neighbours and the size of the group that a loss is about, as parts of sentences.

    A unit that is a person, or that is not named, is addressed as "you"; anything else is named. If units are
    replaced, every unit is in the data: an attacker then wonders which of two versions of its data was used.
    """

    protects: Protects = ANY_UNIT
    group: int = 1

    @classmethod
    def of(cls, loss: PrivacyLoss, *, unit: str | None = None) -> Whom:
        """Whom a loss is about; ``unit`` is known from elsewhere where the loss names none."""
        return cls(Protects(loss.adjacency, loss.unit or unit), loss.group)

    @property
    def replaced(self) -> bool:
        """True if neighbours differ in the data of a unit that is in both."""
        return self.protects.adjacency is Adjacency.REPLACE

    def sentence(self, without: str, within: str, out_of: str) -> str:
        """Return how many possible results mislead an attacker: if it is not so, and if it is.

        >>> print(Whom().sentence("27", "73", "100"))
        If you are not in the data, about 27 of 100 possible results make the best attacker think you are. If you are,
        about 73 of 100 do.
        """
        results = f"about {without} of {out_of} possible results make the best attacker"
        if self.replaced:
            says = f"If one version of {self._data} is used, {results} say the other. If the other is used"
        else:
            it, verb = ("you", "are") if self._spoken_to else ("it", "is")
            all_of = " all" if self._spoken_to and self.group > 1 else ""
            says = f"If {self._who} {verb} not in the data, {results} think {it}{all_of} {verb}. If {it}{all_of} {verb}"
        return f"{says}, about {within} of {out_of} do."

    @property
    def no_protection(self) -> str:
        """The sentence for a loss without any protection."""
        if self.replaced:
            return f"No protection: an attacker can tell for certain which version of {self._data} was used."
        verb = "are" if self._spoken_to else "is"
        return f"No protection: an attacker can tell for certain whether {self._who} {verb} in the data."

    @property
    def found(self) -> str:
        """Those whom an attacker finds, in words."""
        return f"{self.crowd} with the other data recognised" if self.replaced else f"{self.crowd} found"

    @property
    def crowd(self) -> str:
        """The crowd whose shares are drawn: people, other units, or groups of them."""
        units = "people" if self._spoken_to else plural(str(self.protects.unit))
        return units if self.group == 1 else f"groups of {self.group:,} {units}"

    @property
    def errors(self) -> tuple[str, str]:
        """Totals of which false accusations and misses are shares.

        >>> Whom().errors
        ('share of people not in the data who are accused', 'share of people in the data who are not found')
        """
        who = "who" if self._spoken_to and self.group == 1 else "that"
        if self.replaced:
            accused = f"with one version of their data {who} are taken for the other"
            missed = f"with the other version {who} are not recognised"
            return f"share of {self.crowd} {accused}", f"share of {self.crowd} {missed}"
        return (
            f"share of {self.crowd} not in the data {who} are accused",
            f"share of {self.crowd} in the data {who} are not found",
        )

    @property
    def guess(self) -> str:
        """The two cases that an attacker guesses between."""
        return "both versions" if self.replaced else "in and out"

    @property
    def likelier(self) -> str:
        """The two cases in which a result is more and less likely."""
        if self.replaced:
            return f"with one version of {self._data} than with another"
        return f"with {self._who} than without {'you' if self._who == 'you' else 'them' if self.group > 1 else 'it'}"

    @property
    def neighbours(self) -> str:
        """The difference between two neighbouring datasets.

        >>> Whom().neighbours, Whom(Protects("replace", "aircraft")).neighbours
        ('one person added to or removed from the data', 'the data of one aircraft replaced')
        """
        unit = self.protects.unit or "person"
        units = f"one {unit}" if self.group == 1 else f"up to {self.group:,} {plural(unit)}"
        return f"the data of {units} replaced" if self.replaced else f"{units} added to or removed from the data"

    def to_dict(self) -> dict[str, Any]:
        """Return the sentence for machines."""
        return {"unit": self.protects.unit, "adjacency": self.protects.adjacency.value, "group": self.group}

    @property
    def _spoken_to(self) -> bool:
        return self.protects.unit is None or is_somebody(self.protects.unit)

    @property
    def _who(self) -> str:
        others = self.group - 1
        if self._spoken_to:
            return f"you and {others:,} other{'s' * (others > 1)}" if others else "you"
        return f"a group of {self.group:,} {plural(str(self.protects.unit))}" if others else f"one {self.protects.unit}"

    @property
    def _data(self) -> str:
        return "your data" if self._spoken_to and self.group == 1 else f"the data of {self._who}"
