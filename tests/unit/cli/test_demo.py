"""Journey 1: the demo publishes a table, is denied a second one, verifies the record and writes a card, offline."""

from __future__ import annotations

import csv
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest

from pace import Clock
from tallystick.cards import read_card
from tallystick.cli.demo_data.make_visits import bundled, visits


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the demo used the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tmp_path


def test_journey_one(run, offline) -> None:
    clock = Clock()
    outcome = run("demo")
    assert outcome.code == 0, outcome.errors
    assert clock.seconds < 10
    lines = outcome.out.splitlines()
    assert "Denied: the budget of patients-2026 is too small. Nothing was charged and no data was read." in lines
    assert any("same key, same bytes" in line for line in lines)
    assert any(line.startswith("intact: ") for line in lines)
    assert "The card agrees with the ledger in every part that was checked." in lines
    assert "tallystick-demo/card.html" in lines  # plain, on a line of its own, not wrapped
    assert "file://" not in outcome.out
    assert [line.split()[0] for line in lines[-3:]] == ["tallystick"] * 3

    folder = offline / "tallystick-demo"
    facts = read_card(folder / "card.html")[0].facts
    assert facts["promise"]["limit"] == "rho 0.1000"
    with (folder / "table.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 8


def table_of(lines: list[str]) -> list[str]:
    """The lines of a printed table, up to the sentence about its caps."""
    return lines[: next(i for i, line in enumerate(lines) if line.startswith("Capped: "))]


def test_a_command_that_the_demo_shows_prints_the_table_that_the_demo_shows(run, offline) -> None:
    shown = run("demo").out.splitlines()
    places = [i for i, line in enumerate(shown) if line.startswith("$ tallystick publish run")]
    assert len(places) == 2
    tables = []
    for place in places:
        words = shlex.split(shown[place])[2:]
        own = table_of(run(*words).out.splitlines())
        assert own == table_of(shown[place + 1 :])
        tables.append(own)
    assert len(tables[0]) == 9  # eight groups and their names


def test_the_commands_it_proposes_work(run, offline) -> None:
    following = run("demo", "--json").document["found"]["next"]
    for command in following[:2]:
        assert run(*command.split()[1:]).code == 0


def test_the_demo_can_be_repeated_and_says_the_same_in_json(run, offline) -> None:
    first = run("demo", "--out", "a folder", "--json").document["found"]
    second = run("demo", "--out", "a folder", "--json").document["found"]
    assert [step["exit_code"] for step in second["steps"]] == [0, 0, 0, 0, 3, 0, 0]
    assert second["card"] == "a folder/card.html"
    heads = [found["steps"][2]["said"]["found"]["head"] for found in (first, second)]
    assert heads[0] != heads[1]


def test_a_demo_never_touches_a_ledger_that_is_not_its_own(run, offline) -> None:
    run("account", "open", "clinic", "--budget", "zcdp(rho=1)")
    before = (offline / "tallystick.db").read_bytes()
    assert run("demo", "--out", ".").code == 0
    assert (offline / "tallystick.db").read_bytes() == before


def test_a_folder_that_cannot_be_made_is_named(run, offline) -> None:
    (offline / "file").write_text("")
    assert run("demo", "--out", "file").code == 2


def test_the_bundled_data_is_what_the_committed_script_makes() -> None:
    assert bundled() == visits().encode()
    assert len({line.split(",")[0] for line in visits().splitlines()[1:]}) == 10_000
