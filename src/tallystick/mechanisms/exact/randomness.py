"""Where every random bit of a release comes from.

Operating-system entropy keys an AES-256-CTR stream, one per thread; a stream is thrown away and keyed afresh after
``REKEY_BYTES`` bytes and in every forked child. There is no way to seed it. ``SeededSource`` exists for tests: a
release made with it comes back wrapped in ``Seeded``.
"""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from typing import Any, TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

REKEY_BYTES = 1 << 30
_BUFFER_BYTES = 1 << 14
_CHUNK = bytes(1 << 20)
_BLOCK = 16  # update_into asks for room for one more AES block

Unsigned = TypeVar("Unsigned", np.uint8, np.uint16, np.uint32, np.uint64)


class Source(ABC):
    """A stream of independent fair bits.

    ``private`` is False when somebody could know the bits (a seed); releases are marked accordingly.
    """

    __slots__ = ()
    private: bool

    @abstractmethod
    def read(self, count: int) -> memoryview:
        """The next ``count`` bytes of the stream, never handed out again."""

    def words(self, count: int) -> NDArray[np.uint64]:
        """``count`` independent uniform 64-bit words.

        >>> SYSTEM.words(3).shape
        (3,)
        """
        return self.array(count, np.uint64)

    def array(self, count: int, dtype: type[Unsigned]) -> NDArray[Unsigned]:
        """``count`` independent uniform unsigned integers of any width.

        >>> SYSTEM.array(5, np.uint16).dtype
        dtype('uint16')
        """
        width = np.dtype(dtype)
        return np.frombuffer(self.read(count * width.itemsize), dtype=width)

    def bits(self, count: int) -> int:
        """A uniform integer in [0, 2^count).

        >>> 0 <= SYSTEM.bits(70) < 2**70
        True
        """
        size = (count + 7) // 8
        return int.from_bytes(self.read(size), "big") >> (8 * size - count)


class _Stream:
    """AES-256-CTR keystream with a small buffer, so that single draws do not each pay for a cipher call.

    GCM encrypts with the keystream of CTR, and OpenSSL makes it twice as fast; its tag is never asked for.
    """

    __slots__ = ("_buffer", "_encryptor", "_position", "generated", "owner")

    def __init__(self, key: bytes, counter: modes.CTR | modes.GCM, owner: tuple[int, int]) -> None:
        self._encryptor = Cipher(algorithms.AES(key), counter).encryptor()
        self._buffer = memoryview(bytearray())  # writable: the first read may be of nothing
        self._position = 0
        self.generated = 0
        self.owner = owner

    def read(self, count: int) -> memoryview:
        if count > _BUFFER_BYTES // 4:
            return self._generate(count)
        if self._position + count > len(self._buffer):
            self._buffer, self._position = self._generate(_BUFFER_BYTES), 0
        start = self._position
        self._position = start + count
        # A copy, because the caller may keep the array while the buffer is replaced.
        taken = memoryview(bytearray(self._buffer[start : self._position]))
        self._buffer[start : self._position] = bytes(count)  # bits already used are not kept in memory
        return taken

    def _generate(self, count: int) -> memoryview:
        out = np.empty(count + _BLOCK, dtype=np.uint8).data
        done = 0
        while done < count:
            step = min(len(_CHUNK), count - done)
            zeros = _CHUNK if step == len(_CHUNK) else memoryview(_CHUNK)[:step]
            done += self._encryptor.update_into(zeros, out[done : done + step + _BLOCK])
        self.generated += count
        return out[:count]


class SystemSource(Source):
    """Operating-system entropy, expanded. Safe to share between threads and to carry through ``fork``.

    Each thread has its own stream, so no lock can be held at a fork; a child discards every inherited stream because
    its process id (and a counter bumped by ``os.register_at_fork``) differs from the stream's owner.

    >>> SystemSource().private
    True
    """

    __slots__ = ("_forks", "_local")
    private = True

    def __init__(self) -> None:
        self._local = threading.local()
        self._forks = 0
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._forks += 1

    def read(self, count: int) -> memoryview:
        stream: _Stream | None = getattr(self._local, "stream", None)
        owner = (os.getpid(), self._forks)
        if stream is None or stream.owner != owner or stream.generated >= REKEY_BYTES:
            stream = self._local.stream = _Stream(os.urandom(32), modes.GCM(os.urandom(12)), owner)
        return stream.read(count)

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _system, ()  # state never leaves the process


class SeededSource(Source):
    """Reproducible bits for tests; everything released with it is ``Seeded``.

    >>> SeededSource(1).bits(16) == SeededSource(1).bits(16)
    True
    """

    __slots__ = ("_stream",)
    private = False

    def __init__(self, seed: int) -> None:
        digest = hashlib.sha512(f"tallystick test seed {seed:d}".encode()).digest()
        self._stream = _Stream(digest[:32], modes.CTR(digest[32:48]), (0, 0))

    def read(self, count: int) -> memoryview:
        return self._stream.read(count)


SYSTEM = SystemSource()


def _system() -> SystemSource:
    return SYSTEM
