"""Parts of an HTTP request, read strictly: the token, the query, headers and the body."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.requests import Request

from tallystick import strict_json
from tallystick.errors import TOKEN, InvalidInput
from tallystick.service.protocol import LONGEST_STATEMENT
from tallystick.web.problems import malformed, unknown_token

LONGEST_BODY: Final = 8 << 20
"""Bytes of a body."""
_ENVELOPE: Final = 4096
"""Bytes that a message to the keeper has beside the body."""
BODY_PATIENCE: Final = 30.0
"""Seconds in which a body has to arrive."""
LONGEST_TOKEN: Final = 256
MOST_WAITED: Final = 30
"""Seconds that a request may wait for the end of a job."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,128}")
_WAIT: Final = re.compile(r"wait=(\d{1,4})")


def token(request: Request) -> str:
    """Return the token of a request. It is in the header Authorization alone."""
    given = request.headers.getlist("authorization")
    scheme, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    is_token = len(text) <= LONGEST_TOKEN and TOKEN.fullmatch(text)
    if scheme.lower() != "bearer" or not is_token:
        raise unknown_token()
    return text


def query(request: Request, *names: str) -> dict[str, str]:
    """Return the fields of the query. A field that is not known, or is given twice, is refused."""
    given = request.query_params.multi_items()
    fields = dict(given)
    if len(fields) != len(given) or not fields.keys() <= set(names):
        raise malformed("query", "other fields", f"each at most once: {', '.join(names) or 'no field'}")
    return fields


def flag(fields: Mapping[str, str], name: str) -> bool:
    """Return a field of the query that is true or false, and false if it is left out."""
    text = fields.get(name, "false")
    if text not in ("true", "false"):
        raise malformed(name, "another text", "true or false")
    return text == "true"


def key(request: Request) -> str:
    """Return the header Idempotency-Key, which a request that can spend has to have."""
    given = request.headers.getlist("idempotency-key")
    if len(given) != 1 or not _KEY.fullmatch(given[0]):
        raise malformed("Idempotency-Key", f"{len(given)} headers", "one header of 1 to 128 visible ASCII characters")
    return given[0]


def wait(request: Request) -> int:
    """Return the seconds that the client prefers to wait for a job (RFC 7240)."""
    preferences = ",".join(request.headers.getlist("prefer")).replace(" ", "").split(",")
    found = [each for each in map(_WAIT.fullmatch, preferences) if each]
    return min(MOST_WAITED, int(found[0][1])) if found else 0


async def body(request: Request, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the JSON object in the body. A field that is not known is refused."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise malformed("Content-Type", "another type", "application/json", code="wrong_type")
    try:
        text = await asyncio.wait_for(_bytes(request), BODY_PATIENCE)
    except TimeoutError:
        raise malformed("body", "incomplete", f"a body within {BODY_PATIENCE:g} seconds", code="too_slow") from None
    fields = _read(text)
    if not isinstance(fields, dict) or not set(required) <= fields.keys() <= {*required, *optional}:
        raise malformed("body", "another object", f"an object with the fields {', '.join((*required, *optional))}")
    if len(json.dumps(fields)) > LONGEST_BODY - _ENVELOPE:  # as it is sent to the keeper
        raise _too_large()
    return fields


def asked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request in a body, whose statement is not too long."""
    found = fields["request"]
    if not isinstance(found, dict):
        raise malformed("request", type(found).__name__, "an object")
    what = found.get("what")
    text = what.get("text") if isinstance(what, dict) else None
    if isinstance(text, str) and len(text) > LONGEST_STATEMENT:
        allowed = f"at most {LONGEST_STATEMENT} characters"
        raise malformed("text", f"{len(text)} characters", allowed, code="too_large")
    return found


def _read(text: bytes) -> Any:
    try:
        return strict_json.read(text, name="body", allowed="JSON", longest=LONGEST_BODY)
    except InvalidInput as problem:
        raise malformed("body", problem.value, "JSON") from None


async def _bytes(request: Request) -> bytes:
    """Receive the body, as long as it is not too large."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > LONGEST_BODY:
        raise _too_large()
    parts, received = [], 0
    async for part in request.stream():
        received += len(part)
        if received > LONGEST_BODY:
            raise _too_large()
        parts.append(part)
    return b"".join(parts)


def _too_large() -> InvalidInput:
    return malformed("body", "a longer one", f"at most {LONGEST_BODY} bytes", code="too_large")
