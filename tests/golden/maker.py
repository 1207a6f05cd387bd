"""The maker of one golden ledger, and what every part of it uses."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tallystick as ts
from golden.asked import DELTA
from tallystick.cli import main as command_line


@dataclass
class Maker:
    """One ledger in the making, and what is expected of it."""

    ledger: str
    folder: Path
    expected: dict[str, Any] = field(default_factory=dict)

    def book(self, *, ago: float = 0.0, principal: str = "local") -> ts.Ledger:
        """The ledger, by a clock that is behind by some seconds."""
        opened = ts.Ledger(self.ledger, clock=lambda: time.time() - ago)
        return opened if principal == "local" else opened.acting_for(principal)

    def tool(self, *words: str) -> dict[str, Any]:
        """What a command says; a command that fails stops the maker."""
        said, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            code = command_line([*words, "--ledger", self.ledger, "--json"])
        if code != 0:
            raise SystemExit(f"{words} ended with {code}: {complained.getvalue()}{said.getvalue()}")
        document: dict[str, Any] = json.loads(said.getvalue())
        return document["found"]

    def file(self, *names: str) -> Path:
        """A path beside the ledger; its folder is made."""
        path = self.folder.joinpath(*names)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def keep(self, name: str, receipt: Any) -> None:
        """Write a receipt beside the ledger."""
        self.file("receipts", f"{name}.json").write_text(receipt.to_json())

    def note(self, kind: str, name: str, facts: Any) -> None:
        """Remember what a test must find."""
        self.expected.setdefault(kind, {})[name] = facts


def given(currency: str) -> dict[str, float]:
    """The delta of a charge, where the account needs one."""
    return {"delta": DELTA} if currency.startswith("approx") else {}


def commit(account: Any, loss: ts.PrivacyLoss, key: str, *, answer: Any, why: str = "golden") -> Any:
    """A committed charge under a key of the account."""
    options = given(account.currency.kind)
    with account.charge(loss, why=why, key=f"{account.name}/{key}", **options) as charge:
        charge.answer = answer
    return charge.receipt


def plain(value: Any) -> Any:
    """An answer as JSON data; exact, because floats keep their digits."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def pack(path: Path, content: bytes) -> None:
    """Write a file that is compressed, the same bytes for the same content."""
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(content)
