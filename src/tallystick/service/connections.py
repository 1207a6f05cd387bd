"""Connections: the folders and servers that the service may open, made by its operator.

A dataset of the service is a connection and a relative name. The service opens files with rights of its user, which no
owner of a population has. So an owner who could name a path or a URL would read with them what belongs to others. Here
the operator names a folder or a PostgreSQL place once, and gives it to populations. A relative name is walked component
by component from the folder, no link is followed, and the opened descriptor is what is read. Linux only.

Every refusal of a file has one text for all reasons: it tells no path, and not what is there.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import os
import re
import socket
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn
from urllib.parse import quote

from tallystick import strict_json
from tallystick.errors import InvalidInput, NotAuthorised, Refused, TallystickError, Unavailable
from tallystick.place import Place, shown
from tallystick.regular_file import real_path, regular, written_whole
from tallystick.tables.files import OpenFile, file_id, is_of_the_system
from tallystick.tables.sources import Source, check_one_server

FORMAT: Final = 1
MOST_COMPONENTS: Final = 40
MOST_BYTES: Final = 4096
"""Of a relative name: what the system takes as a path."""

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PATTERNS: Final = frozenset("*?[")
_SEARCH_PATH: Final = re.compile(r"\s*-c\s*search_path=[\w,\"$]+\s*|")
_NO_FILE: Final = (
    "this connection has no such file: give the name of a regular file below its folder, as folder/visits.csv. "
    "Links, patterns, '.', '..' and unprintable characters are refused"
)
_NO_CONNECTION: Final = "no connection of this name is given to this population; its operator can give one"
_LOCAL_SOCKETS: Final = ("/", "@")
"""Beginnings of hosts that are local sockets of this machine."""

_SHORT: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that say nothing about what was opened."""

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder whose regular files may be opened, and those of the folders below it."""

    name: str
    path: Path
    populations: tuple[str, ...] = ()

    kind = "folder"

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data.

        >>> Folder("wards", Path("/data/wards")).to_data()["path"]
        '/data/wards'
        """
        return {
            "kind": self.kind,
            "name": self.name,
            "path": str(self.path),
            "populations": list(self.populations),
        }


@dataclass(frozen=True, slots=True)
class Server:
    """A PostgreSQL database whose tables may be read. Passwords are in a service file or a pass file.

    ``allow_local`` is the operator's word that the address may be this machine, a link-local one, or the ledger's.
    """

    name: str
    place: Place
    populations: tuple[str, ...] = ()
    allow_local: bool = False

    kind = "server"

    def to_data(self) -> dict[str, Any]:
        """As plain JSON data, without a password.

        >>> Server("wards", Place.of("postgresql://reader@db.example/wards")).to_data()["place"]
        'postgresql://reader@db.example/wards'
        """
        return {
            "kind": self.kind,
            "name": self.name,
            "place": self.place.text,
            "populations": list(self.populations),
            "allow_local": self.allow_local,
        }


Connection = Folder | Server


def open_below(folder: int | Path, relative: str) -> int:
    """Return a descriptor, for reading, of a regular file below a folder. No link is followed, in the folder neither.

    >>> import tempfile
    >>> place = Path(os.path.realpath(tempfile.mkdtemp()))
    >>> _ = (place / "visits.csv").write_text("who")
    >>> os.read(open_below(place, "visits.csv"), 10)
    b'who'
    >>> open_below(place, "../visits.csv")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: this connection has no such file: give the name of a regular file ...
    """
    found = _found_below(folder, relative)
    opened = -1
    try:
        with contextlib.suppress(OSError):
            opened = os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    finally:
        os.close(found)
    if opened < 0:
        _refuse()
    return opened


def _refuse() -> NoReturn:
    """Raise the one error about files: without the name, which may be a URL with a password."""
    raise InvalidInput("relative", "a name", "", code="no_such_file", problem=_NO_FILE)


