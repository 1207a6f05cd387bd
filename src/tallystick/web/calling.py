"""Connections to the keeper, kept for each token. A connection never serves two tokens."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tallystick.errors import Unavailable
from tallystick.service.protocol import Caller

MOST_AT_ONCE: Final = 8
"""Requests of one token that are with the keeper at once."""
MOST_TOKENS: Final = 64
"""Tokens whose connections are kept while they ask nothing. The keeper has 256 connections."""
MOST_IDLE: Final = 2
"""Idle connections of one token."""
KEPT: Final = 60.0
"""Seconds that an idle connection is kept."""


@dataclass
class _Held:
    """The connections of one token."""

    idle: list[Caller] = field(default_factory=list)
    lent: int = 0
    used: float = 0.0


class Callers:
    """The connections of a front. All methods may be called by several threads."""

    def __init__(self, socket: Path | str) -> None:
        self._socket = socket
        self._lock = threading.Lock()
        self._held: OrderedDict[bytes, _Held] = OrderedDict()

    def ask(self, token: str, action: str, **fields: Any) -> Any:
        """Ask the keeper for an action with a token, and return its result."""
        with self._lent(token) as caller:
            return caller.ask(action, **fields)

    def close(self) -> None:
        """Close the connections that are idle."""
        with self._lock:
            for held in self._held.values():
                _close(held.idle)

    @contextmanager
    def _lent(self, token: str) -> Iterator[Caller]:
        """Lend a connection of a token; close it after an error, which may have left it in the middle of an answer."""
        name = hashlib.sha256(token.encode()).digest()
        with self._lock:
            held = self._held.setdefault(name, _Held())
            if held.lent >= MOST_AT_ONCE:
                raise Unavailable(f"at most {MOST_AT_ONCE} requests of a token at once", code="too_many_requests")
            held.lent += 1
            caller = held.idle.pop() if held.idle else None
        is_good = False
        try:
            if caller is not None and not caller.is_usable:
                caller.close()
                caller = None
            caller = caller or Caller(self._socket, token)
            yield caller
            is_good = True
        finally:
            self._take_back(name, held, caller, is_good)

    def _take_back(self, name: bytes, held: _Held, caller: Caller | None, is_good: bool) -> None:
        with self._lock:
            held.lent -= 1
            held.used = time.monotonic()
            if caller is not None and is_good and len(held.idle) < MOST_IDLE:
                held.idle.append(caller)
            elif caller is not None:
                caller.close()
            self._held.move_to_end(name)
            if not held.idle and not held.lent:
                del self._held[name]
            self._forget_old(held.used)

    def _forget_old(self, now: float) -> None:
        """Close what was not used for a while, and what is too much; the oldest ones are first."""
        idle = [(name, held) for name, held in self._held.items() if not held.lent]
        surplus = len(idle) - MOST_TOKENS
        for place, (name, held) in enumerate(idle):
            if place < surplus or held.used < now - KEPT:
                _close(held.idle)
                del self._held[name]


def _close(callers: list[Caller]) -> None:
    while callers:
        with suppress(OSError):
            callers.pop().close()
