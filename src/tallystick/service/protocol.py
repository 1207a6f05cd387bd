"""Questions of other processes to the keeper: one message for one action, on a unix socket.

A message names the action, the token of who asks, and the fields of the action. The answer has a result, or a problem
as ``TallystickError.to_data`` writes it. This module is all that a web server or a client needs of the service.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tallystick.errors import InvalidInput, TallystickError, Unavailable
from tallystick.service import frames
from tallystick.service.frames import Ended

VERSION: Final = 1
SOCKET: Final = "keeper.sock"
"""Name of the socket in the folder of the service."""
LONGEST_WAIT: Final = 60.0
"""Seconds that a message may wait for a job."""
LONGEST_STATEMENT: Final = 64 << 10
"""Characters of a statement."""
WAITING: Final = "WAITING"
"""The job waits for a slot. Nothing is charged."""
RUNNING: Final = "RUNNING"
"""The job has a slot. It may be charged."""
TEXT: Final = "text"
TEXT_OR_NONE: Final = "text or none"
OBJECT: Final = "object"
SECONDS: Final = "seconds"
SIZES: Final = "sizes"
TEXTS: Final = "texts"
FLAG: Final = "flag"
LONGEST_TEXT: Final = 4096
"""Characters of a name, an id or a place."""
MOST_TEXTS: Final = 1024


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    TEXT: _is_text,
    TEXT_OR_NONE: lambda value: value is None or _is_text(value),
    OBJECT: lambda value: isinstance(value, dict),
    SECONDS: lambda value: type(value) in (int, float) and 0 <= value <= LONGEST_WAIT,
    SIZES: lambda value: isinstance(value, list) and all(type(each) is int and 0 < each < 2**53 for each in value),
    TEXTS: lambda value: isinstance(value, list) and len(value) <= MOST_TEXTS and all(map(_is_text, value)),
    FLAG: lambda value: isinstance(value, bool),
}
_NAMED: Final = {
    TEXT: f"a text of at most {LONGEST_TEXT} characters",
    TEXT_OR_NONE: f"a text of at most {LONGEST_TEXT} characters, or nothing",
    OBJECT: "an object",
    SECONDS: f"seconds from 0 to {LONGEST_WAIT:g}",
    SIZES: "a list of whole numbers above 0",
    TEXTS: f"a list of at most {MOST_TEXTS} such texts",
    FLAG: "true or false",
}
ACTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "service": {},
    "me": {},
    "populations": {},
    "datasets": {"population": TEXT},
    "offer": {"request": OBJECT, "sizes": SIZES, "population": TEXT_OR_NONE},
    "submit": {"request": OBJECT, "name": TEXT_OR_NONE, "wait": SECONDS, "population": TEXT_OR_NONE},
    "job": {"id": TEXT, "wait": SECONDS},
    "jobs": {"all": FLAG},
    "result": {"id": TEXT},
    "cancel": {"id": TEXT},
    "connections": {},
    "connect": {"name": TEXT, "place": TEXT, "populations": TEXTS, "local": FLAG},
    "disconnect": {"name": TEXT},
    "failures": {"population": TEXT},
    "suspended": {"population": TEXT},
    "lift": {"population": TEXT, "principal": TEXT},
    "stop": {},
}
"""The fields of every action, with their types. All have to be given."""


def checked(message: Mapping[str, Any]) -> tuple[str, str, dict[str, Any]]:
    """Return action, token and fields of a message; refuse one that is not as declared."""
    if set(message) != {"action", "token", "fields"}:
        raise InvalidInput("message", sorted(message), "an object with action, token and fields")
    action, token, given = message["action"], message["token"], message["fields"]
    if not isinstance(action, str) or action not in ACTIONS:
        raise InvalidInput("action", action if isinstance(action, str) else None, f"one of: {', '.join(ACTIONS)}")
    if not isinstance(token, str):
        raise InvalidInput("token", type(token).__name__, "a text")
    wanted = ACTIONS[action]
    if not isinstance(given, dict) or given.keys() != wanted.keys():
        raise InvalidInput("fields", action, f"an object with fields {', '.join(wanted) or 'none'}")
    for name, kind in wanted.items():
        if not _FITS[kind](given[name]):
            raise InvalidInput(name, type(given[name]).__name__, _NAMED[kind])
    return action, token, given


class Caller:
    """A connection to the keeper, for one token.

    Each thread needs another caller. ``ask`` raises the problem that the keeper answers with.
    """

    def __init__(self, place: Path | str, token: str, *, patience: float = LONGEST_WAIT + 30) -> None:
        self._token = token
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(patience)
        try:
            self._connection.connect(str(place))
        except OSError:
            self._connection.close()
            raise Unavailable("no service answers at this socket. Start one") from None

    def __repr__(self) -> str:
        return "<Caller>"  # the token is a secret

    def ask(self, action: str, **fields: Any) -> Any:
        """Ask for an action, and return its result."""
        try:
            frames.send(self._connection, {"action": action, "token": self._token, "fields": fields})
            answer = frames.receive(self._connection)
        except Ended:
            raise Unavailable("the service has ended this connection. Ask again later", code="ended") from None
        if "problem" in answer:
            raise TallystickError.from_data(answer["problem"])
        return answer["result"]

    @property
    def is_usable(self) -> bool:
        """False if the keeper has closed the connection, or has sent what was not asked for."""
        return not select.select([self._connection], [], [], 0)[0]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
