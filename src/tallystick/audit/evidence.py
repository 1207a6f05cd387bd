"""What an attack shows: evidence against a claim, at a stated confidence. Never a guarantee, never a PrivacyLoss."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tallystick.accounting import gdp
from tallystick.digits import down, nearest, typed, up

GDP, APPROXIMATE, CURVE = "mu-GDP", "(epsilon, delta)-DP", "the claimed curve"
NOTHING = "nothing"
DELTA = 1e-5  # at which a mu is shown as an epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(ABC):
    """The outcome of one attack on one claim.

    A privacy claim that holds is falsified with probability ``significance`` at most. All statements of one piece of
    evidence hold together at that level: a claim that is true and implied by another true one is refuted only where
    that one is.

    ``significance`` is the chance of a false accusation; ``mu_at_least`` the largest refuted mu of mu-GDP (0 if
    none); ``p_value`` the least significance at which the claim would be refuted; ``assumes`` what the attack cannot
    see and takes on trust; ``detects`` the least violation that it could have caught in half of the audits, at best:
    with the best event or score known beforehand.
    """

    attack: str
    claim: str
    significance: float
    p_value: float
    mu_at_least: float
    assumes: tuple[str, ...] = ()
    detects: str = ""

    @property
    def falsified(self) -> bool:
        """Was the claim refuted?"""
        return self.p_value <= self.significance

    @property
    def toothless(self) -> bool:
        """True if the attack could not have caught any violation."""
        return self.detects.startswith(NOTHING)

    @property
    def refutes(self) -> str | None:
        """The family whose member was refuted: the claimed curve, else mu-GDP or (epsilon, delta)-DP; or None."""
        if self.falsified:
            return CURVE
        return GDP if self.mu_at_least > 0.0 else None

    @abstractmethod
    def epsilon_at_least(self, *, delta: float) -> float:
        """The largest epsilon for which (epsilon, delta)-DP is refuted; 0 if none is."""

    @property
    def verdict(self) -> str:
        """FALSIFIED or NOT FALSIFIED."""
        return "FALSIFIED" if self.falsified else "NOT FALSIFIED"

    def raise_if_falsified(self) -> None:
        """Raise ``ClaimFalsified`` (exit code 5) if the claim was refuted."""
        from tallystick.errors import ClaimFalsified

        if self.falsified:
            raise ClaimFalsified(str(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "attack": self.attack,
            "claim": self.claim,
            "verdict": self.verdict,
            "falsified": self.falsified,
            "refutes": self.refutes,
            "significance": self.significance,
            "p_value": self.p_value,
            "mu_at_least": self.mu_at_least,
            "assumes": list(self.assumes),
            "detects": self.detects,
        }

    def __str__(self) -> str:
        return "\n".join([self._headline(), "", *(f"{name:<10} {text}" for name, text in self._facts())])

    def _headline(self) -> str:
        """The verdict, and how often this test is wrong about a true claim."""
        shown = f"p = {up(self.p_value)}" if self.p_value < 1.0 else "no sign of a violation"
        wrong = "a true claim never fails this test"
        if self.significance > 0.0:
            wrong = f"a true claim fails this test with probability {nearest(self.significance, 6)} at most"
        said = "The claim is false" if self.falsified else "No evidence against the claim"
        return f"{said}: {self.claim} ({shown}; {wrong})"

    def _facts(self) -> Iterator[tuple[str, str]]:
        """The attack, what it shows, what it could have shown, and what it takes on trust."""
        yield "Attack", self.attack
        if self.mu_at_least > 0.0:
            worth = down(epsilon_of_mu(self.mu_at_least, delta=DELTA))
            noise = f"Gaussian noise with epsilon {worth} at delta {typed(DELTA)} leaks as much"
            yield "At least", f"mu {down(self.mu_at_least)} ({noise})"
        if not self.falsified and self.detects:
            yield "Can catch", f"at best {self.detects}"
        for text in self.assumes:
            yield "Assumes", text.removeprefix("that ")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number without a level: what an attack suggests if its assumptions hold. Never evidence, never a guarantee.

    >>> print(Estimate("mu", 0.93, "the canaries' scores are independent"))
    mu is about 0.93, if the canaries' scores are independent (an estimate, not evidence)
    """

    name: str
    value: float
    condition: str

    def __str__(self) -> str:
        return f"{self.name} is about {nearest(self.value, 4)}, if {self.condition} (an estimate, not evidence)"


def epsilon_of_mu(mu: float, *, delta: float) -> float:
    """Return a refuted mu-GDP as epsilon: for tables that compare attacks. It refutes no (epsilon, delta)-DP.

    >>> round(epsilon_of_mu(1.0, delta=1e-5), 3)
    4.377
    """
    return gdp.epsilon_bounds(mu, delta).lower if mu > 0.0 else 0.0


def leak(mu: float) -> str:
    """A mu for people, with what it is worth.

    >>> leak(1.0)
    'mu = 1 (Gaussian noise of epsilon 4.38 at delta 1e-5)'
    """
    worth = nearest(epsilon_of_mu(mu, delta=DELTA))
    return f"mu = {nearest(mu)} (Gaussian noise of epsilon {worth} at delta {typed(DELTA)})"
