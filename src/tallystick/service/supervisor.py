"""``tallystick serve``: start the keeper and the front, pass on signals, and start what is killed again."""

from __future__ import annotations

import contextlib
import importlib.util
import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tallystick.errors import InvalidInput, Unavailable
from tallystick.service import sandbox
from tallystick.service.protocol import SOCKET
from tallystick.service.settings import Settings

MOST_RESTARTS: Final = 5
"""Times that a killed keeper is started again within ``WITHIN`` seconds."""
WITHIN: Final = 60.0
LOOPBACK: Final = "127.0.0.1"
_FRONT: Final = "tallystick.web.front"
_INHERITED: Final = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
"""Variables that the front gets. No other one, because many hold places or secrets."""
_PATIENCE: Final = 10.0
"""Seconds in which the front has to end."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Address at which a service listens for HTTP. Without a certificate it is an address of this host."""

    port: int
    host: str = LOOPBACK
    certificate: Path | None = None
    key: Path | None = None

    def check(self) -> None:
        """Refuse an address that would send tokens in clear text, and a missing extra."""
        if not 0 <= self.port < 1 << 16:
            raise InvalidInput("port", self.port, "a number from 0 to 65535")
        if (self.certificate is None) != (self.key is None):
            raise InvalidInput("tls_key", None, "a certificate and its key, or neither")
        for name, path in (("tls_cert", self.certificate), ("tls_key", self.key)):
            if path is not None and not path.is_file():
                raise InvalidInput(name, str(path), "a file")
        if self.certificate is None and not _is_loopback(self.host):
            allowed = f"{LOOPBACK}, or a certificate: tokens cross no network in clear text"
            raise InvalidInput("host", self.host, allowed)
        if any(importlib.util.find_spec(each) is None for each in ("starlette", "uvicorn")):
            raise Unavailable("HTTP needs starlette and uvicorn: pip install 'tallystick[serve]'")

    def listener(self) -> socket.socket:
        """Return a socket that listens; port 0 stands for a free one."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family, backlog=128)
        except OSError as problem:
            raise Unavailable(f"port {self.port} of {self.host} is not free: {problem.strerror}") from None

    def hosts(self, port: int) -> list[str]:
        """Return the values of the header Host that the front answers to: names of this host, or of the certificate."""
        own = ["127.0.0.1", "localhost", "[::1]"] if _is_loopback(self.host) else [_bracketed(self.host)]
        names = own if self.certificate is None else [*own, *_names_in(self.certificate)]
        usual = names if port == (443 if self.certificate else 80) else []
        return [f"{name}:{port}" for name in names] + usual


def _bracketed(host: str) -> str:
    """Return a host as URLs have it."""
    return f"[{host}]" if ":" in host else host


def _names_in(certificate: Path) -> list[str]:
    """Return the names and addresses that a certificate is for."""
    from cryptography import x509

    try:
        first = x509.load_pem_x509_certificates(certificate.read_bytes())[0]
        names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, x509.ExtensionNotFound):
        raise InvalidInput("tls_cert", str(certificate), "a PEM file of a certificate with alternative names") from None
    addresses = [_bracketed(str(each)) for each in names.get_values_for_type(x509.IPAddress)]
    return [*names.get_values_for_type(x509.DNSName), *addresses]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Front:
    """The process that listens for HTTP. It gets the listening socket and the keeper's, and no environment."""

    def __init__(self, listening: Listening, keeper: Path, say: Callable[[str], None]) -> None:
        listening.check()
        self._listener = listening.listener()
        port = self._listener.getsockname()[1]
        scheme = "http" if listening.certificate is None else "https"
        self.url = f"{scheme}://{_bracketed(listening.host)}:{port}"
        self._settings = {
            "socket": str(keeper),
            "listener": self._listener.fileno(),
            "hosts": listening.hosts(port),
            "certificate": None if listening.certificate is None else str(listening.certificate.absolute()),
            "key": None if listening.key is None else str(listening.key.absolute()),
        }
        self._say = say
        self._lock = threading.Lock()
        self._is_stopping = False
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process, and start it again when it is killed."""
        self._begin()
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        """End the process, its streams first."""
        with self._lock:
            self._is_stopping = True
            process = self._process
        if process is not None:
            process.terminate()
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._listener.close()

    def _begin(self) -> None:
        command = [sys.executable, "-P", "-m", _FRONT, json.dumps(self._settings)]
        with self._lock:
            if self._is_stopping:
                return
            process = self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={name: os.environ[name] for name in _INHERITED if name in os.environ},
                pass_fds=[self._listener.fileno()],
                start_new_session=True,
            )
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise Unavailable("the process that listens for HTTP did not start. Its problem is above")

    def _watch(self) -> None:
        """Start the front again when it is killed, but not for ever."""
        for _ in range(MOST_RESTARTS):
            assert self._process is not None
            self._process.wait()
            if self._is_stopping:
                return
            self._say("The process that listens for HTTP has ended. It starts again.")
            time.sleep(1.0)
            with contextlib.suppress(Unavailable):
                self._begin()
        self._say("The process that listens for HTTP ends again and again, so it stays down.")


class Supervisor:
    """The processes of a service, in the hands of the command that started them."""

    def __init__(self, settings: Settings, say: Callable[[str], None], listening: Listening | None = None) -> None:
        problem = sandbox.problem()
        if problem:
            raise Unavailable(f"{problem}. The service runs only where it can confine what reads private rows")
        self.settings = settings
        self._say = say
        self._keeper: subprocess.Popen[str] | None = None
        self._is_stopping = False
        self._listens = False
        self._front = None if listening is None else Front(listening, self.socket, say)

    @property
    def socket(self) -> Path:
        """The path of the keeper's socket."""
        return Path(self.settings.folder) / SOCKET

    def run(self) -> int:
        """Run until the service is stopped; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._pass_on)
        try:
            return self._keep_running()
        finally:
            if self._front is not None:
                self._front.stop()

    def _keep_running(self) -> int:
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
            self._listen(keeper)
        return keeper.wait()

    def _listen(self, keeper: subprocess.Popen[str]) -> None:
        """Start the front behind the first keeper. A front that does not start ends the service."""
        if self._front is None or self._listens:
            return
        try:
            self._front.start()
        except Unavailable:
            keeper.terminate()
            keeper.wait()
            raise
        self._listens = True
        self._say(f"It listens at {self._front.url}")

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
