"""How wrong a table will be, against how many rows its groups have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallystick.drawing import PALETTE
from tallystick.plots.canvas import sheet
from tallystick.printing import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tallystick.tables.plan import Plan


def errors(plan: Plan, sizes: Sequence[float] = ()) -> Figure:
    """The error of each measure of a plan against the size of a group, from 10 to 10,000 rows or over ``sizes``.

    Counts, sums and histograms are as wrong in every group; means, variances and quantiles the less, the larger it is.
    """
    low, high = (min(sizes), max(sizes)) if sizes else (10, 10_000)
    at = np.geomspace(low, max(high, 2 * low), 49)
    by_size = plan.error_by_size(at.tolist())
    figure, axes = sheet(
        title="How wrong the table will be", across="rows in the group", up="error in 95 of 100 cases, plus or minus"
    )
    for i, (name, half) in enumerate(plan.error().items()):
        flat = name not in by_size
        halves = np.full(len(at), half) if flat else np.array(list(by_size[name].values()))
        axes.plot(at, halves, color=PALETTE[i % len(PALETTE)], linestyle="--" if flat else "-", label=escaped(name))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.legend()
    return figure
