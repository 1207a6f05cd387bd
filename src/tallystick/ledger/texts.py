"""Texts beside the chain: an entry holds a commitment to a text, and the text itself can be erased.

    commitment = SHA-256( "tallystick/text/1" LF || salt || text )

The salt has 16 random bytes and is stored with the text. Without the salt, a reader cannot test a guess of the text.
With it, the commitment shows that the text was not changed. An erased text leaves the chain whole.

A question is found again by tags, which are not in the chain:

    tag = HMAC-SHA-256( secret of the ledger, what is tagged )
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from tallystick.ledger.chain import canonical, digest

DOMAIN: Final = b"tallystick/text/1\n"
SALT_BYTES: Final = 16
SECRET_BYTES: Final = 32
ERASED: Final = "(erased)"
"""The word that is shown in place of a text that was erased."""
ALTERED: Final = "(altered)"
"""The word that is shown in place of a text that does not open its commitment."""

TEXT_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "reserve": ("key", "request", "why"),
    "begin": ("key", "request", "why"),
    "raise": ("why",),
    "close": ("why",),
    "clear": ("why",),
    "register": ("note",),
    "first_use": ("why",),
    "older": ("why",),
    "govern": ("why",),
    "key_add": ("why",),
    "key_retire": ("why",),
    "erase": ("why",),
    "genesis": ("subject",),
    "upgrade": ("subject",),
    "principal_add": ("subject",),
    "principal_end": ("why",),
    "roles": ("why",),
    "role_grant": ("why",),
    "role_revoke": ("why",),
    "quorum": ("why",),
    "break_glass": ("why",),
    "token_add": ("name",),
    "request": ("note", "why"),
    "decision": ("why",),
}
"""Fields of an entry of each kind that hold a commitment since format 3. The first and the upgrade may lack them."""
ERASABLE: Final[Mapping[str, tuple[str, ...]]] = {
    kind: fields for kind, fields in TEXT_FIELDS.items() if kind != "register"
}
"""Texts that can be erased. What is said about registered data stays: limits, bounds and closings rest on it."""


class Text(NamedTuple):
    """A text with the salt and the commitment that the chain holds for it."""

    commitment: str
    salt: str
    body: str


def committed(body: str) -> Text:
    """Return a text with a new salt and its commitment.

    >>> text = committed("annual report")
    >>> opens(text.commitment, text.salt, "annual report"), opens(text.commitment, text.salt, "another reason")
    (True, False)
    """
    salt = os.urandom(SALT_BYTES)
    return Text(_commitment(salt, body), salt.hex(), body)


def opens(commitment: str, salt: str, body: str) -> bool:
    """True if this salt and this text give the commitment."""
    try:
        raw = bytes.fromhex(salt)
    except ValueError:
        return False
    return len(raw) == SALT_BYTES and raw.hex() == salt and hmac.compare_digest(_commitment(raw, body), commitment)


def is_answer(answer_hash: str, body: str, salt: str | None) -> bool:
    """True if the chain holds this answer: a commitment since format 3, a digest (no salt) before."""
    return digest(body) == answer_hash if salt is None else opens(answer_hash, salt, body)


def _commitment(salt: bytes, body: str) -> str:
    return hashlib.sha256(DOMAIN + salt + body.encode()).hexdigest()


def with_commitments(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an entry, with the commitment in place of every ``Text``."""
    return {name: value.commitment if isinstance(value, Text) else value for name, value in fields.items()}


class AutoKey(str):
    """A key that the program computed from a question. A key that a person chose never meets it.

    >>> space_of(AutoKey("plan-1")), space_of("plan-1")
    ('auto', 'named')
    """

    __slots__ = ()


AUTO: Final = "auto"
NAMED: Final = "named"
SPACES: Final = (AUTO, NAMED)


def space_of(key: str) -> str:
    """Return the name space of a key: ``auto`` for keys that the program computed, ``named`` for those of people."""
    return AUTO if isinstance(key, AutoKey) else NAMED


class Tags(NamedTuple):
    """The secret of a ledger, from which tags are computed, and the entry at which its format 3 began.

    >>> tags = Tags.new(since=1)
    >>> tags.of_key("local", "named", "report") == tags.of_key("local", "named", "report")
    True
    >>> tags.of_key("local", "named", "report") == tags.of_key("local", "auto", "report")
    False
    """

    since: int
    secret: str

    @classmethod
    def new(cls, since: int) -> Tags:
        """Return tags with a new secret."""
        return cls(since, os.urandom(SECRET_BYTES).hex())

    def __repr__(self) -> str:
        return f"Tags(since={self.since})"  # the secret is not shown

    def of_key(self, principal: str, space: str, key: str) -> str:
        """Tag of a key. It finds the charge of the key."""
        return _tag(self.secret, "key", principal, space, key)

    def of_stem(self, principal: str, space: str, key: str) -> str:
        """Tag of the part of a key before its last slash. It finds all items of a stream."""
        return _usual_tag(self.secret, "stem", principal, space, key.rpartition("/")[0])

    def of_request(self, principal: str, lines: Sequence[Sequence[int]], plan: str, request: str) -> str:
        """Tag of a request: who pays how much for which plan, and the public text. It finds the same question again."""
        return _usual_tag(self.secret, "request", principal, tuple(map(tuple, lines)), plan, request)


def _tag(secret: str, kind: str, *parts: object) -> str:
    return hmac.digest(bytes.fromhex(secret), canonical([kind, *parts]).encode(), "sha256").hex()


_usual_tag = lru_cache(maxsize=64)(_tag)
"""Tags of the last questions and streams. Most charges of a process have the tags of earlier ones."""
