"""Confines this process for good: to some folders, without network and without other processes. Linux only.

A worker reads private data. If its engine is broken, for example by a file that was made to break it, it must not reach
the ledger, a key, another source or the network. A confined process gives up its capabilities, Landlock (the kernel's
rules on files) leaves it the folders that are named, and a filter of system calls (``system_calls``) takes the rest.

Descriptors that are open already stay open: ``close_others`` closes them. A connection to a server stays usable, so a
worker connects first and confines itself afterwards, and needs no sockets then. What is not stopped: a confined process
sees whether a file exists, its size and its times (``stat``), and it can use up memory, time and the disk below its
writable folders, as far as ``limit`` and the file system let it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import signal
import stat
import struct
import sys
import sysconfig
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from tallystick.errors import InvalidInput, Unavailable
from tallystick.service.system_calls import MACHINES, Machine, program

LEAST_ABI: Final = 3
"""The first Landlock that rules on truncation, by path, of a file that may not be opened for writing."""

# linux/landlock.h
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = (1 << i for i in range(6))
_MAKE_DIR, _MAKE_REG = 1 << 7, 1 << 8
_REFER, _TRUNCATE, _IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FILE_RIGHTS: Final = {3: 15, 5: 16}
"""Number of rights on files by the first ABI that has them."""
_BIND, _CONNECT = 1, 2
_NETWORK_FROM: Final = 4
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
_SCOPES_FROM: Final = 6
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1

_READS: Final = _READ_FILE | _READ_DIR
_WRITES: Final = (
    _READS | _WRITE_FILE | _TRUNCATE | _MAKE_DIR | _MAKE_REG | _REMOVE_DIR | _REMOVE_FILE | _REFER
)  # no links, pipes, sockets and devices: another process could follow or open them
_OF_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
"""Rights that a rule on a file, instead of a folder, may give."""

# linux/prctl.h, linux/seccomp.h and linux/capability.h
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_GET_SECCOMP = 1, 4, 38, 21
_SET_MODE_FILTER, _GET_ACTION_AVAIL = 1, 2
_RET_ERRNO: Final = 0x00050000
_FILTERED: Final = 2
_CAPABILITIES: Final = 0x20080522


def problem() -> str:
    """Return why this system cannot confine a process; an empty text if it can.

    >>> isinstance(problem(), str)
    True
    """
    if sys.platform != "linux":
        return f"a worker can be confined on Linux only, and this is {sys.platform}"
    machine = MACHINES.get(os.uname().machine)
    if machine is None or sys.maxsize < 2**32:
        return f"a worker can be confined on {' and '.join(MACHINES)} only, and this is {os.uname().machine}"
    abi = _abi(machine)
    if abi < LEAST_ABI:
        found = f"it has version {abi}" if abi > 0 else "Landlock is missing or switched off"
        return f"a worker needs Landlock of version {LEAST_ABI} (Linux 6.2) in this kernel: {found}"
    action = ctypes.c_uint32(_RET_ERRNO)
    if _called(machine.seccomp, _GET_ACTION_AVAIL, 0, ctypes.byref(action)) != 0:
        return "a worker needs filters of system calls (seccomp), which this kernel lacks"
    return ""


def confine(*, writable: Sequence[Path], readable: Sequence[Path], sockets: bool = False) -> None:
    """Confine this process, which must have one thread, for good.

    It may read files and list folders below ``readable``, and also write, create, remove, rename and link them below
    ``writable``. It may do nothing else with files, start no process, and signal no process. It has no network, or with
    ``sockets`` connections to addresses of the internet, but no local sockets and no port to listen on. Call
    ``die_with_parent`` before. After an error this process must end: it may be confined in part.

    >>> def work():
    ...     confine(writable=[], readable=libraries())
    ...     return Path("/etc/passwd").read_text()
    >>> child = os.fork()
    >>> if child == 0:
    ...     try:
    ...         work()
    ...     except PermissionError:
    ...         os._exit(13)
    ...     finally:
    ...         os._exit(0)
    >>> os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    13
    """
    reason = problem()
    if reason:
        raise Unavailable(f"{reason}. No worker starts without being confined")
    _require_one_thread()
    machine = MACHINES[os.uname().machine]
    ruleset = _ruleset(machine, writable, readable, sockets)
    try:
        _give_up_capabilities(machine)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1, "no_new_privs")
        _require(_called(machine.landlock + 2, ruleset, 0), "landlock_restrict_self")
    finally:
        os.close(ruleset)
    _filter(machine, sockets)
    if _libc().prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) != _FILTERED:
        raise Unavailable("this process could not be confined: the kernel reports no filter. It must end")


def limit(*, memory: int | None = None, cpu_seconds: int | None = None, core: bool = False) -> None:
    """Limit this process for good: bytes of data in memory, seconds of CPU, and no core files.

    Memory is RLIMIT_DATA. RLIMIT_AS also counts addresses, of which DuckDB reserves far more than it uses. Beyond the
    memory an allocation fails, and beyond the seconds the kernel kills the process.

    >>> limit(memory=0)
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: memory = 0 is not allowed; give a whole number > 0, or None
    """
    for name, value in (("memory", memory), ("cpu_seconds", cpu_seconds)):
        if value is not None and (type(value) is not int or value <= 0):
            raise InvalidInput(name, value, "a whole number > 0, or None")
    if memory is not None:
        _lower(resource.RLIMIT_DATA, memory)
    if cpu_seconds is not None:
        _lower(resource.RLIMIT_CPU, cpu_seconds)
    if not core:
        _lower(resource.RLIMIT_CORE, 0)


def die_with_parent(parent: int | None = None) -> None:
    """Let the kernel kill this process when its parent ends, and keep other processes of this user out of its memory.

    ``parent`` is the id of the parent from before the fork: if it has ended already, this process ends now. Without it
    a parent that ended before this call is not noticed. The kernel counts the end of the parent's *thread* that forked.
    """
    if sys.platform != "linux":
        raise Unavailable(f"a process can die with its parent on Linux only, and this is {sys.platform}")
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, "PR_SET_PDEATHSIG")
    _prctl(_PR_SET_DUMPABLE, 0, "PR_SET_DUMPABLE")
    if parent is not None and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def keep_private() -> None:
    """Keep other processes of this user out of the memory of this process.

    >>> keep_private()
    """
    _prctl(_PR_SET_DUMPABLE, 0, "PR_SET_DUMPABLE")


def close_others(keep: Collection[int]) -> None:
    """Close all descriptors of this process but ``keep``: an open one can be used by a confined process.

    >>> close_others([-1])
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: keep = -1 is not allowed; give open descriptors
    """
    with os.scandir("/proc/self/fd") as entries:
        found = {int(entry.name) for entry in entries}
    for descriptor in keep:
        if descriptor not in found:
            raise InvalidInput("keep", descriptor, "open descriptors")
    for descriptor in found.difference(keep):
        with contextlib.suppress(OSError):  # the one that listed them is closed already
            os.close(descriptor)


def libraries() -> tuple[Path, ...]:
    """Return what Python and its engines read besides data, for ``readable``: packages, and facts about the machine.

    The folder of a running program is not among them (``sys.path`` has it), because a ledger may be there. DuckDB
    aborts the process if the limits of its control group (cgroup) are there and cannot be read.

    >>> Path(sysconfig.get_path("stdlib")) in libraries()
    True
    """
    of_python = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    of_this_package = str(Path(__file__).parent.parent)
    of_system = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache")
    of_machine = ("/proc/self/cgroup", "/sys/fs/cgroup", "/sys/devices/system/cpu")
    every = [Path(each) for each in (*of_python, of_this_package, *of_system, *of_machine) if each]
    return tuple(each for each in dict.fromkeys(every) if each.exists())


def _ruleset(machine: Machine, writable: Sequence[Path], readable: Sequence[Path], sockets: bool) -> int:
    """Return the descriptor of a Landlock ruleset that handles every right of the kernel's ABI."""
    abi = _abi(machine)
    handled = (1 << max(count for since, count in _FILE_RIGHTS.items() if since <= abi)) - 1
    attributes = struct.pack("=Q", handled)
    if abi >= _NETWORK_FROM:
        attributes += struct.pack("=Q", _BIND if sockets else _BIND | _CONNECT)
    if abi >= _SCOPES_FROM:
        attributes += struct.pack("=Q", _ABSTRACT_SOCKETS | _SIGNALS)
    given = ctypes.create_string_buffer(attributes, len(attributes))
    ruleset = _require(_called(machine.landlock, given, len(attributes), 0), "landlock_create_ruleset")
    try:
        _refuse_inside(writable, readable)
        for path in writable:
            _allow(machine, ruleset, path, _WRITES & handled, "writable")
        for path in readable:
            _allow(machine, ruleset, path, _READS, "readable")
    except BaseException:
        os.close(ruleset)
        raise
    return ruleset


