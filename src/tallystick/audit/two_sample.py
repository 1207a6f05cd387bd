"""Is this mechanism what it says? Draw from it on two neighbouring data sets, and bet on an event.

docs/theory/two-sample-audit.md: half of the draws choose an event, the other half certify it. With a and b upper
confidence limits (Clopper-Pearson, half of the significance each) for the probability of the event on the second data
set and of its complement on the first, a claim f is refuted where b < f(a).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, ndtr, ndtri

from tallystick.accounting import check
from tallystick.accounting.loss import PrivacyLoss
from tallystick.audit.curves import Floats, Lines, ceiling, ceiling_and_slope, tangents
from tallystick.audit.events import Failed, best_event
from tallystick.audit.evidence import NOTHING, Evidence, leak
from tallystick.digits import nearest
from tallystick.errors import InvalidInput, NotComputable

DRAWS = 20_000
LEAST_DRAWS = 40
_UP = 1.0 + 1e-12
Draw = Callable[[Any], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSample(Evidence):
    """Evidence from an event: ``false_alarms`` of ``draws`` on one data set, ``misses`` of as many on the other."""

    event: str
    draws: int
    false_alarms: int
    misses: int

    @property
    def limits(self) -> tuple[float, float]:
        """Upper confidence limits for a false alarm and for a miss, that hold together."""
        level = self.significance / 2.0
        return upper_limit(self.false_alarms, self.draws, level), upper_limit(self.misses, self.draws, level)

    def epsilon_at_least(self, *, delta: float) -> float:
        a, b = self.limits
        return epsilon_refuted(a, b, check.probability("delta", delta))

    def __str__(self) -> str:
        text = Evidence.__str__(self)
        if self.falsified and self.event.startswith("the function fails"):
            text += (
                "\nThe function fails more often on one of the datasets: the person who asks sees that as an answer."
            )
        if self.falsified and "binary digits" in self.event:
            text += (
                "\nThe binary digits are among what tells the datasets apart: noise added in floating point does "
                "that at every size. Unless these are on a public grid, round releases to one, or use ts.noise."
            )
        return text

    def to_dict(self) -> dict[str, Any]:
        own = {name: getattr(self, name) for name in ("event", "draws", "false_alarms", "misses")}
        return {**Evidence.to_dict(self), **own}


def mechanism(
    f: Any,
    *,
    neighbours: Any,
    claim: PrivacyLoss | None = None,
    draws: int = DRAWS,
    significance: float = 0.05,
    event: Callable[[Any], bool] | None = None,
) -> TwoSample:
    """Evidence against ``claim`` from draws of ``f`` on two neighbouring datasets.

    ``f`` is a function of a dataset, or a mechanism or table plan of tallystick (whose own ``privacy`` is then the
    claim; a plan is asked about small tables that were made up, and nothing is charged).
    ``neighbours`` is a pair of datasets, or a list of pairs, of which one is chosen. ``draws`` is how often each
    dataset is asked, in all. Half of the draws choose the event (thresholds on values, on their binary digits, on the
    likelihood of repeated outputs, on a linear score of everything), the other half test it; with an ``event`` of
    your own all draws test it. A claim that holds is refuted with probability ``significance`` at most.

    >>> from tallystick.accounting.losses import pure_dp
    >>> rng = np.random.default_rng(1)
    >>> def half_the_noise(value):
    ...     return value + rng.laplace(scale=0.5)
    >>> found = mechanism(half_the_noise, neighbours=(0, 1), claim=pure_dp(epsilon=1), draws=4000)
    >>> found.verdict, found.epsilon_at_least(delta=0) > 1
    ('FALSIFIED', True)
    """
    draw, promised = drawn_from(f, claim)
    pairs = _pairs(neighbours)
    level = check.inside("significance", significance)
    count = check.count("draws", draws, least=LEAST_DRAWS)
    if event is not None and not callable(event):
        raise InvalidInput("event", event, "a function of an output that says whether it is in the event")
    if event is not None and len(pairs) == 1:
        chosen, pair, left = _Asked(event), pairs[0], count
    else:
        chosen, pair, left = _choose(draw, pairs, promised, count, event)
    first, second = outputs_on(draw, pair, left)
    misses = left - int(np.sum(chosen(first)))
    false_alarms = int(np.sum(chosen(second)))
    return judged(promised, str(chosen), left, false_alarms, misses, level)


def outputs_on(draw: Draw, pair: tuple[Any, Any], count: int) -> tuple[list[Any], list[Any]]:
    """So many draws on each data set; if all of them fail, that is the function's error and not an output."""
    if hasattr(draw, "prepare"):  # what must work before anything is drawn
        for data in pair:
            draw.prepare(data)
    problem: BaseException | None = None
    both: tuple[list[Any], list[Any]] = ([], [])
    for data, outputs in zip(pair, both, strict=True):
        for _ in range(count):
            try:
                outputs.append(draw(data))
            except (Exception, SystemExit) as error:  # whatever it is, whoever asked has seen it
                problem = error
                outputs.append(Failed(type(error).__name__))
    if problem is not None and all(isinstance(output, Failed) for outputs in both for output in outputs):
        told = f"{type(problem).__name__}: {problem}"
        raise InvalidInput("f", f"fails in every draw ({told})", "a function of one dataset that answers") from problem
    return both


