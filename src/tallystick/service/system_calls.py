"""System calls that a confined process may make, as a program for the kernel's filter (seccomp, Linux).

Landlock rules on files alone. It does not restrict modes, owners, times and extended attributes of files, shared
memory, new processes, and what reaches into another process. Each group below names calls of this kind, which are
refused with EPERM. A call that is newer than this table is refused with ENOSYS, to which libraries have an answer. A
call of another architecture, or of another calling convention of this one, kills the process.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from typing import Final, NamedTuple


class Machine(NamedTuple):
    """An architecture. ``column`` is its place in the table of numbers."""

    column: int
    audit: int
    """AUDIT_ARCH_... of linux/audit.h: the kernel's name of a calling convention."""
    foreign_from: int | None
    """First number of another convention with the same ``audit``: x32 on x86_64."""
    landlock: int = 444
    seccomp: int = 0
    capset: int = 0


MACHINES: Final = {
    "x86_64": Machine(0, 0xC000003E, 0x40000000, seccomp=317, capset=126),
    "aarch64": Machine(1, 0xC00000B7, None, seccomp=277, capset=91),
}
"""Architectures by the name that ``uname`` gives them. Both have little-endian words of 64 bits."""

_Numbers = tuple[int | None, int | None]

_EXECUTES: Final[dict[str, _Numbers]] = {"execve": (59, 221), "execveat": (322, 281)}
_FORKS: Final[dict[str, _Numbers]] = {"fork": (57, None), "vfork": (58, None)}
_REACHES_PROCESSES: Final[dict[str, _Numbers]] = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
_PASSES_BY_PATHS: Final[dict[str, _Numbers]] = {
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
_CHANGES_FILES: Final[dict[str, _Numbers]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "utimensat": (280, 88),
    "futimesat": (261, None),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
_SHARES_MEMORY: Final[dict[str, _Numbers]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
_MOUNTS: Final[dict[str, _Numbers]] = {
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "statmount": (457, 457),
    "listmount": (458, 458),
}
_CHANGES_THE_KERNEL: Final[dict[str, _Numbers]] = {
    "unshare": (272, 97),
    "setns": (308, 268),
    "personality": (135, 92),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "syslog": (103, 116),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
}
_ADDRESSES: Final[dict[str, _Numbers]] = {"connect": (42, 203)}
_SERVES: Final[dict[str, _Numbers]] = {
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
}

REFUSED: Final[dict[str, _Numbers]] = {
    **_EXECUTES,
    **_FORKS,
    **_REACHES_PROCESSES,
    **_PASSES_BY_PATHS,
    **_CHANGES_FILES,
    **_SHARES_MEMORY,
    **_MOUNTS,
    **_CHANGES_THE_KERNEL,
    **_SERVES,
}
"""Calls that are always refused, with their numbers on x86_64 and aarch64."""

_SOCKET: Final = (41, 198)
_CLONE3: Final = (435, 435)
_NEWEST: Final = 469
"""Largest number in the table of Linux 6.18."""

# Of socket.h, sched.h, prctl.h, fcntl.h and ioctls.h
_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_SEQPACKET = 1, 2, 5
_SOCK_TYPE: Final = 0xF
_CLONE_THREAD: Final = 0x00010000
_CLONE_NEW: Final = 0x7E020000
"""Namespaces that clone can make."""
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_PTRACER = 1, 4, 0x59616D61
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE = 8, 10, 15, 1024
_TCGETS, _TIOCGWINSZ, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX = 0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451
_FICLONE: Final = 0x40049409
_IOCTLS: Final = (_TCGETS, _TIOCGWINSZ, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX, _FICLONE)
"""What Python and engines ask of descriptors, and the clone of a file. Others change flags, version and encryption of
a file even by a descriptor that is open for reading, or type into a terminal.
"""
_ALL: Final = 0xFFFFFFFF


class _Test(NamedTuple):
    """A look at one argument: its low 32 bits, which are all that the kernel reads of the arguments tested here."""

    argument: int
    values: tuple[int, ...]
    passes: bool = True
    """True if the values pass and all others are refused; False if the values are refused."""
    mask: int = _ALL


def _tests(process: int, sockets: bool) -> dict[_Numbers, tuple[_Test, ...]]:
    """Return calls that depend on their arguments."""
    itself = (_Test(0, (process,)),)
    own_limits = (_Test(0, (0, process)),)
    kinds = (_SOCK_STREAM, _SOCK_DGRAM)
    found: dict[_Numbers, tuple[_Test, ...]] = {
        # Signals to this process: abort() sends one
        (62, 129): itself,
        (234, 131): itself,
        # Limits and scheduling: prlimit64, sched_setparam, _setscheduler, _setaffinity, _setattr
        (302, 261): own_limits,
        (142, 118): own_limits,
        (144, 119): own_limits,
        (203, 122): own_limits,
        (314, 274): own_limits,
        # clone makes threads, and no process
        (56, 220): (_Test(0, (_CLONE_THREAD,), mask=_CLONE_THREAD | _CLONE_NEW),),
        # prctl: what die_with_parent set stays
        (157, 167): (_Test(0, (_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_PTRACER), passes=False),),
        # fcntl: no signal to the process that "owns" a descriptor, and no lease
        (72, 25): (_Test(1, (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETLEASE), passes=False),),
        (16, 29): (_Test(1, _IOCTLS),),
        # socketpair: two connected ends. A datagram socket could send to any other address, so it is refused
        (53, 199): (_Test(0, (_AF_UNIX,)), _Test(1, (_SOCK_STREAM, _SOCK_SEQPACKET), mask=_SOCK_TYPE)),
    }
    if sockets:  # the internet alone: local sockets lead to the keeper and to other services of this machine
        found[_SOCKET] = (_Test(0, (_AF_INET, _AF_INET6)), _Test(1, kinds, mask=_SOCK_TYPE))
    return found


class _Step(NamedTuple):
    """An instruction of struct sock_filter (linux/filter.h)."""

    code: int
    if_true: int
    if_false: int
    value: int


_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_AT_NUMBER, _AT_MACHINE, _AT_ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000

_REFUSE: Final = _Step(_RETURN, 0, 0, _ERROR | errno.EPERM)
_MISSING: Final = _Step(_RETURN, 0, 0, _ERROR | errno.ENOSYS)
_PASS: Final = _Step(_RETURN, 0, 0, _ALLOW)
_END: Final = _Step(_RETURN, 0, 0, _KILL)


def program(machine: Machine, process: int, *, sockets: bool) -> bytes:
    """Return the filter of one process as instructions for the kernel.

    >>> len(program(MACHINES["aarch64"], 7, sockets=False)) % 8
    0
    """
    steps = [_Step(_LOAD, 0, 0, _AT_MACHINE), _Step(_EQUAL, 1, 0, machine.audit), _END]
    steps.append(_Step(_LOAD, 0, 0, _AT_NUMBER))
    if machine.foreign_from is not None:
        steps += [_Step(_AT_LEAST, 0, 1, machine.foreign_from), _END]
    steps += [_Step(_AT_LEAST, 0, 1, _NEWEST + 1), _MISSING]
    refused = [*REFUSED.values()]
    if not sockets:
        refused += [_SOCKET, *_ADDRESSES.values()]
    for number in _of(refused, machine):
        steps += [_Step(_EQUAL, 0, 1, number), _REFUSE]
    for number in _of([_CLONE3], machine):  # its arguments are in memory, where no filter sees them
        steps += [_Step(_EQUAL, 0, 1, number), _MISSING]
    for numbers, tests in _tests(process, sockets).items():
        steps += _tested(numbers, tests, machine)
    steps.append(_PASS)
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _of(calls: Iterable[_Numbers], machine: Machine) -> list[int]:
    """Return the numbers of some calls on a machine that has them."""
    numbers = [each[machine.column] for each in calls]
    return [number for number in numbers if number is not None]


def _tested(numbers: _Numbers, tests: Iterable[_Test], machine: Machine) -> list[_Step]:
    """Return the instructions for a call that passes if all its tests pass."""
    steps: list[_Step] = []
    for test in tests:
        steps += _looked(test)
    steps.append(_PASS)
    return [_Step(_EQUAL, 0, len(steps), number) for number in _of([numbers], machine)] + steps


def _looked(test: _Test) -> list[_Step]:
    """Return the instructions of one test; they end behind themselves, or refuse."""
    steps = [_Step(_LOAD, 0, 0, _AT_ARGUMENTS + 8 * test.argument), _Step(_AND, 0, 0, test.mask)]
    last = len(test.values) - 1
    for i, value in enumerate(test.values):
        if test.passes:
            steps.append(_Step(_EQUAL, last - i + 1, 0, value))  # to the instruction behind the refusal
        else:
            steps.append(_Step(_EQUAL, last - i, int(i == last), value))  # to the refusal, or past it
    return [*steps, _REFUSE]
