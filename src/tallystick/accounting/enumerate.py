"""Compositions of finitely many outcomes, outcome by outcome: no grid, no tilt, nothing to certify but rounding."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tallystick.numerics.law import Law

LIMIT = 2**17
"""Largest number of joint outcomes that are listed."""


def enumerated(terms: Sequence[tuple[Law, int]]) -> Law | None:
    """The law of the whole composition, if it is finite and has at most LIMIT outcomes."""
    size = 1
    for law, count in terms:
        if law.segments or not law.atoms.size:
            return None
        few = law.atoms.size < 40 or count == 1
        size *= math.comb(count + law.atoms.size - 1, count) if few else LIMIT + 1
        if size > LIMIT:
            return None
    losses, logs, finite = np.zeros(1), np.zeros(1), 0.0
    for law, count in terms:
        more, weights = _repeated(law, count)
        losses = (losses[:, None] + more[None, :]).ravel()
        logs = (logs[:, None] + weights[None, :]).ravel()
        finite += count * math.log1p(-law.infinity) if law.infinity < 1.0 else -math.inf
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
