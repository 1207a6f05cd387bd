"""Names of the people and machines that use a ledger: users of the operating system, and roles of a database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from tallystick.errors import InvalidInput

UID_MAP: Final = Path("/proc/self/uid_map")
"""The numbers of users in the namespace of this process, and what they are outside (Linux)."""
CHOSEN: Final = "namespace user "
"""Begins the subject of a user who may have chosen its name. No command names it, so it has no role."""
_WHOLE: Final = 2**16
"""Least number of users in the namespace of a whole system, such as a container."""


def user_of_system() -> str:
    """The user of the operating system, from the process and not from its environment."""
    import pwd

    number = os.geteuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run under a number without a name
        name = f"uid {number}"
    return f"{CHOSEN if may_be_chosen() else _KINDS['user']}{name}"


def may_be_chosen() -> bool:
    """True in a namespace of users that an ordinary user can make: there a process has any number it likes."""
    try:
        lines = UID_MAP.read_text(encoding="ascii").splitlines()
    except OSError:
        return False  # a system without such namespaces
    maps = [[int(number) for number in line.split()] for line in lines]
    return len(maps) != 1 or maps[0][0] != 0 or maps[0][2] < _WHOLE


def is_user_of_system(name: str) -> bool:
    """True if the operating system has a user with this name."""
    import pwd

    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


_KINDS: Final = {"user": "system user ", "role": "database role ", "machine": "machine "}
"""Words that begin a subject, by the word that begins its name in a command."""


def subject_named(text: str, beside: str = "") -> str:
    """The subject of a person who is named in a command. A name without a kind is of the kind of ``beside``.

    A subject beside which nothing is known is a user of the operating system.

    >>> subject_named("ann"), subject_named("ann", "database role ts_bob"), subject_named("role:ts_ann")
    ('system user ann', 'database role ann', 'database role ts_ann')
    """
    kind, colon, name = text.partition(":")
    if not colon:
        start = _KINDS["role"] if beside.startswith(_KINDS["role"]) else _KINDS["user"]
        return f"{start}{text}"
    if kind not in _KINDS or not name:
        raise InvalidInput("name", text, "a user name, user:NAME, role:NAME of a database, or machine:NAME")
    return f"{_KINDS[kind]}{name}"


def user_in(subject: str) -> str | None:
    """The name of a user of the operating system; None for a subject of another kind.

    >>> user_in("system user ann"), user_in("database role ts_ann")
    ('ann', None)
    """
    start = _KINDS["user"]
    return subject.removeprefix(start) if subject.startswith(start) else None


def role_in(subject: str) -> str | None:
    """The name of a role of a database; None for a subject of another kind.

    >>> role_in("database role ts_ann"), role_in("machine nightly")
    ('ts_ann', None)
    """
    start = _KINDS["role"]
    return subject.removeprefix(start) if subject.startswith(start) else None


def name_in(subject: str) -> str:
    """The name that is shown of a subject. A command takes it back.

    >>> name_in("system user ann"), subject_named(name_in("database role ts_ann"))
    ('ann', 'database role ts_ann')
    """
    for kind, start in _KINDS.items():
        if subject.startswith(start):
            name = subject.removeprefix(start)
            return name if kind == "user" else f"{kind}:{name}"
    return subject
