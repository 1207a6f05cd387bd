"""What the service may open: files below a connection's folder and the operator's servers, and nothing else."""

from __future__ import annotations

import errno
import json
import os
import socket
import sqlite3
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from flips import FOREIGN, OWN, RELATIVE, counted, flipping, tree
from tallystick.errors import InvalidInput, NotAuthorised, Refused, TallystickError, Unavailable
from tallystick.place import Place
from tallystick.service import connections as module
from tallystick.service.connections import Connections, Folder, Server, open_below
from tallystick.tables.files import FileId, OpenFile, file_id

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the service needs Linux")
SECRET = "hunter2"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one honest file, and traps: links at each position, a pipe, a device, a hard link."""
    place = Path(os.path.realpath(tmp_path))
    ward, other = place / "ward", place / "other"
    (ward / "year" / "month").mkdir(parents=True)
    (ward / "year" / "month" / "visits.csv").write_text("who\n1\n")
    (ward / "visits.csv").write_text("who\n1\n")
    (other / "month").mkdir(parents=True)
    for path in (other / "visits.csv", other / "month" / "visits.csv"):
        path.write_text(f"who\n{SECRET}\n")
    (ward / "linked").symlink_to(other)
    (ward / "year" / "linked").symlink_to(other / "month")
    (ward / "year" / "month" / "linked.csv").symlink_to(other / "visits.csv")
    (ward / "inside.csv").symlink_to("visits.csv")
    (ward / "environ.csv").symlink_to("/proc/self/environ")
    (ward / "input.csv").symlink_to("/dev/stdin")
    os.mkfifo(ward / "pipe.csv")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(ward / "socket.csv"))
    server.close()
    os.link(other / "visits.csv", ward / "hard.csv")
    if os.getuid() == 0:
        os.mknod(ward / "device.csv", 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero
    return ward


@pytest.fixture
def connections(folder: Path) -> Connections:
    """Connections of two populations, and a ledger that knows the other population's file."""
    (folder.parent / "state").mkdir()
    foreign = file_id(folder.parent / "other" / "visits.csv")

    def belongs_to(file: OpenFile) -> str | None:
        return "school" if file.id == foreign else None

    made = Connections(folder.parent / "state" / "connections.json", belongs_to=belongs_to)
    made.add(Folder("ward", folder), populations=["clinic"])
    made.add(Folder("other", folder.parent / "other"), populations=["school"])
    return made


# ---- names that lead elsewhere


