"""Parallel composition: disjoint parts cost the worst part, under conditions that are easy to miss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from tallystick.accounting import check
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.rounding import delta_up, up
from tallystick.theorems import require
from tallystick.theorems.piecewise import PiecewiseTradeoff, hull_of_min


def parallel_composition(
    *,
    epsilons: Iterable[float],
    deltas: Iterable[float] = (),
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
    split_by_record: bool,
) -> tuple[float, float]:
    """(max epsilon_i, max delta_i) when each record's own value decides its part, under add/remove only.

    Proposition 4.3 of the lecture notes. Its "any partitioning function of the database" is too much
    (erratum 49): a split at the median moves other people's records when one is added. Under replace it is false
    even record by record (Remark 4.3), because the parts' sizes change; page ``theory/parallel-composition.md``.
    Rounded up. Raises ``Refused`` when a condition fails.

    >>> epsilon, _ = parallel_composition(epsilons=[0.5, 1.0], split_by_record=True)
    >>> round(epsilon, 9)
    1.0
    """
    parts = require.numbers("epsilons", epsilons)
    slips = [check.probability("deltas", delta) for delta in deltas]
    if check.adjacency(adjacency) is Adjacency.REPLACE:
        raise Refused(
            "parallel composition is false under replace adjacency: changing a record can move it to another part, "
            "and the parts' sizes then differ; use add/remove losses and as_replace() the result"
        )
    if not split_by_record:
        raise Refused(
            "parallel composition needs a split that looks at one record at a time; a split that depends on the whole "
            "table (a median, clusters) moves other records too: use basic composition"
        )
    return up(max(parts)), delta_up(max(slips, default=0.0))


def parallel_tradeoff(functions: Sequence[PiecewiseTradeoff]) -> PiecewiseTradeoff:
    """The convex hull of the pointwise minimum: the trade-off version (Remark 4.2).

    Same conditions as ``parallel_composition``, one direction at a time; page ``theory/parallel-composition.md``.

    >>> f = PiecewiseTradeoff.of_approx_dp(epsilon=1.0)
    >>> parallel_tradeoff([f, PiecewiseTradeoff.identity()]) == f
    True
    """
    if not functions:
        raise InvalidInput("functions", functions, "at least one trade-off function")
    return reduce(hull_of_min, functions)
