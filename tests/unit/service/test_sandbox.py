"""A confined process reaches its own folders and nothing else. Each try succeeds in a process that is not confined."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crash.stores import postgres  # noqa: F401
from tallystick.errors import InvalidInput, Unavailable
from tallystick.service import sandbox
from tallystick.service.sandbox import close_others, confine, die_with_parent, libraries, limit
from tallystick.service.system_calls import MACHINES, REFUSED, program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a worker is confined on Linux only")
DONE = "done"
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
COLUMN = MACHINES[os.uname().machine].column


@dataclass
class Place:
    """A job's folders beside what it must not reach. ``parent`` and ``victim`` are processes."""

    job: Path
    given: Path
    secret: Path
    parent: int
    tcp: int
    udp: int
    stream: str
    datagram: str
    abstract: str
    of_job: int
    of_secret: int
    victim: int = 0

    def confine(self, *, sockets: bool = False) -> None:
        confine(writable=[self.job], readable=[self.given], sockets=sockets)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    for name in ("job", "given", "secret"):
        (tmp_path / name).mkdir()
    job, given, secret = tmp_path / "job", tmp_path / "given", tmp_path / "secret"
    (given / "data.csv").write_text("who\n1\n")
    (secret / "ledger.db").write_text("ledger")
    (secret / "key.pem").write_text("key")
    (job / "kept").write_text("own")
    (job / "link").symlink_to(secret / "ledger.db")
    (job / "folder").symlink_to(secret)
    kinds = (socket.SOCK_STREAM, socket.SOCK_DGRAM)
    servers = [socket.socket(socket.AF_INET, kind) for kind in kinds]
    local = [socket.socket(socket.AF_UNIX, kind) for kind in (*kinds, socket.SOCK_STREAM)]
    names = [str(secret / "stream"), str(secret / "datagram"), f"\0tallystick-{os.getpid()}-{time.monotonic_ns()}"]
    for server in servers:
        server.bind(("127.0.0.1", 0))
    for server, name in zip(local, names, strict=True):
        server.bind(name)
    for server in (servers[0], local[0], local[2]):
        server.listen()
    folders = [os.open(each, os.O_RDONLY | os.O_DIRECTORY) for each in (job, secret)]
    ports = [server.getsockname()[1] for server in servers]
    yield Place(job, given, secret, os.getpid(), *ports, *names, *folders)
    for server in (*servers, *local):
        server.close()
    for folder in folders:
        os.close(folder)


def forked(work: Callable[[], object]) -> tuple[str, int]:
    """The word of a child about its work, and how it ended: its exit code, or minus the signal."""
    inside, outside = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = work()
            word = answer if isinstance(answer, str) else DONE
        except OSError as problem:
            word = errno.errorcode[problem.errno or 0]
        except BaseException as problem:
            word = f"{type(problem).__name__}: {problem}"
        os.write(outside, word.encode())
        os._exit(0)
    os.close(outside)
    with os.fdopen(inside) as answers:
        word = answers.read()
    return word, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def tried(
    place: Place, attempt: Callable[[Place], object], *, confined: bool, sockets: bool = False, tells: bool = False
) -> str:
    """How an attempt ended: done, or the name of the error. A program that ran has no word and ended well."""

    def work() -> object:
        place.victim, lives = bystander()
        place.parent = os.getppid()
        if confined:
            place.confine(sockets=sockets)
        try:
            answer = attempt(place)
            return answer if tells else DONE
        finally:
            os.close(lives)

    word, code = forked(work)
    return word or (DONE if code == 0 else f"signal {-code}")


def bystander() -> tuple[int, int]:
    """Another process of this user, which ends when its descriptor here is closed."""
    inside, outside = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(outside)
        os.read(inside, 1)
        os._exit(0)
    os.close(inside)
    return process, outside


def call(numbers: tuple[int | None, int | None], *arguments: object) -> int:
    """A system call by its numbers on the two architectures."""
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    found = LIBC.syscall(ctypes.c_long(numbers[COLUMN] or 0), *wide)
    if found < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return int(found)


def connected(kind: tuple[int, int], address: object) -> None:
    with socket.socket(*kind) as made:
        made.connect(address)


def read_memory(place: Place) -> None:
    here = ctypes.create_string_buffer(8)
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(here), 8)
    call((310, 270), place.victim, ctypes.byref(vector), 1, ctypes.byref(vector), 1, 0)


