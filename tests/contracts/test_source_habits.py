"""Habits of the source that a reader relies on and a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def tracked_files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout, so there are no tracked files")
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def test_imports_go_down_only() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_every_room_has_a_floor_in_the_layer_contract() -> None:
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    layers = set(re.findall(r"[a-z]+", contract.split("layers = [")[1].split("]")[0]))
    rooms = {path.parent.name for path in (ROOT / "src" / "tallystick").glob("*/__init__.py")}
    assert rooms <= layers


def test_every_room_has_its_tests_in_a_folder_of_its_name() -> None:
    rooms = {path.parent.name for path in (ROOT / "src" / "tallystick").glob("*/__init__.py")}
    tested = {path.parent.name for path in (ROOT / "tests" / "unit").glob("*/test_*.py")}
    assert tested == rooms | {"errata"}


def test_errors_imports_only_words_and_numbers_for_people() -> None:
    text = (ROOT / "src" / "tallystick" / "errors.py").read_text(encoding="utf-8")
    assert "import tallystick" not in text
    assert set(re.findall(r"from tallystick\.?(\w*)", text)) == {"digits", "printing", "remedies", "wording"}


def test_no_tracked_file_names_a_folder_of_a_developers_machine_or_a_package_index() -> None:
    # Written in two pieces so that this file does not find itself.
    machine = re.compile(r"(^|[^\w.])/(" + "work|farm|root|home|Users" + r")/\w|(index" + r"-url|registry) *=")
    found = []
    for path in tracked_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}: {line.strip()[:120]}" for line in text.splitlines() if machine.search(line)
        ]
    assert not found


def test_no_file_is_a_drawer_for_odds_and_ends() -> None:
    assert not {path.stem for path in SOURCES} & {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


def test_source_never_imports_scipy_stats() -> None:
    # It takes a second to import, and every law it offers is one formula of scipy.special.
    pattern = re.compile(r"^\s*(import scipy\.stats|from scipy\.stats|from scipy import .*\bstats\b)", re.M)
    assert not [path.name for path in SOURCES if pattern.search(path.read_text(encoding="utf-8"))]


def test_source_never_evaluates_text() -> None:
    calls = {
        f"{path.name}:{node.lineno}"
        for path in SOURCES
        if (text := path.read_text(encoding="utf-8")) and (not text.isascii() or re.search(r"\b(eval|exec)\b", text))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec"}
    }
    assert not calls


def test_the_picture_of_the_rooms_is_the_layer_contract() -> None:
    contract = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("layers = [")[1].split("]")[0]
    floors = [set(re.findall(r"\w+", line)) for line in re.findall(r'"(.*)"', contract)]
    picture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("```")[1].splitlines()[1:]
    words_start = picture[0].index("listen")
    drawn = [set(re.findall(r"\w+", line[:words_start])) for line in picture]
    assert drawn == floors


def test_colours_are_named_in_one_file() -> None:
    colour = re.compile(r"#(?:[0-9a-fA-F]{8}|[0-9a-fA-F]{6}|[0-9a-fA-F]{3,4})\b|\b(?:rgba?|hsla?)\(")
    texts = {".py", ".j2", ".toml", ".sql", ".css", ".js", ".html"}
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix in texts]
    found = {path.name for path in files if colour.search(path.read_text(encoding="utf-8"))}
    assert found == {"drawing.py"}
