"""One released number: its value, the law of its noise, and what is known about it.

The protocol ``Answer`` is what intervals, contrasts and tests read: a table cell, a mean, a local estimate or a
regression coefficient has it, and so has what another room makes of these.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput, Refused
from tallystick.inference.interval import FINITE, Interval
from tallystick.inference.noise import Noise
from tallystick.inference.shares import NoisyBinomial, kept_shares
from tallystick.inference.suppressed import kept_values

_VECTORS = itertools.count(1)
MOST_SUPPRESSED = 10**6  # units for which the conditional law is summed over all counts
_IMPOSSIBLE = 1e-12  # a chance that is never seen; three times as far away is a mistake in of=
SUPPRESSED = "shown only where it reached {:g}: the law is conditional on that, and small survivors are worth little"

SELECTED = (
    "no population share: the groups were chosen by another noisy count, so large ones were likelier to be shown. "
    "Try: count_units, whose own threshold is known; public keys; noise_interval()"
)


class Answer(Protocol):
    """A released quantity with its two intervals."""

    @property
    def value(self) -> float:
        """The estimate of the table's own quantity."""

    @property
    def population_value(self) -> float:
        """The estimate of the population's quantity."""

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """Interval for the table's own value, over the privacy noise alone."""

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """The population behind the sample: over sampling and privacy noise."""


@dataclass(frozen=True, slots=True)
class Released:
    """A number plus noise. ``noise`` is the mechanism that released it, its law, or a :class:`Noise`.

    ``of`` says that the number counts some of so many units, that this size is public, and that each unit is one row
    and counted at most once: then the units may be a sample, and their share has an exact population interval.
    ``shown_from`` is the least value that is published at all (suppressed cells). ``sample`` names the release of
    which this is a cell: two cells of one release may count the same units, so their shares are not independent.

    >>> from tallystick.mechanisms.noise import add_discrete_gaussian
    >>> ill = Released(412, noise=add_discrete_gaussian(sigma=10), about="ill patients", of=10_000)
    >>> print(ill.noise_interval())
    392 to 432: ill patients (95 % noise interval: privacy noise only, finite-sample)
    >>> print(ill.population_interval())
    0.0369 to 0.0458: share of ill patients (95 % population interval: sampling and privacy noise, finite-sample)
    """

    value: float
    noise: Any
    about: str = "this number"
    of: int | None = None
    shown_from: float | None = None
    sample: str = ""

    def __post_init__(self) -> None:
        check.keep(self, value=check.finite("value", self.value), noise=Noise.of(self.noise))
        if not isinstance(self.about, str):
            raise InvalidInput("about", self.about, "a text")
        if self.of is not None:
            check.keep(self, of=check.count("of", self.of, least=1))
            if max(-self.value, self.value - self.of) > 3.0 * self.noise.half_width(_IMPOSSIBLE):
                raise InvalidInput("of", self.of, "the number of units behind a count: no noise makes this value of it")
        if self.shown_from is not None:
            least = check.finite("shown_from", self.shown_from)
            if self.of is not None and self.of > MOST_SUPPRESSED:
                raise InvalidInput("of", self.of, f"at most {MOST_SUPPRESSED} where a number may be suppressed")
            if self.value < least:
                raise InvalidInput("shown_from", self.shown_from, "at most the value: less would not have been shown")
            check.keep(self, shown_from=least)

    @property
    def population_value(self) -> float:
        """The share, pulled into [0, 1]."""
        return min(1.0, max(0.0, self.value / self._size))

    @property
    def law(self) -> NoisyBinomial:
        """The law of the released number for every share of the population."""
        return NoisyBinomial(self._size, self.noise, self.shown_from)

    def noise_interval(self, *, confidence: float = 0.95) -> Interval:
        """Holds the number before noise, over the noise; exact for the lattice law."""
        miss = 1.0 - check.inside("confidence", confidence)
        # A count of so many units lies in [0, of]: the nearest such number is nearer to it than the released one.
        value = self.value if self.of is None else min(max(self.value, 0.0), float(self.of))
        if self.shown_from is None:
            half = self.noise.half_width(miss) + (0.0 if self._whole else math.ulp(self.value) / 2.0)
            low, high = value - half, value + half
        else:
            ends = kept_values(np.array([self.value]), self.noise, self.shown_from, miss)
            low, high = (float(end[0]) for end in ends)
        if self.of is not None:
            low, high = max(min(low, value), 0.0), min(max(high, value), float(self.of))
        limits = (-math.inf, math.inf) if self.of is None else (0.0, float(self.of))
        return Interval(low, high, confidence, self.about, "noise", FINITE, self._notes, limits)

    def population_interval(self, *, confidence: float = 0.95) -> Interval:
        """Holds the share of the population from which ``of`` units were drawn independently.

        Exact inversion of Binomial plus noise: every share p with Pr[Y <= y] >= a/2 and Pr[Y >= y] >= a/2
        (docs/theory/inference.md).
        """
        miss = 1.0 - check.inside("confidence", confidence)
        low, high = kept_shares(self.value, self.law, miss)
        about = f"share of {self.about}"
        return Interval(low, high, confidence, about, "population", FINITE, self._notes, (0.0, 1.0))

    @property
    def _whole(self) -> bool:
        """True if number and noise are whole, so that nothing is rounded in adding them."""
        whole = self.noise.rounding == 0.0 and self.noise.step == 1.0
        return whole and abs(self.value) < 2.0**52 and self.value % 1.0 == 0.0

    @property
    def _size(self) -> int:
        if self.of is None:
            raise Refused(
                "no population interval: it needs the public number of units behind the count, each counted at most "
                "once. Try: of=... where one unit is one row; Mean(...) for a clamped mean; noise_interval()"
            )
        return self.of

    @property
    def _notes(self) -> tuple[str, ...]:
        return () if self.shown_from is None else (SUPPRESSED.format(self.shown_from),)


def cells(
    values: Sequence[float], *, noise: Any, about: Sequence[str] | str = "this number", of: int | None = None
) -> tuple[Released, ...]:
    """The numbers of one vector, histogram or table column, each with its own interval.

    For intervals that hold together, ask each for ``confidence = 1 - 0.05 / len(values)`` (Bonferroni).

    >>> [cell.value for cell in cells([3, 5], noise=Noise.laplace(scale=1), about=["north", "south"])]
    [3.0, 5.0]
    """
    named = [about] * len(values) if isinstance(about, str) else list(about)
    if len(named) != len(values):
        raise InvalidInput("about", f"{len(named)} texts", f"one text, or {len(values)}: one for each value")
    law, sample = Noise.of(noise), f"cells {next(_VECTORS)}"
    pairs = zip(values, named, strict=True)
    return tuple(Released(value, law, text, of, sample=sample) for value, text in pairs)
