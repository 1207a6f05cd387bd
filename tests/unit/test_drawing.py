"""The look of everything that is shown: readable colours, and no text that becomes markup."""

from __future__ import annotations

import re

from tallystick import drawing
from tallystick.drawing import BLUE, INK, PALETTE, PAPER, QUIET, VERMILLION


def luminance(colour: str) -> float:
    """Relative luminance as the web's accessibility guidelines define it."""
    shares = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_words_have_the_contrast_that_the_guidelines_ask_for() -> None:
    assert all(contrast(colour, PAPER) >= 4.5 for colour in (INK, QUIET, BLUE, VERMILLION))


def test_lines_of_a_picture_differ_and_are_seen_on_paper() -> None:
    assert len(set(PALETTE)) == len(PALETTE)
    assert all(contrast(colour, PAPER) >= 2 for colour in PALETTE)


def test_a_style_sheet_finds_every_colour_it_names() -> None:
    from importlib import resources

    page = resources.files("tallystick.cards").joinpath("templates/card.html.j2").read_text(encoding="utf-8")
    declared = set(re.findall(r"--([\w-]+):", drawing.css_variables()))
    assert set(re.findall(r"var\(--([\w-]+)\)", page)) == declared


def test_text_stays_text() -> None:
    hostile = "<script>&\"'"
    pieces = [
        drawing.table([hostile], [[hostile]]),
        drawing.text(0, 0, hostile),
        drawing.svg([], width=1, height=1, kind="x", label=hostile),
    ]
    assert all("<script>" not in piece and "&lt;script&gt;&amp;" in piece for piece in pieces)
