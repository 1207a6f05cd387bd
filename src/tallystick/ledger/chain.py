"""Text in the record: bounded, printable, storable in every back end, written in one way, and chained by hashes.

    hash_n = SHA-256( "tallystick/entry/1" LF || hash_{n-1} || canonical JSON of entry n )

Every entry commits to all entries before it. A chain alone does not notice that the newest entries were cut off: an
anchor outside the ledger does.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import re
import stat
import threading
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallystick.errors import InvalidInput, LedgerIntegrity, Remedy, Unavailable
from tallystick.place import shown
from tallystick.printing import is_visible

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
        is_hidden = longest == NAME_LENGTH and not is_visible(character)
        if unicodedata.category(character) in unseen or character in TURNING or is_hidden:
            raise InvalidInput(argument, f"text with U+{ord(character):04X}", "text without control characters")
    if longest == NAME_LENGTH and (plain := unicodedata.normalize("NFKC", value)) != value:
        raise InvalidInput(argument, ascii(value), f"one spelling for one look (NFKC): {plain!a}")
    return value


def check_text(argument: str, text: object) -> None:
    """Raise unless this is a text that a store can hold. No error quotes it: it may be long, or hold a password.

    >>> check_text("name", "clinic")
    """
    if not isinstance(text, str):
        raise InvalidInput(argument, type(text).__name__, "a text")
    if text.encode(errors="replace").decode() != text:
        raise InvalidInput(argument, "a text that is not UTF-8", "a text of Unicode characters")


PLACEHOLDER: Final = "text"
"""The word that stands for a reason in help."""


def check_reason(why: object, argument: str = "why") -> str:
    """Return a reason that is words, and not what stands for one in a remedy that was pasted.

    >>> check_reason("report of June")
    'report of June'
    """
    reason = checked(argument, why, WHY_LENGTH)
    if reason.strip().casefold() == PLACEHOLDER or not any(character.isalnum() for character in reason):
        raise InvalidInput(argument, reason, "the reason in words of your own: the record keeps it for good")
    return reason


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
    return hashlib.sha256(_encoded(text)).hexdigest()


def _encoded(text: str) -> bytes:
    """Return a text in UTF-8. The error for a lone surrogate does not quote the text, which may hold a password."""
    with contextlib.suppress(UnicodeEncodeError):
        return text.encode()
    raise InvalidInput("text", "text with a lone surrogate", "valid Unicode")


class SourceId(str):
    """The digest under which the ledger knows a source.

    >>> SourceId.of("file /data/visits.csv") == digest("file /data/visits.csv")
    True
    """

    __slots__ = ()

    @classmethod
    def of(cls, source: str) -> SourceId:
        """The id of a source's name; an id stays as it is."""
        return source if isinstance(source, SourceId) else cls(digest(source))


def link(previous: str, body: str) -> str:
    """The hash of the entry whose canonical JSON is ``body`` and that follows ``previous``.

    >>> link(GENESIS, "{}") != link(link(GENESIS, "{}"), "{}")
    True
    """
    try:
        before = bytes.fromhex(previous)
    except ValueError:
        raise LedgerIntegrity("a hash cannot be read", remedies=[Remedy("verify_ledger")]) from None
    return hashlib.sha256(DOMAIN + before + body.encode()).hexdigest()


def fields_of(seq: int, body: str) -> dict[str, Any]:
    """Return the fields of an entry. Raise ``LedgerIntegrity`` for another text.

    >>> fields_of(2, '{"at":5,"kind":"close"}')
    {'at': 5, 'kind': 'close'}
    """
    fields: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        fields = json.loads(body)
    if not isinstance(fields, dict) or type(fields.get("kind")) is not str or type(fields.get("at")) is not int:
        raise LedgerIntegrity(f"entry {seq} cannot be read", remedies=[Remedy("verify_ledger")])
    return fields


# Answers in the record: canonical JSON with dtype, shape and values; never pickle.
#
# The same answer always becomes the same bytes, and the bytes always become the same answer.

LARGEST_ANSWER: Final = 64 * 1024 * 1024
DEEPEST: Final = 32
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ARRAY_KINDS: Final = "biufUM"
_LONGEST_INTEGER: Final = 10**4300
"""Python neither writes nor reads more decimal digits, so larger integers are stored in hexadecimal."""


