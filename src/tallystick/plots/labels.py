"""Names of curves, written beside the curves; and widths with which no curve hides another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tallystick.drawing import PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Floats = NDArray[np.float64]
_PIECES = 400
"""Points of a curve that are compared with other curves."""
_PLACES = 40
"""Points of a curve beside which its name may stand."""
_NEAR = 1.5
"""Pixels within which two curves are drawn at one place."""
_HIDDEN = 0.15
"""Share of a curve that may lie on another one before the lower one is drawn wider."""
_SAME = 0.98
"""Share of a curve from which it is called the same line as another one."""
_SAME_AS = " (the same line as"
_WIDER = 2.0
"""Points by which a curve is wider than the curve on top of it."""
_GAP = 6.0
"""Pixels between a curve and its name."""
_FEW = 7
"""Curves up to which the names stand on the curves; more have a legend."""
_SIDES = ((1, 1), (-1, 1), (1, -1), (-1, -1), (1, 0), (-1, 0), (0, 1), (0, -1))
"""Directions from a point of a curve to its name."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels."""

    left: float
    bottom: float
    right: float
    top: float

    def holds(self, points: Floats) -> int:
        """Return the number of points in the rectangle."""
        x, y = points[:, 0], points[:, 1]
        across = (self.left <= x) & (x <= self.right)
        up = (self.bottom <= y) & (y <= self.top)
        return int(np.count_nonzero(across & up))

    def meets(self, other: Box) -> bool:
        """Return whether two rectangles overlap."""
        across = self.left < other.right and other.left < self.right
        up = self.bottom < other.top and other.bottom < self.top
        return across and up

    def is_in(self, other: Box) -> bool:
        """Return whether the rectangle is inside another one."""
        across = other.left <= self.left and self.right <= other.right
        up = other.bottom <= self.bottom and self.top <= other.top
        return across and up

    def distance(self, points: Floats) -> float:
        """Return the distance from the rectangle to the nearest of some points."""
        if not len(points):
            return np.inf
        x = np.maximum(self.left - points[:, 0], points[:, 0] - self.right)
        y = np.maximum(self.bottom - points[:, 1], points[:, 1] - self.top)
        return float(np.min(np.hypot(np.maximum(x, 0.0), np.maximum(y, 0.0))))


def finish(axes: Axes, *, size: float = 10.0) -> None:
    """Keep every curve visible, and write the names of the curves: call it after the last curve.

    >>> from tallystick.plots.canvas import sheet
    >>> figure, axes = sheet(title="t", across="x", up="y")
    >>> for name in ("basic", "advanced"):
    ...     lines = axes.plot([0, 1], [0, 1], label=name)
    >>> finish(axes)
    >>> [text.get_text() for text in axes.texts]
    ['basic', 'advanced\\n(the same line as basic)']
    """
    keep_visible(axes)
    curves = named_curves(axes)
    if len(curves) > _FEW:
        axes.legend(fontsize=size)
        return
    _name(axes, curves, size)


def named_curves(axes: Axes) -> list[Line2D]:
    """Return the curves that have a name, in the order in which they are drawn."""
    curves = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    return sorted(curves, key=lambda line: line.get_zorder())


def keep_visible(axes: Axes) -> None:
    """Draw a curve wider if another one lies on it, and say which curves are the same line."""
    _lay_out(axes)
    curves = named_curves(axes)
    paths = [_pixels(axes, curve) for curve in curves]
    for lower in reversed(range(len(curves))):
        above = range(lower + 1, len(curves))
        covers = [i for i in above if _share_on(paths[lower], paths[i]) >= _HIDDEN]
        solid = [curves[i].get_linewidth() for i in covers if not curves[i].is_dashed()]
        if solid:
            curves[lower].set_linewidth(max(solid) + _WIDER)
    _say_same(curves, paths)


def _say_same(curves: Sequence[Line2D], paths: Sequence[Floats]) -> None:
    """Add to the name of a curve that it is the same line as an earlier one."""
    names = [str(curve.get_label()) for curve in curves]
    for i, curve in enumerate(curves):
        same = [j for j in range(i) if _is_same(paths[i], paths[j])]
        if same:
            curve.set_label(f"{names[i]}{_SAME_AS} {names[same[0]]})")


