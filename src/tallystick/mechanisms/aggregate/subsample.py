"""Subsample and aggregate: any statistic, made private without knowing its sensitivity (Smith 2011, Algorithm 1).

The records are dealt into k blocks at random, the statistic is computed on each block, and the k results go into the
noisy widened winsorised mean. One record is in one block, so it changes one of the k numbers, whatever the statistic
does. The mean's noise falls only a little faster than the statistic's own error (as n^-0.527 against n^-0.5) and starts
far above it: 21 times the sampling error at a million records and epsilon = 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency, Protects
from tallystick.errors import InvalidInput
from tallystick.mechanisms.aggregate.winsorized import WinsorizedMean, noise_over_sampling, winsorized_mean
from tallystick.mechanisms.base import Mechanism
from tallystick.mechanisms.exact.randomness import SYSTEM, Source
from tallystick.mechanisms.exact.uniform import integers
from tallystick.mechanisms.inputs import array_or_list, double, length, list_length, number

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Statistic = Callable[[NDArray[Any]], Any]
_TOO_MUCH = 1.5


class SmallSample(UserWarning):
    """The noise of subsample-and-aggregate is likely to be larger than the sampling error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsampleAndAggregate(Mechanism[tuple[NDArray[Any], bool], NDArray[np.float64]]):
    """A private version of a statistic; built by :func:`subsample_and_aggregate`."""

    statistic: Statistic
    blocks: int
    means: tuple[WinsorizedMean, ...]
    protects: Protects

    @property
    def privacy(self) -> PrivacyLoss:
        """The sum of the coordinates' winsorised means."""
        first, *others = (mean.privacy for mean in self.means)
        return sum(others, start=first)

    def prepare(self, value: Any, *, strict: bool) -> tuple[NDArray[Any], bool]:
        """Check the records and warn if the noise will be large. An account asks here before it charges."""
        prepared = self.checked(value, strict=strict)
        self.warn_of_noise(stacklevel=4)
        return prepared

    def release(self, value: Any, *, source: Source = SYSTEM) -> Any:
        """One release, with the warning about large noise.

        An account calls this after the charge. A filter that turns warnings into errors must not lose the answer then,
        so that the warning does not raise here.
        """
        prepared = self.checked(value, strict=False)
        with suppress(SmallSample):
            self.warn_of_noise(stacklevel=3)
        return self.release_prepared(prepared, source)

    def checked(self, value: Any, *, strict: bool) -> tuple[NDArray[Any], bool]:
        """Check the records as ``prepare`` does, without the warning."""
        records = _records(value, strict=strict)
        fixed = self.protects.adjacency is Adjacency.REPLACE  # then the number of records is public
        if fixed and records.shape[0] < self.blocks:
            raise InvalidInput(
                "value", f"{records.shape[0]} records", f"at least one record for each of {self.blocks} blocks"
            )
        return records, strict

    def warn_of_noise(self, *, stacklevel: int) -> None:
        """Warn if public numbers say that the noise is larger than the sampling error."""
        if self.noise_over_sampling <= _TOO_MUCH:
            return
        warnings.warn(
            f"for a statistic that is about normal the noise is about {self.noise_over_sampling:.0f} times its "
            "sampling error, more where the bounds are so wide that the quartiles are off (see subsample_noise); "
            "consider rho= (Gaussian noise), or a mechanism made for this statistic",
            SmallSample,
            stacklevel=stacklevel,
        )

    @property
    def noise_over_sampling(self) -> float:
        """Predicted noise over sampling error, of the worst coordinate, if its bounds are wide: public."""
        return max(
            noise_over_sampling(count=self.blocks, widening=mean.widening, epsilon=mean.epsilon, rho=mean.rho)
            for mean in self.means
        )

    def draw(self, prepared: tuple[NDArray[Any], bool], source: Source) -> NDArray[np.float64]:
        records, strict = prepared
        dealt = self._deal(records.shape[0], source)
        results = np.array([self._on(records[dealt == block], strict=strict) for block in range(self.blocks)])
        released = [mean.draw(mean.prepare(results[:, j], strict=False), source) for j, mean in enumerate(self.means)]
        return np.clip(released, *self.ends)  # the bounds are public: this is post-processing

    @property
    def ends(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Least and largest answer of each coordinate: the lattice points next to the public bounds, inside them."""
        low = [mean.lattice.value(mean.lattice.first) for mean in self.means]
        high = [mean.lattice.value(mean.lattice.last) for mean in self.means]
        return np.array(low), np.array(high)

    def error(self, *, confidence: float, width: float) -> float:
        """Half-width of the noise when the blocks' numbers are clamped to a range this long; in every coordinate.

        How far the statistic of a block is from that of all records is not part of it.
        """
        each = 1 - (1 - check.inside("confidence", confidence)) / len(self.means)
        return max(mean.error(confidence=each, count=self.blocks, width=width) for mean in self.means)

    def _deal(self, count: int, source: Source) -> NDArray[np.int64]:
        """The block of each record, independent of all records."""
        if self.protects.adjacency is Adjacency.ADD_REMOVE:
            # Every record draws for itself, so one more changes no other.
            return integers(self.blocks, size=count, source=source)
        blocks = np.empty(count, dtype=np.int64)
        blocks[shuffled(count, source)] = np.arange(count) % self.blocks
        return blocks

    def _on(self, block: NDArray[Any], *, strict: bool) -> NDArray[np.float64]:
        """The statistic on one block; what cannot be computed is the middle of the bounds, unless strict."""
        middle = np.array([mean.lattice.value((mean.lattice.first + mean.lattice.last) // 2) for mean in self.means])
        if block.shape[0] == 0:
            return middle
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # a warning says something about the block, too
                values = np.atleast_1d(np.asarray(self.statistic(block), dtype=np.float64))
        except (Exception, SystemExit):
            # An error that depends on the data would be a release; who calls directly (strict) asked to see it.
            if strict:
                raise
            return middle
        if values.shape != middle.shape:
            if not strict:
                return middle
            raise InvalidInput(
                "statistic", f"a result of shape {values.shape}", f"{middle.size} numbers, one per bounds"
            )
        return np.where(np.isfinite(values), values, middle)


def _records(value: Any, *, strict: bool) -> NDArray[Any]:
    """Records as doubles, each the nearest to itself, so that no record decides what type all others have.

    A list holds one number per record, and anything that is not a number is NaN; records of several fields come as an
    array, one row each, whose dtype is numeric or has named fields.
    """
    allowed = "a list of numbers, or an array with one record of numbers (or named fields) per row"
    size = list_length("value", value, allowed, least=0)
    value = array_or_list(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim >= 1:
        return value.astype(np.float64)
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        return value
    if isinstance(value, np.ndarray) and (value.ndim != 1 or value.dtype.kind != "O"):
        raise InvalidInput("value", f"array of {value.dtype}, shape {value.shape}", allowed)
    try:
        array = np.asarray(value)
    except Exception:  # an entry that refuses: each is looked at by itself
        array = np.empty(0, dtype=object)
    if array.shape == (size,) and array.dtype.kind in "biuf":
        return array.astype(np.float64)
    numbers = [number(entry) for entry in value]
    if strict and any(entry is None for entry in numbers):
        raise InvalidInput("value", "a record that is not a number", allowed)
    return np.array([math.nan if entry is None else double(entry) for entry in numbers], dtype=np.float64)


def shuffled(count: int, source: Source) -> NDArray[np.int64]:
    """A uniform permutation: random words put in order, drawn again if two are equal.

    >>> from tallystick.mechanisms.exact.randomness import SYSTEM
    >>> sorted(shuffled(3, SYSTEM).tolist())
    [0, 1, 2]
    """
    while True:
        words = source.words(count)
        order = np.argsort(words)
        if count < 2 or not (np.diff(words[order]) == 0).any():
            return order.astype(np.int64)


def blocks_for(count: int, *, widening: float = 0.1) -> int:
    """The notes' number of blocks for a public number of records: n^{1/2 - eta}, at least 4.

    >>> blocks_for(1_000_000)
    251
    """
    return max(
        4, math.floor(math.pow(check.count("count", count, least=1), 0.5 - check.probability("widening", widening)))
    )


def _each(bounds: Any) -> list[tuple[float, float]]:
    """One pair of bounds as a list of one."""
    allowed = "(lower, upper), or a list of such pairs"
    if not isinstance(bounds, (Sequence, np.ndarray)) or isinstance(bounds, (str, bytes)):
        raise InvalidInput("bounds", bounds, allowed)
    if length("bounds", bounds, allowed) == 0:
        raise InvalidInput("bounds", bounds, allowed)
    return list(bounds) if hasattr(bounds[0], "__len__") else [bounds]  # type: ignore[list-item]


def subsample_and_aggregate(
    *,
    statistic: Statistic,
    blocks: int,
    bounds: tuple[float, float] | Sequence[tuple[float, float]],
    epsilon: float | None = None,
    rho: float | None = None,
    granularity: float | None = None,
    adjacency: Adjacency = Adjacency.REPLACE,
    unit: str | None = None,
) -> SubsampleAndAggregate:
    """A private version of any statistic with values in public bounds (docs/theory/winsorized-mean.md).

    ``statistic`` gets the records of one block as doubles. It must depend on its block only. Where it raises or returns
    no numbers, the middle of the bounds stands for that block alone.

    ``bounds`` is one pair, or one pair per coordinate of the statistic. No answer lies outside the bounds. ``blocks``
    is a public constant (:func:`blocks_for` when the number of records is public).

    >>> import numpy as np
    >>> median = subsample_and_aggregate(statistic=np.median, blocks=50, bounds=(0, 10), epsilon=100.0)
    >>> abs(float(median.release(np.full(1000, 4.0))[0]) - 4) < 0.1
    True
    """
    if not callable(statistic):
        raise InvalidInput("statistic", statistic, "a function from an array of records to one or several numbers")
    several = _each(bounds)
    size = len(several)
    protects = Protects(adjacency, unit)
    # Whether a record is replaced or comes and goes, it changes one block's number: REPLACE of one of the k.
    means = tuple(
        replace(
            winsorized_mean(
                bounds=pair,
                epsilon=None if epsilon is None else check.positive("epsilon", epsilon) / size,
                rho=None if rho is None else check.positive("rho", rho) / size,
                granularity=granularity,
            ),
            protects=protects,
        )
        for pair in several
    )
    return SubsampleAndAggregate(
        statistic=statistic, blocks=check.count("blocks", blocks, least=4), means=means, protects=protects
    )
