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

    sheets = {
        "tallystick.cards": "templates/style.css",
        "tallystick.cli.explorer": "page.css",
    }
    named = set()
    for package, name in sheets.items():
        text = resources.files(package).joinpath(name).read_text(encoding="utf-8")
        own = set(re.findall(r"--([\w-]+):", text))
        named |= set(re.findall(r"var\(--([\w-]+)\)", text)) - own
    for variables in (drawing.css_variables(), drawing.print_css_variables()):
        assert named <= set(re.findall(r"--([\w-]+):", variables)) | {"letters", "typewriter"}
    assert set(re.findall(r"--([\w-]+):", drawing.css_variables())) == named


def test_words_on_pages_can_be_read_in_the_light_and_in_the_dark() -> None:
    light = dict(re.findall(r"--([\w-]+): (#\w{6})", drawing.css_variables()))
    dark = light | dict(re.findall(r"--([\w-]+): (#\w{6})", drawing.dark_css_variables()))
    for colours in (light, dark):
        for name in ("ink", "quiet", "data", "mark"):
            assert contrast(colours[name], colours["paper"]) >= 4.5, name
        for name in ("warn", "mark"):
            assert contrast(colours[name], colours[f"{name}-wash"]) >= 4.5, name


def test_text_stays_text() -> None:
    hostile = "<script>&\"'"
    pieces = [
        drawing.table([hostile], [[hostile]]),
        drawing.text(0, 0, hostile),
        drawing.svg([], width=1, height=1, kind="x", label=hostile),
    ]
    assert all("<script>" not in piece and "&lt;script&gt;&amp;" in piece for piece in pieces)
