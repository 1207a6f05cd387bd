"""What every mechanism is: a frozen value that knows its privacy and can make a release.

    mechanism.privacy            PrivacyLoss of one release, known before any data is seen
    mechanism(value)             one release, with one warning per process that no ledger records it
    mechanism.release(value)     the same without the warning: what a ledger calls after it has charged

A subclass writes ``privacy``, ``prepare`` (check the value; draws nothing) and ``draw`` (add the noise).
"""

from __future__ import annotations

import os
import threading
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tallystick.errors import Refused
from tallystick.mechanisms.exact.randomness import SYSTEM, Source

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

Prepared = TypeVar("Prepared")
Output = TypeVar("Output")


class UnrecordedRelease(UserWarning):
    """A release was made outside any account, so nothing remembers what it cost."""


@dataclass(frozen=True, slots=True)
class Seeded(Generic[Output]):
    """A result made with a seeded source: an attacker with the seed can remove the noise, so it must not be published.

    >>> Seeded(3).value
    3
    """

    value: Output

    def __bool__(self) -> bool:
        raise TypeError("made with a seeded source, so not private; look at .value")


class OnlyOne:
    """A release that goes on (a stream, a protocol): one object with one lock, in the process that started it.

    Copies would each hand out what was paid for once, so copying, pickling and going on in a forked child are refused.
    """

    __slots__ = ("_lock", "_process")

    def __init__(self) -> None:
        self._lock, self._process = threading.Lock(), os.getpid()

    def __reduce_ex__(self, protocol: Any) -> Any:  # copy, deepcopy and pickle all ask here
        raise Refused(f"a {type(self).__name__} cannot be copied or stored: its whole life was paid for once")

    def _mine(self) -> threading.Lock:
        """The lock, in the process that may hold it."""
        if os.getpid() != self._process:
            raise Refused(
                f"this {type(self).__name__} belongs to the process that started it; start (and pay for) another"
            )
        return self._lock


class _Once:
    """Says True the first time only, in any thread."""

    __slots__ = ("_lock", "_said")

    def __init__(self) -> None:
        self._lock, self._said = threading.Lock(), False

    def first(self) -> bool:
        with self._lock:
            first, self._said = not self._said, True
            return first

    def forget(self) -> None:
        """For tests of the warning itself."""
        with self._lock:
            self._said = False


unrecorded = _Once()


class Mechanism(ABC, Generic[Prepared, Output]):
    """A randomized function of a value, priced in advance.

    ``takes_function`` says that the value itself is a function (a score), so that no code calls it to fetch the value.
    """

    __slots__ = ()
    takes_function: ClassVar[bool] = False

    @property
    @abstractmethod
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of one release, an upper bound."""

    @abstractmethod
    def prepare(self, value: Any, *, strict: bool) -> Prepared:
        """Check type and shape and map the value to what ``draw`` needs; draws nothing.

        Type and shape are public and always refused when wrong. Content (NaN, infinities, overflow) is data: with
        ``strict`` it is refused, otherwise it is mapped by a fixed public rule so that nothing raises after a charge.
        """

    @abstractmethod
    def draw(self, prepared: Prepared, source: Source) -> Output:
        """One release of a prepared value."""

    def release(self, value: Any, *, source: Source = SYSTEM) -> Output | Seeded[Output]:
        """One release without the warning, for callers that record what it cost."""
        return self.release_prepared(self.prepare(value, strict=False), source)

    def __call__(self, value: Any, *, source: Source = SYSTEM) -> Output | Seeded[Output]:
        """One release; the first in a process warns (``UnrecordedRelease``) that no account remembers it."""
        prepared = self.prepare(value, strict=True)
        if source.private and unrecorded.first():
            warnings.warn(
                "this release is recorded nowhere, so releases can add up unnoticed; "
                "use account.release(mechanism, value) to charge it, or account= and why= where they are asked for "
                "(said once per process)",
                UnrecordedRelease,
                stacklevel=2,
            )
        return self.release_prepared(prepared, source)

    def release_prepared(self, prepared: Prepared, source: Source) -> Output | Seeded[Output]:
        """One release of a prepared value, marked when its source is not private."""
        output = self.draw(prepared, source)
        return output if source.private else Seeded(output)
