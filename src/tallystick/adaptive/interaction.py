"""An interaction of analyst and mechanism: one object that answers in turn, because its certificate counts answers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from tallystick.errors import Refused
from tallystick.mechanisms.base import OnlyOne


class Interaction(OnlyOne):
    """Cannot be copied, pickled or carried through a fork; threads take turns, and a question asks no other one.

    What is public was certified and paid for together, so it is set once.
    """

    __slots__ = ("_turn_of",)

    def __init__(self) -> None:
        super().__init__()
        self._turn_of: int | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") and hasattr(self, name):
            raise Refused(f"{name} was certified and paid for with everything else. Try: a new {type(self).__name__}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise Refused(f"{name} was certified and paid for with everything else. Try: a new {type(self).__name__}")

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        me = threading.get_ident()
        if self._turn_of == me:  # waiting for itself would never end
            raise Refused("a question cannot be asked from within a question: ask one after the other")
        with self._mine():
            self._turn_of = me
            try:
                yield
            finally:
                self._turn_of = None