def judged(
    claim: PrivacyLoss, event: str, draws: int, false_alarms: int, misses: int, significance: float
) -> TwoSample:
    """The evidence of an event that was chosen beforehand.

    >>> from tallystick.accounting.losses import pure_dp
    >>> judged(pure_dp(epsilon=1), "x >= 0", 1000, 10, 10, 0.05).falsified
    True
    """
    a, b = (upper_limit(count, draws, significance / 2.0) for count in (false_alarms, misses))
    return TwoSample(
        attack=f"event {event}: {misses} misses and {false_alarms} false positives in {draws} draws each",
        claim=str(claim),
        significance=significance,
        p_value=_p_value(claim, draws, false_alarms, misses),
        mu_at_least=mu_refuted(a, b),
        assumes=("that the draws are independent, and the two datasets are neighbours of the claim's kind",),
        detects=catchable(claim, draws, significance),
        event=event,
        draws=draws,
        false_alarms=false_alarms,
        misses=misses,
    )


def upper_limit(successes: int, trials: int, significance: float) -> float:
    """The Clopper-Pearson upper confidence limit of a probability, rounded up.

    >>> round(upper_limit(0, 1000, 0.025), 6)
    0.003682
    """
    if successes >= trials:
        return 1.0
    found = float(betainccinv(successes + 1.0, float(trials - successes), significance))
    return min(1.0, found * (1.0 + 1e-9) + 1e-300)


def mu_refuted(false_alarm: float, miss: float) -> float:
    """The largest mu with Phi^-1(1 - a) - Phi^-1(b) >= mu; 0 where it is negative. There is no absolute value.

    >>> mu_refuted(0.9, 0.9), round(mu_refuted(0.1, 0.1), 6)
    (0.0, 2.563103)
    """
    if false_alarm >= 1.0 or miss >= 1.0:
        return 0.0
    return max(0.0, (-float(ndtri(false_alarm)) - float(ndtri(miss))) * (1.0 - 1e-12) - 1e-14)


def epsilon_refuted(false_alarm: float, miss: float, delta: float) -> float:
    """max(0, ln((1 - delta - a)/b), ln((1 - delta - b)/a)), rounded down.

    >>> round(epsilon_refuted(0.1, 0.1, 0.0), 6), epsilon_refuted(0.6, 0.6, 0.0)
    (2.197225, 0.0)
    """
    best = 0.0
    for one, other in ((false_alarm, miss), (miss, false_alarm)):
        if 1.0 - delta - one > 0.0:
            best = max(best, math.log((1.0 - delta - one) / other) * (1.0 - 1e-12) - 1e-14)
    return max(0.0, best)


def _p_value(claim: PrivacyLoss, draws: int, false_alarms: int, misses: int) -> float:
    """The least significance at which the limits refute the claim, rounded up."""
    lines = tangents(claim)

    def refuted(level: float) -> bool:
        a, b = (upper_limit(count, draws, level / 2.0) for count in (false_alarms, misses))
        return 1.0 - b > ceiling(lines, a) * _UP

    if not refuted(1.0):
        return 1.0
    low, high = math.log(1e-100), 0.0
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (low, middle) if refuted(math.exp(middle)) else (middle, high)
    return min(1.0, math.exp(high) * (1.0 + 1e-9))


def catchable(claim: PrivacyLoss, draws: int, significance: float) -> str:
    """The least mu of a Gaussian mechanism whose best event would have refuted the claim, in words."""
    lines = tangents(claim)
    cuts = np.linspace(-6.0, 6.0, 121)

    def caught(mu: float) -> bool:
        for cut in cuts.tolist():
            alarms, misses = (math.ceil(draws * float(p)) for p in (ndtr(-cut - mu / 2), ndtr(cut - mu / 2)))
            a, b = (upper_limit(min(x, draws), draws, significance / 2.0) for x in (alarms, misses))
            if 1.0 - b > ceiling(lines, a):
                return True
        return False

    most = 20.0
    if not caught(most):
        return f"{NOTHING}: the claim is too weak for so few draws"
    low, high = 0.0, most
    for _ in range(12):
        middle = (low + high) / 2.0
        low, high = (low, middle) if caught(middle) else (middle, high)
    none = upper_limit(0, draws, significance / 2.0)
    most_shown = nearest(epsilon_refuted(none, none, 0.0))
    return f"noise that leaks like {leak(high)}; so many draws never show more than epsilon {most_shown}"


