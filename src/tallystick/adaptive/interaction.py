"""An interaction of analyst and mechanism: one object that answers in turn, because its certificate counts answers."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from tallystick.errors import Refused
from tallystick.mechanisms.base import OnlyOne


class Interaction(OnlyOne):
    """Cannot be copied, pickled or carried through a fork; threads take turns, and a question asks no other one."""

    __slots__ = ("_turn_of",)

    def __init__(self) -> None:
        super().__init__()
        self._turn_of: int | None = None

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
