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
from tallystick.cli.demo_data.make_visits import REGIONS, bundled, visits


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
    assert "Already published as report-t1 (ledger entry 4). Nothing was charged." in lines
    assert any(line.startswith("intact: ") for line in lines)
    assert "The card agrees with the ledger in every part that was checked." in lines
    assert "tallystick-demo/card.html" in lines  # plain, on a line of its own, not wrapped
    assert "file://" not in outcome.out
    assert [line.split()[0] for line in lines[-3:]] == ["tallystick"] * 3

    folder = offline / "tallystick-demo"
    facts = read_card(folder / "card.html")[0].facts
    assert facts["promise"]["limit"] == "rho 0.1"
    with (folder / "table.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 8


def steps_of(text: str) -> dict[str, list[str]]:
    """By command, all lines that the demo shows under it; a command that is shown twice has its last lines."""
    steps: dict[str, list[str]] = {}
    for block in text.split("\n$ tallystick ")[1:]:
        command, *lines = block.splitlines()
        after = [i for i, line in enumerate(lines) if line[:2] in {f"{n}." for n in range(9)} or "card[/bold]" in line]
        steps[command] = lines[: after[0]] if after else lines
    return steps


def test_a_step_of_the_demo_shows_what_its_command_prints_and_fits_one_screen(run, offline) -> None:
    """Steps were cut at their first empty line, and the plan of a table lost its cost and error."""
    steps = steps_of(run("demo").out)
    [plan] = [lines for words, lines in steps.items() if words.startswith("publish plan")]
    assert [line.split()[0] for line in plan if line[:1].isupper()][:4] == ["Plan:", "Cost", "Error", "Groups"]
    for command in ("publish run", "ledger verify"):
        [(words, shown)] = [(words, lines) for words, lines in steps.items() if words.startswith(command)]
        again = run(*shlex.split(words))
        assert (again.out + again.errors).rstrip().splitlines() == "\n".join(shown).rstrip().splitlines()
    assert all(sum(1 + len(line) // 80 for line in lines) <= 24 for lines in list(steps.values())[:-1])


def test_the_demo_shows_the_table_under_the_command_that_prints_it(run, offline) -> None:
    """With --out the command printed no table, and the demo showed one."""
    shown = run("demo").out
    first = shown[shown.index("$ tallystick publish run") :].splitlines()
    assert " --out " in first[0]
    assert first[1].startswith("region  sex  count_units_limited ±")
    assert [line.split()[0] for line in first[2:10]] == [name for name in REGIONS for _ in "fm"]


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


GUIDE_FILES = ["billing.csv", "flights.csv", "origins.csv", "regions.csv", "visits.csv"]


def test_files_writes_what_the_guides_use_and_runs_no_story(run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = run("demo", "files", "here")
    assert written.code == 0, written.errors
    assert sorted(line.split()[0] for line in written.out.splitlines()) == GUIDE_FILES
    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == GUIDE_FILES
    assert (tmp_path / "here" / "visits.csv").read_bytes() == bundled()
    assert run("demo", "files", "here").code == 0
    assert run("demo", "files").code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "tallystick-demo"]


def test_files_of_the_user_are_not_replaced(run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "regions.csv").write_text("my own")
    refused = run("demo", "files", ".")
    assert refused.code == 2
    assert "regions.csv" in refused.errors
    assert [path.name for path in tmp_path.iterdir()] == ["regions.csv"]
    assert (tmp_path / "regions.csv").read_text() == "my own"


def test_a_story_takes_no_folder(run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("demo", "curves", "here").code == 2
    assert not list(tmp_path.iterdir())


def test_no_page_imports_the_command_line() -> None:
    root = Path(__file__).parents[3]
    pages = [root / "README.md", *(root / "docs" / "guides").glob("*.md"), *(root / "docs" / "reference").glob("*.md")]
    imports = [page.name for page in pages if "from tallystick.cli" in page.read_text(encoding="utf-8")]
    assert imports == []
