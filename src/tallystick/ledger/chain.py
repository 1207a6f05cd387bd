"""Text in the record: bounded, printable, storable in every back end, written in one way, and chained by hashes.

    hash_n = SHA-256( "tallystick/entry/1" LF || hash_{n-1} || canonical JSON of entry n )

Every entry commits to all entries before it. A chain alone does not notice that the newest entries were cut off: see
``anchors.py``.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from typing import Any, Final

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
