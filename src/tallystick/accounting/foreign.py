"""Records of other libraries as losses: dp_accounting events and Opacus histories, from plain JSON only.

A pickle can run code when it is read, so it is refused before it is opened as anything; the guide
``docs/guides/check-another-accountant.md`` has the three lines that export a record safely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallystick import strict_json
from tallystick.accounting import check, losses
from tallystick.accounting.dp_events import from_dp_accounting
from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import InvalidInput

BINARY_NAMES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".joblib", ".npy", ".npz")
SOURCES = ("dp-accounting", "opacus")
SAFE = "JSON; export with json.dump (docs/guides/check-another-accountant.md), never with pickle or torch.save"


def read_record(source: str, name: str, content: bytes, *, adjacency: Any = "add_remove") -> PrivacyLoss:
    """The loss in a file of another library; ``source`` is ``dp-accounting`` or ``opacus``.

    Neither file says who is protected: ``adjacency`` does. What Opacus records is about adding or removing an example.

    >>> print(read_record("opacus", "run.json", b'{"history": [[1.0, 0.01, 1000]]}'))
    1000 * gaussian(sigma=1).sampled(rate=0.01)
    >>> read_record("opacus", "run.pkl", b"")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: file = 'run.pkl' is not allowed; give JSON; export with json.dump ...
    """
    if not isinstance(source, str) or source not in SOURCES:
        raise InvalidInput("source", source, "one of " + ", ".join(SOURCES))
    if not isinstance(name, str) or not isinstance(content, bytes):
        raise InvalidInput("file", name, "the name of a file and its bytes")
    # Pickles of protocol 2 and later start with 0x80, torch.save writes a zip archive.
    if name.lower().endswith(BINARY_NAMES) or content[:1] == b"\x80" or content[:2] == b"PK":
        raise InvalidInput("file", name, SAFE)
    document = strict_json.read(content, name="file", allowed=SAFE)
    if source == "dp-accounting":
        return from_dp_accounting(document, adjacency=adjacency)
    if adjacency != "add_remove":
        raise InvalidInput("adjacency", adjacency, "add_remove: that is what Opacus records")
    return from_opacus(document)


def from_opacus(document: Any) -> PrivacyLoss:
    """A history ``[[noise_multiplier, sample_rate, steps], ...]``, or the dictionary of ``state_dict()`` with one.

    >>> print(from_opacus([[1.1, 1, 5]]))
    5 * gaussian(sigma=1.1)
    """
    history = document.get("history") if isinstance(document, Mapping) else document
    if not isinstance(history, list) or not history:
        raise InvalidInput("history", history, "a list of [noise_multiplier, sample_rate, steps] with an entry")
    total = losses.no_loss()
    for row in history:
        if not isinstance(row, list) or len(row) != 3:
            raise InvalidInput("history", row, "entries [noise_multiplier, sample_rate, steps]")
        sigma = check.positive("noise_multiplier", row[0], "a finite number > 0 (0 gives no privacy at all)")
        total = total + check.count("steps", row[2], least=0) * losses.gaussian(sigma=sigma).sampled(
            rate=check.probability("sample_rate", row[1])
        )
    return total
