"""One number in [0, 1] per record, each by itself: what one record is cannot change what another one counts.

NaN, anything that is not a number, and a record for which the function fails count as 0; numbers beyond [0, 1] as its
nearer end. Nothing that the records are makes this fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tallystick.adaptive.answer_noise import STEPS
from tallystick.mechanisms.inputs import double, number


def total(one: Callable[[int], Any], size: int, together: Callable[[], Any] | None = None) -> int:
    """The sum over all records in steps of 2^-24; ``one(i)`` is the number of record i.

    ``together`` gives all numbers at once, quicker, of a function whose caller answers for it that each is that of
    its own record. Where that fails, or gives something else, the records are asked one by one.

    >>> total(lambda i: [0.25, float("nan"), 7, 1 / 0 if i == 3 else 0][i], 4) / STEPS
    1.25
    """
    with np.errstate(all="ignore"):  # a warning would say something about the records
        if together is not None:
            try:
                numbers = np.asarray(together())
                if numbers.shape == (size,) and numbers.dtype.kind in "biuf":
                    return int(_steps(numbers.astype(np.float64)).sum())
            except Exception:  # of one record: the others still count as they are
                pass
        return sum(_one(one, i) for i in range(size))


def _one(one: Callable[[int], Any], i: int) -> int:
    try:
        given = one(i)
        if isinstance(given, (list, tuple, np.ndarray)) and len(np.shape(given)) == 1 and len(given) == 1:
            given = given[0]
        exact = number(given)
    except Exception:
        return 0
    return 0 if exact is None else int(_steps(np.array([double(exact)]))[0])


def _steps(numbers: Any) -> Any:
    inside = np.clip(np.nan_to_num(numbers, nan=0.0, posinf=1.0, neginf=0.0), 0.0, 1.0)
    return np.rint(inside * STEPS).astype(np.int64)