def leased(path: Path) -> None:
    """A lease would make those wait who write to the data."""
    descriptor = os.open(path, os.O_RDONLY)
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    os.close(descriptor)


def wrote(path: Path, text: str = "x") -> None:
    path.write_text(text)


TCP, UDP = (socket.AF_INET, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_DGRAM)
STREAM, DATAGRAM = (socket.AF_UNIX, socket.SOCK_STREAM), (socket.AF_UNIX, socket.SOCK_DGRAM)

# The errors were written down before the tries were run: EACCES and EXDEV are Landlock's, EPERM is the filter's.
TRIES: dict[str, tuple[Callable[[Place], object], str]] = {
    "the ledger": (lambda p: (p.secret / "ledger.db").read_text(), "EACCES"),
    "a key": (lambda p: (p.secret / "key.pem").read_text(), "EACCES"),
    "the list of users": (lambda p: Path("/etc/passwd").read_text(), "EACCES"),
    "a folder's list": (lambda p: os.listdir(p.secret), "EACCES"),
    ".. of an inherited folder": (lambda p: os.open("../secret/ledger.db", os.O_RDONLY, dir_fd=p.of_job), "EACCES"),
    "a file of an inherited folder": (lambda p: os.open("key.pem", os.O_RDONLY, dir_fd=p.of_secret), "EACCES"),
    "a link out": (lambda p: (p.job / "link").read_text(), "EACCES"),
    "a folder's link out": (lambda p: (p.job / "folder" / "key.pem").read_text(), "EACCES"),
    "a hard link from outside": (lambda p: os.link(p.secret / "ledger.db", p.job / "hard"), "EXDEV"),
    "a hard link out": (lambda p: os.link(p.job / "kept", p.secret / "hard"), "EACCES"),
    "a hard link of given data": (lambda p: os.link(p.given / "data.csv", p.job / "hard"), "EXDEV"),
    "a rename out": (lambda p: os.rename(p.job / "kept", p.secret / "kept"), "EACCES"),
    "a rename from outside": (lambda p: os.rename(p.secret / "key.pem", p.job / "key.pem"), "EACCES"),
    "writing outside": (lambda p: wrote(p.secret / "new"), "EACCES"),
    "writing over the ledger": (lambda p: wrote(p.secret / "ledger.db"), "EACCES"),
    "writing given data": (lambda p: wrote(p.given / "data.csv"), "EACCES"),
    "a new file beside given data": (lambda p: wrote(p.given / "new.csv"), "EACCES"),
    "truncation by path": (lambda p: os.truncate(p.secret / "ledger.db", 0), "EACCES"),
    "a folder outside": (lambda p: os.mkdir(p.secret / "new"), "EACCES"),
    "removal outside": (lambda p: os.unlink(p.secret / "ledger.db"), "EACCES"),
    "removal of given data": (lambda p: os.unlink(p.given / "data.csv"), "EACCES"),
    "a symbolic link in the job": (lambda p: os.symlink("/etc", p.job / "planted"), "EACCES"),
    "a pipe in the job": (lambda p: os.mkfifo(p.job / "planted"), "EACCES"),
    "the mode of the ledger": (lambda p: os.chmod(p.secret / "ledger.db", 0o666), "EPERM"),
    "the owner of the ledger": (lambda p: os.chown(p.secret / "ledger.db", os.getuid(), -1), "EPERM"),
    "the times of the ledger": (lambda p: os.utime(p.secret / "ledger.db", (1, 1)), "EPERM"),
    "the parent's environment": (lambda p: Path(f"/proc/{p.parent}/environ").read_bytes(), "EACCES"),
    "another's memory file": (lambda p: os.open(f"/proc/{p.victim}/mem", os.O_RDWR), "EACCES"),
    "the parent's descriptors": (lambda p: os.listdir(f"/proc/{p.parent}/fd"), "EACCES"),
    "a descriptor of the parent": (lambda p: os.readlink(f"/proc/{p.parent}/fd/0"), "EACCES"),
    "the parent's folder": (lambda p: os.listdir(os.path.join(f"/proc/{p.parent}/root", "etc")), "EACCES"),
    "another's memory": (read_memory, "EPERM"),
    "ptrace": (lambda p: call((101, 117), 0x4206, p.victim, 0, 0), "EPERM"),
    "a handle of the parent": (lambda p: os.pidfd_open(p.parent), "EPERM"),
    "a signal to the parent": (lambda p: os.kill(p.parent, signal.SIGURG), "EPERM"),
    "a signal to another": (lambda p: os.kill(p.victim, signal.SIGTERM), "EPERM"),
    "a signal to all": (lambda p: os.kill(0, 0), "EPERM"),
    "a queued signal": (lambda p: call((200, 130), p.parent, signal.SIGURG), "EPERM"),
    "a signal by descriptor": (lambda p: fcntl.fcntl(p.of_job, fcntl.F_SETOWN, p.parent), "EPERM"),
    "a lease on given data": (lambda p: leased(p.given / "data.csv"), "EPERM"),
    "limits of the parent": (lambda p: resource.prlimit(p.parent, resource.RLIMIT_CORE), "EPERM"),
    "processors of the parent": (lambda p: os.sched_setaffinity(p.parent, os.sched_getaffinity(p.parent)), "EPERM"),
    "the parent's priority": (lambda p: os.setpriority(os.PRIO_PROCESS, p.parent, os.nice(0)), "EPERM"),
    "a program": (lambda p: os.execv("/bin/true", ["true"]), "EPERM"),
    "a new process": (lambda p: os.fork() or os._exit(0), "EPERM"),
    "a spawned program": (lambda p: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0), "EPERM"),
    "TCP": (lambda p: connected(TCP, ("127.0.0.1", p.tcp)), "EPERM"),
    "a TCP port": (lambda p: socket.create_server(("127.0.0.1", 0)).close(), "EPERM"),
    "UDP": (lambda p: connected(UDP, ("127.0.0.1", p.udp)), "EPERM"),
    "a local socket": (lambda p: connected(STREAM, p.stream), "EPERM"),
    "an abstract socket": (lambda p: connected(STREAM, p.abstract), "EPERM"),
    "a pair that sends elsewhere": (lambda p: socket.socketpair(*DATAGRAM)[0].sendto(b"x", p.datagram), "EPERM"),
    "shared memory": (lambda p: call((31, 195), call((29, 194), 0, 4096, 0o600), 0, 0), "EPERM"),
    "news of files": (lambda p: call((254, 27), call((294, 26), 0), str(p.secret).encode(), 2), "EPERM"),
    "a system call ring": (lambda p: call((425, 425), 1, ctypes.create_string_buffer(120)), "EPERM"),
    "another personality": (lambda p: call((135, 92), 0), "EPERM"),
}  # fmt: skip


