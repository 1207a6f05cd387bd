"""Correlated Gaussian noise: trees, DP-FTRL and banded matrix mechanisms, for every pattern of taking part.

Released is C G + sigma Z, rows of G the steps' sums, Z independent noise; what training sees is a function of it, also
where later gradients depend on earlier releases, as no row of C looks ahead (Denisov et al. 2022). It is one Gaussian
release with sensitivity S = max over the patterns of one unit of |sum of C's columns times the unit's vectors|, so
S^2 <= the largest sum of |<c_i, c_j>| over a pattern. docs/theory/correlated-noise.md bounds it for every strategy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.leaves.gaussian import LARGEST_MU, Gaussian
from tallystick.accounting.leaves.last_iterate import Walked
from tallystick.accounting.leaves.tabulated import Numbers
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of
from tallystick.digits import typed
from tallystick.errors import InvalidInput
from tallystick.numerics.law import Array

MOST_STEPS = 10**6
LARGEST_MATRIX = 2000
LARGEST_ENTRY = 1e6
ROUNDED = 1.0 + 1e-12
"""Sums of up to MOST_STEPS numbers >= 0, each a product or two: their relative error is below this."""


@dataclass(frozen=True, slots=True)
class Correlated(Walked):
    """``sigma`` in units of what one unit moves in one step; no coefficients are a binary tree over the steps."""

    kind: ClassVar[str] = "correlated"
    sigma: float
    steps: int
    coefficients: Numbers | None
    uses: int
    separation: int

    def __post_init__(self) -> None:
        check.keep(self, sigma=check.scale("sigma", self.sigma))
        check.keep(self, steps=check.count("steps", self.steps, least=1, most=MOST_STEPS))
        uses, separation = participation(self.uses, self.separation, self.steps)
        check.keep(self, uses=uses, separation=separation)
        if self.coefficients is not None:
            allowed = f"one to steps numbers of size at most {typed(LARGEST_ENTRY)}, the first not 0"
            if not isinstance(self.coefficients, tuple) or not 1 <= len(self.coefficients) <= self.steps:
                raise InvalidInput("coefficients", self.coefficients, allowed)
            given = tuple(check.finite("coefficients", c, allowed) for c in self.coefficients)
            if given[0] == 0.0 or max(map(abs, given)) > LARGEST_ENTRY:
                raise InvalidInput("coefficients", self.coefficients, allowed)
            check.keep(self, coefficients=given)
        if not 0.0 < self.mu <= LARGEST_MU:
            raise InvalidInput("sigma", self.sigma, f"noise that makes the release {typed(LARGEST_MU)}-GDP at least")

    @property
    def mu(self) -> float:
        return self.sensitivity / self.sigma * ROUNDED

    @property
    def sensitivity(self) -> float:
        """How far one unit moves C G at most, in units of what it moves in one step; rounded up."""
        if self.coefficients is None:
            return tree_sensitivity(self.steps, self.uses, self.separation)
        return toeplitz_sensitivity(self.coefficients, self.steps, self.uses, self.separation)

    def conditions(self) -> str:
        how = "a binary tree" if self.coefficients is None else f"a band of {len(self.coefficients)}"
        return (
            f"correlated noise ({how} over {self.steps} steps): {self.mu:.6g}-GDP, if one unit takes part at most "
            f"{self.uses} times with {self.separation} steps from one time to the next, for every pattern"
        )


@constructor
def correlated(
    *,
    sigma: float,
    steps: int | None = None,
    coefficients: Iterable[Any] | None = None,
    matrix: Any = None,
    uses: int = 1,
    separation: int = 1,
    adjacency: Any = Adjacency.ADD_REMOVE,
    unit: str | None = None,
) -> PrivacyLoss:
    """Noise that is correlated over steps: a tree (neither argument), a band of ``coefficients``, or any ``matrix`` C.

    Released is C G + N(0, sigma^2), sigma in units of what one unit moves in one step. ``coefficients`` are C's first
    column, the same in every step; a ``matrix`` has one column per step and no row that looks ahead. One unit takes
    part at most ``uses`` times, at least ``separation`` steps apart; cyclic batches have a turn as their separation.

    >>> one = correlated(sigma=4, steps=1000, coefficients=[1, 0.5, 0.375], uses=10, separation=100)
    >>> round(one.gdp_bound(), 6), round(correlated(sigma=4, steps=1024, uses=1).gdp_bound(), 6)
    (0.932277, 0.829156)
    """
    if matrix is None:
        given = None if coefficients is None else tuple(check.vector("coefficients", coefficients, "numbers").tolist())
        whole = check.count("steps", steps, least=1, most=MOST_STEPS)
        return loss_of(Correlated(sigma, whole, given, uses, separation), adjacency, unit)
    if coefficients is not None or steps is not None:
        raise InvalidInput(
            "matrix", "given", "either coefficients= and steps=, or a matrix, whose columns are the steps"
        )
    noise = check.scale("sigma", sigma)
    size = matrix_sensitivity(matrix, uses, separation)
    return loss_of(Gaussian(noise / size / ROUNDED) if size > 0.0 else None, adjacency, unit)


def participation(uses: Any, separation: Any, steps: int) -> tuple[int, int]:
    """Checked: no unit takes part more often than this many steps apart allow."""
    apart = check.count("separation", separation, least=1, most=MOST_STEPS)
    return min(check.count("uses", uses, least=1), 1 + (steps - 1) // apart), apart


@lru_cache(maxsize=256)
def toeplitz_sensitivity(coefficients: Numbers, steps: int, uses: int, separation: int) -> float:
    """Of the lower triangular matrix with this first column: of its least decreasing majorant, in closed form.

    For decreasing c >= 0 no pattern is worse than steps 0, b, 2b, ...: <c_i, c_j> falls with j and with j - i.

    >>> toeplitz_sensitivity((1.0, 1.0), 2, 2, 1) >= 5**0.5
    True
    """
    sizes = np.abs(np.array(coefficients))
    own = uses * float(np.sum(sizes**2))
    if sizes.size <= separation:
        return math.sqrt(own) * ROUNDED  # columns of different uses do not overlap
    decreasing: Array = np.maximum.accumulate(sizes[::-1])[::-1]
    total = np.zeros(steps)
    for use in range(uses):
        start = use * separation
        reach = min(decreasing.size, steps - start)
        total[start : start + reach] += decreasing[:reach]
    return math.sqrt(float(np.sum(total**2))) * ROUNDED


def tree_sensitivity(steps: int, uses: int, separation: int) -> float:
    """Of all sums over nodes of a binary tree: on each level a node holds at most this many of the uses.

    >>> tree_sensitivity(8, 1, 1) ** 2 >= 4
    True
    """
    total = 0
    for level in range((steps - 1).bit_length() + 1):
        most = min(uses, -(-(2**level) // separation))
        full, rest = divmod(uses, most)
        total += full * most**2 + rest**2
    return math.sqrt(total) * ROUNDED


def matrix_sensitivity(matrix: Any, uses: int, separation: int) -> float:
    """Of any matrix: the worst partners of every step, then the worst pattern of such steps; rounded up."""
    allowed = f"a matrix of finite numbers, at most {LARGEST_MATRIX} columns, one for each step, of rows that end there"
    strategy = check.floats("matrix", matrix, allowed)
    if strategy.ndim != 2 or strategy.size == 0 or strategy.shape[1] > LARGEST_MATRIX:
        raise InvalidInput("matrix", f"an array of shape {strategy.shape}", allowed)
    if not np.all(np.abs(strategy) <= LARGEST_ENTRY):
        raise InvalidInput("matrix", "given", f"{allowed}, of size at most {typed(LARGEST_ENTRY)}")
    if strategy.shape[0] > 100 * LARGEST_MATRIX:
        raise InvalidInput("matrix", f"an array of shape {strategy.shape}", allowed)
    steps = strategy.shape[1]
    if strategy.shape[0] == steps and np.any(np.triu(strategy, 1)):
        raise InvalidInput("matrix", "given", "a square matrix that is lower triangular: no release looks ahead")
    times, apart = participation(uses, separation, steps)
    lengths = np.abs(strategy)
    # Rounding of an inner product is relative to the one of absolute values, not to itself.
    products = np.abs(strategy.T @ strategy) + 1e-12 * (lengths.T @ lengths)
    place = np.arange(steps)
    partners = np.where(np.abs(place[:, None] - place[None, :]) >= apart, products, 0.0)
    worst = np.diag(products) + _patterns(partners, times - 1, apart)
    return math.sqrt(float(_patterns(worst[None, :], times, apart)[0])) * ROUNDED


def _patterns(weights: Array, uses: int, separation: int) -> Array:
    """For each row the largest sum over at most ``uses`` columns that are ``separation`` apart."""
    best = np.zeros(weights.shape)
    for _ in range(uses):
        before = np.zeros(weights.shape)
        before[:, separation:] = best[:, :-separation] if separation < weights.shape[1] else 0.0
        best = np.maximum.accumulate(weights + before, axis=1)
    result: Array = best[:, -1]
    return result