def encode_answer(answer: Any) -> str:
    """The canonical text of an answer: None, bool, int, float, str, lists, string-keyed dicts, numpy arrays.

    >>> encode_answer([1, 2.5])
    '{"list":[{"int":1},{"float":2.5}]}'
    """
    text = canonical(_tagged(answer, 0))
    if len(text) > LARGEST_ANSWER:
        raise InvalidInput("answer", f"{len(text)} bytes", f"at most {LARGEST_ANSWER} bytes; store a digest instead")
    return text


def decode_answer(text: str) -> Any:
    """The answer of a canonical text.

    >>> decode_answer(encode_answer({"n": 3}))
    {'n': 3}
    """
    return _untagged(json.loads(text))


def _tagged(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise InvalidInput("answer", "nested values", f"at most {DEEPEST} levels")
    if value is None:
        return None
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value} if abs(value) < _LONGEST_INTEGER else {"hex": hex(value)}
    if isinstance(value, float):
        return {"float": _number(float(value))}
    if isinstance(value, str):
        return {"str": str(value)}
    if isinstance(value, list | tuple):
        return {"list" if isinstance(value, list) else "tuple": [_tagged(item, depth + 1) for item in value]}
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            raise InvalidInput("answer", "a dict with other keys", "a dict with string keys")
        return {"dict": {name: _tagged(item, depth + 1) for name, item in value.items()}}
    return _tagged_array(value)


def _tagged_array(value: Any) -> Any:
    import numpy as np

    if not isinstance(value, np.ndarray | np.generic):
        raise InvalidInput("answer", type(value).__name__, "numbers, text, lists, dicts or numpy arrays")
    array = np.asarray(value)
    if array.dtype.kind not in _ARRAY_KINDS or (array.dtype.itemsize > 8 and array.dtype.kind in "fiu"):
        raise InvalidInput("answer", f"dtype {array.dtype}", "booleans, integers, floats, text or dates")
    dtype = array.dtype.newbyteorder("=")
    plain = array.astype("int64") if array.dtype.kind == "M" else array
    values = [_number(item) if isinstance(item, float) else item for item in plain.ravel().tolist()]
    return {
        "array" if isinstance(value, np.ndarray) else "scalar": {
            "dtype": _dtype_name(dtype),
            "shape": list(array.shape),
            "values": values,
        }
    }


def _dtype_name(dtype: Any) -> str:
    name: str = dtype.name if dtype.kind in "biufM" else f"U{dtype.itemsize // 4}"
    return name


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _untagged(value: Any) -> Any:
    if value is None:
        return None
    ((tag, content),) = value.items()
    return _DECODERS[tag](content)


def _untagged_float(content: Any) -> float:
    return _NOT_FINITE[content] if isinstance(content, str) else float(content)


def _untagged_array(content: dict[str, Any]) -> Any:
    import numpy as np

    dtype = np.dtype(content["dtype"])
    if dtype.kind == "M":
        return np.array(content["values"], dtype="int64").astype(dtype).reshape(content["shape"])
    values = [_NOT_FINITE[v] for v in content["values"] if isinstance(v, str)] if dtype.kind == "f" else []
    if values:
        content = {**content, "values": [_untagged_float(v) for v in content["values"]]}
    return np.array(content["values"], dtype=dtype).reshape(content["shape"])


_DECODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": bool,
    "int": int,
    "hex": lambda content: int(content, 16),
    "str": str,
    "float": _untagged_float,
    "list": lambda content: [_untagged(item) for item in content],
    "tuple": lambda content: tuple(_untagged(item) for item in content),
    "dict": lambda content: {name: _untagged(item) for name, item in content.items()},
    "array": _untagged_array,
    "scalar": lambda content: _untagged_array(content)[()],
}


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
    """Folder of user state: ``$TALLYSTICK_CONFIG_DIR``, or tallystick under ``$XDG_CONFIG_HOME`` or ``~/.config``."""
    if chosen := os.environ.get("TALLYSTICK_CONFIG_DIR"):
        return Path(chosen)
    try:
        home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    except RuntimeError:  # neither HOME nor an entry of this user, as in some containers
        raise Unavailable(
            "This user has no home directory. Set TALLYSTICK_CONFIG_DIR to a directory that you can write and that is "
            "kept"
        ) from None
    return home / "tallystick"