@pytest.mark.parametrize("name", TRIES)
def test_a_confined_process_is_refused(name: str, place: Place) -> None:
    attempt, error = TRIES[name]
    assert tried(place, attempt, confined=True) == error


@pytest.mark.parametrize("name", TRIES)
def test_the_same_try_succeeds_without_being_confined(name: str, place: Place) -> None:
    attempt, _ = TRIES[name]
    assert tried(place, attempt, confined=False) == DONE


def test_nothing_was_changed_outside(place: Place) -> None:
    before = {path: path.lstat() for path in place.secret.parent.rglob("*") if "job" not in path.parts}
    for name, (attempt, _) in TRIES.items():
        if name not in ("a folder's link out",):
            tried(place, attempt, confined=True)
    after = {path: path.lstat() for path in place.secret.parent.rglob("*") if "job" not in path.parts}
    facts = ("st_mode", "st_uid", "st_size", "st_mtime_ns", "st_nlink", "st_ino")
    assert {p: [getattr(s, f) for f in facts] for p, s in before.items()} == {
        p: [getattr(s, f) for f in facts] for p, s in after.items()
    }


def held(place: Place) -> str:
    """The capabilities of this process, as the kernel tells them: effective, permitted, inheritable."""
    header = ctypes.create_string_buffer((0x20080522).to_bytes(4, "little") + bytes(4), 8)
    sets = ctypes.create_string_buffer(24)
    call((125, 90), header, sets)
    return sets.raw.hex().strip("0") or "none"


@pytest.mark.skipif(os.getuid() != 0, reason="only root has capabilities to give up")
def test_root_gives_up_what_it_may_beyond_other_users(place: Place) -> None:
    theirs = place.given / "data.csv"
    theirs.chmod(0o600)
    os.chown(theirs, 65_534, 65_534)
    for confined, capabilities, word in ((True, "none", "EACCES"), (False, None, DONE)):
        assert (tried(place, held, confined=confined, tells=True) == capabilities) == confined
        assert tried(place, lambda p: theirs.read_text(), confined=confined) == word


