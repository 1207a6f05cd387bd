"""Two laws that are known: few outputs and their probabilities, so nothing is drawn and nothing is left to chance."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tallystick.accounting import check
from tallystick.accounting.loss import PrivacyLoss
from tallystick.audit.curves import LARGEST_EPSILON, ceiling, tangents
from tallystick.audit.evidence import Evidence
from tallystick.audit.guesses import LARGEST_MU
from tallystick.audit.two_sample import mu_refuted
from tallystick.errors import InvalidInput

MOST_OUTPUTS = 10**5
FAR = 1e15  # an epsilon beyond which only what is given away for certain counts
SLACK = Fraction(1, 10**9)
"""How far from 1 probabilities may sum; what is missing or too much counts in favour of the claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLaws(Evidence):
    """A verdict by enumeration: ``corners`` are (false alarms, power) of ever more of the likeliest outputs."""

    corners: tuple[tuple[Fraction, Fraction], ...]

    def epsilon_at_least(self, *, delta: float) -> float:
        """The largest epsilon with Pr[S] > e^epsilon Pr'[S] + delta for some event, in either order."""
        level = Fraction(check.probability("delta", delta))
        best = 0.0
        for alarm, power in self.corners:
            for one, other in ((power - level, alarm), (1 - alarm - level, 1 - power)):
                if one > 0 and other <= 0:
                    return LARGEST_EPSILON
                if one > other:
                    ratio = one / other
                    best = max(best, math.log(ratio.numerator) - math.log(ratio.denominator))
        return min(LARGEST_EPSILON, max(0.0, best * (1.0 - 1e-9) - 1e-12))

    def to_dict(self) -> dict[str, Any]:
        return {**Evidence.to_dict(self), "corners": [(float(alarm), float(power)) for alarm, power in self.corners]}


def known_laws(first: Mapping[Hashable, Any], second: Mapping[Hashable, Any], *, claim: PrivacyLoss) -> KnownLaws:
    """Does ``claim`` hold between two laws, given as {output: probability}? By enumeration, in exact arithmetic.

    Probabilities are floats or fractions that sum to 1 (to within 10^-9, which counts in favour of the claim).

    >>> from tallystick.accounting.losses import pure_dp
    >>> tell, lie = Fraction(3, 4), Fraction(1, 4)              # odds of 3: epsilon is ln 3 = 1.0986
    >>> coin = known_laws({"yes": tell, "no": lie}, {"yes": lie, "no": tell}, claim=pure_dp(epsilon=1.09))
    >>> coin.verdict, round(coin.epsilon_at_least(delta=0), 4)
    ('FALSIFIED', 1.0986)
    >>> known_laws({"yes": tell, "no": lie}, {"yes": lie, "no": tell}, claim=pure_dp(epsilon=1.1)).verdict
    'NOT FALSIFIED'
    """
    if not isinstance(claim, PrivacyLoss):
        raise InvalidInput("claim", claim, "a PrivacyLoss: what was promised")
    p, q = _law("first", first), _law("second", second)
    slack = max(_off(p), _off(q))
    outputs = sorted({**p, **q}, key=lambda o: _ratio(p.get(o, Fraction(0)), q.get(o, Fraction(0))), reverse=True)
    alarm = power = Fraction(0)
    corners = [(alarm, power)]
    for output in outputs:
        alarm, power = alarm + q.get(output, Fraction(0)), power + p.get(output, Fraction(0))
        corners.append((min(Fraction(1), alarm + slack), max(Fraction(0), power - slack)))
    lines = tangents(claim)
    # What the second law never makes has at most the claim's delta at every epsilon, also beyond the last tangent.
    certain = max((power for alarm, power in corners if alarm == 0), default=Fraction(0))
    worse = certain > 0 and float(certain) > claim.delta(epsilon=FAR) * (1.0 + 1e-9) + 1e-12
    worse = worse or any(float(power) > ceiling(lines, float(alarm)) * (1.0 + 1e-9) + 1e-12 for alarm, power in corners)
    return KnownLaws(
        attack=f"enumeration of {len(outputs)} outputs",
        claim=str(claim),
        significance=0.0,
        p_value=0.0 if worse else 1.0,
        mu_at_least=min(LARGEST_MU, max(mu_refuted(float(a), float(1 - b)) if b > 0 else 0.0 for a, b in corners)),
        assumes=("that these are the laws of the mechanism, on datasets that are neighbours of the claim's kind",),
        corners=tuple(corners),
    )


def _ratio(p: Fraction, q: Fraction) -> tuple[bool, Fraction]:
    """Outputs in the order of their likelihood ratio; those that the second law never makes come first."""
    return (True, p) if q == 0 else (False, p / q)


def _off(law: dict[Hashable, Fraction]) -> Fraction:
    return abs(1 - sum(law.values(), Fraction(0)))


def _law(name: str, law: Any) -> dict[Hashable, Fraction]:
    allowed = "{output: probability}, at least 0 and 1 in all"
    if not isinstance(law, Mapping) or not 0 < len(law) <= MOST_OUTPUTS:
        raise InvalidInput(name, type(law).__name__, allowed + f", of at most {MOST_OUTPUTS} outputs")
    try:
        exact = {output: Fraction(value) for output, value in law.items()}
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(name, "not numbers", allowed) from None
    if any(value < 0 for value in exact.values()) or _off(exact) > SLACK:
        raise InvalidInput(name, f"a sum of {float(sum(exact.values())):.12g}", allowed)
    return exact
