"""What is exported is what is documented; what is documented exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

import tallystick as ts
from tallystick.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
API = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")

WITHOUT_JSON = {"ledger export", "serve"}  # it writes JSON already; it runs until it is stopped
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def leaves(name: str) -> list[tuple[str, Any]]:
    """The command itself, or the commands of a group, with the group if it does something alone."""
    command = COMMANDS[name]
    inner = getattr(command, "commands", None)
    own = [(name, command)] if inner is None or command.invoke_without_command else []
    return own + [(f"{name} {verb}", part) for verb, part in (inner or {}).items()]


def section_of(name: str) -> str:
    return CLI.split(f"## tallystick {name}\n")[1].split("\n## ")[0]


def documented_names() -> list[str]:
    """The first column of every table of the page: `name` or `name(arguments)`."""
    return re.findall(r"^\| `([A-Za-z_]\w*)", API, re.M)


def test_exported_names_are_exactly_the_documented_names() -> None:
    assert sorted(documented_names()) == sorted(ts.__all__)


def test_every_exported_name_resolves_and_appears_in_dir() -> None:
    for name in ts.__all__:
        assert getattr(ts, name) is not None
        assert name in dir(ts)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = ts.no_such_name


def test_every_exported_callable_has_a_docstring() -> None:
    assert not [name for name in ts.__all__ if not name.startswith("__") and not getattr(ts, name).__doc__]


def test_the_version_is_the_one_in_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert ts.__version__ == project["version"]
    assert f"\nversion: {ts.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_documented_commands_are_exactly_the_commands() -> None:
    assert sorted(re.findall(r"^## tallystick (\w+)$", CLI, re.M)) == sorted(COMMANDS)


def test_every_command_of_a_group_has_a_row_and_every_row_is_a_command() -> None:
    for name, group in COMMANDS.items():
        rows = re.findall(rf"^\| `{name} ([a-z-]+)", section_of(name), re.M)
        assert sorted(rows) == sorted(getattr(group, "commands", {}))


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_of_a_command_is_documented_and_no_other(name: str) -> None:
    # --json is a manner of every command and is described once, at the top of the page.
    text = re.sub(r"```.*?```", "", section_of(name), flags=re.S)
    options = {option for _, command in leaves(name) for parameter in command.params for option in parameter.opts}
    documented = set(re.findall(r"--[a-z][a-z-]*", text))
    assert documented - {"--json"} == {option for option in options if option.startswith("--")} - {"--help", "--json"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_a_help_text_for_itself_and_its_options_and_takes_json(name: str) -> None:
    for path, command in leaves(name):
        assert command.help, path
        assert not [(path, part.name) for part in command.params if not getattr(part, "help", None)]
        if path not in WITHOUT_JSON:
            assert "--json" in {option for part in command.params for option in part.opts}, path


def test_every_guide_and_decision_is_listed_in_its_index() -> None:
    for folder in ("guides", "decisions"):
        index = (ROOT / "docs" / folder / "index.md").read_text(encoding="utf-8")
        pages = {path.name for path in (ROOT / "docs" / folder).glob("*.md")} - {"index.md"}
        assert {name for name in pages if f"({name})" not in index} == set()


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "tests" / "README.md"]:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in target and not target.startswith("mailto:") and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)} -> {target}")
    assert not broken