# ---- sockets for a server


WITH_SOCKETS: dict[str, tuple[Callable[[Place], object], str]] = {
    "TCP": (lambda p: connected(TCP, ("127.0.0.1", p.tcp)), DONE),
    "UDP": (lambda p: connected(UDP, ("127.0.0.1", p.udp)), DONE),
    "a TCP port": (lambda p: socket.create_server(("127.0.0.1", 0)).close(), "EPERM"),
    "a chosen UDP port": (lambda p: socket.socket(*UDP).bind(("127.0.0.1", 0)), "EPERM"),
    "listening": (lambda p: socket.socket(*TCP).listen(), "EPERM"),
    "a local socket": (lambda p: connected(STREAM, p.stream), "EPERM"),
    "an abstract socket": (lambda p: connected(STREAM, p.abstract), "EPERM"),
    "messages of the kernel": (lambda p: socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM), "EPERM"),
    "the ledger": (lambda p: (p.secret / "ledger.db").read_text(), "EACCES"),
}


@pytest.mark.parametrize("name", WITH_SOCKETS)
def test_sockets_reach_the_internet_and_no_local_service(name: str, place: Place) -> None:
    attempt, word = WITH_SOCKETS[name]
    assert tried(place, attempt, confined=True, sockets=True) == word


@pytest.mark.parametrize("sockets", [False, True])
def test_a_socket_from_before_cannot_be_given_another_address(sockets: bool, place: Place) -> None:
    early = socket.socket(*STREAM)
    word = tried(place, lambda p: early.connect(p.stream), confined=True, sockets=sockets)
    early.close()
    # with sockets the call is needed for the internet: such a worker must be forked without sockets
    assert word == (DONE if sockets else "EPERM")


def test_a_connection_from_before_stays_usable(place: Place) -> None:
    here, there = socket.socketpair()

    def work() -> str:
        place.confine()
        here.sendall(b"question")
        return here.recv(100).decode()

    there.sendall(b"answer")
    assert forked(work) == ("answer", 0)
    assert there.recv(100) == b"question"
    here.close()
    there.close()


def test_a_terminal_from_before_takes_no_typing(place: Place) -> None:
    """The next reader of the terminal would take it as typed by its user."""
    other, terminal = os.openpty()

    def typed(_: Place) -> None:
        os.setsid()
        fcntl.ioctl(terminal, 0x540E, 0)  # TIOCSCTTY: now it is the terminal of this process
        fcntl.ioctl(terminal, 0x5412, b"x")  # TIOCSTI

    assert tried(place, typed, confined=True) == "EPERM"
    assert tried(place, typed, confined=False) in (DONE, "EIO")  # newer kernels can refuse it to all
    os.close(terminal)
    os.close(other)


CHANGES = {
    "FS_IOC_SETFLAGS": (0x40086602, b"\x40" + b"\0" * 7),
    "FS_IOC_SETVERSION": (0x40087602, b"\7" + b"\0" * 7),
    "FS_IOC_FSSETXATTR": (0x401C5820, b"\0" * 28),
    "FS_IOC_ENABLE_VERITY": (0x40806685, b"\1" + b"\0" * 127),
    "FS_IOC_SET_ENCRYPTION_POLICY": (0x800C6613, b"\0" * 12),
    "FIOSETOWN": (0x8901, b"\0" * 4),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_from_before_keeps_its_flags_and_version(name: str, place: Place, tmp_path: Path) -> None:
    """The descriptor is open for reading, and the file system would take the change from the owner of the file."""
    file = tmp_path / "rows.csv"
    file.write_text("who")
    number, given = CHANGES[name]
    with open(file, "rb") as opened:
        assert tried(place, lambda p: fcntl.ioctl(opened.fileno(), number, given), confined=True) == "EPERM"


# ---- the filter


def test_every_call_of_the_table_is_refused(place: Place) -> None:
    def work() -> str:
        place.confine()
        passed = []
        for name, numbers in REFUSED.items():
            if numbers[COLUMN] is None:
                continue
            try:
                call(numbers, -1, -1, -1, -1, -1, -1)
                passed.append(name)
            except OSError as problem:
                passed += [name] if problem.errno != errno.EPERM else []
        return " ".join(passed) or "all refused"

    assert forked(work) == ("all refused", 0)


def test_calls_that_are_newer_than_the_table_are_missing(place: Place) -> None:
    assert tried(place, lambda p: call((470, 470), 0), confined=True) == "ENOSYS"
    assert tried(place, lambda p: call((435, 435), 0, 0), confined=True) == "ENOSYS"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="conventions of x86_64")
