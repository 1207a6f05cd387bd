"""The reference page of mechanisms lists exactly the verbs there are, with parameters they have."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from tallystick.mechanisms import aggregate, keys, noise, response, select

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "mechanisms.md").read_text(encoding="utf-8")
ROOMS = {"noise": noise, "select": select, "keys": keys, "response": response, "aggregate": aggregate}


def section(name: str) -> str:
    return PAGE.split(f"## ts.{name}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("name", ROOMS)
def test_every_verb_is_listed_and_no_other(name: str) -> None:
    listed = re.findall(r"^\| `(\w+)\(", section(name), re.M)
    assert sorted(listed) == sorted(ROOMS[name].__all__)


@pytest.mark.parametrize("name", ROOMS)
def test_listed_parameters_exist_and_required_ones_are_listed(name: str) -> None:
    for verb, arguments, marks in re.findall(r"^\| `(\w+)\((.*?)\)`(.*?)\|", section(name), re.M):
        parameters = inspect.signature(getattr(ROOMS[name], verb)).parameters
        plain = re.sub(r'"\w*"|None|False|True|\bor\b', "", arguments)
        mentioned = set(re.findall(r"\b([a-z_][a-z_0-9]*)(?==|\b)", plain))
        assert mentioned <= set(parameters), verb
        needed = {p.name for p in parameters.values() if p.default is inspect.Parameter.empty}
        assert needed <= mentioned, verb
        assert ("*adj*" in marks) == ("adjacency" in parameters), verb
