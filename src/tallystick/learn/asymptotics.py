"""How large the noise of mechanisms is for large n: covariances of Theorems 7.10 and 7.12, and of noise that was added
to an objective or to every step of a descent, to first order.

They need the curvature of the loss, which is data: what is computed from private data here is not for release.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.mechanisms.inputs import budget


def erm_covariance(inverse_hessian: Any, *, epsilon: float, sensitivity: float, rows: int) -> Any:
    """Covariance of the exponential mechanism's noise around the minimiser (Theorem 7.10); a number for a number.

    2 Delta/(epsilon n) Sigma with (1/n) L'' -> Sigma^-1 and density exp(-epsilon/(2 Delta) L). Section 7.5 of the notes
    prints 2 Delta/n Sigma (erratum 23). docs/theory/exponential-erm.md

    >>> round(erm_covariance(0.5, epsilon=0.7, sensitivity=1.5, rows=500), 9)
    0.004285714
    """
    sigma = _square(inverse_hessian)
    price, step = budget(epsilon, sensitivity)
    return _like(inverse_hessian, 2.0 * step / price / check.count("rows", rows, least=1) * sigma)


def kng_covariance(inverse_hessian: Any, *, epsilon: float, sensitivity: float, rows: int) -> Any:
    """Covariance of the K-norm gradient mechanism's noise, largest entry as norm (Theorem 7.12).

    n (theta - minimiser) -> Sigma u with u of density exp(-epsilon/(2 Delta) max|u_j|): a radius of Gamma law (d + 1)
    times a uniform point of the cube, so Cov u = (d + 1)(d + 2)/3 (2 Delta/epsilon)^2 I.

    >>> round(kng_covariance(1.0, epsilon=1.0, sensitivity=0.5, rows=10), 9)  # Laplace noise of scale 1/10
    0.02
    """
    sigma = _square(inverse_hessian)
    price, step = budget(epsilon, sensitivity)
    size, count = sigma.shape[0], check.count("rows", rows, least=1)
    factor = (size + 1) * (size + 2) / 3.0 * (2.0 * step / price / count) ** 2
    return _like(inverse_hessian, factor * sigma @ sigma.T)


def minimiser_covariance(curvature: Any, *, ridge: float, variance: float) -> Any:
    """Of the minimiser of an objective with noise of that variance per entry in its linear term: H^-1 variance H^-1.

    >>> float(minimiser_covariance([[3.0]], ridge=1.0, variance=4.0)[0, 0])
    0.25
    """
    inverse = np.linalg.inv(_square(curvature) + ridge * np.eye(len(curvature)))
    return variance * inverse @ inverse.T


def descent_covariance(curvature: Any, *, ridge: float, variance: float, rate: float, steps: int) -> Any:
    """Of the last of ``steps`` gradient steps, each with noise of that variance per entry in the iterate.

    theta <- (I - rate (H + ridge)) theta + noise, so the sum over k < steps of variance (I - rate (H + ridge))^2k.

    >>> round(float(descent_covariance([[0.0]], ridge=0.0, variance=2.0, rate=0.1, steps=5)[0, 0]), 9)
    10.0
    """
    values, vectors = np.linalg.eigh(_square(curvature))
    kept = (1.0 - rate * (values + ridge)) ** 2
    sums = np.array([sum(share**k for k in range(steps)) for share in kept.tolist()])
    return variance * (vectors * sums) @ vectors.T


def _square(value: Any) -> Any:
    allowed = "a number or a square matrix of finite numbers"
    try:
        table = np.atleast_2d(np.asarray(value, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidInput("matrix", value, allowed) from None
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not np.isfinite(table).all():
        raise InvalidInput("matrix", value, allowed)
    return table


def _like(given: Any, found: Any) -> Any:
    return float(found[0, 0]) if np.ndim(given) == 0 else found
