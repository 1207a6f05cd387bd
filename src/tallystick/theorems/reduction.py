"""From approximate to pure: an (epsilon, delta)-close pair is near a purely epsilon-close one. Constructive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallystick.accounting import check
from tallystick.rounding import delta_up
from tallystick.theorems import require
from tallystick.theorems.require import Floats


@dataclass(frozen=True, slots=True)
class PureReduction:
    """P' and Q' with p' <= e^eps q' and q' <= e^eps p' everywhere, and how far they are from P and Q.

    ``distance`` bounds both TV(P, P') and TV(Q, Q'); it is delta/(1 + e^eps) at most, where ``delta`` is the larger
    hockey-stick divergence of the given pair.
    """

    p: tuple[float, ...]
    q: tuple[float, ...]
    distance: float
    delta: float


def reduce_to_pure(p: Sequence[float] | Floats, q: Sequence[float] | Floats, *, epsilon: float) -> PureReduction:
    """The reduction behind advanced composition for (epsilon, delta) steps, carried out on a finite pair.

    Composition notes (000) ("reduction of approximate DP to pure DP", TV <= delta); this one is the sharper lemma of
    Dwork, Rothblum, Vadhan 2010 with TV <= delta/(1 + e^eps). On every outcome beyond the ratio the two masses are
    moved to the ratio keeping their sum; what then misses from a total is taken where the other side is heavier, which
    only brings the two closer. Page ``theory/approximate-to-pure.md``. The distance is rounded up.

    >>> found = reduce_to_pure([0.9, 0.1, 0.0], [0.1, 0.8, 0.1], epsilon=1.0)
    >>> max(abs(math.log(a / b)) for a, b in zip(found.p, found.q)) <= 1.0 + 1e-12
    True
    >>> found.distance <= found.delta / (1 + math.e) + 1e-12
    True
    """
    first, second = require.pair(p, q)
    ratio = math.exp(min(check.nonnegative("epsilon", epsilon), 700.0))
    both = first + second
    above, below = first > ratio * second, second > ratio * first
    near = np.where(above, both * (ratio / (1.0 + ratio)), np.where(below, both / (1.0 + ratio), first))
    far = np.where(above, both / (1.0 + ratio), np.where(below, both * (ratio / (1.0 + ratio)), second))
    missing = float(1.0 - np.sum(near))
    if missing != 0.0:
        # missing > 0: P' is short, and it is short exactly where Q' is heavier; the other way round likewise
        room = np.maximum((far - near) * math.copysign(1.0, missing), 0.0) / 2.0
        total = float(np.sum(room))
        share = min(1.0, abs(missing) / total) if total > 0.0 else 0.0
        moved = room * share * math.copysign(1.0, missing)
        near, far = near + moved, far - moved
    lost = float(np.sum(np.maximum(first - ratio * second, 0.0)))
    back = float(np.sum(np.maximum(second - ratio * first, 0.0)))
    distance = max(float(np.sum(np.abs(first - near))), float(np.sum(np.abs(second - far)))) / 2.0
    return PureReduction(
        tuple(near.tolist()), tuple(far.tolist()), delta_up(distance + 4e-16), delta_up(max(lost, back) + 4e-16)
    )