def _found_below(folder: int | Path, relative: str) -> int:
    """Return a descriptor (O_PATH) of a regular file below a folder: nothing is opened for reading yet."""
    components = _components(relative)
    start = os.dup(folder) if isinstance(folder, int) else _walked(folder)
    try:
        found = _step_down(start, components)
    finally:
        os.close(start)
    if found < 0 or not stat.S_ISREG(os.fstat(found).st_mode):
        if found >= 0:
            os.close(found)
        _refuse()
    return found


def _components(relative: str) -> list[str]:
    """Return the components of a name, or refuse a name that is spelled otherwise than a file below a folder is."""
    is_text = isinstance(relative, str) and relative.isprintable() and not _PATTERNS.intersection(relative)
    components = relative.split("/") if is_text else []
    is_relative = not {"", ".", ".."}.intersection(components)
    if not 1 <= len(components) <= MOST_COMPONENTS or not is_relative or len(relative.encode()) > MOST_BYTES:
        _refuse()
    return components


def _walked(folder: Path) -> int:
    """Return a descriptor (O_PATH) of a folder by its absolute path. Its operator made it, and no link is followed."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = _step_down(root, [*folder.parts[1:], "."] if folder.is_absolute() else [])
    finally:
        os.close(root)
    if found < 0:
        _refuse()
    return found


def _step_down(start: int, components: Sequence[str]) -> int:
    """Return a descriptor (O_PATH) at the end of a walk; -1 without components, or if one of them leads nowhere."""
    here = start
    for i, component in enumerate(components):
        below = _entered(here, component, is_last=i == len(components) - 1)
        if here != start:
            os.close(here)
        if below < 0:
            return -1
        here = below
    return here if here != start else -1


def _entered(folder: int, component: str, *, is_last: bool) -> int:
    """Return a descriptor (O_PATH) of an entry of a folder; -1 if it is missing, or a link on the way."""
    must_be = 0 if is_last else os.O_DIRECTORY
    try:
        return os.open(component, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC | must_be, dir_fd=folder)
    except OSError as problem:
        is_short = problem.errno in _SHORT
    if is_short:
        raise Unavailable("this process has too many files open; nothing was charged. Ask again, or raise ulimit -n")
    return -1


@dataclass
class Connections:
    """The connections of a service, kept in a file that only its user may read and write.

    ``private`` are files and folders of the service: the ledger and the keys, beside the folder of ``path`` itself. No
    connection may reach them. ``ledger`` is the ledger's place, whose server is refused as a source.
    ``belongs_to`` says for which population an opened file is registered, or None: a hard link in a folder of one
    population may be a file of another.

    >>> import tempfile
    >>> place = Path(os.path.realpath(tempfile.mkdtemp()))
    >>> for name in ("state", "wards"):
    ...     (place / name).mkdir()
    >>> _ = (place / "wards" / "visits.csv").write_text("who")
    >>> connections = Connections(place / "state" / "connections.json")
    >>> connections.add(Folder("wards", place / "wards"), populations=["clinic"])
    >>> connections.allowed("clinic"), connections.allowed("school")
    (('wards',), ())
    >>> with connections.opened("clinic", "wards", "visits.csv") as file:
    ...     file.size
    3
    """

    path: Path
    private: Sequence[Path] = ()
    ledger: Place | None = None
    belongs_to: Callable[[OpenFile], str | None] = lambda file: None
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def list(self) -> tuple[Connection, ...]:
        """Return all connections, in the order of their names."""
        return tuple(sorted(self._read().values(), key=lambda each: each.name))

    def add(self, connection: Connection, populations: Iterable[str] = ()) -> None:
        """Make a connection, and give it to populations."""
        _require_name(connection.name)
        given = tuple(dict.fromkeys((*connection.populations, *populations)))
        checked = self._checked(connection)
        with self._lock:
            known = self._read()
            if connection.name in known:
                raise Refused(f"the connection {connection.name} is there already; remove it first")
            self._write(known | {connection.name: replace(checked, populations=_populations(given))})

    def remove(self, name: str) -> None:
        """End a connection: its datasets cannot be opened any more."""
        with self._lock:
            known = self._read()
            del known[self._known(known, name).name]
            self._write(known)

    def give(self, name: str, population: str) -> None:
        """Let the owners of a population name datasets in a connection."""
        self._give(name, lambda given: (*given, population))

    def take(self, name: str, population: str) -> None:
        """Take a connection back from a population."""
        self._give(name, lambda given: tuple(each for each in given if each != population))

    def allowed(self, population: str) -> tuple[str, ...]:
        """Return the names of the connections that are given to a population."""
        return tuple(each.name for each in self.list() if population in each.populations)

    def opened(self, population: str, connection: str, relative: str) -> OpenFile:
        """Open a file of a connection that is given to a population. The caller closes it.

        Its ``path`` is the folder's path with the relative name: errors about it are for operators and owners.
        """
        folder = self._given(population, connection)
        if not isinstance(folder, Folder):
            _refuse()
        found = _found_below(folder.path, relative)
        file = _opened(found, str(folder.path / relative))
        try:
            self._require_own(file, population)
        except BaseException:
            file.close()
            raise
        return file

    def place_of(self, population: str, connection: str) -> Place:
        """Return the place of a server that is given to a population, with its address found and checked now.

        The address is part of the place (``hostaddr``): the name is not looked up again when the worker connects.
        """
        server = self._given(population, connection)
        if not isinstance(server, Server):
            raise _no_connection()
        return self._pinned(server)

    def without_places(self, data: Any) -> Any:
        """Return data of an error as clients get them: without the places of connections and of the ledger.

        A file is named by its connection and relative name, as its owner names it.
        """
        hidden = dict(_texts_of_ledger(self.ledger))
        with contextlib.suppress(TallystickError):  # a damaged file: no source can be opened then
            hidden |= {_text_of(each): each.name for each in self.list()}
        return _replaced(data, sorted(hidden.items(), key=lambda pair: -len(pair[0])))

    def _give(self, name: str, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        with self._lock:
            known = self._read()
            found = self._known(known, name)
            self._write(known | {name: replace(found, populations=_populations(change(found.populations)))})

    def _known(self, known: dict[str, Connection], name: str) -> Connection:
        if name not in known:
            raise InvalidInput("connection", shown(name), f"one of {', '.join(sorted(known)) or 'none yet'}")
        return known[name]

    def _given(self, population: str, name: str) -> Connection:
        """Return a connection of a population. A missing one and one of others are refused alike."""
        found = self._read().get(name) if isinstance(name, str) else None
        if found is None or population not in found.populations:
            raise _no_connection()
        return found

    def _checked(self, connection: Connection) -> Connection:
        """Return the connection as it is stored, or raise if it leads where no connection may lead."""
        if isinstance(connection, Folder):
            return replace(connection, path=self._checked_folder(connection.path))
        _check_place(connection.place, allow_local=connection.allow_local)
        self._pinned(connection)
        return connection

    def _checked_folder(self, path: Path) -> Path:
        """Return the real path of a folder that holds nothing of the service and nothing of the system."""
        real = Path(real_path(path))
        if not Path(path).is_absolute() or not real.is_dir() or len(real.parts) == 1:
            raise InvalidInput("path", str(path), "the absolute path of an existing folder, other than /")
        known = file_id(real)
        if known is None or is_of_the_system(f"{real}/", known):
            raise InvalidInput("path", str(path), "a folder of data, outside /proc, /sys and /dev")
        for own in self._own():
            if own.is_relative_to(real) or real.is_relative_to(own):
                raise Refused(
                    f"{shown(path)} holds files of the service (its ledger, keys or state). Keep the data elsewhere"
                )
        return real

    def _own(self) -> tuple[Path, ...]:
        """Return the real paths of the service's folders and files."""
        of_ledger = () if self.ledger is None or self.ledger.path is None else (self.ledger.path,)
        return tuple(Path(real_path(each)) for each in (Path(self.path).parent, *self.private, *of_ledger))

    def _require_own(self, file: OpenFile, population: str) -> None:
        """Refuse a file of the service itself or of another population, to which a hard link leads."""
        owner = self.belongs_to(file)
        if owner not in (None, population) or any(file_id(own) == file.id for own in self._own()):
            _refuse()

    def _pinned(self, server: Server) -> Place:
        """Return the place of a server with the one address to connect to; a refused address raises."""
        host = server.place.parameter("hostaddr") or server.place.parameter("host")
        if not host or host.startswith(_LOCAL_SOCKETS):
            if not server.allow_local:
                raise _local(server.name)
            return server.place
        addresses = _addresses(host, server.name)
        ledgers = () if server.allow_local else self._addresses_of_ledger()
        if not server.allow_local and any(_is_local(each) or each in ledgers for each in addresses):
            raise _local(server.name)
        return _with_address(server.place, addresses[0])

    def _addresses_of_ledger(self) -> tuple[Address, ...]:
        hosts = () if self.ledger is None else self.ledger.hosts
        remote = [host for host in hosts if not host.startswith(_LOCAL_SOCKETS)]
        return tuple(each for host in remote for each in _addresses(host, "the ledger"))

    def _read(self) -> dict[str, Connection]:
        """Return the stored connections by name. A file that others may write is not believed."""
        if not os.path.lexists(self.path):
            return {}
        try:
            with open(self.path, "rb", opener=_of_this_user) as file:
                text = file.read()
        except OSError:
            raise Unavailable(
                f"{shown(self.path)} cannot be read, or others than its user may open it; check it, then: chmod 600"
            ) from None
        data = strict_json.read(text, name="connections", allowed=f"JSON of format {FORMAT}")
        with strict_json.written("connections", str(FORMAT)):
            every = [_from_data(each) for each in data["connections"]]
            found = {each.name: each for each in every}
            if not strict_json.same(data, _to_data(every)) or len(found) != len(every):
                raise ValueError
            return found

    def _write(self, connections: dict[str, Connection]) -> None:
        """Put the file in place as a whole, for this user alone."""
        every = sorted(connections.values(), key=lambda each: each.name)
        with written_whole(self.path) as new, open(new, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            json.dump(_to_data(every), file, indent=1)
            file.flush()
            os.fsync(file.fileno())


def _texts_of_ledger(place: Place | None) -> Iterable[tuple[str, str]]:
    """Return the texts by which errors name the ledger, with what clients read instead."""
    if place is not None:
        yield str(place), "of this service"
        if place.path is not None:
            yield os.path.realpath(place.path), "of this service"


def _text_of(connection: Connection) -> str:
    """Return the text by which errors name the place of a connection."""
    return str(connection.path if isinstance(connection, Folder) else connection.place)


def _replaced(data: Any, pairs: Sequence[tuple[str, str]]) -> Any:
    """Return JSON data with other words in all its texts."""
    if isinstance(data, str):
        for old, new in pairs:
            data = data.replace(old, new)
        return data
    if isinstance(data, dict):
        return {name: _replaced(value, pairs) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [_replaced(value, pairs) for value in data]
    return data


def _of_this_user(path: str, flags: int) -> int:
    """Open a regular file that only this user can read and write, as an ``opener``."""
    descriptor = regular(path, flags | os.O_NOFOLLOW)
    status = os.fstat(descriptor)
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        os.close(descriptor)
        raise PermissionError
    return descriptor


def _to_data(connections: Sequence[Connection]) -> dict[str, Any]:
    return {"format": FORMAT, "connections": [each.to_data() for each in connections]}


def _from_data(data: dict[str, Any]) -> Connection:
    """Return a stored connection; fields are compared with ``to_data`` afterwards."""
    name, populations = _require_name(data["name"]), _populations(data["populations"])
    if data["kind"] == Folder.kind:
        return Folder(name, Path(data["path"]), populations)
    return Server(name, Place.of(data["place"], "place"), populations, data["allow_local"] is True)


def _require_name(name: Any) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput("name", shown(str(name)), "1 to 64 of a-z, 0-9, '-' and '_', a letter or digit first")
    return name


def _populations(given: Iterable[Any]) -> tuple[str, ...]:
    """Return names of populations in one order, each once."""
    for each in given:
        if not isinstance(each, str) or not each or not each.isprintable():
            raise InvalidInput("population", each, "the name of a population")
    return tuple(sorted(set(given)))


def _no_connection() -> NotAuthorised:
    return NotAuthorised(_NO_CONNECTION, code="no_connection")


def _opened(found: int, path: str) -> OpenFile:
    """Open the file of a descriptor (O_PATH), which this closes; every refusal of it is the one about files."""
    file = None
    with contextlib.suppress(InvalidInput, Refused, Unavailable):  # these errors name the path
        file = OpenFile.from_descriptor(found, path)
    if file is None:
        _refuse()
    return file


def _check_place(place: Place, *, allow_local: bool) -> None:
    """Raise unless a place is one server, and its text keeps all that it says."""
    if not isinstance(place, Place) or not place.is_server:
        raise InvalidInput("place", shown(str(place)), "a PostgreSQL place: postgresql://user@host/database")
    if place.hides_parameters:
        raise Refused(
            f"{place} has a password or other parameters that are not stored with a connection. Put them into a "
            "service file or a pass file, and name the service: postgresql:///database?service=NAME"
        )
    check_one_server(Source("postgres", place.text, place))
    if not allow_local and place.parameter("sslmode") != "verify-full":
        raise Refused(
            f"{place} does not check who answers: add sslmode=verify-full to the place or to its service file. "
            "A server of this machine needs allow_local=True instead"
        )
    if not _SEARCH_PATH.fullmatch(place.parameter("options")):
        raise Refused(f"the options of {place} are refused: a connection sets a search path at most")


def _local(name: str) -> Refused:
    return Refused(
        f"the connection {name} leads to this machine, to a link-local address or to the host of the ledger. "
        "If it must, its operator says so: allow_local=True",
        code="local_address",
    )


def _addresses(host: str, name: str) -> tuple[Address, ...]:
    """Return all addresses of a host, as the system finds them now."""
    found: Sequence[Any] = ()
    with contextlib.suppress(OSError, UnicodeError):
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    if not found:
        raise Unavailable(f"the host of {name} has no address now; check its name, or ask again later")
    texts = [each[4][0].partition("%")[0] for each in found]
    return tuple(ipaddress.ip_address(text) for text in dict.fromkeys(texts))


def _is_local(address: Address) -> bool:
    """True for an address of this machine or of its link, and for one that several machines share."""
    inner = _inner(address)
    if inner is not None and _is_local(inner):
        return True
    is_special = address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast
    return is_special or address.is_reserved or _is_of_this_machine(address)


_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


def _inner(address: Address) -> Address | None:
    """Return the IPv4 address that an IPv6 address stands for; None if it stands for itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]


def _is_of_this_machine(address: Address) -> bool:
    """True if a socket of this machine can have the address."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as tried:
            tried.bind((str(address), 0))
    except OSError:
        return False
    return True


def _with_address(place: Place, address: Address) -> Place:
    """Return the place with the address at which libpq finds its host.

    >>> _with_address(Place.of("postgresql://db.example/wards"), ipaddress.ip_address("192.0.2.7"))
    Place('postgresql://db.example/wards?hostaddr=192.0.2.7')
    """
    without = re.sub(r"(?<=[?&])hostaddr=[^&]*&?", "", place.text).rstrip("?&")
    mark = "&" if "?" in without else "?"
    return Place.of(f"{without}{mark}hostaddr={quote(str(address), safe='')}", "place")
