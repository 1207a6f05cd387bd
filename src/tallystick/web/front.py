"""The process that listens for HTTP. It has a listening socket and the keeper's socket, and nothing else.

    python -m tallystick.web.front SETTINGS

It ends on SIGTERM, and when its standard input ends, because then the process that started it is gone.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from types import FrameType
from typing import Any

import uvicorn

from tallystick import strict_json
from tallystick.web.app import application
from tallystick.web.calling import Callers
from tallystick.web.door import Door


class _Server(uvicorn.Server):
    """A server whose streams end by themselves when it is stopped."""

    def __init__(self, config: uvicorn.Config, door: Door) -> None:
        super().__init__(config)
        self._door = door

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print("ready", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._door.is_stopping = True
        super().handle_exit(sig, frame)


def serve(settings: dict[str, Any]) -> None:
    """Serve until SIGTERM, or until standard input ends."""
    callers = Callers(settings["socket"])
    door = Door(callers)
    certificate, key = settings["certificate"], settings["key"]
    config = uvicorn.Config(
        application(door, settings["hosts"], over_tls=certificate is not None),
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=512,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=5,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _Server(config, door).run(sockets=[socket.socket(fileno=settings["listener"])])
    callers.close()


def _end_with_parent() -> None:
    """Stop this process when its standard input ends."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve(strict_json.read(sys.argv[1], name="settings"))