@pytest.mark.parametrize("code", [b"\xb8\x14\0\0\0\xcd\x80\xc3", b"\xb8\x27\0\0\x40\x0f\x05\xc3"], ids=["i386", "x32"])
def test_another_calling_convention_kills(code: bytes, place: Place) -> None:
    """Both ask for the number of this process: with int 0x80 as i386 does, and with the number of x32."""

    def foreign(_: Place) -> None:
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()

    assert tried(place, foreign, confined=True) == f"signal {signal.SIGSYS}"


HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"__NR_(\w+)\s+(\d+)"),
    "aarch64": ("/usr/include/asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
}


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_those_of_the_system(machine: str) -> None:
    path, pattern = HEADERS[machine]
    if not Path(path).exists():
        pytest.skip(f"no {path}")
    known = dict(re.findall(pattern, Path(path).read_text()))
    column = MACHINES[machine].column
    ours = {name: numbers[column] for name, numbers in REFUSED.items() if numbers[column] is not None}
    shared = {name for name in ours if name in known}
    assert len(shared) > 70
    assert {name: ours[name] for name in shared} == {name: int(known[name]) for name in shared}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("sockets", [False, True])
def test_the_program_ends_on_every_path(machine: str, sockets: bool) -> None:
    """Jumps go forwards to an instruction that is there: the kernel's own check, for both architectures."""
    import struct

    steps = list(struct.iter_unpack("=HBBI", program(MACHINES[machine], 7, sockets=sockets)))
    for i, (code, if_true, if_false, _) in enumerate(steps):
        if code in (0x15, 0x35):
            assert i + 1 + max(if_true, if_false) < len(steps)
    assert steps[-1] == (0x06, 0, 0, 0x7FFF0000)


# ---- all or nothing


def test_a_process_with_threads_is_refused(place: Place) -> None:
    def work() -> None:
        import threading

        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
        place.confine()

    word, _ = forked(work)
    assert word.startswith("Unavailable: this process has 2 threads")


@pytest.mark.parametrize("argument", ["writable", "readable"])
def test_a_missing_folder_is_refused(argument: str, place: Place) -> None:
    given = {"writable": [], "readable": []} | {argument: [place.job / "none"]}
    word, _ = forked(lambda: confine(**given))
    assert word.startswith(f"InvalidInput: {argument} = ")


def test_a_readable_path_inside_a_writable_folder_is_refused(place: Place) -> None:
    word, _ = forked(lambda: confine(writable=[place.job], readable=[place.job / "kept"]))
    assert word.startswith("InvalidInput: readable = ")


