"""Error from noise, from limits and from bounds, side by side for several limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallystick.digits import up
from tallystick.drawing import BLUE, INK, ORANGE, VERMILLION
from tallystick.errors import InvalidInput
from tallystick.plots.canvas import sheet
from tallystick.printing import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CAUSES = (("noise", BLUE), ("limits", VERMILLION), ("bounds", ORANGE))


def rehearsed(lines: Sequence[tuple[str, float, float, float, float]], *, column: str) -> Figure:
    """Draw one column's errors as bars: a line is a label, the errors by cause, and all together.

    >>> figure = rehearsed([("1 x 1", 2.0, 9.0, 0.5, 11.0), ("1 x 4", 8.0, 1.0, 0.5, 9.0)], column="n")
    >>> [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    ['all together', 'noise', 'limits', 'bounds']
    """
    if not lines:
        raise InvalidInput("lines", lines, "at least one pair of limits")
    best = min(lines, key=lambda line: line[4])
    figure, axes = sheet(
        title=f"{escaped(column)}: the error is smallest, ±{up(best[4])}, with limits {best[0]}",
        across="limits: most groups x most rows in each",
        up=f"error of the middle group (±, in units of {escaped(column)})",
    )
    at = np.arange(len(lines))
    for i, (cause, colour) in enumerate(_CAUSES):
        axes.bar(at + (i - 1) * 0.26, [line[1 + i] for line in lines], width=0.24, color=colour, label=cause)
    axes.plot(at, [line[4] for line in lines], color=INK, marker="o", linewidth=1.2, label="all together")
    axes.set_xticks(at, [line[0] for line in lines])
    axes.legend()
    return figure