NAMES = [
    # URLs
    f"http://ana:{SECRET}@127.0.0.1/visits.csv",
    "http://169.254.169.254/latest/meta-data/iam.csv",
    "https://metadata.google.internal/computeMetadata/v1/visits.csv",
    "file:///etc/passwd",
    "file:/etc/passwd",
    f"s3://bucket/visits.parquet?secret={SECRET}",
    "gs://bucket/visits.parquet",
    f"postgresql://ana:{SECRET}@127.0.0.1/clinic",
    f"host=127.0.0.1 password={SECRET}",
    f"md:wards?motherduck_token={SECRET}",
    "sqlite:budget.db",
    # other places
    "../other/visits.csv",
    "year/../../other/visits.csv",
    "year/month/../../visits.csv",
    "/etc/passwd",
    "//etc/passwd",
    "~/visits.csv",
    "$HOME/visits.csv",
    "/proc/self/environ",
    "proc/self/environ",
    "/dev/stdin",
    "/proc/self/fd/0",
    # links, and what is no regular file
    "linked/visits.csv",
    "year/linked/visits.csv",
    "year/month/linked.csv",
    "inside.csv",
    "environ.csv",
    "input.csv",
    "pipe.csv",
    "socket.csv",
    "device.csv",
    "year",
    "year/month",
    "visits.csv/more.csv",
    # patterns, and quotes of engines
    "*.csv",
    "visit?.csv",
    "[v]isits.csv",
    "**/visits.csv",
    "visits.csv'",
    "visits.csv' UNION SELECT 1 --",
    'visits.csv"',
    "visits.csv;",
    "{visits,hard}.csv",
    # spellings
    "",
    ".",
    "..",
    "/",
    "visits.csv/",
    "./visits.csv",
    "year//month/visits.csv",
    "year/./month/visits.csv",
    "visits.csv\n",
    "\nvisits.csv",
    "visits.csv\0",
    "visits.csv\0.parquet",
    "visits\u202evsc.csv",
    "\u2066visits.csv",
    "visits\u200b.csv",
    "visits.csv\u2028",
    "visits\udcff.csv",
    "\ufeffvisits.csv",
    "visits.csv\x7f",
    "v" * 256,
    "v" * 5_000,
    "a/" * 41 + "visits.csv",
    "year\\month\\visits.csv",
    "VISITS.CSV ",
    " visits.csv",
]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that is opened otherwise than to look at it (O_PATH), and all names that are looked up in the network."""
    seen: list[str] = []
    real_open = os.open

    def watched(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if not flags & os.O_PATH:
            seen.append(str(path))
        return real_open(path, flags, *more, **named)

    def network(*given: Any, **_: Any) -> Any:
        seen.append(str(given))
        raise OSError(errno.ENETUNREACH, "no network in this test")

    monkeypatch.setattr(os, "open", watched)
    monkeypatch.setattr(socket, "getaddrinfo", network)
    monkeypatch.setattr(socket, "socket", network)
    return seen


def test_the_honest_names_open(connections: Connections, folder: Path, opened: list[str]) -> None:
    for name in ("visits.csv", "year/month/visits.csv"):
        with connections.opened("clinic", "ward", name) as file, file.stream() as rows:
            assert rows.read() == b"who\n1\n"
            assert (file.path, file.real) == (str(folder / name), str(folder / name))
    assert opened  # the spy sees what is opened


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_leads_elsewhere_opens_nothing(
    name: str, connections: Connections, folder: Path, opened: list[str]
) -> None:
    before = os.listdir("/proc/self/fd")
    errors = []
    state = str(connections.path)
    for ask in (lambda: connections.opened("clinic", "ward", name), lambda: open_below(folder, name)):
        with pytest.raises(InvalidInput) as caught:
            ask()
        errors.append(caught.value)
    assert [each for each in opened if each != state] == []
    assert os.listdir("/proc/self/fd") == before
    for error in errors:
        assert error.to_data() == expected().to_data()
        assert SECRET not in repr(error) + str(error)
        assert error.__context__ is None
        assert error.__cause__ is None


def expected() -> InvalidInput:
    """The one error about files."""
    return InvalidInput("relative", "a name", "", code="no_such_file", problem=module._NO_FILE)


def test_there_are_thirty_names_and_each_is_one() -> None:
    assert len(set(NAMES)) == len(NAMES) > 60


def test_a_hard_link_to_a_file_of_another_population_is_refused(connections: Connections, folder: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(InvalidInput) as caught:
        connections.opened("clinic", "ward", "hard.csv")
    assert caught.value.to_data() == expected().to_data()
    assert os.listdir("/proc/self/fd") == before
    connections.give("ward", "school")
    connections.opened("school", "ward", "hard.csv").close()  # its owner may open it by either name


@pytest.mark.parametrize("given", [None, 7, b"visits.csv", Path("visits.csv"), ["visits.csv"]])
def test_a_name_is_a_text(given: Any, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="no such file"):
        open_below(folder, given)


def test_forty_components_and_no_more(tmp_path: Path) -> None:
    place = Path(os.path.realpath(tmp_path))
    deep = place.joinpath(*["d"] * 39)
    deep.mkdir(parents=True)
    (deep / "visits.csv").write_text("who")
    os.close(open_below(place, "d/" * 39 + "visits.csv"))
    (deep / "d").mkdir()
    (deep / "d" / "visits.csv").write_text("who")
    with pytest.raises(InvalidInput):
        open_below(place, "d/" * 40 + "visits.csv")


def test_a_folder_may_be_a_descriptor(folder: Path) -> None:
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    found = open_below(held, "year/month/visits.csv")
    assert os.read(found, 100) == b"who\n1\n"
    assert not os.get_inheritable(found)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.write(found, b"x")
    for descriptor in (found, held):
        os.close(descriptor)


def test_a_folder_behind_a_link_is_not_opened(folder: Path) -> None:
    linked = folder.parent / "way"
    linked.symlink_to(folder)
    for path in (linked, linked / "year", Path("relative")):
        with pytest.raises(InvalidInput):
            open_below(path, "visits.csv")


def test_a_shortage_of_descriptors_is_not_called_a_missing_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(*_: Any, **__: Any) -> int:
        raise OSError(errno.EMFILE, "too many")

    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    monkeypatch.setattr(os, "open", short)
    with pytest.raises(Unavailable, match="too many files open"):
        open_below(held, "visits.csv")
    monkeypatch.undo()
    os.close(held)


# ---- races


TRIES = 2_000


@pytest.mark.parametrize("position", ["", "one", "one/two", RELATIVE])
def test_a_link_that_flips_never_opens_a_foreign_file(position: str, tmp_path: Path) -> None:
    made = tree(Path(os.path.realpath(tmp_path)))
    with flipping(made, position):
        found = counted(lambda: open_below(made.folder, RELATIVE), TRIES)
    assert found[FOREIGN] == 0
    assert found[OWN] > 0
    assert found[b""] > 0


def test_a_look_before_the_opening_would_not_do(tmp_path: Path) -> None:
    """The twin: without the walk the same race reads the foreign file."""
    made = tree(Path(os.path.realpath(tmp_path)))

    def looked_first() -> int:
        path = made.folder / RELATIVE
        if os.path.realpath(path) != str(path):
            raise PermissionError
        return os.open(path, os.O_RDONLY)

    with flipping(made, "one"):
        found = sum(counted(looked_first, TRIES)[FOREIGN] for _ in range(5))
    assert found > 0


def test_a_connection_survives_the_race_too(tmp_path: Path) -> None:
    place = Path(os.path.realpath(tmp_path))
    made = tree(place)
    (place / "state").mkdir()
    connections = Connections(place / "state" / "connections.json")
    connections.add(Folder("ward", made.folder), populations=["clinic"])

    def read() -> int:
        with connections.opened("clinic", "ward", RELATIVE) as file:
            return os.dup(file.descriptor)

    with flipping(made, "one"):
        found = counted(read, TRIES)
    assert found[FOREIGN] == 0
    assert found[OWN] > 0
    assert found[b""] > 0


# ---- files of the service


def test_a_folder_of_the_service_is_no_connection(tmp_path: Path) -> None:
    place = Path(os.path.realpath(tmp_path))
    for name in ("state", "state/inner", "keys", "data", "ledger"):
        (place / name).mkdir()
    ledger = Place.of(place / "ledger" / "budget.db")
    made = Connections(place / "state" / "connections.json", private=[place / "keys" / "k.pem"], ledger=ledger)
    for folder in (place, place / "state", place / "state" / "inner", place / "keys", place / "ledger"):
        with pytest.raises(Refused, match="holds files of the service"):
            made.add(Folder("x", folder))
    made.add(Folder("data", place / "data"))


@pytest.mark.parametrize(
    "path", ["/", "/proc", "/proc/self", "/sys", "/dev", "relative", "/none/at/all", "/etc/passwd"]
)
def test_a_connection_is_a_folder_of_data(path: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        Connections(tmp_path / "connections.json").add(Folder("x", Path(path)))
    assert caught.value.argument == "path"


def test_a_ledger_is_not_a_source(connections: Connections, folder: Path) -> None:
    """A hard link to an open ledger: closing its descriptor would lose the locks of SQLite."""
    ledger = folder.parent / "budget.db"
    with sqlite3.connect(ledger) as book:
        book.execute("create table t (i)")
        book.commit()
        os.link(ledger, folder / "wards.db")
        with pytest.raises(InvalidInput) as caught:
            connections.opened("clinic", "ward", "wards.db")
    book.close()
    assert caught.value.to_data() == expected().to_data()
    private = Connections(connections.path, private=[ledger])
    with pytest.raises(InvalidInput):  # and when it is closed, by its inode
        private.opened("clinic", "ward", "wards.db")
    connections.opened("clinic", "ward", "wards.db").close()


# ---- who may open


def test_connections_of_others_are_not_to_be_told_from_missing_ones(connections: Connections) -> None:
    errors = []
    for population, name in (("clinic", "other"), ("clinic", "none"), ("none", "ward"), ("clinic", f"x{SECRET}")):
        for ask in (
            lambda p=population, n=name: connections.opened(p, n, "visits.csv"),
            lambda p=population, n=name: connections.place_of(p, n),
        ):
            with pytest.raises(NotAuthorised) as caught:
                ask()
            errors.append(json.dumps(caught.value.to_data()))
    assert len(set(errors)) == 1
    assert SECRET not in errors[0]


def test_a_connection_is_given_and_taken(connections: Connections) -> None:
    assert connections.allowed("clinic") == ("ward",)
    connections.give("other", "clinic")
    assert connections.allowed("clinic") == ("other", "ward")
    connections.opened("clinic", "other", "month/visits.csv").close()
    connections.take("other", "clinic")
    assert connections.allowed("clinic") == ("ward",)
    connections.remove("ward")
    assert [each.name for each in connections.list()] == ["other"]
    with pytest.raises(NotAuthorised):
        connections.opened("clinic", "ward", "visits.csv")
    with pytest.raises(InvalidInput):
        connections.remove("ward")
    with pytest.raises(Refused, match="there already"):
        connections.add(Folder("other", Path("/usr")))


def test_a_server_has_no_files(connections: Connections) -> None:
    connections.add(Server("db", Place.of("postgresql:///clinic?host=/run/x"), allow_local=True), ["clinic"])
    with pytest.raises(InvalidInput):
        connections.opened("clinic", "db", "visits.csv")
    with pytest.raises(NotAuthorised):
        connections.place_of("clinic", "ward")


@pytest.mark.parametrize("name", ["", "Ward", "a b", "../x", "a" * 65, "-x", "a\n", "é", None])
def test_names_of_connections_are_plain(name: Any, connections: Connections) -> None:
    with pytest.raises(InvalidInput):
        connections.add(Folder(name, Path("/usr")))


# ---- the file of the connections


def test_the_file_is_of_its_user_alone_and_is_written_whole(connections: Connections) -> None:
    mode = os.umask(0)
    try:
        connections.give("ward", "school")
    finally:
        os.umask(mode)
    assert stat.S_IMODE(connections.path.stat().st_mode) == 0o600
    assert [each.name for each in connections.path.parent.iterdir()] == ["connections.json"]
    again = Connections(connections.path)
    assert again.list() == connections.list()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o660])
def test_a_file_that_others_may_open_is_not_believed(mode: int, connections: Connections) -> None:
    connections.path.chmod(mode)
    with pytest.raises(Unavailable, match="others than its user"):
        connections.list()


def test_a_link_in_its_place_is_not_followed(connections: Connections) -> None:
    moved = connections.path.with_name("moved.json")
    connections.path.rename(moved)
    connections.path.symlink_to(moved)
    with pytest.raises(Unavailable):
        connections.list()


def broken(change: Any) -> str:
    data = {
        "format": 1,
        "connections": [{"kind": "folder", "name": "ward", "path": "/data", "populations": ["clinic"]}],
    }
    change(data)
    return json.dumps(data)


BROKEN = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "another format": broken(lambda d: d.update(format=2)),
    "a bool as the format": broken(lambda d: d.update(format=True)),
    "an unknown field": broken(lambda d: d.update(more=1)),
    "an unknown field inside": broken(lambda d: d["connections"][0].update(allow_local=True)),
    "a missing field": broken(lambda d: d["connections"][0].pop("populations")),
    "an unknown kind": broken(lambda d: d["connections"][0].update(kind="url")),
    "a name twice": broken(lambda d: d["connections"].append(dict(d["connections"][0]))),
    "a bad name": broken(lambda d: d["connections"][0].update(name="../x")),
    "populations as a text": broken(lambda d: d["connections"][0].update(populations="clinic")),
    "a number as a population": broken(lambda d: d["connections"][0].update(populations=[1])),
    "a path that is a number": broken(lambda d: d["connections"][0].update(path=7)),
    "a key twice": '{"format": 1, "format": 1, "connections": []}',
    "a password": broken(
        lambda d: d["connections"].__setitem__(
            0,
            {
                "kind": "server",
                "name": "db",
                "place": f"postgresql://ana:{SECRET}@db.example/x",
                "populations": [],
                "allow_local": False,
            },
        )
    ),
    "a flag that is a number": broken(
        lambda d: d["connections"].__setitem__(
            0,
            {
                "kind": "server",
                "name": "db",
                "place": "postgresql://db.example/x",
                "populations": [],
                "allow_local": 1,
            },
        )
    ),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.filterwarnings("ignore::tallystick.errors.PasswordInPlace")
def test_a_broken_file_is_refused(case: str, connections: Connections) -> None:
    connections.path.write_text(BROKEN[case])
    with pytest.raises(TallystickError) as caught:
        connections.list()
    assert SECRET not in str(caught.value) + json.dumps(caught.value.to_data())
    with pytest.raises(TallystickError):
        connections.opened("clinic", "ward", "visits.csv")


def test_the_whole_form_is_read_again(connections: Connections) -> None:
    connections.path.write_text(broken(lambda d: None))
    assert connections.list() == (Folder("ward", Path("/data"), ("clinic",)),)


# ---- servers


def found(*addresses: str) -> Any:
    """A look-up that finds addresses for every name that is not an address itself."""

    def look(host: str, port: Any, **more: Any) -> Any:
        try:
            return LOOKED_UP(host, port, flags=socket.AI_NUMERICHOST, **more)
        except socket.gaierror:
            every = [LOOKED_UP(each, port, flags=socket.AI_NUMERICHOST, **more) for each in addresses]
            return [answer for answers in every for answer in answers]

    return look


LOOKED_UP = socket.getaddrinfo
VERIFIED = "sslmode=verify-full"

LOCAL = [
    "postgresql://reader@127.0.0.1/x",
    "postgresql://reader@127.8.9.1/x",
    "postgresql://reader@localhost/x",
    "postgresql://reader@2130706433/x",
    "postgresql://reader@0x7f000001/x",
    "postgresql://reader@127.1/x",
    "postgresql://reader@0.0.0.0/x",
    "postgresql://reader@0/x",
    "postgresql://reader@[::1]/x",
    "postgresql://reader@[::]/x",
    "postgresql://reader@[::ffff:127.0.0.1]/x",
    "postgresql://reader@[64:ff9b::7f00:1]/x",
    "postgresql://reader@[2002:7f00:1::]/x",
    "postgresql://reader@169.254.169.254/x",
    "postgresql://reader@[fe80::1]/x",
    "postgresql://reader@[::ffff:169.254.169.254]/x",
    "postgresql://reader@224.0.0.1/x",
    "postgresql://reader@255.255.255.255/x",
    "postgresql://reader@db.example/x?hostaddr=127.0.0.1",
    "postgresql:///x?host=/var/run/postgresql",
    "postgresql:///x?host=%40abstract",
    "postgresql:///x",
]


@pytest.mark.parametrize("place", LOCAL)
def test_a_server_of_this_machine_must_be_allowed(
    place: str, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", loopback_by_name)
    mark = "&" if "?" in place else "?"
    with pytest.raises(Refused, match="leads to this machine"):
        connections.add(Server("db", Place.of(f"{place}{mark}{VERIFIED}")), ["clinic"])
    assert [each.name for each in connections.list()] == ["other", "ward"]


def loopback_by_name(host: str, port: Any, **more: Any) -> Any:
    """The system's look-up, for addresses and for localhost: no test asks the network."""
    if host == "localhost":
        return LOOKED_UP("127.0.0.1", port, **more)
    return LOOKED_UP(host, port, **{**more, "flags": socket.AI_NUMERICHOST})


