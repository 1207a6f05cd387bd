"""Settings of a service."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Final

from tallystick import strict_json

GRACE: Final = 600.0
"""Seconds that running jobs get when the service stops."""
SLOTS_PER_CORE: Final = 4
"""A small job waits for its tick most of the time."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one service.

    >>> Settings.from_json(Settings("budget.db", "state", slots=3).to_json()).most_running
    3
    """

    ledger: str
    folder: str
    """The private folder of the service: its socket, its jobs, its connections, and the files of running jobs."""
    slots: int = 0
    """Jobs that run at once; 0 stands for four times the number of processors."""
    memory: int = 4 << 30
    """Bytes of memory for all jobs together."""
    spill: int = 64 << 30
    """Bytes of the disk that a job may take for what does not fit into its memory."""
    cpu_seconds: int = 3600
    """Processor time of a job."""
    grace: float = GRACE
    front: int | None = None
    """The user of the operating system under whom a front runs, if it is another one."""
    planners: int = 2

    @property
    def most_running(self) -> int:
        """Jobs that run at once."""
        return self.slots or SLOTS_PER_CORE * (os.cpu_count() or 1)

    def to_json(self) -> str:
        """Return the settings as JSON text. They hold no secret: passwords are in pass files."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Return the settings that ``to_json`` wrote."""
        return cls(**strict_json.read(text, name="settings"))
