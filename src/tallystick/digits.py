"""Numbers, people and moments as people read them.

There is one rule for terminal, card, notebook, explorer and errors. Results have three significant
digits. An upper bound is rounded up, a lower bound down, the ends of an interval outward; the side
is in the name of the function. Integers, fractions and doubles are rounded exactly, so a bound
stays a bound. Hashes, keys, stored texts, JSON and CSV do not use this module.

=======================  ==================================================
``up``                   an upper bound: epsilon, an error, a probability
``down``                 a lower bound: what is certain at least
``nearest``              a number that is not a bound
``typed``                a number that a person typed
``amount_up``            budget that is spent or promised
``amount_down``          budget that is left
``percent...``           a share, by the same sides
``with_interval``        a value and its interval: ``48.3 (46.8 to 49.8)``
``with_error``           a value and its half width: ``1,860 ±20``
``people``               a number of people, in the owner's word
``moment``               a date and time
=======================  ==================================================
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Final

Number = int | float | Fraction | Decimal

RESULT: Final = 3
"""Significant digits of a result."""
ACCOUNTANT: Final = 6
"""Significant digits of an accountant's answer, such as those of ``epsilon`` and ``compare``."""
_SHORT: Final = 6
"""Significant digits up to which an amount of budget is printed exactly."""
_ZEROS: Final = 9
"""Zeros at the end of a number from which people type ``1e9``."""
_SMALLEST_PLAIN: Final = -4
"""Decimal exponent below which a number is written as ``1e-6``."""
_LARGEST_PLAIN: Final = 15
"""Decimal exponent from which a number is written as ``1e15``."""
_MOST_DECIMALS: Final = 6
"""Decimals of a value with an interval; a narrower interval is printed with significant digits."""
_EXPONENTS: Final = 10**6
"""Decimal exponents of the arithmetic here: more than doubles and fractions of the ledger have."""


def up(value: Number, digits: int = RESULT) -> str:
    """Return ``value`` to this many significant digits, never below it.

    >>> up(1.6245), up(0.06), up(Fraction(1, 3)), up(13147.2)
    ('1.63', '0.06', '0.334', '13,200')
    >>> up(Fraction(121, 10**8)), up(math.inf)
    ('1.21e-6', 'infinite')
    """
    return _text(decimal_up(value, digits))


def down(value: Number, digits: int = RESULT) -> str:
    """Return ``value`` to this many significant digits, never above it.

    >>> down(6.18771239, ACCOUNTANT), down(Fraction(2, 3))
    ('6.18771', '0.666')
    """
    return _text(decimal_down(value, digits))


def nearest(value: Number, digits: int = RESULT) -> str:
    """Return ``value`` to this many significant digits, for a number that is not a bound.

    >>> nearest(0.0123456), nearest(1e-5), nearest(1e20)
    ('0.0123', '1e-5', '1e20')
    """
    return _text(_significant(value, digits, ROUND_HALF_EVEN))


def decimal_up(value: Number, digits: int = RESULT) -> Decimal:
    """Return the number that ``up`` prints.

    >>> decimal_up(0.12341)
    Decimal('0.124')
    """
    return _significant(value, digits, ROUND_CEILING)


def decimal_down(value: Number, digits: int = RESULT) -> Decimal:
    """Return the number that ``down`` prints.

    >>> float(decimal_down(0.123987))
    0.123
    """
    return _significant(value, digits, ROUND_FLOOR)


def typed(value: Number) -> str:
    """Return a number that a person typed: its shortest text, which a command reads back.

    >>> typed(1e-6), typed(2.0), typed(1.23456789e-6), typed(1000), typed(1e12)
    ('1e-6', '2', '1.23456789e-6', '1000', '1e12')
    """
    if isinstance(value, int):
        return str(value)
    written = repr(float(value))
    is_long = written.endswith(f"{'0' * _ZEROS}.0")
    mantissa, _, exponent = (f"{Decimal(written).normalize():e}" if is_long else written).partition("e")
    shortest = mantissa.removesuffix(".0")
    return f"{shortest}e{int(exponent)}" if exponent else shortest


def amount_up(value: Fraction) -> str:
    """Return an amount of budget that is spent or promised: exact if it is short, else rounded up.

    People type budgets and costs. A sum of short numbers is short, too, so it is printed exactly.

    >>> amount_up(Fraction(6, 100)), amount_up(Fraction(1, 80)), amount_up(Fraction(1, 3))
    ('0.06', '0.0125', '0.334')
    """
    return up(value, _digits_of_amount(value))


