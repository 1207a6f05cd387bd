"""The log of failures: a folder of the keeper with one file for each failed charge. It has no values and no messages.

It is outside the database of the ledger, so that a reader of that database does not learn which release failed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

KEPT: Final = 30 * 24 * 3600.0
"""Seconds that a failure is kept."""


class Failures:
    """The failures of one service."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder, self._clock = folder, clock

    def add(self, line: str) -> None:
        """Note a failure: a JSON object with the number of its charge."""
        charge = int(json.loads(line)["charge"])
        with contextlib.suppress(OSError):
            descriptor = os.open(self._path(charge), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(line)

    def of(self, charges: Collection[int]) -> list[dict[str, Any]]:
        """Return the failures of some charges, oldest first."""
        numbers = sorted(int(path.stem) for path in self._folder.glob("*.json") if path.stem.isdigit())
        return [json.loads(self._path(number).read_text()) for number in numbers if number in charges]

    def forget_old(self) -> None:
        """Remove failures that are older than thirty days."""
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < self._clock() - KEPT:
                    path.unlink()

    def _path(self, charge: int) -> Path:
        return self._folder / f"{charge}.json"
