"""Roles, requests, allowances and tokens in the shell, by several users of one machine."""

from __future__ import annotations

import json
import os
import shlex
import stat
from pathlib import Path

import pytest

import tallystick as ts
from contracts.other_users import MISTYPED, acting_as
from tallystick.cli.app import run
from tallystick.publish.datasets import is_own_note


class Shell:
    """A ledger with roles: olga owns it, bob and cat approve, ann is an analyst."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        lines = "".join(f"{unit},{unit % 50}\n" for unit in range(200))
        Path("visits.csv").write_text(f"patient,age\n{lines}")
        caps = "--max-groups 1 --max-rows-per-group 1 --bounds age=0:100"
        self.succeed(f"dataset add visits.csv --population clinic --unit patient --limit rho=1 {caps}")
        self.succeed("ledger govern --why team")
        self.succeed("ledger begin-roles --why team")
        for name, role in (("bob", "approver"), ("cat", "approver"), ("ann", "analyst")):
            self.succeed(f"ledger grant {name} {role} --population clinic --why team")

    def type(self, words: str, user: str = "olga") -> tuple[int, str]:
        with acting_as(user):
            code = run(shlex.split(words))
        said = self._capsys.readouterr()
        return code, said.out + said.err

    def succeed(self, words: str, user: str = "olga") -> str:
        code, text = self.type(words, user)
        assert code == 0, (words, text)
        return text

    def found(self, words: str, user: str = "olga") -> dict:
        return json.loads(self.succeed(f"{words} --json", user).splitlines()[0])["found"]

    def requested(self, words: str, user: str = "olga") -> int:
        found = self.found(f"{words} --request", user)
        assert found["may_approve"], found
        return found["request"]

    def head(self) -> object:
        with ts.Ledger("tallystick.db", create=False) as book:
            return book.head()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    return Shell(capsys)


REQUESTED = (
    "account raise clinic --budget zcdp(rho=2) --why x",
    "account close clinic --why x",
    "account open north --budget zcdp(rho=0.1) --parent clinic --why x",
    "dataset add visits.csv --name stays --population clinic --unit patient --why x",
    "dataset update visits --max-groups 2 --why x",
    "dataset retire visits --why x",
    "dataset remove visits --why x",
    "ledger erase 3 --why x",
    f"ledger add-key {'ab' * 32} --why x",
    "ledger grant dan approver --population clinic --why x",
    "ledger revoke bob approver --population clinic --why x",
    "ledger quorum clinic --needed money=1,people=0 --why x",
)


@pytest.mark.parametrize("words", REQUESTED)
def test_a_change_is_requested_and_carried_out_by_an_approval(shell: Shell, words: str) -> None:
    if words.startswith("ledger revoke"):
        shell.succeed("ledger break-glass eve --population clinic --why 'three approvers'")
    if words.startswith("ledger erase"):
        words = (
            f"ledger erase {shell.found('charge add gaussian(sigma=10) --account clinic --why x')['charge']} --why x"
        )
    number = shell.requested(words)
    assert f"    {number}" in shell.succeed("account requests --open")
    assert "It is carried out." in shell.succeed(f"account approve {number} --why agreed", "bob")
    assert shell.succeed("account requests --open") == "No requests wait.\n"
    assert "intact" in shell.succeed("ledger verify")


@pytest.mark.parametrize("words", REQUESTED)
def test_a_rehearsed_request_changes_nothing(shell: Shell, words: str) -> None:
    before = shell.head()
    code, text = shell.type(f"{words} --request --dry-run")
    if words.startswith(("ledger erase", "ledger grant dan")):
        assert code != 0  # nothing to erase, and a person who is not named yet
    else:
        assert code == 0, text
    assert shell.head() == before


@pytest.mark.parametrize("words", ["dataset update visits --max-groups 2", "dataset remove visits"])
def test_a_request_needs_a_reason_and_a_reason_a_request(shell: Shell, words: str) -> None:
    assert shell.type(f"{words} --request")[0] == 2
    assert shell.type(f"{words} --why x")[0] == 2


def test_a_new_population_cannot_be_requested_with_its_dataset(shell: Shell) -> None:
    Path("pupils.csv").write_text("patient\n1\n")
    words = "dataset add pupils.csv --population other --unit patient --limit rho=1"
    code, text = shell.type(f"{words} --request --why x")
    assert (code, "one change" in text) == (2, True)
    before = shell.head()
    code, text = shell.type(words)
    assert (code, "tallystick account open other" in text) == (4, True)
    assert shell.type(f"{words} --dry-run")[0] == 4
    assert shell.head() == before


def test_a_request_for_a_dataset_shows_what_would_change(shell: Shell) -> None:
    shell.requested("dataset update visits --max-groups 3 --bounds age=0:120 --why wider")
    text = shell.succeed("account requests")
    assert "changes  max_groups: 1 -> 3" in text
    assert "changes  bounds of age: 0 to 100 -> 0 to 120" in text


def test_own_requests_are_withdrawn_and_not_decided(shell: Shell) -> None:
    number = shell.found("account request clinic --budget zcdp(rho=2) --why x")["request"]
    code, text = shell.type(f"account approve {number} --why x")
    assert (code, "own request" in text) == (7, True)
    assert shell.type(f"account withdraw {number}", "bob")[0] == 7
    shell.succeed(f"account withdraw {number}")
    assert shell.type(f"account approve {number} --why x", "bob")[0] == 4


def test_an_analyst_pays_from_an_allowance_and_not_from_the_population(shell: Shell) -> None:
    assert shell.type("query visits --measures count --rho 0.01 --why look", "ann")[0] == 7
    shell.succeed("account allow clinic ann --budget zcdp(rho=0.02) --name ann-1 --why 'her share'")
    pay = "charge add zcdp(rho=0.01) --account ann-1 --why look"
    shell.succeed(pay, "ann")
    assert shell.type(pay, "bob")[0] == 7
    assert shell.type("charge add zcdp(rho=0.1) --account ann-1 --why look", "ann")[0] == 3


def test_an_analyst_asks_for_an_allowance(shell: Shell) -> None:
    words = "account allow clinic ann --budget zcdp(rho=0.02) --name ann-1 --why 'my share'"
    assert shell.type(words, "ann")[0] == 7
    number = shell.found(f"{words} --request", "ann")["request"]
    shell.succeed(f"account approve {number} --why agreed", "cat")
    assert "rho 0.02" in shell.succeed("account show ann-1")


def test_a_token_is_shown_once_or_written_to_a_file_of_its_owner(shell: Shell) -> None:
    secret = shell.found("token create")["token"]
    assert secret.startswith("tsk_")
    shell.succeed("token create --out token.txt --role approver --role analyst")
    status = os.stat("token.txt")
    assert stat.S_IMODE(status.st_mode) == 0o600
    kept = Path("token.txt").read_text().strip()
    shown = shell.succeed("token list") + shell.succeed("token list --json") + shell.succeed("ledger members --json")
    assert secret not in shown
    assert kept not in shown
    with ts.Ledger("tallystick.db", create=False) as book:
        assert book.with_token(kept).actor == book.with_token(secret).actor


def test_a_file_that_exists_gets_no_token_and_no_token_is_made(shell: Shell) -> None:
    Path("there.txt").write_text("mine")
    Path("link.txt").symlink_to("nowhere.txt")
    before = shell.head()
    for name in ("there.txt", "link.txt", "no/folder.txt"):
        assert shell.type(f"token create --out {name}")[0] == 2
    assert (shell.head(), Path("there.txt").read_text()) == (before, "mine")


def test_a_refused_token_leaves_no_file(shell: Shell) -> None:
    assert shell.type("token create --population clinic --role boss --out new.txt")[0] != 0
    assert not Path("new.txt").exists()


def test_a_rehearsed_token_writes_and_shows_nothing(shell: Shell) -> None:
    before = shell.head()
    text = shell.succeed("token create --out new.txt --dry-run") + shell.succeed("token create --dry-run --json")
    assert "tsk_" not in text
    assert not Path("new.txt").exists()
    assert shell.head() == before


def test_a_machine_has_tokens_of_its_owner(shell: Shell) -> None:
    shell.succeed("ledger grant machine:nightly runner --population clinic --why 'the nightly job'")
    shell.succeed("token create --for machine:nightly --role runner")
    assert "machine:nightly: runner on every population" in shell.succeed("token list")
    assert shell.type("token create --for machine:nightly --role runner", "bob")[0] == 7


@pytest.mark.parametrize("words", ["money=x", "money=-1", "money", "wine=1", "money=1000"])
def test_a_wrong_number_of_approvals_is_refused(shell: Shell, words: str) -> None:
    assert shell.type(f"ledger quorum clinic --needed {words} --why x")[0] in (2, 7)


def test_a_ledger_without_roles_lists_nobody_and_needs_nothing(shell: Shell) -> None:
    shell.succeed("account open alone --budget zcdp(rho=1) --ledger alone.db")
    assert "has no roles" in shell.succeed("ledger members --ledger alone.db")
    assert shell.succeed("account requests --ledger alone.db") == "No requests.\n"
    assert shell.succeed("token list --ledger alone.db") == "No tokens.\n"
    for words in ("account request alone --budget zcdp(rho=2) --why x", "ledger begin-roles --why x", "token create"):
        assert shell.type(f"{words} --ledger alone.db")[0] == 4


def test_the_name_of_a_user_who_left_is_erased(shell: Shell) -> None:
    named = [each["entry"] for each in shell.found("ledger members")["members"] if each["name"] == "ann"]
    shell.type(f"ledger erase {named[0]} --why asked --request")
    number = shell.found("account requests --open")["requests"][0]["request"]
    assert shell.type(f"account approve {number} --why x", "bob")[0] == 7  # she has not ended
    assert f"ledger erase {named[0]} " in shell.succeed("ledger end ann --why left")
    shell.succeed(f"account approve {number} --why x", "bob")
    shell.succeed("ledger purge")
    assert "(erased)  ended" in shell.succeed("ledger members")
    assert "intact" in shell.succeed("ledger verify")
    assert "system user ann" not in shell.succeed("ledger export --level answers")


def test_a_note_that_cannot_be_read_does_not_hide_the_other_requests(shell: Shell) -> None:
    note = '{"format": "tallystick/dataset/1", "table": 3}'
    with acting_as("olga"), ts.Ledger("tallystick.db", create=False) as book:
        assert is_own_note(note)
        book.team.request(lambda book: book.open("clinic").register("odd", source="a table", note=note), why="x")
    shell.requested("account close clinic --why over")
    text = shell.succeed("account requests")
    assert "cannot be read" in text
    assert "close account clinic" in text


def test_a_full_disk_gives_no_file_and_says_so(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("tallystick.cli.commands.token.os.fsync", fail)
        code, text = shell.type("token create --out new.txt")
    assert (code, "No space left" in text, "tsk_" in text) == (9, True, False)
    assert not Path("new.txt").exists()


def test_data_are_opened_again_while_an_analyst_keeps_a_charge_running(shell: Shell) -> None:
    shell.succeed("account allow clinic ann --budget zcdp(rho=0.5) --name study --why x")
    with acting_as("ann"), ts.Ledger("tallystick.db", create=False) as book:
        study, source = book.open("study"), f"file {Path('visits.csv').resolve()}"
        running = study.charge(ts.zcdp(rho=0.1), why="for a year", source=source, lease=365 * 86_400).begin()
        study.charge(ts.zcdp(rho=0.1), why="fails", source=source).begin().burn()
    code, text = shell.type("dataset clear visits --why x --end-running")
    assert code == 7, text
    code, text = shell.type("dataset clear visits --why x --request")
    assert code != 0
    assert "--end-running" in text
    number = shell.requested("dataset clear visits --why x --end-running")
    shell.succeed(f"account approve {number} --why agreed", "bob")
    shell.succeed("query visits --measures count_units --rho 0.01 --account study --why again", "ann")
    with ts.Ledger("tallystick.db", create=False) as book:
        assert book.charge_row(running.id)[0].state == "BURNED"


def test_a_quorum_that_cannot_be_reached_is_not_requested(shell: Shell) -> None:
    before = shell.head()
    for more in ("", " --request"):
        code, text = shell.type(f"ledger quorum clinic --needed money=2 --why x{more}")
        assert code == 2
        assert "2 approvals on clinic need 3 approvers, and it has 2 approvers" in text
    assert shell.head() == before
    shell.requested("ledger quorum clinic --needed money=1 --why x")


def test_a_number_without_a_request_names_the_open_requests(shell: Shell) -> None:
    code, text = shell.type("account approve 99 --why x", "bob")
    assert (code, text) == (2, "Error: there is no request 99.\n")
    number = shell.requested("account raise clinic --budget zcdp(rho=2) --why x")
    code, text = shell.type("account approve 99 --why x", "bob")
    assert code == 2
    assert f"one of the open requests: {number}" in text


def test_a_denied_analyst_learns_how_to_ask_for_more(shell: Shell) -> None:
    shell.succeed('account allow clinic ann --budget "zcdp(rho=0.1)" --name report --why x')
    code, text = shell.type("query visits --measures count_units --rho 0.2 --why x", "ann")
    assert code == 3
    [command] = [line for line in text.splitlines() if "account raise" in line]
    assert command.split("allowance", 1)[1].strip().endswith("--why REASON --request")
    assert "weakens the guarantee" not in text
    asked = command[command.index("account raise") :].replace("REASON", "x")
    assert shell.succeed(asked, "ann").startswith("Request ")
    code, text = shell.type("query visits --measures count_units --rho 2 --why x", "ann")
    assert code == 3
    assert "weakens the guarantee" in text  # the limit of the population would be raised, too


def test_an_allowance_is_shown_as_one(shell: Shell) -> None:
    shell.succeed('account allow clinic ann --budget "zcdp(rho=0.1)" --name report --why x')
    assert "report   allowance of ann, one budget" in shell.succeed("account show report")
    assert "part of  clinic: used rho 0 of rho 1" in shell.succeed("account show report")
    assert "allowance report: used rho 0 of rho 0.1" in shell.succeed("account show clinic")
    assert "Allowance report: used rho 0 of rho 0.1" in shell.succeed("budget clinic --details")
    assert "  report  allowance of patient" in shell.succeed("ledger show")


def test_an_approved_erasure_names_the_command_that_removes_the_texts_from_the_files(shell: Shell) -> None:
    shell.succeed("query visits --measures count_units --rho 0.01 --why 'for Mrs Miller'")
    charge = shell.found("charge list")["charges"][0]["charge"]
    asked = shell.succeed(f"ledger erase {charge} --why x --request")
    assert f"erase the texts of ledger entry {charge}. Nothing is changed yet." in asked
    number = int(asked.split()[1].rstrip(":"))
    approved = shell.succeed(f"account approve {number} --why ok", "bob")
    assert "The files still hold them until you run: tallystick ledger purge" in approved
    shell.succeed("ledger purge")
    assert "Miller" not in shell.succeed("charge list")
    other = shell.requested("account raise clinic --budget zcdp(rho=2) --why x")
    assert "purge" not in shell.succeed(f"account approve {other} --why ok", "bob")


def test_a_role_for_a_name_that_no_user_has_is_given_with_a_warning(shell: Shell) -> None:
    assert "does not have a user" not in shell.succeed("ledger grant dan analyst --population clinic --why x")
    warned = shell.succeed(f"ledger grant {MISTYPED} analyst --population clinic --why x")
    assert f"This machine does not have a user {MISTYPED}. If the name is wrong: " in warned
    undo = warned.split("wrong: tallystick ")[1].replace("REASON", "x")
    shell.succeed(undo.strip())
    assert f"{MISTYPED}  ended" in shell.succeed("ledger members")


def test_the_list_of_keys_says_why_each_was_added(shell: Shell) -> None:
    number = shell.requested(f"ledger add-key {'ab' * 32} --why 'a key for the [b]report'")
    shell.succeed(f"account approve {number} --why ok", "bob")
    first, second = shell.succeed("ledger keys").splitlines()
    assert first.endswith("may write: team")
    assert second.startswith("ab" * 32)
    assert second.endswith("may write: a key for the [b]report")
    assert [each["why"] for each in shell.found("ledger keys")["keys"]] == ["team", "a key for the [b]report"]
