"""Error from noise, from caps and from clamping, side by side for several caps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallystick.drawing import BLUE, INK, ORANGE, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet
from tallystick.printing import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CAUSES = (("noise", BLUE), ("caps", VERMILLION), ("clamping", ORANGE))


def rehearsed(lines: Sequence[tuple[str, float, float, float, float]], *, column: str) -> Figure:
    """Bars of one column's errors: each line is a label, the errors from noise, caps and clamping, and all together.

    >>> figure = rehearsed([("1 x 1", 2.0, 9.0, 0.5, 11.0), ("1 x 4", 8.0, 1.0, 0.5, 9.0)], column="n")
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['all together', 'noise', 'caps', 'clamping']
    """
    if not lines:
        raise InvalidInput("lines", lines, "at least one pair of caps")
    figure, axes = sheet(
        title=f"How far {escaped(column)} is off, by cause",
        across="most groups x most rows in each",
        up="error of the middle group",
    )
    at = np.arange(len(lines))
    for i, (cause, colour) in enumerate(_CAUSES):
        axes.bar(at + (i - 1) * 0.26, [line[1 + i] for line in lines], width=0.24, color=colour, label=cause)
    axes.plot(at, [line[4] for line in lines], color=INK, marker="o", linewidth=1.2, label="all together")
    axes.set_xticks(at, [line[0] for line in lines])
    axes.legend()
    return figure
