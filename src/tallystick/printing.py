"""How numbers and texts are shown to people: a bound that is rounded stays a bound, and there is one rule for per cent.

Money spent, epsilon, delta, a hit rate, a promise: ``up``. What is left, what is certain at least: ``down``. Numbers
that claim nothing: ``nearest``. Integers, fractions and doubles are rounded exactly, so the side cannot be lost.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from difflib import get_close_matches
from fractions import Fraction

Number = int | float | Fraction | str


def up(value: Number, digits: int = 6) -> str:
    """``value`` to this many significant digits, never below it.

    >>> up(6.18771239), up(0.25), up(Fraction(1, 3), 3), up(float("inf"))
    ('6.18772', '0.25', '0.334', 'infinite')
    """
    return _rounded(value, digits, ROUND_CEILING)


def down(value: Number, digits: int = 6) -> str:
    """``value`` to this many significant digits, never above it.

    >>> down(6.18771239), down(Fraction(2, 3), 3)
    ('6.18771', '0.666')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def nearest(value: Number, digits: int = 3) -> str:
    """``value`` to this many significant digits, for numbers that are not bounds.

    >>> nearest(0.0123456), nearest(1e-5)
    ('0.0123', '1e-05')
    """
    return _rounded(value, digits, ROUND_HALF_EVEN)


def given(value: float) -> str:
    """A number that was given, as short as it can be and still be that number.

    >>> given(1e-5), given(2.0), given(1.23456789e-6)
    ('1e-05', '2', '1.23456789e-06')
    """
    return repr(float(value)).removesuffix(".0")


def plain(value: float) -> str:
    """A number for reading, four significant digits, with thousands set apart.

    >>> plain(12345.6), plain(0.5), plain(110.0)
    ('12,346', '0.5', '110')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def cell(value: float) -> str:
    """A number in a table: five significant digits or more, thousands set apart.

    >>> cell(231342.77), cell(1234.567), cell(0.012345678), cell(1e20)
    ('231,343', '1,234.6', '0.012346', '1e+20')
    """
    if 1000 <= abs(value) < 1e15:
        return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.1f}"
    return nearest(value, 5)


def plain_up(value: float | str) -> str:
    """An error or another upper bound for reading, four significant digits, thousands set apart, never below it.

    >>> plain_up(13147.2), plain_up(0.12341), plain_up(1557.6)
    ('13,150', '0.1235', '1,558')
    """
    shown = up(value, 4)
    return f"{int(float(shown)):,}" if 1000 <= float(value) < 1e15 else shown


def percent(share: float) -> str:
    """A share that was given, in per cent.

    >>> percent(0.01), percent(0.001)
    ('1 %', '0.1 %')
    """
    return f"{nearest(100 * share, 6)} %"


def percent_up(share: float | Fraction, digits: int = 4) -> str:
    """A share that is an upper bound, in per cent of four significant digits, not below it.

    >>> percent_up(0.7310585), percent_up(0.99999999), percent_up(0.0)
    ('73.11 %', '100 %', '0 %')
    """
    return f"{up(_hundredfold(share), digits)} %"


def percent_down(share: float | Fraction, digits: int = 4) -> str:
    """A share that is a lower bound, in per cent of four significant digits, not above it.

    >>> percent_down(Fraction(2, 3))
    '66.66 %'
    """
    return f"{down(_hundredfold(share), digits)} %"


def _hundredfold(share: float | Fraction) -> Number:
    """Exactly a hundred times a share: in doubles 100 * 0.0015 is 0.15, and the share itself is above that."""
    return share if share in (math.inf, -math.inf) else 100 * Fraction(share)


def amount(value: Fraction, *, upward: bool = True) -> str:
    """An amount of budget: four decimals, or as many as three significant digits need.

    >>> amount(Fraction(1, 80)), amount(Fraction(1, 3)), amount(Fraction(1, 3), upward=False)
    ('0.0125', '0.3334', '0.3333')
    """
    shown = up if upward else down
    if value == 0:
        return "0"
    if not Fraction(1, 10**4) <= value < 10:
        return shown(value, 6 if 10 <= value < 10**6 else 3)
    exact = (value * 10**4).denominator == 1
    decimals = 4 if exact else max(4, 2 - math.floor(math.log10(value)))
    step = Decimal(1).scaleb(-decimals)
    whole = math.ceil(value * 10**decimals) if upward else math.floor(value * 10**decimals)
    return f"{whole * step:f}"


def one_of(name: object, known: Iterable[str], most: int = 12) -> str:
    """What works instead of a name nobody knows: the known ones, the nearest first.

    >>> one_of("flight", ["visits", "flights"])
    'flights (did you mean this?), visits'
    """
    names = list(known)
    near = get_close_matches(str(name).casefold(), [each.casefold() for each in names], n=1)
    first = [each for each in names if near and each.casefold() == near[0]][:1]
    listed = [f"{each} (did you mean this?)" for each in first] + [each for each in names if each not in first]
    return ", ".join(listed[:most]) + (", ..." if len(listed) > most else "")


def when(at: int) -> str:
    """A moment of the record for people, in UTC.

    >>> when(0)
    '1970-01-01 00:00'
    """
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _rounded(value: Number, digits: int, rounding: str) -> str:
    if isinstance(value, str):
        value = float(value)
    if isinstance(value, float) and math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    context = Context(prec=digits, rounding=rounding, Emin=-(10**6), Emax=10**6)
    exact = Fraction(value)
    rounded = context.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    text = f"{float(rounded):.{digits}g}"
    # A decimal of this many digits comes back from a double unless it underflows; then its own text is right.
    return text if Decimal(text) == rounded else str(rounded.normalize())


# Text from data and files on its way to a person. One rule for every output: a character that is not printed (control,
# bidirectional, zero-width, line separator, odd space) is written as its escape.
#
#     escaped    one value (a group, a name): two different values stay different, because backslashes are escaped too
#     visible    a line that is made of several texts: the same escapes, and nothing changes if it is applied again
#     csv_cell   ``escaped`` for a spreadsheet, which must not run it
#     html_text  ``visible`` for a page
#     json_text  JSON whose strings keep the text itself, as ``\\u`` escapes

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
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))
