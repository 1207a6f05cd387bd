"""The hash chain: every entry commits to all entries before it.

    hash_n = SHA-256( "tallystick/entry/1" LF || hash_{n-1} || canonical JSON of entry n )

A chain alone does not notice that the newest entries were cut off: see ``anchors.py``.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

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
