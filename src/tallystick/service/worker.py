"""A worker: one process that reads the rows of one job.

The keeper sends it the opened files. The worker makes private snapshots of them, gives up every right to open anything
else, and then follows the order of a payment: it identifies the data, checks that the plan runs, and after the charge
draws the noisy answer. It never sees the ledger, a key, or another source.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tallystick.errors import TallystickError
from tallystick.ledger.chain import encode_answer
from tallystick.place import Place
from tallystick.service import frames, sandbox
from tallystick.tables import run
from tallystick.tables.files import OpenFile
from tallystick.tables.identity import Identity
from tallystick.tables.plan import Plan
from tallystick.tables.reader import Reader
from tallystick.tables.sources import Source

BACKSTOP: Final = 1 << 30
"""Bytes above twice the memory of the engine at which the system ends a worker. The engine spills long before."""


def serve(connection: socket.socket, *, folder: str, memory: int, spill: int, cpu_seconds: int) -> None:
    """Work on one job. ``folder`` is its private folder; ``memory`` and ``spill`` are bytes."""
    tempfile.tempdir = folder
    message, descriptors = frames.receive_files(connection)
    sandbox.close_others([0, 1, 2, connection.fileno(), *descriptors])
    with _opened(message, descriptors, memory, spill) as reader:
        frames.send(connection, {"opened": True})
        while True:
            step = frames.receive(connection)
            if step["do"] == "draw":  # not before: preflight refuses to run where a limit of the system could end it
                sandbox.limit(memory=2 * memory + BACKSTOP, cpu_seconds=cpu_seconds)
            frames.send(connection, _answer(step, reader))


def _opened(message: Mapping[str, Any], descriptors: list[int], memory: int, spill: int) -> Reader:
    """Open the source from what the keeper has sent, and close the sandbox.

    A link to a file is in a folder of which this process can only read: it is as writable as the file.
    """
    from tallystick.tables.engines import duckdb

    duckdb.limit_memory(memory, spill)
    files = {
        path: OpenFile.received(descriptor, path, real, None if link is None else Path(link))
        for descriptor, (path, real, link) in zip(descriptors, message["files"], strict=True)
    }
    kind, place = message["source"]
    handle = Place.of(message["server"], "source") if kind == "postgres" else files
    reader = Reader(Source(kind, place, handle), rows=True, tables=message["tables"])
    if kind == "postgres":
        _ = reader.engine  # its connection is made before the sandbox closes
    links = {Path(link).parent for _, _, link in message["files"] if link is not None}
    sandbox.confine(writable=[Path(tempfile.gettempdir())], readable=[*sandbox.libraries(), *links])
    return reader


def _answer(message: Mapping[str, Any], reader: Reader) -> dict[str, Any]:
    """Do one step of the job. An error of ours is data; of any other one only its class is passed on."""
    try:
        return {"done": _STEPS[message["do"]](message, reader)}
    except TallystickError as problem:
        return {"problem": problem.to_data()}
    except Exception as problem:
        return {"failed": type(problem).__qualname__}


def _identify(message: Mapping[str, Any], reader: Reader) -> dict[str, Any]:
    found = reader.engine.identify(message["table"])
    return identity_to_data(found)


def _preflight(message: Mapping[str, Any], reader: Reader) -> None:
    run.preflight(_plan(message, reader), reader)


def _draw(message: Mapping[str, Any], reader: Reader) -> str:
    return encode_answer(run.noisy_answer(_plan(message, reader), reader))


_STEPS: Final = {"identify": _identify, "preflight": _preflight, "draw": _draw}


def _plan(message: Mapping[str, Any], reader: Reader) -> Plan:
    """Return the plan of the job, about the source that is open here."""
    return Plan.from_json(message["plan"], source=reader.source)


def identity_to_data(own: Identity) -> dict[str, Any]:
    """Return an identity as JSON data."""
    return {
        "name": own.name,
        "marks": sorted(own.marks),
        "near": sorted(own.near),
        "plain": own.plain,
        "views": sorted(own.views),
        "form": own.form,
    }


def identity_from_data(data: Mapping[str, Any]) -> Identity:
    """Return the identity that ``identity_to_data`` wrote."""
    sets = {name: frozenset(data[name]) for name in ("marks", "near", "views")}
    return Identity(data["name"], plain=data["plain"], form=data["form"], **sets)
