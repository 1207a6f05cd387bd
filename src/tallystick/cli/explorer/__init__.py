"""The explorer: one page on which a promise of privacy can be played with. It loads nothing and sends nothing.

``bounds.js`` computes, ``page.js`` shows, ``dpsgd.json`` is a grid of certified bounds that ``docs/explorer.py`` makes.
"""

from __future__ import annotations

from importlib.resources import files

from tallystick.drawing import css_variables, dark_css_variables

HERE = files("tallystick.cli.explorer")


def part(name: str) -> str:
    """The text of one of the page's files."""
    return HERE.joinpath(name).read_text(encoding="utf-8")


def page() -> str:
    """The whole page, in one piece of HTML.

    >>> page().count("<script>"), "http:" in page(), "https:" in page()
    (1, False, False)
    """
    style = part("page.css").replace("@LIGHT@", css_variables()).replace("@DARK@", dark_css_variables())
    return (
        part("page.html")
        .replace("@STYLE@", style.strip())
        .replace("@GRID@", f"const grid = {part('dpsgd.json').strip()};")
        .replace("@BOUNDS@", part("bounds.js").strip())
        .replace("@PAGE@", part("page.js").strip())
    )
