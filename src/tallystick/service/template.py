"""The process from which workers and planners are forked. It has one thread, and has never opened data or a ledger.

It has imported what its children need, so that a child starts in milliseconds. It is started with one socket, whose
other end the keeper has. Each message on it asks for one child and brings the socket of that child.

    python -m tallystick.service.template DESCRIPTOR
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from tallystick.errors import Unavailable
from tallystick.service import frames, sandbox
from tallystick.service.frames import Ended

WORKER: Final = "worker"
PLANNER: Final = "planner"
CHILDREN: Final = {WORKER: "tallystick.service.worker", PLANNER: "tallystick.service.planner"}
"""Kinds of children, and the modules whose function ``serve`` they run."""
_WARM: Final = (
    *CHILDREN.values(),
    "tallystick.publish.request",
    "tallystick.publish.kinds.statement",
    "tallystick.publish.kinds.question",
    "tallystick.publish.kinds.caps",
    "tallystick.tables.engines.duckdb",
    "tallystick.tables.sorting",
)
_OPTIONAL: Final = ("tallystick.tables.engines.postgres",)
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
"""Libraries of linear algebra start threads when they are imported, and a forked child would lack them."""
_KEPT: Final = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "PYTHONPATH",
    "VIRTUAL_ENV",
    "HOME",
    "PYTHONDONTWRITEBYTECODE",
    "PGPASSFILE",
    "PGSERVICEFILE",
)
"""Variables that the template gets. Others may hold secrets."""


class Child(NamedTuple):
    """A forked process: the socket to it, and a descriptor that means this process and no later one."""

    connection: socket.socket
    process: int

    def kill(self) -> None:
        """End the process now."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.process, signal.SIGKILL)

    def close(self) -> None:
        """End the process and let go of it."""
        self.kill()
        self.connection.close()
        with contextlib.suppress(OSError):
            os.close(self.process)


class Template:
    """The template process, in the hands of the keeper."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_closed = False
        self._start()

    def _start(self) -> None:
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ} | _ONE_THREAD
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__, str(other.fileno())],
                pass_fds=[other.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
            )
        self._connection = own
        frames.receive(own)  # it is warm

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def fork(self, kind: str, **settings: Any) -> Child:
        """Start a child of a kind with plain settings."""
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with other, self._lock:
            self._start_again()
            answer, descriptors = self._asked({"kind": kind, "settings": settings}, other.fileno())
        if not answer["started"] or len(descriptors) != 1:
            own.close()
            raise Unavailable("a process of the service could not be started. Nothing was charged")
        return Child(own, descriptors[0])

    def _asked(self, message: dict[str, Any], descriptor: int) -> tuple[dict[str, Any], list[int]]:
        """Send the template a message with the socket of a child, and return its answer."""
        try:
            frames.send(self._connection, message, [descriptor])
            return frames.receive_files(self._connection, most=1)
        except Ended:
            return {"started": False}, []

    def _start_again(self) -> None:
        """Start another template if this one was killed; its children ended with it."""
        if self._is_closed:
            raise Unavailable("the service is stopping. Nothing was charged. Ask again later")
        if self._process.poll() is not None:
            self._connection.close()
            self._start()

    def close(self) -> None:
        """End the template. Its children end with it."""
        with self._lock:
            self._is_closed = True
            self._connection.close()
            self._process.kill()
            self._process.wait()


def _run(control: socket.socket) -> None:
    """Fork a child for each message, until the keeper is gone."""
    frames.send(control, {"warm": True})
    while True:
        try:
            message, descriptors = frames.receive_files(control, most=1)
        except Ended:
            return
        _reap()
        [descriptor] = descriptors
        pid = os.fork()
        if pid == 0:
            control.close()
            _child(message, socket.socket(fileno=descriptor))
        os.close(descriptor)
        _answer(control, pid)


def _reap() -> None:
    """Let go of children that have ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(control: socket.socket, pid: int) -> None:
    """Tell the keeper of a child. One that has ended already has no descriptor."""
    try:
        process = os.pidfd_open(pid)
    except OSError:
        frames.send(control, {"started": False})
        return
    frames.send(control, {"started": True}, [process])
    os.close(process)


def _child(message: Mapping[str, Any], connection: socket.socket) -> None:
    """Run a child to its end. Nothing of the template runs after it."""
    code = 1
    try:
        sandbox.die_with_parent()
        importlib.import_module(CHILDREN[message["kind"]]).serve(connection, **message["settings"])
        code = 0
    except Ended:
        code = 0
    except BaseException as problem:  # its text could quote data
        print(f"a {message['kind']} of the service ended: {type(problem).__name__}", file=sys.stderr)
    finally:
        os._exit(code)


def main() -> None:
    """Run the template."""
    sandbox.die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the keeper decides when jobs end
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for module in _WARM:
        importlib.import_module(module)
    for module in _OPTIONAL:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    _run(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
