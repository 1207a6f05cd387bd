"""A third witness: delta at one epsilon by listing every joint outcome, beside one Gaussian in closed form.

Slow and memory-hungry, so it is asked only where the accountant and an oracle disagree.  Laws come from fast_laws.py;
nothing of the accountant is used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from reference import fast
from reference.oracle import OracleCannot

MOST = 60_000_000
"""Joint outcomes that are listed at most."""


def gaussian_profile(mu: float, thresholds: np.ndarray) -> np.ndarray:
    near, far = thresholds / mu - mu / 2, thresholds / mu + mu / 2
    high = np.maximum(near, -1.0)
    scaled = 0.5 * np.exp(-0.5 * high**2)
    scaled *= erfcx(high / math.sqrt(2)) - erfcx(np.maximum(far, high + mu) / math.sqrt(2))
    plain = ndtr(-near) - np.exp(np.minimum(thresholds + log_ndtr(-far), 0.0))
    return np.where(near < -1.0, plain, scaled)


def delta(terms: list[dict[str, Any]], *, epsilon: float, direction: str) -> float:
    """delta(epsilon) in one direction, good to about 1e-10 relative."""
    whole = fast.merged(terms, direction)
    mu = math.sqrt(float(sum(law.variance for law in whole.laws if law.variance)))
    atoms = fast.Sum([law for law in whole.laws if not law.variance])
    if not atoms.laws or not all(law.atoms for law in atoms.laws):
        raise OracleCannot("not a sum of atoms and one Gaussian")
    theta = whole.threshold(epsilon)
    kept, fast.MOST_STATES = fast.MOST_STATES, MOST // 6
    try:
        level, even, rest = fast.combined(atoms, theta)
    finally:
        fast.MOST_STATES = kept
    if len(even.loss) * len(rest.loss) > MOST:
        raise OracleCannot("too many joint outcomes to list")
    total = 0.0
    short, long = sorted((even, rest), key=lambda states: len(states.loss))
    for loss, weight in zip(short.loss.tolist(), short.weight.tolist(), strict=True):
        x = (long.loss + loss).astype(float)
        tilted = long.weight.astype(float) * weight * np.exp(float(level) - theta * x)
        gain = gaussian_profile(mu, epsilon - x) if mu > 0.0 else np.maximum(0.0, -np.expm1(epsilon - x))
        total += float(np.sum(tilted * gain))
    return total + fast.infinite_mass(whole)