def test_an_old_kernel_is_refused(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    monkeypatch.setattr(sandbox, "_abi", lambda machine: 2)
    assert "Landlock of version 3" in sandbox.problem()
    word, _ = forked(place.confine)
    assert word.startswith("Unavailable: a worker needs Landlock")


@pytest.mark.parametrize("step", ["_give_up_capabilities", "_filter", "_prctl"])
def test_a_step_that_fails_is_an_error(step: str, monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    def fails(*_: object) -> None:
        ctypes.set_errno(errno.EINVAL)
        sandbox._require(-1, step)

    monkeypatch.setattr(sandbox, step, fails)
    word, _ = forked(place.confine)
    assert word == f"Unavailable: this process could not be confined: {step} failed (EINVAL). It must end"


@pytest.mark.parametrize("abi", [3, 4, 5, 6])
def test_an_older_landlock_refuses_the_same(abi: int, monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    """Fewer rights of Landlock are handled there; the filter refuses what they would have refused."""
    monkeypatch.setattr(sandbox, "_abi", lambda machine: abi)
    found = {name: tried(place, attempt, confined=True) for name, (attempt, _) in TRIES.items()}
    assert found == {name: error for name, (_, error) in TRIES.items()}


# ---- limits and the parent


def test_limits_cannot_be_lifted() -> None:
    def work() -> str:
        limit(memory=300 << 20, cpu_seconds=100)
        kinds = (resource.RLIMIT_DATA, resource.RLIMIT_CPU, resource.RLIMIT_CORE)
        return json.dumps([resource.getrlimit(kind) for kind in kinds])

    word, _ = forked(work)
    assert json.loads(word) == [[300 << 20] * 2, [100] * 2, [0] * 2]


def test_memory_beyond_the_limit_is_an_error_and_no_end() -> None:
    def work() -> str:
        limit(memory=512 << 20)
        try:
            bytearray(600 << 20)
        except MemoryError:
            return "MemoryError"
        return DONE

    assert forked(work) == ("MemoryError", 0)


def test_seconds_beyond_the_limit_end_the_process() -> None:
    def work() -> None:
        limit(cpu_seconds=1)
        while True:
            pass

    assert forked(work) == ("", -signal.SIGKILL)


@pytest.mark.parametrize("given", [{"memory": 0}, {"memory": -1}, {"cpu_seconds": 1.5}, {"cpu_seconds": True}])
def test_a_limit_is_a_positive_whole_number(given: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="a whole number > 0"):
        limit(**given)  # type: ignore[arg-type]


def test_a_process_dies_with_its_parent() -> None:
    inside, outside = os.pipe()
    parent = os.fork()
    if parent == 0:
        own = os.getpid()
        child = os.fork()
        if child == 0:
            die_with_parent(own)
            os.write(outside, str(os.getpid()).encode())
            time.sleep(60)
            os._exit(0)
        time.sleep(60)
    os.close(outside)
    child = int(os.read(inside, 20))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert os.read(inside, 20) == b""  # the pipe is closed: the child has ended, within this test
    os.close(inside)
    assert not Path(f"/proc/{child}/exe").exists()


def test_a_process_whose_parent_is_another_by_now_ends() -> None:
    word, code = forked(lambda: die_with_parent(os.getppid() + 1))
    assert (word, code) == ("", -signal.SIGKILL)


def test_the_memory_of_a_process_is_closed_to_others_of_its_user() -> None:
    def work() -> str:
        before = os.stat("/proc/self/environ").st_uid
        os.setuid(65_534) if os.getuid() == 0 else None
        die_with_parent()
        return f"{before} {os.stat('/proc/self/mem').st_uid}"

    word, _ = forked(work)
    assert word.endswith(" 0")  # root's, whoever the process belongs to


def test_what_the_parent_set_stays_set(place: Place) -> None:
    for option in (1, 4):
        refused = tried(place, lambda p, option=option: call((157, 167), option, 0, 0, 0, 0), confined=True)
        assert refused == "EPERM"


def test_other_descriptors_are_closed(place: Place) -> None:
    def work() -> str:
        keep = os.dup(place.of_job)
        held = Path("/proc/self/fd")
        mine = [0, 1, 2, keep, int(outside)]
        close_others(mine)
        left = sorted(int(name) for name in os.listdir(held))
        return json.dumps([keep in left, place.of_secret in left, len(left)])

    inside, outside = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(outside, work().encode())
        os._exit(0)
    os.close(outside)
    os.waitpid(child, 0)
    assert json.loads(os.read(inside, 100)) == [True, False, 6]  # with the descriptor of the listing
    os.close(inside)
    with pytest.raises(InvalidInput, match="open descriptors"):
        close_others([10**6])


# ---- what must work


WORK = """
import json, os, sys, threading
from pathlib import Path

job, given, descriptor, real = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
os.environ["TMPDIR"] = str(job)
from tallystick.service.sandbox import confine, die_with_parent, libraries, limit

die_with_parent()
limit(memory=4 << 30, cpu_seconds=100)
confine(writable=[job], readable=[given, *libraries()])

import numpy as np  # imports after the confining read files of Python's folders
from tallystick.tables.engines import duckdb as engines
from tallystick.tables.files import OpenFile
from tallystick.tables.reader import Reader
from tallystick.tables.sources import source_of

link = given / "file0.parquet" if (given / "file0.parquet").exists() else None
file = OpenFile.received(descriptor, "ward/visits.parquet", real, link)
spilled = 0
with Reader(source_of(file)) as reader:
    engine = reader.engine
    own = reader.files["ward/visits.parquet"]
    read = engine.collect(f"SELECT count(*), sum(who) FROM _parquet0")
    engine.connection.execute("SET memory_limit = '60MB'; SET threads = 2")
    engine.keep("t", "SELECT i, hash(i)::VARCHAR || repeat('x', 60) AS s FROM range(1000000) r(i)")
    spilled = engine.collect("SELECT sum(size) FROM duckdb_temporary_files()")[0][0]
    sorted_rows = engine.collect("SELECT count(*) FROM (SELECT s FROM t GROUP BY s ORDER BY s)")
    refused = []
    for path in (real, "/etc/passwd", "http://127.0.0.1:1/x.csv", str(job / "own.csv")):
        (job / "own.csv").write_text("a")
        try:
            engine.collect(f"SELECT * FROM read_csv('{path}')")
        except Exception as problem:
            refused.append(type(problem).__name__)
    reader.check_unchanged()
runs = threading.Thread(target=lambda: refused.append("thread"))
runs.start()
runs.join()
snapshots = [path.name for path in job.rglob("*.parquet")]
print(json.dumps({
    "read": [int(column[0]) for column in read], "spilled": int(spilled or 0), "groups": int(sorted_rows[0][0]),
    "refused": refused, "random": len(os.urandom(8)), "dot": float(np.ones(500) @ np.ones(500)),
    "snapshots": snapshots,
}))
"""


@pytest.mark.parametrize("linked", [False, True])
def test_a_confined_worker_reads_its_data_and_spills(linked: bool, tmp_path: Path) -> None:
    from tallystick.tables.files import OpenFile

    data, job, given = tmp_path / "data", tmp_path / "job", tmp_path / "given"
    for folder in (data, job, given):
        folder.mkdir()
    pq.write_table(pa.table({"who": list(range(1000))}), data / "visits.parquet")
    with OpenFile(data / "visits.parquet") as file:
        link = file.link_into(given, "file0.parquet") if linked else None
        assert (link is not None) == linked
        command = [sys.executable, "-c", WORK, str(job), str(given), str(file.descriptor), file.real]
        done = subprocess.run(
            command, pass_fds=[file.descriptor], capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONPATH": sandbox.__file__.rpartition("/tallystick/")[0]},
        )  # fmt: skip
        assert file.unchanged()
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["read"] == [1000, 499_500]
    assert told["spilled"] > 0
    assert told["groups"] == 1_000_000
    assert told["refused"] == ["PermissionException"] * 4 + ["thread"]
    assert (told["random"], told["dot"]) == (8, 500.0)
    assert told["snapshots"] == []  # those of the engine are removed


def test_a_worker_of_a_server_connects_first_and_needs_no_sockets(place: Place, postgres: str) -> None:  # noqa: F811
    from tallystick.place import Place as Server
    from tallystick.tables.reader import Reader
    from tallystick.tables.sources import source_of

    def work() -> str:
        with Reader(source_of(postgres)) as reader:
            engine = reader.engine
            confine(writable=[place.job], readable=libraries())
            engine.keep("t", "SELECT i, md5(i::text) AS s FROM generate_series(1, 100000) g(i)")
            rows = engine.collect("SELECT count(DISTINCT s), sum(i) FROM t")
            try:
                Server.of(postgres).connect()
            except Unavailable:
                return json.dumps([int(column[0]) for column in rows])
            return "connected again"

    assert forked(work) == ("[100000, 5000050000]", 0)


def test_files_and_folders_of_the_job_can_be_used(place: Place) -> None:
    def work(p: Place) -> str:
        (p.job / "inside").mkdir()
        wrote(p.job / "inside" / "one", "text")
        os.link(p.job / "inside" / "one", p.job / "two")
        os.rename(p.job / "inside" / "one", p.job / "three")
        os.truncate(p.job / "three", 2)
        os.unlink(p.job / "two")
        os.rmdir(p.job / "inside")
        return (p.given / "data.csv").read_text() + (p.job / "three").read_text()

    assert tried(place, work, confined=True, tells=True) == "who\n1\nte"


def test_the_libraries_are_not_the_folder_of_the_program() -> None:
    assert not any(Path.cwd().is_relative_to(each) for each in libraries())


def test_a_worker_needs_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "Linux only" in sandbox.problem()
    with pytest.raises(Unavailable, match="Linux only"):
        confine(writable=[], readable=[])
    with pytest.raises(Unavailable, match="Linux only"):
        die_with_parent()
