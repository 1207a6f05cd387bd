"""Look of everything that is shown: colours, letters, ticks of shares, and small pieces of SVG and HTML.

Privacy cards, notebooks, web pages and the pictures of ``plots`` take them from here, and no other file names a colour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tallystick.printing import html_text

# Okabe and Ito's colours, with a vermillion and a yellow dark enough to be read on white paper, and a brown:
# distinguishable with every common kind of colour vision.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#C2410C", "#009E73", "#CC79A7"
ORANGE, SKY, YELLOW, BROWN = "#E69F00", "#56B4E9", "#B8A800", "#7A4A1E"
INK, QUIET, LINE, PAPER = "#1C2430", "#5D6875", "#D9DEE5", "#FFFFFF"
PALETTE: Final = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, YELLOW, BROWN, INK)

_ON_PAGES: Final = {
    "ink": INK,
    "quiet": "#55606D",
    "paper": PAPER,
    "wash": "#F3F5F8",
    "line": "#D5DBE3",
    "edge": "#76828F",
    "data": "#0F5C8C",
    "data-soft": "#C5DCEB",
    "mark": "#B93A0B",
    "mark-wash": "#FDF1EB",
    "warn": "#8A5200",
    "warn-wash": "#FFF6E5",
    "banner": "#17324D",
    "on-banner": PAPER,
    "stick": "#D9A566",
    "focus": "#FFD84D",
    "focus-ink": INK,
}

_IN_THE_DARK: Final = {
    "ink": "#E6EAF0",
    "quiet": "#A9B4C1",
    "paper": "#12181F",
    "wash": "#1B242E",
    "line": "#35424F",
    "edge": "#8592A0",
    "data": "#6DB3E0",
    "data-soft": "#22485F",
    "mark": "#FF9466",
    "mark-wash": "#2E1D14",
    "warn": "#F2B84B",
    "warn-wash": "#2B2312",
    "banner": "#0B1F33",
    "focus-ink": "#12181F",
}

_ON_PRINTED_PAGES: Final = _ON_PAGES | {
    "ink": "#000000",
    "quiet": "#444444",
    "line": "#BBBBBB",
    "edge": "#666666",
    "warn-wash": PAPER,
}

LETTERS: Final = ("Helvetica Neue", "Arial", "Liberation Sans", "DejaVu Sans")
"""The first of these that a reader has; matplotlib brings the last one along."""

_TYPEWRITER: Final = ("DejaVu Sans Mono", "Menlo", "Consolas")

SHARES: Final = tuple(tenth / 10 for tenth in range(0, 11, 2))
"""Where an axis of shares has its ticks."""

SHARE_LABELS: Final = tuple(f"{10 * tenth} %" for tenth in range(0, 11, 2))

DASHED, DOTTED = (7, 4), (2, 4)
"""Lengths of a dash and of the gap after it."""

_CELL: Final = "padding:2px 10px;text-align:left"


def css_variables() -> str:
    """The colours and letters for a style sheet, which then says ``var(--ink)`` and ``var(--letters)``.

    >>> css_variables().split("; ")[0]
    '--ink: #1C2430'
    """
    families = {"letters": (*LETTERS, "sans-serif"), "typewriter": (*_TYPEWRITER, "monospace")}
    fonts = {
        name: ", ".join(f'"{font}"' if " " in font else font for font in fonts) for name, fonts in families.items()
    }
    return "; ".join(f"--{name}: {value}" for name, value in (_ON_PAGES | fonts).items())


def dark_css_variables() -> str:
    """The colours that differ for readers who asked for dark pages.

    >>> dark_css_variables().split("; ")[0]
    '--ink: #E6EAF0'
    """
    return "; ".join(f"--{name}: {value}" for name, value in _IN_THE_DARK.items())


def print_css_variables() -> str:
    """Colours of printed pages, which are always light.

    >>> print_css_variables().split("; ")[0]
    '--ink: #000000'
    """
    return "; ".join(f"--{name}: {value}" for name, value in _ON_PRINTED_PAGES.items())


def svg(parts: Iterable[str], *, width: float, height: float, kind: str, label: str) -> str:
    """A picture that needs nothing from outside; ``label`` is what a screen reader says.

    >>> svg([], width=2, height=1, kind="bar", label="half & half")
    '<svg class="bar" viewBox="0 0 2 1" role="img" aria-label="half &amp; half"></svg>'
    """
    head = f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{html_text(label)}">'
    return f"{head}{''.join(parts)}</svg>"


def text(x: float, y: float, words: str, *, anchor: str = "start") -> str:
    """Words at a place of a picture."""
    where = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
    return f'<text {where} font-size="12.5" fill="{INK}">{html_text(words)}</text>'


def stroke(path: str, colour: str, *, width: float = 1.0, dashes: tuple[int, int] | None = None) -> str:
    """A line along a path, which is not filled.

    >>> stroke("M0,0 H9", INK, dashes=DOTTED)
    '<path d="M0,0 H9" stroke="#1C2430" stroke-width="1" stroke-dasharray="2 4" stroke-linejoin="round" fill="none"/>'
    """
    gaps = f' stroke-dasharray="{dashes[0]} {dashes[1]}"' if dashes else ""
    return f'<path d="{path}" stroke="{colour}" stroke-width="{width:g}"{gaps} stroke-linejoin="round" fill="none"/>'


def bar(share: float) -> str:
    """A bar of which a share is filled, as HTML.

    >>> "width:50.0%" in bar(0.5)
    True
    """
    return (
        f"<div style='width:260px;height:10px;border:1px solid {QUIET};background:{PAPER}'>"
        f"<div style='width:{100 * share:.1f}%;height:10px;background:{BLUE}'></div></div>"
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]], is_right: Sequence[bool] = ()) -> str:
    """An HTML table; every cell is escaped, and columns that are ``is_right`` are right-aligned.

    >>> table(["a"], [["<b>"]]).count("&lt;b&gt;")
    1
    """
    styles = [_CELL.replace("left", "right") if right else _CELL for right in is_right] or [_CELL] * len(header)

    def cells(kind: str, texts: Sequence[str]) -> str:
        pairs = zip(texts, styles, strict=True)
        return "".join(f"<{kind} style='{style}'>{html_text(text)}</{kind}>" for text, style in pairs)

    head = cells("th", header)
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


_WIDE, _ROW, _LONGEST = 300.0, 24.0, 24


def bars(chart: Mapping[str, Any]) -> str:
    """A bar from 0 to each value and a line along its interval; a group without a value has neither.

    >>> chart = {"field": "n", "groups": ["a"], "shown": ["3"], "value": [3], "lower": [1], "upper": [5], "more": 0}
    >>> bars(chart).count("<rect")
    1
    """
    known = [v for end in ("value", "lower", "upper") for v in chart[end] if v is not None]
    low, high = min([0.0, *known]), max([0.0, *known])
    count, more = len(chart["groups"]), chart["more"]
    names = [group if len(group) <= _LONGEST else f"{group[: _LONGEST - 1]}\u2026" for group in chart["groups"]]
    rest = [f"and {more:,} more"] if more else []
    left = 24.0 + 7.2 * max(map(len, [*names, *rest]), default=0)  # no wider than it must be: telephones are narrow

    def at(value: float) -> float:
        return round(left + _WIDE * float((value - low) / ((high - low) or 1.0)), 2)

    parts = [text(left, 12, str(chart["field"])), stroke(f"M{at(0)},18 V{22 + _ROW * count:g}", QUIET)]
    lines = zip(names, *(chart[name] for name in ("shown", "value", "lower", "upper")), strict=True)
    for i, (name, shown, value, lower, upper) in enumerate(lines):
        y = 18 + _ROW * i
        parts.append(text(left - 8, y + 16, name, anchor="end"))
        if value is None or lower is None or upper is None:
            parts.append(text(at(0) + 6, y + 16, "no value"))
            continue
        start, end = sorted((at(0), at(value)))
        where = f'x="{start:g}" y="{y + 5:g}" width="{end - start:g}" height="14"'
        parts.append(f'<rect {where} fill="{BLUE}" fill-opacity="0.35"/>')
        edges = f"M{at(lower)},{y + 7:g} v10 m0,-5 H{at(upper)} M{at(upper)},{y + 7:g} v10"
        parts.append(stroke(edges, INK, width=1.4))
        parts.append(text(max(end, at(upper)) + 8, y + 16, shown))
    parts += [text(left - 8, 36 + _ROW * count, words, anchor="end") for words in rest]
    height = 30 + _ROW * (count + bool(more))
    label = f"{chart['field']} of each group with its interval"
    return svg(parts, width=left + _WIDE + 110, height=height, kind="chart", label=label)
