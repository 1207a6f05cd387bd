"""Texts from data and files on their way to a person: nothing in them is obeyed, run or hidden.

Numbers are in ``digits``.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def one_of(name: object, known: Iterable[str], most: int = 12) -> str:
    """Return the known names for one that is not known, the nearest first.

    >>> one_of("flight", ["visits", "flights"])
    'flights (did you mean this?), visits'
    """
    names = list(known)
    near = get_close_matches(str(name).casefold(), [each.casefold() for each in names], n=1)
    first = [each for each in names if near and each.casefold() == near[0]][:1]
    listed = [f"{each} (did you mean this?)" for each in first] + [each for each in names if each not in first]
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


_NAME = re.compile(r"[^\W\d][\w .()/%-]{0,39}")
"""A name of a column, as people write it: no sign that passwords, addresses or settings have."""


def listed(names: Sequence[str]) -> str:
    """Return names as a list in words.

    >>> listed(["region", "sex", "year"])
    'region, sex and year'
    """
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def columns_of(name: object, known: Iterable[str]) -> str:
    """Return the columns of a table for a name that is not one of them; only their number if they may be a secret.

    The first line of a file that is not a table, a password file behind a planted link, is not quoted in an error.

    >>> columns_of("war", ["ward", "age"])
    'ward (did you mean this?), age'
    >>> columns_of("ward", ["db.example:5432:*:ana:secret"])
    'it has 1 column, and the first line of the file names it'
    """
    names = list(known)
    if len(names) > 1 and all(_NAME.fullmatch(each) for each in names):
        return one_of(name, names)
    if len(names) == 1:
        return "it has 1 column, and the first line of the file names it"
    return f"it has {len(names)} columns, and the first line of the file names them" if names else "it has no columns"


# Text from data and files on its way to a person. One rule for every output: a character that is not printed (control,
# bidirectional, zero-width, line separator, odd space) is written as its escape.
#
#     escaped    one value (a group, a name): two different values stay different, because backslashes are escaped too
#     visible    a line that is made of several texts: the same escapes, and nothing changes if it is applied again
#     csv_cell   ``escaped`` for a spreadsheet, which must not run it
#     html_text  ``visible`` for a page
#     json_text  JSON whose strings keep the text itself, as ``\\u`` escapes

_OBEYED = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


_IGNORABLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Characters that Unicode lets a program leave out ("default ignorable") although Python calls them printable."""


def is_visible(text: str) -> bool:
    r"""True if every character of a text can be seen: none is a control, bidirectional or zero-width character.

    >>> is_visible("north"), is_visible("no\u200drth"), is_visible("no\u034frth")
    (True, False, False)
    """
    return text.isprintable() and _IGNORABLE.search(text) is None


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with every character that is not printed written as its escape; ``lines`` keeps line feeds.

    Escape sequences, carriage returns, text that runs backwards and zero-width characters never reach a terminal.

    >>> print(visible("ward \x1b[2J"))
    ward \x1b[2J
    """
    if is_visible(text):
        return text
    return "".join(c if is_visible(c) or (lines and c == "\n") else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


_AFTER_BACKSLASH = frozenset("\\xuUnrt")


def escaped(text: str) -> str:
    r"""One value with every character that is not printed as its escape; different values stay different.

    A backslash is doubled if the text after it would otherwise be read as an escape. ``unescaped`` is the inverse.

    >>> print(escaped("ward \x1b[2J"), escaped(r"ward \x1b[2J"), escaped(r"C:\data"))
    ward \x1b[2J ward \\x1b[2J C:\data
    """
    if "\\" not in text:
        return visible(text)
    pieces: list[str] = []
    following = ""  # the first character of what stands behind, as it is written
    for character in reversed(text):
        is_doubled = character == "\\" and following in _AFTER_BACKSLASH
        piece = "\\\\" if is_doubled else visible(character)
        pieces.append(piece)
        following = piece[0]
    return "".join(reversed(pieces))


_ESCAPE = re.compile(r"\\(?:([\\nrt])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")
_SHORT = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t"}


def unescaped(text: str) -> str:
    r"""The value that ``escaped`` wrote.

    >>> unescaped(escaped("ward \x1b[2J")) == "ward \x1b[2J", unescaped(escaped(r"\x1b")) == r"\x1b"
    (True, True)
    """

    def character(found: re.Match[str]) -> str:
        short, *numbers = found.groups()
        if short is not None:
            return _SHORT[short]
        return chr(int(next(each for each in numbers if each is not None), 16))

    return _ESCAPE.sub(character, text)


def inert(text: str) -> str:
    """The text as a cell that a spreadsheet shows and does not run: an apostrophe before what starts a formula.

    >>> inert("=1+1"), inert("'=1+1"), inert("ward")
    ("'=1+1", "''=1+1", 'ward')
    """
    return f"'{text}" if text.lstrip("'").startswith(_OBEYED) else text


def csv_cell(text: str) -> str:
    r"""A value as the text of a CSV cell: nothing in it is run or hidden, and different values stay different.

    >>> print(csv_cell("=1+1"), csv_cell("a\u202eb"))
    '=1+1 a\u202eb
    """
    return inert(escaped(text))


def csv_value(cell: str) -> str:
    """The value that ``csv_cell`` wrote.

    >>> [csv_value(csv_cell(text)) for text in ("=1", "'=1", "ward")]
    ['=1', "'=1", 'ward']
    """
    has_apostrophe = cell.startswith("'") and cell.lstrip("'").startswith(_OBEYED)
    return unescaped(cell[1:] if has_apostrophe else cell)


def html_text(text: str) -> str:
    r"""The text for a page: no markup, and no character that is not printed; line feeds stay.

    >>> print(html_text("<b>\u202e"))
    &lt;b&gt;\u202e
    """
    return html.escape(visible(text, lines=True))


def json_text(text: str) -> str:
    r"""JSON in which every character that is not printed is a ``\u`` escape; a reader gets the same value.

    >>> print(json_text('"a\u202eb\x7f"'))
    "a\u202eb\u007f"
    """
    return _NOT_PLAIN.sub(lambda found: _json_escape(found[0]), text)


_NOT_PLAIN = re.compile(r"[^\x20-\x7e\n]")


def _json_escape(character: str) -> str:
    if is_visible(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
