"""What is exported is what is documented; what is documented exists."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import typer

import tallystick as ts
from tallystick.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
API = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


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


def test_documented_commands_are_exactly_the_commands() -> None:
    assert sorted(re.findall(r"^## tallystick (\w+)$", CLI, re.M)) == sorted(COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_option_of_a_command_is_documented_and_no_other(name: str) -> None:
    section = CLI.split(f"## tallystick {name}\n")[1].split("\n## ")[0]
    usage = " ".join(re.findall(r"^`tallystick .*`$", section, re.M))
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts if option.startswith("--")}
    assert set(re.findall(r"--[a-z-]+", usage)) == options - {"--help"}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_and_option_has_a_help_text(name: str) -> None:
    assert COMMANDS[name].help
    assert not [parameter.name for parameter in COMMANDS[name].params if not getattr(parameter, "help", None)]


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
