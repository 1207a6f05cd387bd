"""Ed25519 signatures: who raised a limit, and whose export this is.

The user's key lives beside the anchors in the config directory (mode 0600) and is made on first use.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from tallystick.errors import Unavailable
from tallystick.ledger.chain import canonical, config_directory, make_own_folder
from tallystick.place import shown

DOMAIN: Final = b"tallystick/signature/1\n"


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key that signs canonical JSON.

    >>> import tempfile
    >>> signer = Signer.of_user(Path(tempfile.mkdtemp()))
    >>> verified({"limit": 1}, signer.public, signer.sign({"limit": 1}))
    True
    >>> verified({"limit": 2}, signer.public, signer.sign({"limit": 1}))
    False
    """

    seed: bytes

    def __repr__(self) -> str:
        return f"Signer(public={self.public!r})"

    @classmethod
    def of_user(cls, directory: Path | None = None) -> Signer:
        """The key of this user; it is made the first time."""
        path = (directory or config_directory()) / "signing_key"
        try:
            if not path.exists():
                make_own_folder(path.parent)
                fresh = path.with_name(f"signing_key.{os.getpid()}")
                descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as file:
                    file.write(os.urandom(32).hex().encode())
                try:
                    os.link(fresh, path)  # the first of several processes wins
                except FileExistsError:
                    pass
                finally:
                    fresh.unlink()
            return cls(bytes.fromhex(path.read_text()))
        except (OSError, ValueError) as error:
            raise Unavailable(f"the signing key {shown(path)} cannot be read or made: {type(error).__name__}") from None

    @classmethod
    def of_user_if_there(cls, directory: Path | None = None) -> Signer | None:
        """The key of this user, or None if it was never made or cannot be read."""
        try:
            path = (directory or config_directory()) / "signing_key"
            return cls.of_user(directory) if path.exists() else None
        except (OSError, Unavailable):
            return None

    @property
    def public(self) -> str:
        """The public key, in hexadecimal."""
        return _keys(self.seed)[1]

    def sign(self, value: object) -> str:
        """The signature of a value's canonical JSON, in hexadecimal."""
        key, public = _keys(self.seed)
        message = DOMAIN + canonical(value).encode()
        signature: str = key.sign(message).hex()
        if len(_made) >= MADE:
            _made.clear()
        _made[message, public] = signature
        return signature

    def made(self, value: object, public: str, signature: str) -> bool:
        """True if the signature is this key's. One key makes one signature of a value, and faster than it checks it."""
        is_own = public == self.public and signature == self.sign(value)
        return is_own or verified(value, public, signature)


@lru_cache(maxsize=4)
def _keys(private: bytes) -> tuple[Any, str]:
    """The private key of these bytes, and its public key in hexadecimal: both take longer to make than a signature."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(private)
    return key, key.public_key().public_bytes_raw().hex()


MADE: Final = 64
_made: dict[tuple[bytes, str], str] = {}
"""Signatures that this process made itself a moment ago, by what was signed and the public key."""


def verified(value: object, public: str, signature: str) -> bool:
    """True if the signature is that key's signature of that value."""
    from cryptography.exceptions import InvalidSignature

    try:
        raw_key, raw_signature = bytes.fromhex(public), bytes.fromhex(signature)
        if (raw_key.hex(), raw_signature.hex()) != (public, signature):
            return False  # upper case and spaces are no part of the format
        message = DOMAIN + canonical(value).encode()
        made = _made.get((message, public))
        if made is None or made != signature:
            _public_key(public).verify(raw_signature, message)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


@lru_cache(maxsize=16)
def _public_key(public: str) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
