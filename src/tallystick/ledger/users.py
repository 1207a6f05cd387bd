"""Names of the people and machines that use a ledger: users of the operating system, and roles of a database."""

from __future__ import annotations

import os

from tallystick.errors import InvalidInput


def user_of_system() -> str:
    """The user of the operating system, from the process and not from its environment."""
    import pwd

    number = os.geteuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run under a number without a name
        name = f"uid {number}"
    return f"system user {name}"


def subject_named(text: str) -> str:
    """The subject of a person who is named in a command: a user of the operating system, if nothing else is said.

    >>> subject_named("ann"), subject_named("role:ts_ann")
    ('system user ann', 'database role ts_ann')
    """
    kind, colon, name = text.partition(":")
    kinds = {"user": "system user", "role": "database role", "machine": "machine"}
    if not colon:
        return f"system user {text}"
    if kind not in kinds or not name:
        raise InvalidInput("name", text, "a user name, user:NAME, role:NAME of a database, or machine:NAME")
    return f"{kinds[kind]} {name}"


def name_in(subject: str) -> str:
    """The name that is shown of a subject.

    >>> name_in("system user ann")
    'ann'
    """
    for start in ("system user ", "database role ", "machine "):
        if subject.startswith(start):
            return subject.removeprefix(start)
    return subject
