"""Many points, many equidistant times: characteristic functions by one FFT, with a bound on the error, or directly.

Each point is spread over its ``2 SPREAD`` nearest grid points with a Gaussian g(x) = e^{-x^2 / (4 tau)}; the FFT of the
grid divided by the transform of g is the answer (Dutt and Rokhlin 1993). With N grid points, A = tau N^2 and
frequencies |k| <= N / (2 OVERSAMPLING), the error of a unit mass is at most the sum of

    aliases      2 sum over p >= 1 of e^{-A (p^2 - p / OVERSAMPLING)}                       (Poisson summation)
    truncation   2 sum over j >= SPREAD of e^{-(pi j)^2 / A}, over the last transform of g that is divided by
    rounding     of the FFT, of the exponentials and of the running sums, over the same
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tallystick.numerics.law import UNIT, Array

OVERSAMPLING = 3.0
SPREAD = 14
SHAPE = 52.0
"""A = tau N^2: where the alias and the truncation error are about equal, 1e-15 each."""

AMPLIFIED = math.exp(SHAPE / (4.0 * OVERSAMPLING**2))
"""The transform of g at zero over that at the last frequency that is used."""

FEW = 16
"""Points in one inner product, and such products added in a row: 24 and 8 units in the last place."""

LARGEST_TABLE = 400_000
"""Numbers that are held at once while a characteristic function is summed."""


def nonuniform_error(size: int, crowd: int) -> float:
    """Bound on every coefficient's error relative to the sum of the weights; at most ``crowd`` points share a cell.

    >>> 1e-15 < nonuniform_error(2**16, 10) < 1e-12
    True
    """
    alias = 2.0 * sum(math.exp(-SHAPE * (p * p - p / OVERSAMPLING)) for p in (1, 2, 3))
    beyond = 2.0 * sum(math.exp(-((math.pi * j) ** 2) / SHAPE) for j in range(SPREAD, SPREAD + 8))
    truncation = math.sqrt(math.pi / SHAPE) * AMPLIFIED * beyond
    rounding = (8.0 * math.log2(size) + 4.0 * SPREAD + crowd) * UNIT * AMPLIFIED
    return 2.0 * (alias + truncation) + rounding


def grid_size(count: int) -> int:
    """Grid for ``count`` times 0 .. count - 1: a power of two or three quarters of one, oversampled."""
    least = math.ceil(2.0 * OVERSAMPLING * max(count, 2 * SPREAD))
    power = 1 << (least - 1).bit_length()
    return 3 * power // 4 if 3 * power // 4 >= least else power


def nonuniform_transform(
    points: Array, weights: Array, spacing: float, count: int
) -> tuple[npt.NDArray[np.complex128], float]:
    """sum over j of weights_j e^{i k spacing points_j} for k = 0 .. count - 1, weights >= 0, and its relative error.

    >>> x, w = np.array([0.3, -1.7, 40.0]), np.array([0.5, 0.25, 0.25])
    >>> direct = np.exp(1j * np.outer(0.1 * np.arange(50), x)) @ w
    >>> found, error = nonuniform_transform(x, w, 0.1, 50)
    >>> bool(np.max(np.abs(found - direct)) < error)
    True
    """
    size = grid_size(count)
    position = np.remainder(points * (spacing / (2.0 * math.pi)), 1.0) * size
    # A remainder just below one may be rounded to it.
    nearest = np.minimum(np.floor(position).astype(np.int64), size - 1)
    offset = position - nearest
    # exp(-(j - offset)^2 c) = exp(-offset^2 c) exp(2 c offset)^j exp(-j^2 c): two exponentials for all j.
    c = math.pi**2 / SHAPE
    ratio = np.exp(2.0 * c * offset)
    value = weights * np.exp(-c * offset * offset) * ratio ** (1 - SPREAD)
    grid = np.zeros(size + 2 * SPREAD)
    for j in range(1 - SPREAD, SPREAD + 1):
        grid += np.bincount(nearest + (j + SPREAD), value * math.exp(-c * j * j), minlength=grid.size)
        value *= ratio
    # Fold the margins back: the grid is a circle.
    folded = grid[SPREAD : SPREAD + size].copy()
    folded[-SPREAD:] += grid[:SPREAD]
    folded[:SPREAD] += grid[SPREAD + size :]
    kernel = math.sqrt(SHAPE / math.pi) * np.exp(-SHAPE * (np.arange(count) / size) ** 2)
    # numpy's transform has e^{-i}; ours has e^{+i}.
    spectrum: npt.NDArray[np.complex128] = np.fft.rfft(folded)[:count]
    return spectrum.conj() / kernel, nonuniform_error(size, int(np.bincount(nearest).max(initial=0)))


def direct_transform(points: Array, weights: Array, spacing: float, count: int) -> npt.NDArray[np.complex128]:
    """sum of weights e^{i k spacing points} for k = 0 .. count - 1, rounded by less than 40 units beside its angles.

    The times are a table: k = i columns + j turns by both factors, so few exponentials and one product of matrices do.
    No inner product is longer than FEW, and at most FEW of them are added in a row, which bounds the rounding.
    """
    columns = math.ceil(math.sqrt(count))
    rows = -(-count // columns)
    return _table(points, weights, spacing, rows, columns).ravel()[:count]


def _table(points: Array, weights: Array, spacing: float, rows: int, columns: int) -> npt.NDArray[np.complex128]:
    if points.size > FEW * min(FEW, max(1, LARGEST_TABLE // (rows * columns))):
        half = points.size // 2
        left = _table(points[:half], weights[:half], spacing, rows, columns)
        left += _table(points[half:], weights[half:], spacing, rows, columns)
        return left
    padded = np.zeros((2, -(-points.size // FEW) * FEW))
    padded[:, : points.size] = points, weights
    places, masses = padded.reshape(2, -1, 1, FEW)
    coarse = _turned((spacing * (columns * np.arange(rows, dtype=np.float64)))[:, None] * places)
    fine = _turned(places.transpose(0, 2, 1) * (spacing * np.arange(columns, dtype=np.float64)))
    table: npt.NDArray[np.complex128] = np.sum((coarse * masses) @ fine, axis=0)
    return table


def _turned(angle: Array) -> npt.NDArray[np.complex128]:
    """e^{i angle}."""
    out = np.empty(angle.shape, dtype=np.complex128)
    np.cos(angle, out=out.real)
    np.sin(angle, out=out.imag)
    return out
