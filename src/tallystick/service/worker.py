"""A worker: one process that reads the rows of one job.

The keeper sends it the opened files. The worker makes private snapshots of them, gives up every right to open anything
else, and then follows the order of a payment: it identifies the data, checks that the plan runs, and after the charge
draws the noisy answer. It never sees the ledger, a key, or another source.
"""

from __future__ import annotations

import site
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tallystick.errors import TallystickError
from tallystick.ledger.chain import encode_answer
from tallystick.service import frames, sandbox
from tallystick.tables import run
from tallystick.tables.files import OpenFile
from tallystick.tables.identity import Identity
from tallystick.tables.plan import Plan
from tallystick.tables.reader import Reader
from tallystick.tables.sources import Source

_SYSTEM: Final = (
    *("/usr/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo", "/dev/null", "/dev/urandom"),
    *("/proc/self/cgroup", "/sys/fs/cgroup", "/sys/devices/system/cpu"),  # DuckDB asks how many processors it has
)
"""Shared libraries and the like, which are loaded when they are first needed."""


BACKSTOP: Final = 1 << 30
"""Bytes above twice the memory of the engine at which the system ends a worker. The engine spills long before."""


class GivenFile(OpenFile):
    """A file that the keeper has opened, with the private snapshot that was made of it before the sandbox closed."""

    made: Path | None = None

    def prepare(self, folder: Path, name: str) -> None:
        """Make the snapshot now: in the sandbox a hard link to the file is refused, and a copy is slow."""
        self.made = OpenFile.snapshot(self, folder, name)

    def snapshot(self, folder: Path, name: str) -> Path:
        """Move the snapshot to where the engine wants it."""
        if self.made is None:
            return super().snapshot(folder, name)
        target = folder / name
        self.made.rename(target)
        self.made = None
        return target


class GivenReader(Reader):
    """One opening of the source of a job, whose files the keeper has opened."""

    def __init__(self, source: Source, files: Mapping[str, GivenFile], tables: Iterable[str]) -> None:
        self._given = files
        super().__init__(source, rows=True, tables=tables)

    def _open(self, path: str) -> OpenFile:
        return self._given[path]


def serve(connection: socket.socket, *, folder: str, memory: int, spill: int, cpu_seconds: int) -> None:
    """Work on one job. ``folder`` is its private folder; ``memory`` and ``spill`` are bytes."""
    own = Path(folder)
    tempfile.tempdir = folder
    message, descriptors = frames.receive_files(connection)
    with _opened(message, descriptors, own, memory, spill) as reader:
        frames.send(connection, {"opened": True})
        while True:
            step = frames.receive(connection)
            if step["do"] == "draw":  # not before: preflight refuses to run where a limit of the system could end it
                sandbox.limit(memory=2 * memory + BACKSTOP, cpu_seconds=cpu_seconds)
            frames.send(connection, _answer(step, reader))


def _opened(message: Mapping[str, Any], descriptors: list[int], folder: Path, memory: int, spill: int) -> Reader:
    """Open the source from what the keeper has sent, and close the sandbox."""
    from tallystick.tables.engines import duckdb

    duckdb.limit_memory(memory, spill)
    files = {
        path: GivenFile.received(descriptor, path, real)
        for descriptor, (path, real) in zip(descriptors, message["files"], strict=True)
    }
    source = _source(message)
    for number, file in enumerate(files.values()):
        if file.path not in source.paths_of("csv"):  # a CSV file is read by Python, from its descriptor
            file.prepare(folder, f"given{number}")
    reader = GivenReader(source, files, message["tables"])
    if source.kind == "postgres":
        _ = reader.engine  # its connection is made before the sandbox closes
    sandbox.confine(writable=[folder], readable=readable())
    return reader


def _source(message: Mapping[str, Any]) -> Source:
    kind, place = message["source"]
    if kind == "postgres":
        from tallystick.place import Place

        return Source(kind, place, Place.of(message["secret"], "source"))
    return Source(kind, place)


def readable() -> list[Path]:
    """Return what a confined process may read: Python, the installed packages and the system's libraries."""
    named = [*sys.path, *sysconfig.get_paths().values(), *site.getsitepackages(), *_SYSTEM]
    return [path for path in map(Path, dict.fromkeys(named)) if path.is_absolute() and path.exists()]


def _answer(message: Mapping[str, Any], reader: Reader) -> dict[str, Any]:
    """Do one step of the job. An error of ours is data; of any other one only its class is told."""
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