def amount_down(value: Fraction) -> str:
    """Return an amount of budget that is left: exact if it is short, else rounded down.

    >>> amount_down(1 - Fraction(1, 80)), amount_down(Fraction(2, 3))
    ('0.9875', '0.666')
    """
    return down(value, _digits_of_amount(value))


def percent(share: float) -> str:
    """Return a share that a person typed, in per cent.

    >>> percent(0.01), percent(0.001), percent(0.95)
    ('1 %', '0.1 %', '95 %')
    """
    return f"{nearest(100 * share, ACCOUNTANT)} %"


def percent_up(share: float | Fraction, digits: int = RESULT) -> str:
    """Return a share that is an upper bound, in per cent, not below it.

    >>> percent_up(0.7310585), percent_up(0.99999999), percent_up(0.0)
    ('73.2 %', '100 %', '0 %')
    """
    return f"{up(_hundredfold(share), digits)} %"


def percent_down(share: float | Fraction, digits: int = RESULT) -> str:
    """Return a share that is a lower bound, in per cent, not above it.

    >>> percent_down(Fraction(2, 3))
    '66.6 %'
    """
    return f"{down(_hundredfold(share), digits)} %"


def with_interval(value: Number | None, lower: Number, upper: Number) -> str:
    """Return a value and its interval, with as many decimals as the interval justifies.

    >>> with_interval(48.834, 47.312, 50.356), with_interval(1860, 1840, 1880)
    ('48.8 (47.3 to 50.4)', '1,860 (1,840 to 1,880)')
    >>> with_interval(None, 0, 110)
    '- (0 to 110)'
    """
    return f"{value_within(value, lower, upper)} ({interval(lower, upper)})"


def value_within(value: Number | None, lower: Number, upper: Number) -> str:
    """Return the value of ``with_interval`` alone.

    >>> value_within(827.31, 634.2, 1020.4), value_within(9.886, 6.06, 13.72)
    ('827', '9.9')
    """
    if value is None:
        return "-"
    decimals = decimals_of(lower, upper, value)
    return nearest(value) if decimals is None else fixed(value, decimals)


def interval(lower: Number, upper: Number) -> str:
    """Return the two ends of an interval, rounded outward.

    >>> interval(47.312, 50.356), interval(-0.5, math.inf), interval(0.0, 2.0**-30)
    ('47.3 to 50.4', '-0.5 to infinite', '0 to 9.32e-10')
    """
    decimals = decimals_of(lower, upper)
    if decimals is None:
        return f"{down(lower)} to {up(upper)}"
    return f"{_fixed(lower, decimals, ROUND_FLOOR)} to {_fixed(upper, decimals, ROUND_CEILING)}"


def with_error(value: Number, half: Number) -> str:
    """Return a value and its half width; the error covers what rounding moves the value.

    >>> with_error(1860, 20), with_error(1231.482, 2.9957), with_error(1231.482, 3)
    ('1,860 ±20', '1,231.48 ±3', '1,231.48 ±3.01')
    """
    decimals = decimals_beside(half, [value])
    if decimals is not None:
        return f"{fixed(value, decimals)} ±{up(half)}"
    shown = _significant(value, ACCOUNTANT, ROUND_HALF_EVEN)
    moved = abs(_exact(value) - _exact(shown))
    total = _exact(half) + moved if math.isfinite(half) else half
    return f"{_text(shown)} ±{up(total)}"


def decimals_beside(half: Number, values: Sequence[Number]) -> int | None:
    """Return decimals of values that have one half width, which is printed rounded up.

    The printed half width covers what rounding moves the values. None if no decimals do that.

    >>> decimals_beside(20, [1860, 1726]), decimals_beside(2.9957, [1231.482, 1212.5])
    (0, 2)
    >>> decimals_beside(3, [1 / 3])
    """
    if all(isinstance(value, int) for value in values):
        return 0
    least = decimals_of(0, 2 * half)
    if least is None:
        return None
    slack = _exact(decimal_up(half)) - _exact(half)
    for decimals in range(least, least + 3):
        if all(_moved(value, decimals) <= slack for value in values):
            return decimals
    return None


def fixed(value: Number, decimals: int) -> str:
    """Return a value with this many decimals, for a column of values.

    >>> fixed(1231.482, 1), fixed(1860, 0)
    ('1,231.5', '1,860')
    """
    return _fixed(value, decimals, ROUND_HALF_EVEN)