def _is_same(one: Floats, other: Floats) -> bool:
    return min(_share_on(one, other), _share_on(other, one)) >= _SAME


def _share_on(one: Floats, other: Floats) -> float:
    """Return the share of a curve that lies on another curve."""
    if not len(one) or not len(other):
        return 0.0
    gaps = np.hypot(*(one[:, None, k] - other[None, :, k] for k in (0, 1)))
    return float(np.mean(gaps.min(axis=1) <= _NEAR))


def _lay_out(axes: Axes) -> None:
    """Settle the place of the axes, so that places in pixels are final."""
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]


def _pixels(axes: Axes, line: Line2D) -> Floats:
    """Return evenly spaced points of a curve in pixels, as far as it is inside the axes."""
    ends = np.asarray(line.get_transform().transform(line.get_path().vertices), dtype=np.float64)
    ends = ends[np.isfinite(ends).all(axis=1)]
    if len(ends) < 2:
        return ends
    way = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(ends, axis=0).T))])
    at = np.linspace(0.0, way[-1], _PIECES)
    points = np.column_stack([np.interp(at, way, ends[:, k]) for k in (0, 1)])
    box = axes.bbox
    across = (box.x0 - 1 <= points[:, 0]) & (points[:, 0] <= box.x1 + 1)
    up = (box.y0 - 1 <= points[:, 1]) & (points[:, 1] <= box.y1 + 1)
    return np.asarray(points[across & up])


def _name(axes: Axes, curves: Sequence[Line2D], size: float) -> None:
    """Write each name beside its curve, where it covers neither a curve nor other words."""
    _lay_out(axes)
    every = [_pixels(axes, line) for line in axes.get_lines()]
    taken = [_box(text.get_window_extent()) for text in axes.texts]
    for curve in curves:
        path = _pixels(axes, curve)
        if not len(path):
            continue
        others = [points for points in every if not np.array_equal(points, path)]
        taken.append(_write(axes, curve, path, others, taken, size))


def _write(
    axes: Axes,
    curve: Line2D,
    path: Floats,
    others: Sequence[Floats],
    taken: Sequence[Box],
    size: float,
) -> Box:
    """Write one name at its best place, and return the place."""
    box: Any = {"facecolor": PAPER, "edgecolor": "none", "pad": 1, "alpha": 0.8}
    colour = curve.get_color()
    words = str(curve.get_label()).replace(_SAME_AS, f"\n{_SAME_AS.strip()}")
    text = axes.text(0.5, 0.5, words, color=colour, fontsize=size, va="bottom", bbox=box, zorder=6)
    extent = text.get_window_extent()
    wide, tall = extent.width, extent.height
    rest = np.concatenate([*others, np.empty((0, 2))])
    frame = _box(axes.bbox)

    def cost(place: Box) -> float:
        covered = place.holds(path) + place.holds(rest)
        met = sum(place.meets(other) for other in taken)
        unclear = max(0.0, 2 * _GAP + place.distance(path) - place.distance(rest))
        return 10.0 * covered + 1000.0 * met + 1000.0 * (not place.is_in(frame)) + unclear

    best = min(_places(path, wide, tall), key=cost)
    left, bottom = axes.transData.inverted().transform((best.left, best.bottom))
    text.set_position((float(left), float(bottom)))
    return best


def _places(path: Floats, wide: float, tall: float) -> list[Box]:
    """Return the rectangles beside a curve in which its name may stand."""
    at = np.linspace(0, len(path) - 1, _PLACES).astype(int)
    places = []
    for x, y in path[at]:
        for across, up in _SIDES:
            left = x + across * _GAP - (1 - across) * wide / 2
            bottom = y + up * _GAP - (1 - up) * tall / 2
            places.append(Box(left, bottom, left + wide, bottom + tall))
    return places


def _box(extent: Any) -> Box:
    return Box(extent.x0, extent.y0, extent.x1, extent.y1)
