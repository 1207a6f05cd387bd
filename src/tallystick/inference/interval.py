"""An interval that says what it is about, over what it holds, and for which sample sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from tallystick.digits import interval, percent
from tallystick.printing import visible

Kind = Literal["noise", "population"]
Holds = Literal["finite-sample", "asymptotic"]
FINITE: Final = "finite-sample"
ASYMPTOTIC: Final = "asymptotic"


@dataclass(frozen=True, slots=True)
class Interval:
    """Two ends that hold ``about`` with at least this confidence, over ``kind``: the noise, or sampling and noise.

    ``holds`` is "finite-sample" where the confidence is proved for every sample size and "asymptotic" otherwise. In
    every form, it says whether it is a noise interval or a population interval.

    >>> share = Interval(0.125, 0.25, 0.95, "share of the ill", "population", "finite-sample")
    >>> share
    <Interval 0.12 to 0.25: share of the ill (95 % population interval: sampling and privacy noise, finite-sample)>
    >>> low, high = share
    >>> low, high
    (0.125, 0.25)
    """

    lower: float
    upper: float
    confidence: float
    about: str
    kind: Kind
    holds: Holds
    notes: tuple[str, ...] = ()
    limits: tuple[float, float] = (-math.inf, math.inf)
    """The ends were pulled into these: there they no longer say how far the estimate may be off."""

    @property
    def width(self) -> float:
        """Distance of the ends."""
        return self.upper - self.lower

    @property
    def informative(self) -> bool:
        """False if the interval is all that was possible before anything was released.

        >>> Interval(0.0, 1.0, 0.95, "share of the ill", "noise", "finite-sample", limits=(0.0, 1.0)).informative
        False
        """
        return self.lower > self.limits[0] or self.upper < self.limits[1]

    def __iter__(self) -> Iterator[float]:
        return iter((self.lower, self.upper))

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    def __str__(self) -> str:
        over = "privacy noise only" if self.kind == "noise" else "sampling and privacy noise"
        said = f"{interval(self.lower, self.upper)}: {visible(self.about)}"
        which = f"{percent(self.confidence)} {self.kind} interval: {over}, {self.holds}"
        return "; ".join([f"{said} ({which})", *map(visible, self.notes)])

    def __repr__(self) -> str:
        return f"<Interval {self}>"
