"""``tallystick demo reconstruct|differencing|linkage``: the attack works, with our noise it fails, and it is drawn."""

from __future__ import annotations

import copy
import functools
import socket
from pathlib import Path
from typing import Any

import pytest

from pace import Clock
from tallystick.cli.commands import differencing_story, linkage_story, reconstruct_story
from tallystick.cli.demo_data import make_ratings

ATTACKS = {module: functools.cache(module._tell) for module in (differencing_story, linkage_story, reconstruct_story)}


@pytest.fixture(autouse=True)
def attacked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attack runs once: these tests differ in how it is told."""
    for module, attack in ATTACKS.items():
        monkeypatch.setattr(module, "_tell", lambda attack=attack: copy.deepcopy(attack()))


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the demo used the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    return tmp_path


def told(run: Any, story: str, folder: Path) -> dict[str, Any]:
    clock = Clock()
    outcome = run("demo", story, "--out", str(folder), "--json")
    assert outcome.code == 0, outcome.errors
    assert clock.seconds < 10
    found: dict[str, Any] = outcome.document["found"]
    assert Path(found["picture"]) == folder / f"{story}.svg"
    assert Path(found["picture"]).stat().st_size > 5_000
    return found


def test_reconstruction_stops_at_the_frontier(run, offline) -> None:
    found = told(run, "reconstruct", offline)
    assert found["exact"]["blatant"]
    assert found["careless"]["blatant"]
    assert not found["private"]["blatant"]
    assert found["private"]["share"] < 0.75
    at = dict(zip(found["noises"], zip(*found["shares"].values(), strict=True), strict=True))
    assert min(at[0.1]) > 0.97  # far below sqrt(n) nearly everybody, whatever n
    assert max(at[1.0]) < 0.8
    assert max(at[5.0]) < 0.66
    assert max(at[0.5]) - min(at[0.5]) < 0.12  # several n, one curve


def test_differencing_stays_under_the_ceiling(run, offline) -> None:
    found = told(run, "differencing", offline)
    assert found["exact"]["rate"] == found["rounded"]["rate"] == 1.0
    for row in found["private"]:
        assert row["ceiling"] == pytest.approx(1 / (1 + 2.718281828459045 ** -row["epsilon"]), rel=1e-6)
        assert row["rate"] <= row["ceiling"] + 0.05  # six standard errors of 4,000 guesses


def test_linkage_finds_people_in_rows_and_nobody_in_counts(run, offline) -> None:
    found = told(run, "linkage", offline)["found"]
    assert found["names removed"]["3"] > 0.9
    assert set(found["made from noisy counts"].values()) == {0.0}


@pytest.mark.parametrize("story", ["reconstruct", "differencing", "linkage"])
def test_the_stories_are_told_in_words(run, offline, story: str) -> None:
    outcome = run("demo", story)
    assert outcome.code == 0, outcome.errors
    assert f"tallystick-demo/{story}.svg" in outcome.out
    (offline / "file").write_text("")
    assert run("demo", story, "--out", "file").code == 2


def test_without_matplotlib_a_story_has_no_picture(run, offline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    outcome = run("demo", "differencing", "--json")
    assert outcome.code == 0
    assert outcome.document["found"]["picture"] is None


def test_the_ratings_are_always_the_same() -> None:
    rows = make_ratings.ratings()
    assert rows == make_ratings.ratings()
    assert 0.2 < sum(row["film 10"] > 0 for row in rows) / len(rows) < 0.7
    people = make_ratings.public_list(rows, known=2)
    assert all(len(person) <= 5 for person in people)
