"""The ledger that this host knows at each place.

An anchor is kept under the identifier of its ledger, so it cannot show that a ledger was deleted, or exchanged for
another one. For that the host also keeps which ledger it uses at each place: one small file per name of the place,
beside the anchors. A file has two names, as it was given and with its links resolved. A database has its text and what
the server says of itself.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from tallystick.errors import LedgerIntegrity, Remedy, Unavailable
from tallystick.ledger.chain import config_directory, digest, make_own_folder, own_file
from tallystick.place import Place, shown
from tallystick.regular_file import real_path

RECORD: Final = re.compile(rb"^([0-9a-f]{32}) ")
UNREADABLE: Final = "(its record cannot be read)"
"""Stands for the identifier in a record that this user may not read."""
LONGEST: Final = 65536
"""Bytes of a record that are read."""


FILE: Final = "file "
"""Beginning of the name of a file."""


def names_of_file(path: Path) -> tuple[str, str]:
    """Return the names under which a file is remembered: as it was given, and with its links resolved."""
    real = real_path(path)  # first: it says what is wrong if the working folder is gone
    return f"{FILE}{os.path.abspath(path)}", f"{FILE}{real}"


def name_of_url(place: Place) -> str:
    """Return the name under which a URL is remembered, for every schema that it leads to."""
    return f"postgresql {place}"


def require_unknown(place: Place, config: Path | None) -> None:
    """Raise ``LedgerIntegrity`` if this host knows a ledger at a place that holds none."""
    names = (name_of_url(place),) if place.path is None else names_of_file(place.path)
    known = KnownPlaces(names, config).read()
    if known:
        raise exchanged(place, known.values(), None)


def exchanged(place: Place, known: Iterable[str], present: str | None) -> LedgerIntegrity:
    """Return the error for a place at which this host knows another ledger than the one that is there."""
    found = "no ledger is there" if present is None else f"it holds ledger {_shortened(present)}"
    accept = [Remedy("accept_head"), Remedy("accept_first_use")]
    remedies = [Remedy("start_again", place=str(place))] if present is None else accept
    names = ", ".join(sorted({_shortened(each) for each in known}))
    return LedgerIntegrity(
        f"this host knows ledger {names} at {place}, and now {found}. What was spent before would be forgotten, so "
        "nothing was read or written. Restore the ledger",
        code="ledger_exchanged",
        remedies=remedies,
    )


def _shortened(known: str) -> str:
    """Return a record of a ledger with the first digits of its identifier."""
    return known if known == UNREADABLE else f"{known[:8]}{known[32:]}"


def record_of(identifier: str, schema: str) -> str:
    """Return the record of a ledger. In another schema the same identifier is another record: it may be a copy.

    >>> record_of("0" * 32, "clinic")
    "00000000000000000000000000000000 in schema 'clinic'"
    """
    return f"{identifier} in schema {schema!r}" if schema else identifier


def led_elsewhere(place: Place) -> LedgerIntegrity:
    """Return the error for a new connection of an open ledger that leads to another ledger."""
    return LedgerIntegrity(
        f"the connection to {place} was lost, and a new one leads to another server, database or ledger. Nothing was "
        "read or written. Find out why, then open the ledger again",
        code="ledger_exchanged",
    )


class KnownPlaces:
    """The ledgers that this host knows under the names of one place.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> made = KnownPlaces(["file /data/budget.db"], folder).write("0" * 32)
    >>> KnownPlaces(["file /data/budget.db"], folder).read() == made
    True
    """

    def __init__(self, names: Iterable[str], directory: Path | None = None, *, inside: str = "") -> None:
        self._inside = inside
        folder = (directory or config_directory()) / "places"
        self._paths = {name: folder / digest(name) for name in dict.fromkeys(names)}

    def read(self) -> dict[str, str]:
        """Return the record of the ledger that was used under each name that has one."""
        known = {}
        for name, path in self._paths.items():
            try:
                known[name] = self._record(name, path)
            except (FileNotFoundError, NotADirectoryError):  # the first write makes a record, or fails
                continue
            except OSError:  # the ledger can be read, and a write is refused
                known[name] = UNREADABLE
        return known

    def _record(self, name: str, path: Path) -> str:
        """Return one record; a file that holds no identifier is damaged."""
        with os.fdopen(own_file(path, os.O_RDONLY), "rb") as file:
            content = file.read(LONGEST)
        match = RECORD.match(content)
        if match is None:
            raise LedgerIntegrity(
                f"the file {shown(path)} is damaged, so this host cannot tell which ledger was at this place. Find "
                "out who changed it, then remove it"
            )
        unescaped = name.encode(errors="backslashreplace") + b"\n"
        rest = content[match.end() :]
        if rest.startswith(unescaped):  # version 0.1.0 wrote line feeds in names as they are
            inside = rest.removeprefix(unescaped)
        else:
            _, _, inside = rest.partition(b"\n")
        return record_of(match[1].decode(), inside.decode(errors="replace"))

    def is_complete(self, known: Mapping[str, str]) -> bool:
        """True if every name has a record."""
        return known.keys() == self._paths.keys()

    def write(self, ledger_id: str) -> dict[str, str]:
        """Remember the ledger under every name of the place, and return the records."""
        for name, path in self._paths.items():
            try:
                make_own_folder(path.parent)
                _replace(path, f"{ledger_id} {_one_line(name)}\n{self._inside}".encode(errors="backslashreplace"))
            except OSError as error:
                raise Unavailable(
                    f"{shown(path)} cannot be written ({error.strerror}). Nothing was written to the ledger. "
                    "Set TALLYSTICK_CONFIG_DIR to a directory that you can write and that is kept"
                ) from None
        return dict.fromkeys(self._paths, record_of(ledger_id, self._inside))


def _one_line(name: str) -> str:
    r"""Return the name of a place in a record, where a line feed ends the name.

    >>> _one_line("file /data/a\nb.db")
    'file /data/a\\nb.db'
    """
    return name.replace("\n", "\\n")


def _replace(path: Path, content: bytes) -> None:
    """Write a file as a whole: on a full disk the old one stays."""
    descriptor, written = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(written, path)
    except BaseException:
        os.unlink(written)
        raise
