"""A source that is opened once: one descriptor per file, or one connection to a server.

Everything that a release does with its source goes through one ``Reader``: it says which data they are, before the
charge, and its engine reads exactly those data, after it. No path and no name is resolved a second time in between.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from tallystick.errors import InvalidInput, TallystickError, Unavailable
from tallystick.place import shown
from tallystick.tables.files import OpenFile
from tallystick.tables.identity import Identity, of_file
from tallystick.tables.sources import Source, identity

if TYPE_CHECKING:
    from tallystick.tables.engines.base import Engine
    from tallystick.tables.plan import Plan
    from tallystick.tables.progress import Progress

_ENGINES = {"spark": "spark", "postgres": "postgres"}


class Worker(Protocol):
    """Another process that has opened a source, and computes answers there."""

    def preflight(self, plan: Plan) -> None:
        """Check that the plan can run, before anything is charged."""

    def draw(self, plan: Plan, progress: Progress) -> dict[str, Any]:
        """Return the noisy answer."""


class Reader:
    """One opening of a source. ``rows`` says that rows will be read, so that the engine reads a private snapshot.

    Of several files those of ``tables`` are opened: files that are not asked about are not recognised.
    """

    worker: Worker | None = None
    """The process that reads the rows; None if this process does."""

    def __init__(self, source: Source, *, rows: bool = True, tables: Iterable[str] | None = None) -> None:
        if source.kind in ("memory", "spark") and source.handle is None:
            raise InvalidInput("source", source.kind, "the table or session again: plan.on(source)")
        self.source = source
        self.rows = rows
        self.files: dict[str, OpenFile] = {}
        self.watched: list[Callable[[], bool]] = []
        """Questions of the engine: are the files unchanged that it opened?"""
        self._opened: list[OpenFile] = []
        try:
            for path in source.paths if tables is None else source.paths_with(tables):
                self.files[path] = self._open(path)
        except BaseException:
            self.close()
            raise

    def _open(self, path: str) -> OpenFile:
        """The file of a path. A source whose file was opened and checked before brings it along.

        A source of several files brings them by path, all that are asked about.
        """
        handle = self.source.handle
        if isinstance(handle, OpenFile):
            return handle
        if isinstance(handle, Mapping):
            return self._brought(handle, path)
        file = OpenFile(path)
        self._opened.append(file)
        return file

    def _brought(self, handle: Mapping[str, OpenFile], path: str) -> OpenFile:
        """The opened file of a path, which the source must have: no other file takes its place."""
        if path not in handle:
            raise InvalidInput("source", shown(path), "a file that was opened before, as the others were")
        return handle[path]

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def engine(self) -> Engine:
        """The engine on what was opened, made when it is first needed."""
        # by name: engines are above this file, and each needs a package of its own
        module = importlib.import_module(f"tallystick.tables.engines.{_ENGINES.get(self.source.kind, 'duckdb')}")
        with quiet("opening the source"):
            made: Engine = module.connect(self)
        return made

    def identity(self, table: str) -> Identity:
        """Which data a table of this source holds."""
        own, stored = self.source.member(table)
        if own.kind in ("csv", "parquet"):
            return of_file(self.files[own.place], own.kind, stored)
        name = identity(self.source, table)
        if own.kind == "memory":
            return Identity(name)
        with quiet("identifying the table"):
            found = self.engine.identify(table)
        if own.kind == "duckdb":
            held = of_file(self.files[own.place], own.kind, stored)
            return replace(held, plain=found.plain, views=found.views)
        # Spark says which table a name means now; a server is named by its address, which the user gave
        return replace(found, name=found.name if own.kind == "spark" and not own.unnamed else name)

    def check_unchanged(self) -> None:
        """Raise if a file was changed in place while it was read: its stages could have seen different rows."""
        watched = [*(file.unchanged for file in self.files.values()), *self.watched]
        if not all(is_unchanged() for is_unchanged in watched):
            raise Unavailable("a file was changed while it was read; replace files by renaming a new one into place")

    def close(self) -> None:
        """Close the engine, then the files."""
        engine = self.__dict__.pop("engine", None)
        if engine is not None:
            with contextlib.suppress(Exception):
                engine.close()
        for file in self._opened:
            with contextlib.suppress(OSError):
                file.close()
        self._opened.clear()


Opening = Callable[..., Reader]
"""Opens a source, with the arguments of ``Reader``."""

_opening: Opening = Reader


def open_sources_by(opening: Opening) -> None:
    """Open all sources of this process in another way from now on.

    The service calls this once. Its process opens only files of its connections, and other processes read them.
    """
    global _opening
    _opening = opening


def open_reader(source: Source, *, rows: bool = True, tables: Iterable[str] | None = None) -> Reader:
    """Open a source in the way of this process."""
    return _opening(source, rows=rows, tables=tables)


@contextlib.contextmanager
def open_engine(source: Source, *, rows: bool = True, tables: Iterable[str] | None = None) -> Iterator[Engine]:
    """The engine of a source for one use. Engine errors are replaced by one that does not quote data."""
    with open_reader(source, rows=rows, tables=tables) as reader, quiet("reading the table"):
        yield reader.engine
        reader.check_unchanged()


@contextlib.contextmanager
def quiet(doing: str) -> Iterator[None]:
    """Replace any foreign exception by one of ours that says what was being done, and nothing of what was found."""
    try:
        yield
    except TallystickError:
        raise
    except Exception:
        message = f"the engine failed while {doing}; its message is withheld, it could quote data"
        try:
            raise Unavailable(message) from None
        except Unavailable as problem:
            problem.__context__ = None  # "from None" hides it from print-outs alone
            raise
