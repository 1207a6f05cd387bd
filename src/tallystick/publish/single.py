"""One private number without a ledger: what it would cost and how wrong it would be, before any data are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.digits import nearest, typed
from tallystick.errors import InvalidInput
from tallystick.publish import columns
from tallystick.tables.sources import unpaid_file

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

COUNT, MEAN, QUANTILE = "count", "mean", "quantile"


@dataclass(frozen=True, slots=True)
class Proposal:
    """Cost and error of a release, before any data is read; ``run`` reads and releases."""

    privacy: PrivacyLoss
    error: str
    width: float | None
    run: Callable[[], float]


@dataclass(frozen=True, slots=True)
class DataOptions:
    """The options that say where data are and what is public about them."""

    file: Path | None
    column: str | None
    equals: str | None
    lower: float | None
    upper: float | None

    def path(self) -> Path:
        """The file; refused where none is named."""
        if self.file is None:
            raise InvalidInput("file", None, "the CSV file to read")
        return self.file

    def named(self) -> str:
        """The column; refused where none is named."""
        if self.column is None:
            raise InvalidInput("column", None, "the name of the column to read")
        return self.column

    def bounds(self) -> tuple[float, float]:
        """The public bounds; refused where they are missing."""
        if self.lower is None or self.upper is None:
            raise InvalidInput("lower", None, "lower and upper: public bounds, chosen without looking at the data")
        if not self.lower < self.upper:
            raise InvalidInput("lower", self.lower, f"a bound below upper, {typed(self.upper)}")
        return self.lower, self.upper


def propose(
    what: str,
    source: DataOptions,
    epsilon: float,
    *,
    sensitivity: float | None = None,
    alpha: float = 0.5,
    confidence: float = 0.95,
) -> Proposal:
    """Return the release of a number, or of a statistic of a file that no ledger has registered."""
    if source.file is not None and source.file.exists():
        unpaid_file(source.file, "file", columns.PAID_FOR).close()
    if what == COUNT:
        return count(source, epsilon, confidence)
    if what == MEAN:
        return mean(source, epsilon, confidence)
    if what == QUANTILE:
        return quantile(source, epsilon, alpha, confidence)
    return number(what, epsilon, sensitivity, confidence)


def number(text: str, epsilon: float, sensitivity: float | None, confidence: float) -> Proposal:
    """A number that the caller has already."""
    from tallystick.mechanisms import noise

    try:
        value = float(text)
    except ValueError:
        raise InvalidInput("what", text, f"a number, or one of {COUNT}, {MEAN}, {QUANTILE}") from None
    if sensitivity is None:
        raise InvalidInput("sensitivity", None, "the most one person can change the number")
    mechanism = noise.add_laplace(epsilon=epsilon, sensitivity=sensitivity)
    mechanism.prepare(value, strict=True)
    width = mechanism.error(confidence=confidence)
    return Proposal(mechanism.privacy, f"within {nearest(width)}", width, lambda: _float(mechanism.release(value)))


def count(source: DataOptions, epsilon: float, confidence: float) -> Proposal:
    """The number of rows, or of those with a text in a column."""
    from tallystick.mechanisms import noise

    path = source.path()
    if source.equals is not None:
        source.named()
    mechanism = noise.add_discrete_laplace(epsilon=epsilon, sensitivity=1)
    width = float(mechanism.error(confidence=confidence))

    def run() -> float:
        return int(_float(mechanism.release(columns.rows_matching(path, source.column, source.equals))))

    return Proposal(mechanism.privacy, f"within {nearest(width)} rows", width, run)


def mean(source: DataOptions, epsilon: float, confidence: float) -> Proposal:
    """Noisy sum of distances from the middle of the bounds, over a noisy count; half of epsilon each."""
    from tallystick.mechanisms import noise

    path, column, (low, high) = source.path(), source.named(), source.bounds()
    middle, reach = (low + high) / 2, (high - low) / 2
    size = noise.add_discrete_laplace(epsilon=epsilon / 2, sensitivity=1)
    total = noise.add_laplace(epsilon=epsilon / 2, sensitivity=noise.sensitivity_of("sum", lower=-reach, upper=reach))

    def run() -> float:
        centred = [number - middle for number in columns.numbers(path, column)]
        away = _float(total.release(noise.exact_sum(centred, lower=-reach, upper=reach)))
        count = max(_float(size.release(len(centred))), 1.0)
        return min(max(middle + away / count, low), high)

    width = float(total.error(confidence=confidence))
    words = f"the sum of the column is within {nearest(width)}, so the mean within that over the number of rows"
    return Proposal(total.privacy + size.privacy, words, width, run)


def quantile(source: DataOptions, epsilon: float, alpha: float, confidence: float) -> Proposal:
    """A quantile of a column, by the exponential mechanism on the bounds."""
    from tallystick.mechanisms import select

    path, column = source.path(), source.named()
    mechanism = select.quantile(alpha=alpha, epsilon=epsilon, bounds=source.bounds())
    width = mechanism.error(confidence=confidence)
    words = f"the rank is within {nearest(width)} rows"
    return Proposal(mechanism.privacy, words, width, lambda: _float(mechanism.release(columns.numbers(path, column))))


def _float(value: Any) -> float:
    return float(value)
