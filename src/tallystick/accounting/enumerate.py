"""Compositions of finitely many outcomes, outcome by outcome: no grid, no tilt, nothing to certify but rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tallystick.accounting.pair import DominatingPair
from tallystick.numerics.law import Law

LIMIT = 2**17
"""Largest number of joint outcomes that are listed."""


def enumerated(terms: Sequence[tuple[DominatingPair, int]]) -> Law | None:
    """The law of the whole composition, if it is exact, finite and has at most LIMIT outcomes."""
    size = 1
    for pair, count in terms:
        if pair.upper is not pair.lower or pair.upper.segments or not pair.upper.atoms.size:
            return None
        size *= math.comb(count + pair.upper.atoms.size - 1, count) if pair.upper.atoms.size < 40 or count == 1 else LIMIT + 1
        if size > LIMIT:
            return None
    losses, logs, finite = np.zeros(1), np.zeros(1), 0.0
    for pair, count in terms:
        more, weights = _repeated(pair.upper, count)
        losses = (losses[:, None] + more[None, :]).ravel()
        logs = (logs[:, None] + weights[None, :]).ravel()
        finite += count * math.log1p(-pair.upper.infinity) if pair.upper.infinity < 1.0 else -math.inf
    order = np.argsort(losses, kind="stable")
    return Law(losses[order], logs[order], infinity=-math.expm1(finite))


def _repeated(law: Law, count: int) -> tuple[np.typing.NDArray[np.float64], np.typing.NDArray[np.float64]]:
    """Losses and log-masses of ``count`` independent copies, by the numbers of times each atom occurs."""
    if count == 1:
        return law.atoms, law.log_masses
    remaining = np.array([count], dtype=np.float64)
    losses, logs = np.zeros(1), np.array([math.lgamma(count + 1.0)])
    log_factorial = np.array([math.lgamma(k + 1.0) for k in range(count + 1)])
    for index in range(law.atoms.size):
        last = index == law.atoms.size - 1
        picks, parents = [], []
        for parent, left in enumerate(remaining.astype(int).tolist()):
            taken = np.array([left]) if last else np.arange(left + 1)
            picks.append(taken)
            parents.append(np.full(taken.size, parent))
        taken, parent_of = np.concatenate(picks), np.concatenate(parents)
        losses = losses[parent_of] + taken * law.atoms[index]
        logs = logs[parent_of] + taken * law.log_masses[index] - log_factorial[taken]
        remaining = remaining[parent_of] - taken
    return losses, logs