def decimals_of(lower: Number, upper: Number, value: Number = 0) -> int | None:
    """Return the decimals that show two digits of an interval's width; 0 for whole numbers.

    None if the numbers are too large, or the width is too small, for plain decimals.

    >>> decimals_of(47.3, 50.4), decimals_of(0.51, 0.53), decimals_of(3, 5)
    (1, 3, 0)
    >>> decimals_of(0.0, math.inf)
    """
    numbers = (lower, upper, value)
    if not all(math.isfinite(each) for each in numbers):
        return None
    if max(abs(_exact(each)) for each in numbers) >= 10**_LARGEST_PLAIN:
        return None
    if all(isinstance(each, int) for each in numbers):
        return 0
    width = _exact(upper) - _exact(lower)
    if width <= 0:
        return None
    decimals = max(0, 1 - decimal_down(width, 1).adjusted())
    return decimals if decimals <= _MOST_DECIMALS else None


def people(number: int, word: str) -> str:
    """Return a number of people in the owner's word for one of them.

    >>> people(1, "patient"), people(2000, "patient"), people(3, "company")
    ('1 patient', '2,000 patients', '3 companies')
    """
    return f"{number:,} {word if number == 1 else plural(word)}"


def ledger_entries(numbers: Iterable[int]) -> str:
    """Return ledger entries by their numbers, in words.

    >>> ledger_entries([4]), ledger_entries([4, 7])
    ('ledger entry 4', 'ledger entries 4, 7')
    """
    listed = [str(number) for number in numbers]
    return f"ledger {'entry' if len(listed) == 1 else 'entries'} {', '.join(listed)}"


def plural(word: str) -> str:
    """Return the owner's word for several people.

    >>> plural("person"), plural("patient"), plural("aircraft"), plural("company"), plural("man")
    ('people', 'patients', 'aircraft', 'companies', 'men')
    """
    odd = {"person": "people", "man": "men", "woman": "women", "child": "children", "aircraft": "aircraft"}
    usual = f"{word[:-1]}ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else f"{word}s"
    return odd.get(word, word if word.endswith("s") else usual)


def moment(milliseconds: int) -> str:
    """Return a moment of the record, in UTC.

    >>> moment(0)
    '1970-01-01 00:00'
    """
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _hundredfold(share: float | Fraction) -> Number:
    """Exactly a hundred times a share: in doubles 100 * 0.0015 is 0.15, below the exact product."""
    return share if share in (math.inf, -math.inf) else 100 * Fraction(share)


def _digits_of_amount(value: Fraction) -> int:
    """Digits of an amount of budget: those that it has if they are few, else those of a result."""
    is_short = Fraction(decimal_up(value, _SHORT)) == value
    return _SHORT if is_short else RESULT


def _exact(value: Number) -> Fraction:
    return Fraction(value)


def _significant(value: Number, digits: int, rounding: str) -> Decimal:
    """Round to significant digits; an infinity stays one."""
    if isinstance(value, float) and math.isinf(value):
        return Decimal(value)
    exact = _exact(value)
    context = Context(prec=digits, rounding=rounding, Emin=-_EXPONENTS, Emax=_EXPONENTS)
    return context.divide(Decimal(exact.numerator), Decimal(exact.denominator))


def _at_decimals(value: Number, decimals: int, rounding: str) -> Decimal:
    """Round to a number of decimals."""
    steps = _exact(value) * 10**decimals
    sides = {ROUND_FLOOR: math.floor(steps), ROUND_CEILING: math.ceil(steps)}
    return Decimal(f"{sides.get(rounding, round(steps))}e-{decimals}")


def _moved(value: Number, decimals: int) -> Fraction:
    """Return how far rounding moves a value."""
    return abs(_exact(value) - _exact(_at_decimals(value, decimals, ROUND_HALF_EVEN)))


def _fixed(value: Number, decimals: int, rounding: str) -> str:
    return f"{_at_decimals(value, decimals, rounding):,.{decimals}f}"


def _text(value: Decimal) -> str:
    """Return a rounded number without trailing zeros, with thousands separators, or as ``1e-6``."""
    if value.is_infinite():
        return "infinite" if value > 0 else "-infinite"
    if value == 0:
        return "0"
    exponent = value.adjusted()
    if _SMALLEST_PLAIN <= exponent < _LARGEST_PLAIN:
        text = f"{value:,f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    sign, digits, _ = value.normalize().as_tuple()
    mantissa = Decimal((sign, digits, 1 - len(digits)))
    return f"{mantissa:f}e{exponent}"
