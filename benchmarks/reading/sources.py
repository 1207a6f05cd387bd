"""The source files of one git revision, formatted alike, and the functions inside them."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path("src/tallystick")
COLUMNS = 100
FORMATTER_SWITCH = re.compile(r"[ \t]*# fmt: (skip|on|off)[ \t]*$", re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Source:
    """One formatted file: its module path below the package, its text and its syntax tree."""

    path: str
    text: str
    tree: ast.Module


@dataclass(frozen=True)
class Named:
    """One function with its qualified name, as Python's ``co_qualname`` spells it."""

    path: str
    name: str
    node: Function


def commit_of(revision: str) -> str:
    """Return the full hash of a revision."""
    command = ["git", "rev-parse", f"{revision}^{{commit}}"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def unpacked(revision: str, *paths: str) -> Iterator[Path]:
    """Give a temporary folder that holds these paths of a revision; all paths if none is named."""
    command = ["git", "archive", "--format=tar", revision, *paths]
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tempfile.TemporaryDirectory(prefix="tallystick-reading-") as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        yield Path(folder)


@contextlib.contextmanager
def formatted(revision: str) -> Iterator[Path]:
    """Give a folder with the package of a revision, formatted with ``COLUMNS`` columns.

    Switches such as ``# fmt: skip`` are removed first, so that all lines follow one rule.
    """
    with unpacked(revision, PACKAGE.as_posix()) as folder:
        package = folder / PACKAGE
        for path in package.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            path.write_text(FORMATTER_SWITCH.sub("", text), encoding="utf-8")
        run_ruff("format", "--quiet", "--line-length", str(COLUMNS), str(package))
        yield package


def run_ruff(command: str, *options: str) -> str:
    """Run ruff without any configuration file and return what it prints."""
    words = [sys.executable, "-m", "ruff", command, "--isolated", "--no-cache", "--target-version", "py311", *options]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: a check found something
        raise RuntimeError(done.stderr)
    return done.stdout


def read(package: Path) -> list[Source]:
    """Read all Python files of a package."""
    sources = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        sources.append(Source(path.relative_to(package).as_posix(), text, ast.parse(text)))
    return sources


def functions(source: Source) -> list[Named]:
    """Return every function of a file, also methods and nested functions."""
    return list(_functions_inside(source.tree, source.path, ""))


def _functions_inside(node: ast.AST, path: str, prefix: str) -> Iterator[Named]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield Named(path, prefix + child.name, child)
            yield from _functions_inside(child, path, f"{prefix}{child.name}.<locals>.")
        elif isinstance(child, ast.ClassDef):
            yield from _functions_inside(child, path, f"{prefix}{child.name}.")
        else:
            yield from _functions_inside(child, path, prefix)
