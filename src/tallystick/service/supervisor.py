"""``tallystick serve``: start the keeper, pass on signals, and start it again if it is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tallystick.errors import InvalidInput, Unavailable
from tallystick.service import sandbox
from tallystick.service.protocol import SOCKET
from tallystick.service.settings import Settings

MOST_RESTARTS: Final = 5
"""Times that a killed keeper is started again within ``WITHIN`` seconds."""
WITHIN: Final = 60.0


class Supervisor:
    """The processes of a service, in the hands of the command that started them."""

    def __init__(self, settings: Settings, say: Callable[[str], None]) -> None:
        problem = sandbox.problem()
        if problem:
            raise Unavailable(f"{problem}. The service runs only where it can confine what reads private rows")
        self.settings = settings
        self._say = say
        self._keeper: subprocess.Popen[str] | None = None
        self._is_stopping = False

    @property
    def socket(self) -> Path:
        """The path of the keeper's socket."""
        return Path(self.settings.folder) / SOCKET

    def run(self) -> int:
        """Run until the service is stopped; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)
        started: list[float] = []
        while True:
            started = [each for each in started if each > time.monotonic() - WITHIN] + [time.monotonic()]
            code = self._keep()
            if self._is_stopping or code >= 0:
                return max(code, 0)
            if len(started) > MOST_RESTARTS:
                raise Unavailable(f"the keeper was killed {len(started)} times within a minute, so the service ends")
            self._say(f"The keeper was ended by signal {-code}. It starts again.")

    def _keep(self) -> int:
        """Start a keeper and wait for its end; return its exit code, which is negative after a signal."""
        command = [sys.executable, "-P", "-m", "tallystick.service.keeper", self.settings.to_json()]
        keeper = self._keeper = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert keeper.stdout is not None
        if keeper.stdout.readline().strip() == "ready":
            self._say(f"The service runs. Its socket is {self.socket}. Stop it with Ctrl-C.")
        return keeper.wait()

    def _pass_on(self, number: int, _: object) -> None:
        """Pass a signal on to the keeper: the first one drains, a second one ends running jobs now."""
        self._is_stopping = True
        keeper = self._keeper
        if keeper is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper.pid, number)


def folder_of(ledger: Path | None, given: Path | None) -> Path:
    """Return the private folder of a service: the one that is given, or one beside a ledger in a file.

    >>> folder_of(Path("budget.db"), None)
    PosixPath('budget.db.service')
    """
    if given is not None:
        return given
    if ledger is None:
        raise InvalidInput("folder", None, "a private folder of this host, because the ledger is on a server")
    return Path(f"{ledger}.service")
