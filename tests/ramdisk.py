"""Where the tests keep their files: a ledger waits for the disk at every charge, but not on a RAM disk."""

from __future__ import annotations

import os
import shutil
import tempfile

FREE = 2 * 2**30
"""Bytes that a run may need: the RAM disk of a container is often too small."""


def quick_folder() -> str | None:
    """A RAM disk where there is one with room: a killed process loses nothing there."""
    shared = "/dev/shm"
    if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free >= FREE:
        return shared
    return None


def use() -> None:
    """Let this process, pytest and every process that a test starts keep temporary files there."""
    folder = quick_folder()
    if folder is not None:
        os.environ.setdefault("TMPDIR", folder)
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", folder)
        tempfile.tempdir = None  # so that TMPDIR is read again
