"""No module below ``cli/`` names an option or a command of the shell, and none reads the sentence of an error."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallystick
from tallystick.cli.app import _PLACES

ROOM = Path(tallystick.__file__).parent
COMMAND = re.compile(rf"\btallystick ({'|'.join(_PLACES)})\b|(?<![\w-])--[a-z]")
NEEDED = re.compile(r"--|\btallystick (?!import\b|as\b)")
"""A module without it has no text with a command, not even one in two pieces."""
STORED = {
    "ledger/pay.py": "how_to_verify is part of the stored form of a receipt",
    "cards/contents.py": "a card shows the command that verifies it",
    "cards/page.py": "a card shows the command that checks its certificate",
    "cards/summary.py": "a short card names the command that shows all of it",
}
"""Texts that are written into files, with the reason."""
PARSED = re.compile(r"str\((problem|error|failure|caught)\)\.(split|partition|startswith|removeprefix|replace)\(")
READ = re.compile(r"in (str\((problem|error)\)|(problem|error)\.(message|allowed))|\.(fits|allowed)\.startswith\(")
FOREIGN = {"adaptive/records.py": "NumPy has no class of its own for writing into a read-only array"}
"""Modules that read the sentence of another library, with the reason."""


def modules() -> list[Path]:
    return [path for path in sorted(ROOM.rglob("*.py")) if "cli" not in path.relative_to(ROOM).parts]


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The string literals of a module that are not documentation."""
    text = path.read_text(encoding="utf-8")
    if not NEEDED.search(text):
        return
    tree = ast.parse(text)
    documentation = set()
    for node in ast.walk(tree):
        for child in getattr(node, "body", ()) if isinstance(getattr(node, "body", None), list) else ():
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                documentation.add(child.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in documentation:
            yield node.lineno, node.value


def test_no_module_below_the_shell_names_an_option_or_a_command() -> None:
    found = []
    for path in modules():
        name = path.relative_to(ROOM).as_posix()
        if name in STORED:
            continue
        found += [f"{name}:{line}: {text}" for line, text in texts(path) if COMMAND.search(text)]
    assert found == []


@pytest.mark.parametrize("name", STORED)
def test_what_is_excepted_still_names_a_command(name: str) -> None:
    assert any(COMMAND.search(text) for _, text in texts(ROOM / name))


@pytest.mark.parametrize("text", ["Try: --out FILE", "run: tallystick ledger verify", "tallystick dataset add x"])
def test_the_search_finds_what_it_is_for(text: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"problem = {text!r}\n")
    assert [COMMAND.search(found) is not None for _, found in texts(module)] == [True]


@pytest.mark.parametrize("text", ["tallystick test seed ", "a name that tallystick defines", "a --- b"])
def test_the_search_passes_what_it_is_not_for(text: str) -> None:
    assert not COMMAND.search(text)


def test_no_module_reads_the_sentence_of_an_error() -> None:
    found = []
    for path in sorted(ROOM.rglob("*.py")):
        if path.relative_to(ROOM).as_posix() in FOREIGN:
            continue
        source = path.read_text(encoding="utf-8")
        found += [f"{path.name}: {match[0]}" for pattern in (PARSED, READ) for match in pattern.finditer(source)]
    assert found == []


def test_an_argument_of_an_error_is_not_an_option() -> None:
    option = re.compile(r'InvalidInput\(\s*f?"--')
    assert [path.name for path in modules() if option.search(path.read_text(encoding="utf-8"))] == []
