"""Other users of the operating system, for tests and pages: their names, and folders of their own for keys."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

USER = "tallystick.ledger.sqlite.user_of_system"
IS_USER = "tallystick.ledger.sqlite.is_user_of_system"


MISTYPED = "mistyped"
"""A name that no user has. Every other name is of a user."""


@contextlib.contextmanager
def acting_as(name: str, folder: Path | str | None = None) -> Iterator[None]:
    """Commands run as this user. ``folder`` is where the user keeps keys and heads; None for that of everybody."""
    settings = {} if folder is None else {"TALLYSTICK_CONFIG_DIR": str(folder)}
    user = mock.patch(USER, return_value=f"system user {name}")
    is_user = mock.patch(IS_USER, side_effect=lambda each: each != MISTYPED)
    with user, is_user, mock.patch.dict(os.environ, settings):
        yield
