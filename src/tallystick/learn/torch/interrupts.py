"""A row ends no training run: what a model raises because of it is an ordinary error, whatever it calls it.

``SystemExit``, ``KeyboardInterrupt`` and other exceptions that are no ``Exception`` end a program. Raised by a model on
a private row they would end a run that is paid for, and show their message. They end it only if a signal came: a key
that the user pressed, or a request to stop.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class OnlySignalsEnd:
    """Turns what ends a program into a ``RuntimeError``, unless a signal came meanwhile.

    >>> with OnlySignalsEnd():
    ...     raise SystemExit("somebody's value")
    Traceback (most recent call last):
    ...
    RuntimeError: the model or the loss raises SystemExit
    """

    __slots__ = ("_before", "_came")

    def __init__(self) -> None:
        self._came = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                before = signal.getsignal(number)
                if callable(before):
                    self._before[number] = before
                    signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Remember that a signal came, and hand it on."""
        self._came = True
        self._before[signal.Signals(number)](number, frame)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if error is None or isinstance(error, Exception) or self._came:
            return
        raise RuntimeError(f"the model or the loss raises {type(error).__name__}") from None