def test_a_name_is_looked_up_when_a_job_starts_and_then_pinned(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place.of(f"postgresql://reader@db.example/wards?{VERIFIED}")
    monkeypatch.setattr(socket, "getaddrinfo", found("192.0.2.7"))
    connections.add(Server("db", place), ["clinic"])
    pinned = connections.place_of("clinic", "db")
    assert pinned.parameter("hostaddr") == "192.0.2.7"
    assert pinned.parameter("host") == "db.example"  # the name is what the certificate must have
    monkeypatch.setattr(socket, "getaddrinfo", found("192.0.2.8"))
    assert connections.place_of("clinic", "db").parameter("hostaddr") == "192.0.2.8"
    for addresses in (("127.0.0.1",), ("192.0.2.7", "127.0.0.1"), ("169.254.169.254",)):  # the name leads here now
        monkeypatch.setattr(socket, "getaddrinfo", found(*addresses))
        with pytest.raises(Refused, match="leads to this machine"):
            connections.place_of("clinic", "db")
    monkeypatch.setattr(socket, "getaddrinfo", found())
    with pytest.raises(Unavailable, match="has no address"):
        connections.place_of("clinic", "db")


def test_a_given_address_is_checked_and_kept(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", found("203.0.113.9"))
    place = Place.of(f"postgresql://reader@db.example/wards?hostaddr=192.0.2.7&{VERIFIED}")
    connections.add(Server("db", place), ["clinic"])
    pinned = connections.place_of("clinic", "db")
    assert (pinned.parameter("hostaddr"), pinned.parameter("sslmode")) == ("192.0.2.7", "verify-full")


def test_an_address_of_this_machine_is_found_by_its_sockets(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interface of this machine may have any address: a socket can have it, and no other address."""
    monkeypatch.setattr(module, "_is_of_this_machine", lambda address: str(address) == "192.0.2.7")
    monkeypatch.setattr(socket, "getaddrinfo", found("192.0.2.7"))
    with pytest.raises(Refused, match="leads to this machine"):
        connections.add(Server("db", Place.of(f"postgresql://db.example/x?{VERIFIED}")))
    monkeypatch.undo()
    import ipaddress

    assert module._is_of_this_machine(ipaddress.ip_address("127.0.0.1"))
    assert not module._is_of_this_machine(ipaddress.ip_address("192.0.2.7"))


def test_the_host_of_the_ledger_is_not_a_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / "state").mkdir()
    monkeypatch.setattr(socket, "getaddrinfo", found("192.0.2.7"))
    ledger = Place.of("postgresql://keeper@ledger.example/ledger")
    made = Connections(folder.parent / "state" / "connections.json", ledger=ledger)
    with pytest.raises(Refused, match="host of the ledger"):
        made.add(Server("db", Place.of(f"postgresql://other.example/x?{VERIFIED}")))
    made.add(Server("db", Place.of(f"postgresql://other.example/x?{VERIFIED}"), allow_local=True), ["clinic"])
    assert made.place_of("clinic", "db").parameter("hostaddr") == "192.0.2.7"


@pytest.mark.filterwarnings("ignore::tallystick.errors.PasswordInPlace")
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (f"postgresql://ana:{SECRET}@192.0.2.7/x", "password or other parameters"),
        (f"postgresql://ana@192.0.2.7/x?password={SECRET}", "password or other parameters"),
        (f"postgresql://ana@192.0.2.7/x?passfile=/tmp/{SECRET}", "password or other parameters"),
        ("postgresql://ana@192.0.2.7/x?sslrootcert=/tmp/x", "password or other parameters"),
        (f"postgresql://ana@192.0.2.7/x?options=-capp.pin%3D{SECRET}", "password or other parameters"),
        (f"postgresql://ana@192.0.2.7/x?options=-csearch_path%3Da%20-capp.pin%3D{SECRET}", "may be a secret"),
        ("postgresql://ana@192.0.2.7/x?options=-cstatement_timeout%3D1", "search path at most"),
        ("postgresql://ana@192.0.2.7/x?options=-csearch_path%3Da%20-cwork_mem%3D1", "search path at most"),
        ("postgresql://192.0.2.7,192.0.2.8/x", "names 2 servers"),
        ("postgresql://ana@192.0.2.7/x?sslmode=require", "does not check who answers"),
        ("postgresql://ana@192.0.2.7/x", "does not check who answers"),
    ],
)
def test_a_place_says_no_more_than_is_stored(place: str, reason: str, connections: Connections) -> None:
    if "192.0.2.7/x?options" in place:
        place = f"{place}&{VERIFIED}"
    before = connections.path.read_bytes()
    with pytest.raises(Refused, match=reason) as caught:
        connections.add(Server("db", Place.of(place)))
    assert SECRET not in str(caught.value)
    assert connections.path.read_bytes() == before


@pytest.mark.parametrize("place", [Place.of("visits.csv"), "postgresql://x/y", None])
def test_a_server_is_a_postgresql_place(place: Any, connections: Connections) -> None:
    with pytest.raises(InvalidInput, match="PostgreSQL place"):
        connections.add(Server("db", place))


def test_a_service_file_says_the_rest(
    connections: Connections, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "services"
    services.write_text(
        f"[wards]\nhost=db.example\nuser=reader\ndbname=w\npassword={SECRET}\nsslmode=verify-full\n"
        f"[here]\nhost=db.example\nhostaddr=127.0.0.1\nuser=reader\nsslmode=verify-full\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setattr(socket, "getaddrinfo", found("192.0.2.7"))
    connections.add(Server("db", Place.of("postgresql:///?service=wards")), ["clinic"])
    pinned = connections.place_of("clinic", "db")
    assert pinned.parameter("hostaddr") == "192.0.2.7"
    assert pinned.parameter("user") == "reader"
    assert SECRET not in connections.path.read_text() + repr(pinned)
    with pytest.raises(Refused, match="leads to this machine"):
        connections.add(Server("here", Place.of("postgresql:///?service=here")))


# ---- opened files in another process


def test_an_opened_file_reaches_another_process(connections: Connections, folder: Path) -> None:
    file = connections.opened("clinic", "ward", "visits.csv")
    folder.joinpath("visits.csv").unlink()  # the name is not needed any more
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        _, [descriptor], _, _ = socket.recv_fds(theirs, 1, 1)
        got = OpenFile.received(descriptor, file.path, file.real)
        with got.stream() as rows:
            theirs.send(rows.read() + str(got.id == file.id and got.size == file.size).encode())
        os._exit(0)
    socket.send_fds(ours, [b"x"], [file.descriptor])
    assert ours.recv(100) == b"who\n1\nTrue"
    os.waitpid(child, 0)
    file.close()
    for each in (ours, theirs):
        each.close()


def test_a_received_file_is_regular_and_read_only(folder: Path) -> None:
    flags = {"writable": os.O_RDWR, "found": os.O_PATH}
    for name, mode in flags.items():
        descriptor = os.open(folder / "visits.csv", mode)
        with pytest.raises(InvalidInput, match="open for reading"):
            OpenFile.received(descriptor, name, name)
        with pytest.raises(OSError, match="Bad file descriptor"):  # it was closed
            os.fstat(descriptor)
    for path, mode in (("pipe.csv", os.O_RDONLY | os.O_NONBLOCK), ("year", os.O_RDONLY), ("pipe.csv", os.O_PATH)):
        for take in (lambda d: OpenFile.received(d, "x", "x"), lambda d: OpenFile.from_descriptor(d, "x")):
            with pytest.raises(InvalidInput):
                take(os.open(folder / path, mode))


def test_a_link_of_another_file_is_not_received(folder: Path) -> None:
    with OpenFile(folder / "visits.csv") as file, pytest.raises(Unavailable, match="was replaced"):
        OpenFile.received(os.dup(file.descriptor), file.path, file.real, folder / "year" / "month" / "visits.csv")


def test_a_link_for_another_process_is_what_its_engine_reads(folder: Path) -> None:
    given = folder.parent / "given"
    given.mkdir()
    with OpenFile(folder / "visits.csv") as file:
        link = file.link_into(given, "file0.csv")
        assert link == given / "file0.csv"
        with OpenFile.received(os.dup(file.descriptor), file.path, file.real, link) as got:
            assert got.snapshot(folder, "never") == link
            assert got.unchanged()
            (folder / "visits.csv").write_text("who\n1\n2\n")  # in place
            assert not got.unchanged()
            assert not file.unchanged()
    assert not (folder / "never").exists()


@pytest.mark.parametrize("mode", [os.O_RDONLY, os.O_PATH])
def test_a_descriptor_is_checked_as_a_path_is(mode: int, folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    private = folder / "tallystick-x"
    private.mkdir()
    (private / "alive").write_text("")
    (private / "file0.csv").write_text("who")
    for path in ("/proc/self/environ", str(private / "file0.csv")):
        with pytest.raises(Refused):
            OpenFile.from_descriptor(os.open(path, mode), "x")
    gone = os.open(folder / "visits.csv", mode)
    (folder / "visits.csv").unlink()
    with pytest.raises(Unavailable, match="was replaced"):
        OpenFile.from_descriptor(gone, "x")
    assert len(os.listdir("/proc/self/fd")) == before


def test_several_files_are_brought_by_path(folder: Path) -> None:
    from dataclasses import replace

    from tallystick.tables.reader import Reader
    from tallystick.tables.sources import source_of

    paths = {name: str(folder / f"{name}.csv") for name in ("visits", "hard")}
    source = source_of(dict(paths))
    held = {path: OpenFile.from_descriptor(open_below(folder, Path(path).name), path) for path in paths.values()}
    with Reader(replace(source, handle=held)) as reader:
        assert all(reader.files[path] is held[path] for path in paths.values())
    assert all(file.descriptor >= 0 for file in held.values())  # their opener closes them
    with pytest.raises(InvalidInput, match="opened before"):
        Reader(replace(source, handle={paths["visits"]: held[paths["visits"]]}))
    for file in held.values():
        file.close()


def test_an_identity_of_a_descriptor_is_that_of_its_path(folder: Path) -> None:
    from tallystick.tables.identity import of_file

    path = folder / "visits.csv"
    with OpenFile(path) as one, OpenFile.from_descriptor(open_below(folder, "visits.csv"), path) as two:
        assert isinstance(two.id, FileId)
        assert of_file(one, "csv", "") == of_file(two, "csv", "")
