"""What memory a release may take where its process has a limit of its own (``ulimit -v``, ``RLIMIT_AS``).

Beyond it nothing gets slow, as beyond the machine's own: whoever asks next fails, after the charge, and whose rows made
it so would show. Both numbers follow from the limit and from what the process holds before it reads a row.
"""

from __future__ import annotations

import resource
from pathlib import Path

from tallystick.errors import Unavailable
from tallystick.tables.sorted_cells import MOST_BYTES

_LEAST = 256 << 20
_LEAST_ARRAYS, _LEAST_ENGINE = _LEAST // 32, _LEAST // 4


def left() -> int | None:
    """Bytes of addresses that this process may still take; None where there is no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError):  # no such file on this system
        return limit // 2
    return max(limit - pages * resource.getpagesize(), 0)


def enough() -> None:
    """Asked before a charge: where hardly anything is left, it is the data that decide what fails."""
    room = left()
    if room is not None and room < _LEAST:
        raise Unavailable(
            f"this process may take only {room >> 20} MB of memory more, and a release needs {_LEAST >> 20}; "
            "raise its limit (ulimit -v)"
        )


def for_arrays() -> int:
    """Bytes of rows that are handed over at once: there are up to three of each for a moment."""
    room = left()
    return MOST_BYTES if room is None else min(MOST_BYTES, max(room // 8, _LEAST_ARRAYS))


def for_engine() -> int | None:
    """Bytes after which an engine is to put on its disk what it holds; None where it knows best."""
    room = left()
    return None if room is None else max(room // 3, _LEAST_ENGINE)
