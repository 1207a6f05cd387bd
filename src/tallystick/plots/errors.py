"""Error of a table against the number of rows of its groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallystick.digits import up
from tallystick.drawing import PALETTE
from tallystick.plots.canvas import sheet
from tallystick.plots.labels import finish
from tallystick.printing import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallystick.tables.plan import Plan


def errors(plan: Plan, sizes: Sequence[float] = ()) -> Figure:
    """Draw the error of each measure against the size of a group, from 10 to 10,000 rows or ``sizes``.

    Counts, sums and histograms have one error in all groups. Means, variances and quantiles have a
    smaller error in a larger group.
    """
    low, high = (min(sizes), max(sizes)) if sizes else (10, 10_000)
    at = np.geomspace(low, max(high, 2 * low), 49)
    by_size = plan.error_by_size(at.tolist())
    halves = {}
    for name, half in plan.error().items():
        falling = list(by_size[name].values()) if name in by_size else [half] * len(at)
        halves[name] = np.array(falling)
    figure, axes = sheet(
        title=_finding(halves, at),
        across="rows in the group",
        up="error (±, in 95 of 100 cases)",
    )
    for colour, (name, line) in zip(cycle(PALETTE), halves.items(), strict=False):
        style = "-" if name in by_size else "--"
        axes.plot(at, line, color=colour, linestyle=style, label=escaped(name))
    axes.set_xscale("log")
    axes.set_yscale("log")
    finish(axes)
    return figure


def _finding(halves: Mapping[str, NDArray[np.float64]], at: NDArray[np.float64]) -> str:
    """Return the error of the first measure that depends on the size, or of the first measure."""
    falling = [name for name, line in halves.items() if line[0] != line[-1]]
    name = (falling or list(halves))[0]
    line = halves[name]
    if not falling:
        return f"{escaped(name)}: ±{up(float(line[0]))} in every group"
    smallest, largest = (f"{round(size):,} rows" for size in (at[0], at[-1]))
    first = f"±{up(float(line[0]))} in a group of {smallest}"
    return f"{escaped(name)}: {first}, ±{up(float(line[-1]))} in one of {largest}"
