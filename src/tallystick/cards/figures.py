"""Numbers as a card prints them: upper bounds are rounded up, never to the nearest."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context


def up(value: float | str, digits: int = 3) -> str:
    """``value`` (JSON's "inf" included) to so many significant digits, not below it.

    >>> up(0.12345), up(2.0), up(math.inf)
    ('0.124', '2', 'unbounded')
    """
    value = float(value)
    if math.isinf(value):
        return "unbounded"
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(value)
    return f"{float(rounded):.{digits}g}"


def percent_up(share: float, digits: int = 3) -> str:
    """A share that is an upper bound, in per cent.

    >>> percent_up(0.7310585), percent_up(0.01)
    ('73.2 %', '1 %')
    """
    return f"{up(100 * share, digits)} %"


def plain(value: float) -> str:
    """A number for reading, four significant digits, with thousands set apart.

    >>> plain(12345.6), plain(0.5), plain(110.0)
    ('12,346', '0.5', '110')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
