"""In a user namespace a process has any number it likes, and so any name: such a user has no role."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tallystick as ts
from contracts.other_users import acting_as
from tallystick.errors import NotAuthorised
from tallystick.ledger import users

WHOLE = ["         0          0 4294967295\n", "         0     100000      65536\n"]
"""A host, and a container that is a system of its own."""
CHOSEN = ["1001 1003 1\n", "0 1000 1\n1 100000 65536\n", "0 1000 1\n", "1000 1000 1\n", "1000 100000 65536\n", ""]


@pytest.mark.parametrize("text", [*WHOLE, *CHOSEN])
def test_a_namespace_of_an_ordinary_user_is_seen(tmp_path, monkeypatch, text):
    (tmp_path / "map").write_text(text)
    monkeypatch.setattr(users, "UID_MAP", tmp_path / "map")
    start = "system user " if text in WHOLE else "namespace user "
    assert users.user_of_system().startswith(start)


def test_a_system_without_namespaces_has_plain_names(tmp_path, monkeypatch):
    monkeypatch.setattr(users, "UID_MAP", tmp_path / "missing")
    assert users.user_of_system().startswith("system user ")


PROGRAM = "from tallystick.ledger.users import user_of_system; print(user_of_system())"


def test_a_process_in_a_namespace_does_not_pass_for_another_user():
    """As an analyst would do it in a shell."""
    command = ["unshare", "--user", "--map-user=1", sys.executable, "-c", PROGRAM]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except FileNotFoundError:
        pytest.skip("no unshare on this machine")
    if "unshare" in done.stderr:
        pytest.skip("this machine has no user namespaces for us")
    assert done.stdout.startswith("namespace user "), done


@pytest.fixture
def team(tmp_path):
    with ts.Ledger(tmp_path / "x.db", config=tmp_path) as ledger:
        ledger.open("clinic", budget=ts.zcdp(rho=1), unit="person")
        ledger.govern(why="a team")
        yield ledger


def inside(folder: Path, monkeypatch) -> ts.Ledger:
    (folder / "map").write_text(CHOSEN[0])
    monkeypatch.setattr(users, "UID_MAP", folder / "map")
    return ts.Ledger(folder / "x.db", config=folder)


def test_such_a_user_has_no_role(team, tmp_path, monkeypatch):
    team.team.begin(why="a team")
    head = team.head()
    with inside(tmp_path, monkeypatch) as same:
        account = same.open("clinic")
        for change in (
            lambda: account.pay(ts.zcdp(rho=0.1), why="a table"),
            lambda: same.team.grant("ann", "analyst", "clinic", why="a friend"),
            lambda: same.team.request(lambda book: book.open("clinic").raise_limit(ts.zcdp(rho=2), why="x"), why="x"),
        ):
            with pytest.raises(NotAuthorised, match="user namespace") as refused:
                change()
            assert refused.value.code == "chosen_name"
        assert same.verify().problems == ()
    assert team.head() == head


def test_such_a_user_begins_no_roles(team, tmp_path, monkeypatch):
    with inside(tmp_path, monkeypatch) as same:
        with pytest.raises(NotAuthorised, match="user namespace"):
            same.team.begin(why="a team")
        same.open("clinic").pay(ts.zcdp(rho=0.1), why="a ledger without roles has no names to protect")
    with acting_as("olga"), ts.Ledger(tmp_path / "x.db", config=tmp_path) as owner:
        owner.team.begin(why="a team")
        assert owner.verify().problems == ()
