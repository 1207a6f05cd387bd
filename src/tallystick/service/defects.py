"""Defects of this program: the operator gets the place, a client a number."""

from __future__ import annotations

import sys
import traceback
import uuid

from tallystick.errors import Unavailable


def defect(problem: BaseException) -> Unavailable:
    """Return the error that a client gets for a defect of this program: a number for the operator.

    The operator's log gets the class of the error and the lines of the program. It does not get the text, which could
    quote data.
    """
    number = uuid.uuid4().hex[:12]
    lines = traceback.format_tb(problem.__traceback__)
    print(f"defect {number}: {type(problem).__qualname__}\n{''.join(lines)}", file=sys.stderr, flush=True)
    return Unavailable(f"the service has a defect. Tell its operator the number {number}", code="defect")
