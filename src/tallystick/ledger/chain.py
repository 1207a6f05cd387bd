"""Text in the record: bounded, printable, storable in every back end, written in one way, and chained by hashes.

    hash_n = SHA-256( "tallystick/entry/1" LF || hash_{n-1} || canonical JSON of entry n )

Every entry commits to all entries before it. A chain alone does not notice that the newest entries were cut off: an
anchor outside the ledger does.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import threading
import unicodedata
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallystick.errors import InvalidInput

NAME_LENGTH: Final = 200
WHY_LENGTH: Final = 2_000
PLAN_LENGTH: Final = 1_000_000
UNSEEN: Final = ("Cc", "Cs", "Zl", "Zp")  # control characters, half pairs, line and paragraph separators
UNSEEN_IN_NAMES: Final = (*UNSEEN, "Cf", "Cn", "Co")  # and zero-width, unassigned and private ones
TURNING: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # text could read backwards


def checked(argument: str, value: object, longest: int = NAME_LENGTH, *, empty: bool = False) -> str:
    """The text itself, when it is a string of allowed length without control characters or lone surrogates.

    A name (the shortest length) must also be the only spelling of what it looks like: normalised (NFKC), without
    characters that are not seen. A refusal names the length, not the text, when the text is long.

    >>> checked("name", "patients-2026")
    'patients-2026'
    """
    if not isinstance(value, str):
        raise InvalidInput(argument, type(value).__name__, "a string")
    if len(value) > longest:
        raise InvalidInput(argument, f"{len(value)} characters", f"at most {longest} characters")
    if not empty and not value.strip():
        raise InvalidInput(argument, value, "text that is not blank")
    if value.isascii() and value.isprintable():
        return value
    unseen = UNSEEN_IN_NAMES if longest == NAME_LENGTH else UNSEEN
    for character in value:
        if unicodedata.category(character) in unseen or character in TURNING:
            raise InvalidInput(argument, f"text with U+{ord(character):04X}", "text without control characters")
    if longest == NAME_LENGTH and (plain := unicodedata.normalize("NFKC", value)) != value:
        raise InvalidInput(argument, ascii(value), f"one spelling for one look (NFKC): {plain!a}")
    return value


DOMAIN: Final = b"tallystick/entry/1\n"
GENESIS: Final = "0" * 64

_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def canonical(value: Any) -> str:
    """JSON with sorted keys, no spaces and only ASCII: one text for one value.

    >>> canonical({"b": 1, "a": "é"})
    '{"a":"\\\\u00e9","b":1}'
    """
    return _encode(value)


def digest(text: str) -> str:
    """SHA-256 of a text, in hexadecimal.

    >>> digest("")[:16]
    'e3b0c44298fc1c14'
    """
    return hashlib.sha256(text.encode()).hexdigest()


def link(previous: str, body: str) -> str:
    """The hash of the entry whose canonical JSON is ``body`` and that follows ``previous``.

    >>> link(GENESIS, "{}") != link(link(GENESIS, "{}"), "{}")
    True
    """
    return hashlib.sha256(DOMAIN + bytes.fromhex(previous) + body.encode()).hexdigest()


# Anchors: the newest head this user has seen of each ledger, kept outside the ledger.
#
# A restored old copy of a ledger has an intact chain; only memory kept elsewhere can tell that it is old.
# One small file per ledger id holds ``seq hash``; it is written after each commit, best effort, and never leads
# the ledger. Receipts and cards carry the same pair.

RECORD: Final = re.compile(rb"^(\d{20}) ([0-9a-f]{64})\n")


class Anchor(NamedTuple):
    """A position in a chain and the hash found there."""

    seq: int
    head: str


def config_directory() -> Path:
    """Where user state lives: ``$TALLYSTICK_CONFIG_DIR``, or tallystick under ``$XDG_CONFIG_HOME`` or ``~/.config``."""
    if chosen := os.environ.get("TALLYSTICK_CONFIG_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "tallystick"


class AnchorFile:
    """The anchor of one ledger. Failures to read or write are silent: an anchor is a witness, not a gate.

    >>> import tempfile
    >>> witness = AnchorFile("0" * 32, Path(tempfile.mkdtemp()))
    >>> witness.write(Anchor(3, "ab" * 32)); witness.read().seq
    3
    """

    def __init__(self, ledger_id: str, directory: Path | None = None) -> None:
        self.path = (directory or config_directory()) / "anchors" / ledger_id
        self._descriptor: int | None = None
        self._process = 0
        self._mutex = threading.Lock()
        self._seen: Anchor | None = None  # by this process; a file that cannot be written remembers nothing

    def read(self) -> Anchor | None:
        """The newest anchor on file or seen by this process, or None when there is none."""
        try:
            match = RECORD.match(self.path.read_bytes())
        except OSError:
            match = None
        held, seen = Anchor(int(match[1]), match[2].decode()) if match else None, self._seen
        return seen if held is None or (seen is not None and seen.seq > held.seq) else held

    def write(self, anchor: Anchor) -> None:
        """Move the anchor forward; a lower position never replaces a higher one."""
        with contextlib.suppress(OSError), self._mutex:  # the kernel's lock does not hold between threads
            if self._seen is None or self._seen.seq < anchor.seq:
                self._seen = anchor
            descriptor = self._open()
            held = os.pread(descriptor, 20, 0)
            if held.isdigit() and held >= b"%020d" % anchor.seq:
                return  # whoever synced for us has been here
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                match = RECORD.match(os.pread(descriptor, 128, 0))
                if match is None or int(match[1]) <= anchor.seq:
                    os.pwrite(descriptor, b"%020d %s\n" % (anchor.seq, anchor.head.encode()), 0)
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _open(self) -> int:
        if self._descriptor is None or self._process != os.getpid():
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._process = os.getpid()
        return self._descriptor

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None and self._process == os.getpid():
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = None
