"""Objective perturbation as the lecture notes have it (chapter 6), with its errata mended, and our softmax bound.

What ``ts.learn.LogisticRegression`` uses is stronger; page ``theory/objective-perturbation.md`` has both.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.rounding import up
from tallystick.theorems import require
from tallystick.theorems.gaussian import gdp_delta


def perturbation_ridge(*, epsilon: float, share: float, curvature: float) -> float:
    """gamma = curvature/(e^{epsilon (1 - q)} - 1): the ridge that costs epsilon (1 - q), q being noise's share.

    Lecture notes, section 6.1 and Theorem 6.1; page ``theory/objective-perturbation.md``.

    >>> round(perturbation_ridge(epsilon=1.0, share=0.5, curvature=0.25), 6)
    0.385374
    """
    e, q = check.positive("epsilon", epsilon), check.inside("share", share)
    # Rounded up: a smaller ridge would cost more. Beyond e^700 no double is left.
    return up(check.positive("curvature", curvature) / math.expm1(min(e * (1.0 - q), 700.0)))


def perturbation_error(
    *, rows: int, dimension: int, epsilon: float, share: float, sensitivity: float, curvature: float, bound: float,
    inverse: float = 1.0,
) -> tuple[float, float]:  # fmt: skip
    """(bias, spread): |Sigma^-1| gamma |theta|/n and |Sigma^-1| m Delta/(epsilon q n), the two parts of the error.

    Lecture notes, section 6.2, with |Sigma^-1| for 1/|Sigma| (erratum 54) and E|V| = m Delta/(epsilon q) counted once
    (erratum 55). ``inverse`` is |Sigma^-1|, ``bound`` |theta|, ``dimension`` m; ``theory/objective-perturbation.md``.

    >>> bias, spread = perturbation_error(
    ...     rows=1000, dimension=8, epsilon=1.0, share=0.2, sensitivity=1.0, curvature=0.25, bound=2.0)
    >>> round(spread * 1000, 6)
    40.0
    """
    n, m = require.steps("rows", rows), require.steps("dimension", dimension)
    ridge = perturbation_ridge(epsilon=epsilon, share=share, curvature=curvature)
    size, scale = check.nonnegative("bound", bound), check.positive("inverse", inverse)
    noise = m * check.positive("sensitivity", sensitivity) / (epsilon * share)
    return scale * ridge * size / n, scale * noise / n


def best_split(*, epsilon: float, dimension: int, sensitivity: float, curvature: float, bound: float) -> float:
    """The share q of epsilon for the noise that makes bias plus spread least: no data are looked at (Remark 6.3).

    |Sigma^-1| and n are factors of both, so they drop out. Page ``theory/objective-perturbation.md``.

    >>> round(best_split(epsilon=1.0, dimension=10, sensitivity=1.0, curvature=0.25, bound=3.0), 3)
    0.785
    """

    facts = {"epsilon": epsilon, "sensitivity": sensitivity, "curvature": curvature}

    def total(q: float) -> float:
        return sum(perturbation_error(rows=1, dimension=dimension, share=q, bound=bound, **facts))

    low, high = 1e-6, 1.0 - 1e-6
    for _ in range(100):  # both parts are convex in q
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, right) if total(left) <= total(right) else (left, high)
    return 0.5 * (low + high)


def perturbed_density(
    theta: Any, rows: Any, labels: Any, *, ridge: float, scale: float, noise: str = "laplace"
) -> NDArray[np.float64]:
    """The density of the released theta of logistic regression with one feature: f(V(theta)) |V'(theta)|.

    V(theta) = -(sum of gradients + ridge theta), labels are -1 or 1, ``noise`` is "laplace" (density e^{-|b|/scale}) or
    "gaussian" (deviation ``scale``). Lecture notes, proof of Theorem 6.1, with the determinants the right way up
    (erratum 29). Page ``theory/objective-perturbation.md``.

    >>> round(float(perturbed_density([0.0], [], [], ridge=1.0, scale=1.0)[0]), 6)
    0.5
    """
    from scipy.special import expit

    lam, wide = check.positive("ridge", ridge), check.positive("scale", scale)
    t, x, y = (np.asarray(values, dtype=np.float64).ravel() for values in (theta, rows, labels))
    if x.size != y.size or not np.all(np.abs(y) == 1.0):
        raise InvalidInput("labels", labels, "one of -1 and 1 for every row")
    pull = expit(-t[:, None] * (x * y)[None, :])
    b = (pull * (x * y)[None, :]).sum(axis=1) - lam * t
    slope: NDArray[np.float64] = lam + (pull * (1.0 - pull) * (x * x)[None, :]).sum(axis=1)
    if noise == "laplace":
        return np.asarray(slope * np.exp(-np.abs(b) / wide) / (2.0 * wide))
    if noise == "gaussian":
        return np.asarray(slope * np.exp(-0.5 * (b / wide) ** 2) / (wide * math.sqrt(2.0 * math.pi)))
    raise InvalidInput("noise", noise, '"laplace" or "gaussian"')


def softmax_perturbation_delta(*, epsilon: float, classes: int, sigma: float, ridge: float) -> float:
    """(K - 1) G(epsilon - kappa; sqrt 2/sigma) for softmax, noise in its objective; kappa = (K-1) log(1 + 1/(K ridge)).

    Rows of norm at most 1; both directions; 1 below kappa. Ours; page ``theory/objective-perturbation.md``.

    >>> softmax_perturbation_delta(epsilon=3.0, classes=10, sigma=1.0, ridge=0.02)  # the truth is .138
    1.0
    """
    e, k = check.nonnegative("epsilon", epsilon), check.count("classes", classes, least=2)
    mu = math.sqrt(2.0) / check.scale("sigma", sigma)
    rest = e - (k - 1) * math.log1p(1.0 / (k * check.positive("ridge", ridge))) * (1.0 + 1e-12)
    return 1.0 if rest < 0.0 else min(1.0, (k - 1) * gdp_delta(epsilon=rest, mu=mu) * (1.0 + 1e-12))
