"""HTTP requests to a service. A problem in an answer is raised as the error that the service raised."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final
from urllib.parse import SplitResult, urlencode, urlsplit

from tallystick import strict_json
from tallystick.errors import TOKEN, InvalidInput, TallystickError, Unavailable
from tallystick.regular_file import read_text

PATIENCE: Final = 90.0
"""Seconds without a byte from the service."""
LONGEST: Final = 256 << 20
"""Bytes of an answer, which may list a million groups."""
DEEPEST: Final = 100
_LOOPBACK: Final = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")
_PROBLEM: Final = "application/problem+json"
_OF_HTTP: Final = ("type", "title", "status", "exit")
"""Members of a problem that the error does not have."""


def token_in_environment() -> str | None:
    """Return the token in ``TALLYSTICK_TOKEN``, or in the file that ``TALLYSTICK_TOKEN_FILE`` names."""
    text, path = os.environ.get("TALLYSTICK_TOKEN"), os.environ.get("TALLYSTICK_TOKEN_FILE")
    if text:
        return text.strip()
    return read_text(path).strip() if path else None


class Connection:
    """The address of a service, and the token to show there."""

    def __init__(self, url: str, token: str | None) -> None:
        self._address = _address(url)
        given = token_in_environment() if token is None else token.strip()
        if given is None or not TOKEN.fullmatch(given):
            problem = "a service needs a token. Pass token=, or set TALLYSTICK_TOKEN or TALLYSTICK_TOKEN_FILE"
            raise InvalidInput("token", None, "", problem=problem)
        self._token = given
        self._tls = ssl.create_default_context() if self._address.scheme == "https" else None

    def __repr__(self) -> str:
        return f"<Connection {self.url}>"  # the token is a secret

    def __reduce__(self) -> str:
        raise TypeError("a connection has a token, so it is not pickled. Connect again")

    @property
    def url(self) -> str:
        """The address of the service."""
        return f"{self._address.scheme}://{self._address.netloc}"

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the answer to a request. A request whose connection breaks is sent a second time.

        All requests may be repeated: what spends has an Idempotency-Key.
        """
        sent = {"Authorization": f"Bearer {self._token}", "Accept": "application/json", **(headers or {})}
        content = None
        if body is not None:
            content = json.dumps(body, allow_nan=False).encode()
            sent["Content-Type"] = "application/json"
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            return self._ask_once(method, target, content, sent)
        except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected):
            return self._ask_once(method, target, content, sent, is_last=True)

    def _ask_once(
        self, method: str, target: str, content: bytes | None, headers: dict[str, str], *, is_last: bool = False
    ) -> Any:
        try:
            with closing(self._opened()) as connection:
                connection.request(method, target, content, headers)
                answer = connection.getresponse()
                text = answer.read(LONGEST + 1)
        except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected) as problem:
            if not is_last:
                raise
            raise _unreachable(self.url, problem) from None
        except (OSError, http.client.HTTPException) as problem:
            raise _unreachable(self.url, problem) from None
        return _understood(answer.status, answer.headers.get_content_type(), text)

    def _opened(self) -> http.client.HTTPConnection:
        host, port = str(self._address.hostname), self._address.port
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=PATIENCE)
        return http.client.HTTPSConnection(host, port, timeout=PATIENCE, context=self._tls)


def _address(url: str) -> SplitResult:
    """Return the parts of the address of a service; refuse one that would send a token in clear text."""
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.scheme not in ("http", "https") or parts.path not in ("", "/"):
        raise InvalidInput("url", "another text", "https:// and the host of a service, with a port if it has one")
    if parts.username is not None or parts.query or parts.fragment:
        raise InvalidInput("url", "an address with more parts", "the host and the port alone; pass the token as token=")
    if parts.scheme == "http" and not _LOOPBACK.fullmatch(str(parts.hostname)):
        raise InvalidInput("url", url, "https://, because a token crosses no network in clear text")
    return parts


def _unreachable(url: str, problem: BaseException) -> Unavailable:
    reason = getattr(problem, "strerror", None) or type(problem).__name__
    return Unavailable(f"the service at {url} cannot be reached ({reason})", code="unreachable")


def _understood(status: int, kind: str, text: bytes) -> Any:
    """Return an answer as data; raise the error that it tells."""
    if kind not in ("application/json", _PROBLEM) or len(text) > LONGEST:
        raise Unavailable(f"this is not an answer of a service of tallystick (status {status})", code="not_a_service")
    data = strict_json.read(text, name="answer", allowed="JSON of a service", longest=LONGEST, deepest=DEEPEST)
    if kind == _PROBLEM:
        raise _error(data)
    if not isinstance(data, dict):
        raise InvalidInput("answer", type(data).__name__, "an object of a service")
    return data


def _error(data: Any) -> TallystickError:
    """Return the error of a problem (RFC 9457)."""
    if not isinstance(data, dict):
        return TallystickError.from_data(data)
    facts = {name: value for name, value in data.items() if name not in _OF_HTTP}
    facts["message"] = facts.pop("detail", None)
    return TallystickError.from_data(facts)
