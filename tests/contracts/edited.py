"""A copy of the source to which a test adds something, and the count of what it had to edit for that."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tallystick"


@dataclass(frozen=True)
class Copy:
    """The package in another place, to be edited and used there."""

    root: Path

    @classmethod
    def into(cls, folder: Path) -> Copy:
        """The whole package, with its compiled files: they are valid for a file that is not edited, by its time."""
        root = folder / "src" / "tallystick"
        shutil.copytree(SOURCE, root)
        return cls(root)

    def new(self, path: str, text: str) -> None:
        """A file of its own."""
        (self.root / path).write_text(text, encoding="utf-8")

    def add_line(self, path: str, line: str, *, after: str) -> None:
        """One line after the first that starts so."""
        lines = (self.root / path).read_text(encoding="utf-8").splitlines()
        place = next(i for i, text in enumerate(lines) if text.startswith(after))
        told = [*lines[: place + 1], line, *lines[place + 1 :], ""]
        (self.root / path).write_text("\n".join(told), encoding="utf-8")

    def run(self, code: str) -> str:
        """What the code prints in a process of its own that uses this copy."""
        environment = {**os.environ, "PYTHONPATH": str(self.root.parent)}
        command = [sys.executable, "-c", code]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=self.root.parent, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def edited(self) -> list[str]:
        """Files that were there before and differ."""
        return [name for name in self._files() if (SOURCE / name).exists() and not self._same(name)]

    def added(self) -> list[str]:
        """Files that were not there before."""
        return [name for name in self._files() if not (SOURCE / name).exists()]

    def _files(self) -> list[str]:
        return [str(path.relative_to(self.root)) for path in self.root.rglob("*.py")]

    def _same(self, name: str) -> bool:
        return (SOURCE / name).read_bytes() == (self.root / name).read_bytes()
