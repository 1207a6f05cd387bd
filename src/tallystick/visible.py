"""Text from data and files on its way to a person: what a terminal or a spreadsheet would obey is shown instead."""

from __future__ import annotations

_OBEYED = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with every character that is not printed written as its escape; ``lines`` keeps line feeds.

    Escape sequences, carriage returns, text that runs backwards and zero-width characters never reach a terminal.

    >>> print(visible("ward \x1b[2J"))
    ward \x1b[2J
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or (lines and c == "\n") else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def inert(text: str) -> str:
    """The text as a cell that a spreadsheet shows and does not run: an apostrophe before what starts a formula.

    >>> inert("=1+1"), inert("ward")
    ("'=1+1", 'ward')
    """
    return f"'{text}" if text.startswith(_OBEYED) else text