def _refuse_inside(writable: Sequence[Path], readable: Sequence[Path]) -> None:
    """Refuse a readable path inside a writable folder: it would be writable, although the caller wants it not to be."""
    folders = [os.path.realpath(path) for path in writable]
    for path in readable:
        if any(Path(os.path.realpath(path)).is_relative_to(folder) for folder in folders):
            raise InvalidInput("readable", str(path), "a path outside the writable folders")


def _allow(machine: Machine, ruleset: int, path: Path, rights: int, argument: str) -> None:
    """Add a rule: rights below a folder, or on one file."""
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        beneath = -1
    if beneath < 0:
        raise InvalidInput(argument, str(path), "an existing folder")
    try:
        if not stat.S_ISDIR(os.fstat(beneath).st_mode):
            rights &= _OF_A_FILE
        rule = struct.pack("=Qi", rights, beneath)
        given = ctypes.create_string_buffer(rule, len(rule))
        _require(_called(machine.landlock + 1, ruleset, _PATH_BENEATH, given, 0), "landlock_add_rule")
    finally:
        os.close(beneath)


def _give_up_capabilities(machine: Machine) -> None:
    """Give up what root may do beyond other users: no mode of a file stops root, and no rule of Landlock is on modules.

    The effective, permitted and inheritable sets of two words each become empty.
    """
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITIES, 0), 8)
    nothing = ctypes.create_string_buffer(24)
    _require(_called(machine.capset, header, nothing), "capset")


