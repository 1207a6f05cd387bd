"""The inclusion coins of an audit: fair, independent, drawn by us and committed to before the training."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick import strict_json
from tallystick.accounting import check
from tallystick.errors import InvalidInput
from tallystick.mechanisms.exact.randomness import SYSTEM, SeededSource, Source
from tallystick.regular_file import read_bytes

MOST_CANARIES = 10**7
VERSION = 1
_MADE = object()


@dataclass(frozen=True, slots=True, init=False)
class Coins:
    """One fair coin per canary: True puts it into the training data. Made by :func:`coins` only.

    ``commitment`` is a salted hash to be published before the training; a reader with the coins can check it.
    ``seeded`` coins are for tests, and ``loaded`` ones came from a file of an unknown writer: evidence says
    so, and names the commitment that must have been published before.
    """

    included: NDArray[np.bool_]
    salt: str
    seeded: bool
    loaded: bool

    def __init__(
        self, made: object, included: NDArray[np.bool_], salt: str, *, seeded: bool, loaded: bool = False
    ) -> None:
        if made is not _MADE:
            raise InvalidInput("coins", "Coins(...)", "ts.audit.coins(m), which draws them")
        kept = included.copy()
        kept.setflags(write=False)
        for name, value in (("included", kept), ("salt", salt), ("seeded", seeded), ("loaded", loaded)):
            object.__setattr__(self, name, value)

    @property
    def commitment(self) -> str:
        """SHA-256 of the salt, the coins and whether they were seeded."""
        packed = np.packbits(self.included).tobytes()
        head = json.dumps([VERSION, self.salt, len(self), self.seeded])
        return hashlib.sha256(head.encode() + b"\n" + packed).hexdigest()

    def __len__(self) -> int:
        return int(self.included.size)

    def __iter__(self) -> Iterator[bool]:
        return iter(self.included.tolist())

    def __repr__(self) -> str:
        return f"<{len(self)} coins, commitment {self.commitment[:12]}{', seeded' if self.seeded else ''}>"

    def save(self, path: str | Path) -> None:
        """Write the coins to a new file that :meth:`load` reads, for its owner only. Keep it secret until the audit."""
        record = {
            "version": VERSION,
            "count": len(self),
            "coins": np.packbits(self.included).tobytes().hex(),
            "salt": self.salt,
            "seeded": self.seeded,
            "commitment": self.commitment,
        }
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise InvalidInput("path", str(path), "a file that does not exist: coins are drawn once") from None
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Coins:
        """Coins that were saved; refused if they do not match their commitment."""
        allowed = "a file of coins that an audit saved"
        try:
            content = read_bytes(path)
        except OSError as problem:
            raise InvalidInput("path", str(path), f"{allowed} ({problem.strerror})") from None
        record = strict_json.read(content, name="path", allowed=allowed)
        try:
            count = check.count("count", record["count"], least=1, most=MOST_CANARIES)
            packed = np.frombuffer(bytes.fromhex(record["coins"]), dtype=np.uint8)
            included = np.unpackbits(packed, count=count).astype(np.bool_)
            found = cls(_MADE, included, str(record["salt"]), seeded=record["seeded"] is not False, loaded=True)
            matches = record["version"] == VERSION and found.commitment == record["commitment"]
        except (KeyError, TypeError, ValueError):
            raise InvalidInput("path", str(path), allowed) from None
        if not matches or included.size != count:
            raise InvalidInput("path", str(path), allowed + ", unaltered")
        return found


def coins(canaries: int, *, seed: int | None = None) -> Coins:
    """Draw one fair coin per canary, from the operating system's randomness.

    Canary i goes into the training data if ``included[i]``, and stays out otherwise. Draw them once per training run,
    before it; ``seed`` is for tests.

    >>> drawn = coins(1000)
    >>> len(drawn), drawn.included.dtype.name
    (1000, 'bool')
    """
    count = check.count("canaries", canaries, least=1, most=MOST_CANARIES)
    source: Source = SYSTEM if seed is None else SeededSource(seed)
    packed = source.array((count + 7) // 8, np.uint8)
    included = np.unpackbits(packed, count=count).astype(np.bool_)
    salt = secrets.token_hex(16) if seed is None else f"seed {seed}"
    return Coins(_MADE, included, salt, seeded=seed is not None)


def coins_of(value: Any, canaries: int) -> tuple[NDArray[np.bool_], tuple[str, ...]]:
    """The included canaries, and what has to be assumed about where they come from."""
    if isinstance(value, Coins):
        if len(value) != canaries:
            raise InvalidInput("coins", len(value), f"one coin per score ({canaries})")
        told = ["that the seed of the coins is secret (they are for tests)"] if value.seeded else []
        if value.loaded:
            told.append(f"that the commitment {value.commitment} of the coins was published before the training")
        return value.included, tuple(told)
    array = np.asarray(value)
    if array.dtype != np.bool_ or array.shape != (canaries,):
        raise InvalidInput(
            "coins", f"{array.dtype} of shape {array.shape}", f"ts.audit.coins({canaries}) or this many bools"
        )
    assumed = "that every canary was put in or left out by its own fair coin, before the training"
    if canaries >= 20 and 2 * int(array.sum()) == canaries:
        assumed += " (exactly half of them are in, as when a fixed number is drawn: that would not be coins)"
    return array, (assumed,)