def make_own_folder(folder: Path) -> None:
    """Make a folder that only this user can open, and each missing one above it: a umask may let others write there."""
    if not folder.is_dir():
        make_own_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def own_file(path: Path | str, flags: int) -> int:
    """Open a small file of ours, mode 0600. A link in its place is refused: it could lead to any file of the user."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _linked(path) from None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(descriptor)
        raise _linked(path)
    return descriptor


def _linked(path: Path | str) -> LedgerIntegrity:
    return LedgerIntegrity(f"{shown(path)} is a link, or not a plain file. Find out who made it, then remove it")


class AnchorFile:
    """The anchor of one ledger: the newest entry that this host has seen of it.

    ``require_writable`` is called before the first write of a process. A failure after that is silent, because the
    entry is already durable and the anchor stays valid.

    >>> import tempfile
    >>> witness = AnchorFile("0" * 32, Path(tempfile.mkdtemp()))
    >>> witness.write(Anchor(3, "ab" * 32)); witness.read().seq
    3
    """

    def __init__(self, ledger_id: str, directory: Path | None = None) -> None:
        self.path = (directory or config_directory()) / "anchors" / ledger_id
        self._name = str(self.path)  # every write reads it
        self._descriptor: int | None = None
        self._process = 0
        self._mutex = threading.Lock()
        self._seen: Anchor | None = None  # by this process, even if the file is removed later
        self._written: Anchor | None = None  # newest one that this process put on file, or found there

    def read(self) -> Anchor | None:
        """The newest anchor on file or seen by this process, or None without an anchor."""
        try:  # by its name: a file that was put in its place counts; and plainly, because every write reads it
            descriptor = os.open(self._name, os.O_RDONLY | os.O_CLOEXEC)
            try:
                written = os.read(descriptor, 128)
            finally:
                os.close(descriptor)
        except OSError:
            written = b""
        match = RECORD.match(written)
        if written and match is None:
            raise LedgerIntegrity(
                f"the anchor file {shown(self.path)} is damaged, so this host cannot tell which entries it has seen. "
                "Find out who changed it. Then remove it",
                remedies=[Remedy("accept_head")],
            )
        if match is not None:
            self._remember(Anchor(int(match[1]), match[2].decode()))
        return self._seen

    def _remember(self, anchor: Anchor) -> None:
        """Keep the newest anchor in memory, so that a file that is removed later is not forgotten."""
        with self._mutex:  # the kernel's lock does not hold between threads
            if self._seen is None or self._seen.seq < anchor.seq:
                self._seen = anchor

    def require_writable(self) -> None:
        """Raise ``Unavailable`` if this process cannot keep the anchor; called before anything is written."""
        try:
            with self._mutex:
                self._open()
        except OSError as error:
            raise Unavailable(
                f"The anchor file {shown(self.path)} cannot be written ({error.strerror}). Nothing was written to the "
                "ledger. Set TALLYSTICK_CONFIG_DIR to a directory that you can write and that is kept"
            ) from None

    def write(self, anchor: Anchor) -> None:
        """Move the anchor forward; a lower position never replaces a higher one."""
        if anchor == self._written:
            return
        self._remember(anchor)
        with contextlib.suppress(OSError), self._mutex:
            descriptor = self._open()
            number = os.pread(descriptor, 20, 0)
            if number.isdigit() and number >= b"%020d" % anchor.seq:
                self._written = anchor
                return  # the process that synced for us has been here
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                match = RECORD.match(os.pread(descriptor, 128, 0))
                if match is None or int(match[1]) <= anchor.seq:
                    os.pwrite(descriptor, b"%020d %s\n" % (anchor.seq, anchor.head.encode()), 0)
                self._written = anchor
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)

    def replace(self, anchor: Anchor) -> None:
        """Set the anchor to a position that may be lower: the owner has accepted that newer entries are lost."""
        with self._mutex:
            descriptor = self._open()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            try:
                os.pwrite(descriptor, b"%020d %s\n" % (anchor.seq, anchor.head.encode()), 0)
            finally:
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            self._seen = self._written = anchor

    def _open(self) -> int:
        if self._descriptor is None or self._process != os.getpid():
            make_own_folder(self.path.parent)
            self._descriptor = own_file(self.path, os.O_RDWR | os.O_CREAT)
            self._process = os.getpid()
        return self._descriptor

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None and self._process == os.getpid():
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = None