def _filter(machine: Machine, sockets: bool) -> None:
    """Install the filter of system calls."""
    steps = program(machine, os.getpid(), sockets=sockets)
    held = ctypes.create_string_buffer(steps, len(steps))
    handed = ctypes.create_string_buffer(struct.pack("@HP", len(steps) // 8, ctypes.addressof(held)), 16)
    _require(_called(machine.seccomp, _SET_MODE_FILTER, 0, handed), "seccomp")


def _require_one_thread() -> None:
    """Raise if this process has other threads: Landlock and the filter would bind this one only."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise Unavailable(f"this process has {threads} threads, and one at most can be confined. Fork before threads")


def _lower(kind: int, most: int) -> None:
    """Set a limit that this process cannot lift; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(kind, (value, value))


def _abi(machine: Machine) -> int:
    """Return the version of Landlock in this kernel; -1 without it."""
    return _called(machine.landlock, None, 0, _VERSION_FLAG)


def _prctl(option: int, value: int, name: str) -> None:
    _require(_libc().prctl(option, value, 0, 0, 0), name)


def _called(number: int, *arguments: object) -> int:
    """Call the kernel with whole numbers and pointers, each as wide as a register."""
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return int(_libc().syscall(ctypes.c_long(number), *wide))


def _require(result: int, what: str) -> int:
    """Return what the kernel answered, or raise if that is an error."""
    if result < 0:
        name = errno.errorcode.get(ctypes.get_errno(), "an unknown error")
        raise Unavailable(f"this process could not be confined: {what} failed ({name}). It must end")
    return result


def _libc() -> ctypes.CDLL:
    """Return the C library of this process, with the widths of what its functions take and give."""
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    library.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
    return library
