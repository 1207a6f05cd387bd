"""Problems as HTTP words them: a status, and the data of the error (RFC 9457)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import Response

from tallystick.errors import (
    BudgetExceeded,
    IdempotencyConflict,
    InvalidInput,
    LedgerIntegrity,
    NotAuthorised,
    Quarantined,
    Refused,
    TallystickError,
    Unavailable,
)

TYPE: Final = "application/problem+json"
PREFIX: Final = "urn:tallystick:problem:"
SECONDS_UNTIL_RETRY: Final = 2
"""Buckets of requests are filled again by then; that of processor time may take longer."""

_BY_CODE: Final[Mapping[str, int]] = {
    "malformed": 400,
    "wrong_host": 400,
    "bad_token": 401,
    "dead_token": 401,
    "not_found": 404,
    "no_population": 404,
    "no_job": 404,
    "wrong_method": 405,
    "too_slow": 408,
    "begun": 409,
    "no_answer": 409,
    "too_large": 413,
    "wrong_type": 415,
    "suspended": 423,
    "too_many_requests": 429,
    "too_many_jobs": 429,
    "defect": 500,
}
_BY_CLASS: Final[tuple[tuple[type[TallystickError], int], ...]] = (
    (Quarantined, 423),
    (NotAuthorised, 403),
    (IdempotencyConflict, 409),
    (BudgetExceeded, 409),
    (LedgerIntegrity, 503),
    (Refused, 422),
    (InvalidInput, 422),
    (Unavailable, 503),
)
"""The status of an error whose code is not listed. The first class that fits decides."""

_HEADERS: Final[Mapping[int, Mapping[str, str]]] = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": str(SECONDS_UNTIL_RETRY)},
}


def malformed(argument: str, value: object, allowed: str, *, code: str = "malformed") -> InvalidInput:
    """Return the error about a request that is not as HTTP or this interface want it."""
    return InvalidInput(argument, value, allowed, code=code)


def unknown_token() -> NotAuthorised:
    """Return the error about a token that is missing, unknown, expired or revoked."""
    return NotAuthorised("this token is not accepted: it is unknown or has ended", code="dead_token")


def not_found() -> NotAuthorised:
    """Return the error about what is absent, or not for who asks to see."""
    return NotAuthorised("this does not exist, or you may not see it", code="not_found")


def out_of_order() -> Unavailable:
    """Return the error about a ledger that the keeper does not trust."""
    return Unavailable("the ledger of this service cannot be used now. Nothing was granted")


def status_of(problem: TallystickError) -> int:
    """Return the status of a problem.

    >>> status_of(Refused("the data are closed")), status_of(Unavailable("busy")), status_of(not_found())
    (422, 503, 404)
    """
    known = _BY_CODE.get(problem.code)
    if known is not None:
        return known
    return next((status for kind, status in _BY_CLASS if isinstance(problem, kind)), 500)


def body_of(problem: TallystickError) -> dict[str, Any]:
    """Return the members of a problem: those of RFC 9457, the exit code of the shell, and the data of the error."""
    status = status_of(problem)
    told = _told(problem, status)
    data = told.to_data()
    return {
        "type": PREFIX + told.code,
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": data.pop("message"),
        "exit": told.exit_code,
        **data,
    }


def _told(problem: TallystickError, status: int) -> TallystickError:
    """Return the problem of an answer: one text for every cause of a 401, of a 404 and of a broken ledger."""
    if isinstance(problem, LedgerIntegrity):
        return out_of_order()
    if status == 401:
        return unknown_token()
    return not_found() if status == 404 else problem


def response(problem: TallystickError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer that tells a problem."""
    status = status_of(problem)
    content = as_json(body_of(problem))
    return Response(content, status, {**_HEADERS.get(status, {}), **(headers or {})}, media_type=TYPE)


def as_json(data: Any) -> bytes:
    """Return JSON data as the bytes of a body."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode()
