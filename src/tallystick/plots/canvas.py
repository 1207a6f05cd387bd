"""What the pictures share: the sheet they are drawn on and how they are saved. Colours come from ``drawing``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.drawing import INK, LETTERS, LINE, PAPER, QUIET
from tallystick.errors import InvalidInput, Remedy, Unavailable
from tallystick.regular_file import written_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")

# Any, because the type of the keys differs between versions of matplotlib.
_SETTINGS: Any = {
    "font.family": LETTERS[-1],  # everywhere the same, whatever else is installed
    "font.size": 11,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 2.2,
    "svg.fonttype": "path",
    "svg.hashsalt": "tallystick",  # the same picture gives the same bytes
}


def sheet(*, title: str, across: str, up: str, width: float = 7.2, height: float = 5.0) -> tuple[Figure, Axes]:
    """An empty picture with its title and its two axes named; needs the extra ``plots``.

    >>> figure, axes = sheet(title="t", across="x", up="y")
    >>> axes.get_xlabel()
    'x'
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        remedies = [Remedy("install", packages="'.[plots]'")]
        raise Unavailable("pictures need matplotlib, which is not installed", remedies=remedies) from error
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor=PAPER)
        FigureCanvasAgg(figure)  # draws without a display, and leaves pyplot's global state alone
        axes = figure.add_subplot()
        axes.set_title(title, loc="left", fontsize=13, fontweight="bold", pad=12)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
    return figure, axes


def save(figure: Figure, path: str | Path) -> Path:
    """Write the picture as .svg or .png, by the ending of ``path``; the bytes depend on the picture only.

    >>> save(sheet(title="t", across="x", up="y")[0], "picture.pdf")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: out = 'picture.pdf' is not allowed; give a file name ending in .svg or .png
    """
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise InvalidInput("out", str(path), f"a file name ending in {' or '.join(FORMATS)}")
    from matplotlib import rc_context

    stamp = {"Date": None} if target.suffix.lower() == ".svg" else {"Software": None}
    try:
        with rc_context(_SETTINGS), written_whole(target) as drawn:
            figure.savefig(drawn, dpi=160, metadata=stamp, format=target.suffix.lower().removeprefix("."))
    except OSError as error:
        raise InvalidInput("out", str(path), f"a file that can be written ({error.strerror})") from error
    return target
