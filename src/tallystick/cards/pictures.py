"""The pictures of a card as inline SVG: the trade-off curve, and people as icons. Nothing is fetched, nothing runs."""

from __future__ import annotations

from collections.abc import Sequence

from tallystick.drawing import (
    BLUE,
    DASHED,
    DOTTED,
    LINE,
    PAPER,
    QUIET,
    SHARE_LABELS,
    SHARES,
    VERMILLION,
    stroke,
    svg,
    text,
)

_LEFT, _TOP, _SIDE = 62, 14, 300
_RIGHT, _BOTTOM = _LEFT + _SIDE, _TOP + _SIDE


def tradeoff_svg(alpha: Sequence[float], limit: Sequence[float], table: Sequence[float] | None) -> str:
    """Misses against false alarms: the account's limit shaded, this table alone dashed, guessing dotted.

    >>> tradeoff_svg([0, 1], [0.5, 0], None).startswith("<svg")
    True
    """
    lines = [
        ("everything, up to the limit", limit, BLUE, None),
        *([] if table is None else [("this table alone", table, VERMILLION, DASHED)]),
        ("guessing", [1 - share for share in alpha], QUIET, DOTTED),
    ]
    area = f"M{_x(0)},{_BOTTOM} L{_points(alpha, limit)} L{_RIGHT},{_BOTTOM} Z"
    parts = [*_grid(), f'<path d="{area}" fill="{BLUE}" fill-opacity="0.12"/>']
    for row, (words, misses, colour, dashes) in enumerate(lines):
        width, y = 2.0 if dashes else 2.6, _TOP + 18 + 19 * row
        parts.append(stroke(f"M{_points(alpha, misses)}", colour, width=width, dashes=dashes))
        parts.append(stroke(f"M{_RIGHT - 196},{y - 4} h24", colour, width=width, dashes=dashes))
        parts.append(text(_RIGHT - 166, y, words))
    return svg(
        [*parts, *_names_of_axes()],
        width=_RIGHT + 22,
        height=_BOTTOM + 52,
        kind="tradeoff",
        label="Trade-off curve: share of people missed against share of false alarms",
    )


def _names_of_axes() -> list[str]:
    upward = text(0, 0, "misses: in the data, but not noticed", anchor="middle")
    return [
        text((_LEFT + _RIGHT) / 2, _BOTTOM + 42, "false alarms: accused, though not in the data", anchor="middle"),
        f'<g transform="translate(14 {(_TOP + _BOTTOM) / 2:.1f}) rotate(-90)">{upward}</g>',
    ]


def _grid() -> list[str]:
    parts = []
    for share, label in zip(SHARES, SHARE_LABELS, strict=True):
        parts.append(stroke(f"M{_LEFT},{_y(share)} H{_RIGHT} M{_x(share)},{_TOP} V{_BOTTOM}", LINE))
        parts.append(text(_LEFT - 8, _y(share) + 4, label, anchor="end"))
        parts.append(text(_x(share), _BOTTOM + 20, label, anchor="middle"))
    return parts


def icons_svg(marked: int, *, label: str) -> str:
    """A hundred people in ten rows, so many of them marked, by colour and by filling.

    >>> icons_svg(27, label="27 of 100").count('class="on"')
    27
    """
    step, people = 21, []
    for place in range(100):
        x, y = step * (place % 10), step * (place // 10)
        inside = place < marked
        fill = f'fill="{VERMILLION}" stroke="{VERMILLION}"' if inside else f'fill="{PAPER}" stroke="{QUIET}"'
        people.append(
            f'<g class="{"on" if inside else "off"}" transform="translate({x} {y})" {fill} stroke-width="1.1">'
            '<circle cx="10" cy="5.6" r="3.1"/>'
            '<path d="M4.6 17.5 v-3.2 a4 4 0 0 1 4-4 h2.8 a4 4 0 0 1 4 4 v3.2 z"/></g>'
        )
    return svg(people, width=10 * step, height=10 * step, kind="icons", label=label)


def _x(share: float) -> float:
    return round(_LEFT + _SIDE * share, 2)


def _y(share: float) -> float:
    return round(_TOP + _SIDE * (1 - share), 2)


def _points(across: Sequence[float], upward: Sequence[float]) -> str:
    return " ".join(f"{_x(a)},{_y(b)}" for a, b in zip(across, upward, strict=True))
