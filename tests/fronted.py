"""A service with its HTTP front, for tests, and a client that shows every byte of an answer."""

from __future__ import annotations

import contextlib
import http.client
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import served
from served import Service
from tallystick.service.protocol import SOCKET
from tallystick.service.supervisor import Front, Listening

WAIT = 60.0


@dataclass(frozen=True)
class Reply:
    """An answer: its status, its headers without the date, its body, and the body as data."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


@dataclass
class Fronted:
    """A running service, its front, and requests to it."""

    service: Service
    front: Front

    @property
    def address(self) -> str:
        """Host and port."""
        return urlsplit(self.front.url).netloc

    def send(
        self,
        method: str,
        path: str,
        who: str | None = None,
        body: Any = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request; a body that is no text or bytes is sent as JSON."""
        sent = {"Content-Type": "application/json"} if body is not None else {}
        if token is not None or who is not None:
            sent["Authorization"] = f"Bearer {token or self.service.tokens[str(who)]}"
        raw = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        connection = http.client.HTTPConnection(self.address, timeout=WAIT)
        with contextlib.closing(connection):
            connection.request(method, path, raw, {**sent, **(headers or {})})
            got = connection.getresponse()
            named = {name.lower(): value for name, value in got.getheaders() if name.lower() != "date"}
            return Reply(got.status, named, got.read())

    def release(
        self, who: str, request: Any, *, population: str = "clinic", key: str | None = None, **more: str
    ) -> Reply:
        """Submit a release, and wait for it."""
        headers = {"Idempotency-Key": key or uuid.uuid4().hex, "Prefer": "wait=30", **more}
        return self.send("POST", f"/v1/populations/{population}/releases", who, {"request": request}, headers=headers)


@contextlib.contextmanager
def fronted(folder: Path, **options: Any) -> Iterator[Fronted]:
    """Start a service and its front."""
    service = served.made(folder, **options)
    service.start()
    front = Front(Listening(0), service.state / SOCKET, lambda line: None)
    try:
        front.start()
        yield Fronted(service, front)
    finally:
        front.stop()
        service.stop()
