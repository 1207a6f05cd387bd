"""The pictures of a card as inline SVG: the trade-off curve, and people as icons. Nothing is fetched, nothing runs."""

from __future__ import annotations

from collections.abc import Sequence

INK, QUIET, PAPER = "#1c2430", "#7b8794", "#ffffff"
BLUE, VERMILLION, SOFT = "#1f5f99", "#c2410c", "#d9dee5"

_LEFT, _TOP, _SIDE = 62, 14, 300


def tradeoff_svg(alpha: Sequence[float], limit: Sequence[float], table: Sequence[float] | None) -> str:
    """Misses against false alarms: the account's limit shaded, this table alone dashed, guessing dotted.

    >>> tradeoff_svg([0, 1], [0.5, 0], None).startswith("<svg")
    True
    """
    bottom, right = _TOP + _SIDE, _LEFT + _SIDE
    area = f"M{_x(0)},{bottom} L{_points(alpha, limit)} L{right},{bottom} Z"
    parts = [
        (
            f'<svg class="tradeoff" viewBox="0 0 {right + 16} {bottom + 52}" role="img" '
            'aria-label="Trade-off curve: share of people missed against share of false alarms">'
        ),
        *_grid(bottom, right),
        f'<path d="{area}" fill="{BLUE}" fill-opacity="0.12"/>',
        f'<path d="M{_x(0)},{_y(1)} L{_x(1)},{_y(0)}" stroke="{QUIET}" stroke-dasharray="2 4" fill="none"/>',
        f'<path d="M{_points(alpha, limit)}" stroke="{BLUE}" stroke-width="2.6" fill="none" stroke-linejoin="round"/>',
    ]
    if table is not None:
        parts.append(
            f'<path d="M{_points(alpha, table)}" stroke="{VERMILLION}" stroke-width="1.8" fill="none" '
            'stroke-dasharray="7 4"/>'
        )
    parts += _legend(right, table is not None)
    middle = (_LEFT + right) / 2
    parts += [
        _text(middle, bottom + 42, "false alarms: accused, though not in the data", anchor="middle"),
        f'<g transform="translate(14 {(_TOP + bottom) / 2:.1f}) rotate(-90)">'
        + _text(0, 0, "misses: in the data, but not noticed", anchor="middle")
        + "</g>",
        "</svg>",
    ]
    return "".join(parts)


def _grid(bottom: float, right: float) -> list[str]:
    parts = []
    for tenth in range(0, 11, 2):
        share = tenth / 10
        parts.append(f'<path d="M{_LEFT},{_y(share)} H{right} M{_x(share)},{_TOP} V{bottom}" stroke="{SOFT}"/>')
        parts.append(_text(_LEFT - 8, _y(share) + 4, f"{10 * tenth} %", anchor="end"))
        parts.append(_text(_x(share), bottom + 20, f"{10 * tenth} %", anchor="middle"))
    return parts


def _legend(right: float, with_table: bool) -> list[str]:
    lines = [
        ("everything, up to the limit", BLUE, ""),
        ("this table alone", VERMILLION, "7 4"),
        ("guessing", QUIET, "2 4"),
    ]
    shown = [line for line in lines if with_table or line[1] != VERMILLION]
    parts = []
    for row, (words, colour, dashes) in enumerate(shown):
        y = _TOP + 18 + 19 * row
        parts.append(
            f'<path d="M{right - 196},{y - 4} h24" stroke="{colour}" stroke-width="2.2" stroke-dasharray="{dashes}"/>'
        )
        parts.append(_text(right - 166, y, words, anchor="start"))
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
    side = 10 * step
    return f'<svg class="icons" viewBox="0 0 {side} {side}" role="img" aria-label="{label}">{"".join(people)}</svg>'


def _x(share: float) -> float:
    return round(_LEFT + _SIDE * share, 2)


def _y(share: float) -> float:
    return round(_TOP + _SIDE * (1 - share), 2)


def _points(across: Sequence[float], upward: Sequence[float]) -> str:
    return " ".join(f"{_x(a)},{_y(b)}" for a, b in zip(across, upward, strict=True))


def _text(x: float, y: float, words: str, *, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="12.5" fill="{INK}">{words}</text>'
