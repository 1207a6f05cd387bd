"""Messages between the processes of the service: a length of four bytes, then JSON. Files travel beside a message."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

from tallystick import strict_json
from tallystick.errors import InvalidInput

LONGEST: Final = 256 << 20
"""Bytes of a message between keeper and worker: an answer may list a million groups."""
LONGEST_ASKED: Final = 8 << 20
"""Bytes of a message to the keeper's socket: a plan may list public groups."""
_LENGTH: Final = struct.Struct("!I")
_MOST_FILES: Final = 64


class Ended(Exception):
    """The process at the other end is gone. It never leaves the service: its callers say what that means."""


def send(connection: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send a message, and descriptors of open files with it; raise ``Ended`` if the other process is gone."""
    body = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    data = _LENGTH.pack(len(body)) + body
    try:
        sent = socket.send_fds(connection, [data], list(descriptors)) if descriptors else 0
        connection.sendall(data[sent:])
    except OSError:
        raise Ended("the other process has ended") from None


def receive(connection: socket.socket, longest: int = LONGEST) -> dict[str, Any]:
    """Receive a message without files; raise ``Ended`` at the end of the connection."""
    return receive_files(connection, longest, most=0)[0]


def receive_files(
    connection: socket.socket, longest: int = LONGEST, most: int = _MOST_FILES
) -> tuple[dict[str, Any], list[int]]:
    """Receive a message and the descriptors that were sent with it. They are closed in programs that are started."""
    head, descriptors = _receive_head(connection, most)
    try:
        (length,) = _LENGTH.unpack(head)
        if length > longest:
            raise InvalidInput("message", length, f"a message of at most {longest} bytes")
        body = _receive_exactly(connection, length)
        message = strict_json.read(body, name="message", allowed="a JSON object", longest=longest)
        if not isinstance(message, dict):
            raise InvalidInput("message", type(message).__name__, "a JSON object")
    except BaseException:
        for each in descriptors:
            os.close(each)
        raise
    return message, descriptors


def _receive_head(connection: socket.socket, most: int) -> tuple[bytes, list[int]]:
    """Receive the length of a message, and the descriptors that come with its first byte."""
    try:
        if most:
            head, descriptors, flags, _ = socket.recv_fds(connection, _LENGTH.size, most, socket.MSG_CMSG_CLOEXEC)
        else:
            head, descriptors, flags = connection.recv(_LENGTH.size), [], 0
        if not head:
            raise Ended("the other process has ended")
        if flags & socket.MSG_CTRUNC:
            raise InvalidInput("message", "more files", f"at most {most} files")
        return head + _receive_exactly(connection, _LENGTH.size - len(head)), descriptors
    except OSError:
        raise Ended("the other process has ended") from None


def _receive_exactly(connection: socket.socket, length: int) -> bytes:
    """Receive so many bytes, or raise ``Ended``."""
    parts = []
    left = length
    while left:
        try:
            part = connection.recv(min(left, 1 << 20))
        except OSError:
            part = b""
        if not part:
            raise Ended("the other process has ended")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
