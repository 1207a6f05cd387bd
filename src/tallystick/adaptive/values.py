"""One number in [0, 1] per record: what one record is cannot change what another one counts.

That is so if the function has no memory: one that compares a record with those it has seen before is not a function of
one record, and nothing here can tell. NaN, anything that is not a number, and a record for which the function fails
count as ``failed``; numbers beyond [0, 1] as its nearer end. Nothing that the records are makes this fail or warn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tallystick.adaptive.answer_noise import STEPS
from tallystick.mechanisms.inputs import double, number


def total(ask: Callable[[int, int], Any], size: int, *, together: bool = False, failed: int = 0) -> int:
    """The sum over all records in steps of 2^-24; ``ask(i, j)`` gives the numbers of the records i, ..., j - 1.

    With ``together`` it is asked for all at once, quicker, and its caller answers for it that each number is that of
    its own record; where that fails, or gives something else, each half is asked by itself, down to single records.

    >>> total(lambda i, j: [0.25, float("nan"), 7, 1 / 0 if i == 3 else 0][i], 4) / STEPS
    1.25
    """
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a warning would say something about the records
        if not together:
            return sum(_steps_of(ask, i, i + 1, failed) or 0 for i in range(size))
        steps, left = 0, [(0, size)]
        while left:
            first, last = left.pop()
            found = _steps_of(ask, first, last, failed)
            if found is None:
                middle = (first + last) // 2
                left += [(first, middle), (middle, last)]
            else:
                steps += found
        return steps


def _steps_of(ask: Callable[[int, int], Any], first: int, last: int, failed: int) -> int | None:
    """The sum of some records; None where several of them have to be asked apart."""
    try:
        given = ask(first, last)
        if last - first == 1:
            exact = number(single(given))
            return failed * STEPS if exact is None else int(_steps(np.array([double(exact)]), failed)[0])
        numbers = np.asarray(given)
        if numbers.shape == (last - first,) and numbers.dtype.kind in "biuf":
            return int(_steps(numbers.astype(np.float64), failed).sum())
    except KeyboardInterrupt:
        raise
    except BaseException:  # what a record makes of the function, also an exit, must not get out
        if last - first == 1:
            return failed * STEPS
    return None


def single(given: Any) -> Any:
    """The only entry of a list, an array or a column of a data frame; anything else as it is.

    >>> single([3]), single(3)
    (3, 3)
    """
    if (isinstance(given, (list, tuple)) or hasattr(given, "__array__")) and np.shape(given) == (1,):
        return given[0] if isinstance(given, (list, tuple)) else np.asarray(given)[0]
    return given


def _steps(numbers: Any, failed: int) -> Any:
    inside = np.clip(np.nan_to_num(numbers, nan=float(failed), posinf=1.0, neginf=0.0), 0.0, 1.0)
    return np.rint(inside * STEPS).astype(np.int64)