def _choose(
    draw: Draw, pairs: Sequence[tuple[Any, Any]], claim: PrivacyLoss, draws: int, event: Callable[[Any], bool] | None
) -> tuple[Any, tuple[Any, Any], int]:
    """The pair and the event that look worst for the claim on half of the draws; and how many draws are left."""
    training = draws // 2
    each = max(LEAST_DRAWS // 2, training // len(pairs))
    lines = tangents(claim)
    best: tuple[float, Any, tuple[Any, Any]] | None = None
    found: tuple[float, Any, bool] | None
    for pair in pairs:
        first, second = outputs_on(draw, pair, each)
        if event is None:
            found = best_event(first, second, lambda hits, alarms, asked: worth_against(lines, hits, alarms, asked))
        else:
            asked = _Asked(event)
            counts = [np.array([float(np.sum(asked(outputs)))]) for outputs in (first, second)]
            worths = [float(worth_against(lines, counts[way], counts[1 - way], each)[0]) for way in (0, 1)]
            found = (max(worths), asked, worths[1] > worths[0])
        if found is not None and (best is None or found[0] > best[0]):
            best = (found[0], found[1], (pair[1], pair[0]) if found[2] else pair)
    if best is None:
        raise NotComputable(
            "no event can be made from these outputs: they are all different, and neither numbers nor texts nor dates. "
            "Try: event=, or a function that returns numbers"
        )
    return best[1], best[2], draws - training


def worth_against(lines: Lines, hits: Floats, alarms: Floats, draws: int) -> Floats:
    """How many standard errors each event is beyond the claim: what a test of it would see."""
    power, alarm = (hits + 1.0) / (draws + 2.0), (alarms + 1.0) / (draws + 2.0)
    limit, slope = ceiling_and_slope(lines, alarm)
    error = np.sqrt((power * (1.0 - power) + slope * slope * alarm * (1.0 - alarm)) / draws)
    worth: Floats = (power - limit) / np.maximum(error, 1e-300)
    return worth


class _Asked:
    """An event that the caller named."""

    def __init__(self, event: Callable[[Any], bool]) -> None:
        self.event = event

    def __call__(self, outputs: Sequence[Any]) -> NDArray[np.bool_]:
        try:
            return np.array([bool(self.event(output)) for output in outputs])
        except ValueError:  # an array of several truths
            raise InvalidInput("event", "not one truth value", "a function of one output that says yes or no") from None

    def __str__(self) -> str:
        return getattr(self.event, "__name__", "of the caller")


def drawn_from(f: Any, claim: PrivacyLoss | None) -> tuple[Draw, PrivacyLoss]:
    """How to draw from what was given, and what it claims."""
    if claim is not None and not isinstance(claim, PrivacyLoss):
        raise InvalidInput("claim", claim, "a PrivacyLoss: what was promised")
    if hasattr(f, "release_prepared") and hasattr(f, "prepare"):
        from tallystick.mechanisms.exact.randomness import SYSTEM

        return lambda data: f.release_prepared(f.prepare(data, strict=False), SYSTEM), claim or f.privacy
    if hasattr(f, "noises") and hasattr(f, "query"):
        from tallystick.audit.plans import PlanDraws

        return PlanDraws(f), claim or f.privacy
    if not callable(f):
        raise InvalidInput("f", f, "a function of a dataset, a mechanism, or a table plan")
    if claim is None:
        raise InvalidInput("claim", None, "a PrivacyLoss: a function does not say what it promises")
    return f, claim


def _pairs(neighbours: Any) -> list[tuple[Any, Any]]:
    allowed = "a pair of datasets (a, b), or a list of such pairs"
    pairs = [neighbours] if isinstance(neighbours, tuple) else neighbours
    if not isinstance(pairs, list) or not pairs or not all(isinstance(p, tuple) and len(p) == 2 for p in pairs):
        raise InvalidInput("neighbours", type(neighbours).__name__, allowed)
    if all(_same(*pair) for pair in pairs):
        raise InvalidInput("neighbours", "the same dataset twice", "two that differ in one unit: nothing else can tell")
    return list(pairs)


def _same(one: Any, two: Any) -> bool:
    """Whether two data sets are surely equal."""
    try:
        if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
            return np.array_equal(one, two)
        return one is two or bool(one.equals(two) if hasattr(one, "equals") else one == two)
    except Exception:  # of types that do not say
        return False
