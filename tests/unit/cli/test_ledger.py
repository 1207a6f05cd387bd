"""The ledger's commands, as a person and as a script see them."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import stat

import pytest

import tallystick as ts
from tallystick.cli.app import run


@pytest.fixture
def cli(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)

    def call(*words, code=0):
        found = run([*words])
        said = capsys.readouterr()
        assert found == code, said.err
        return json.loads(said.out) if "--json" in words else said.out + said.err

    return call


@pytest.fixture
def used(cli, tmp_path):
    cli("ledger", "init")
    cli("account", "open", "clinic", "--budget", "zcdp(rho=0.5, delta=1e-6)", "--unit", "patient")
    with ts.Ledger(tmp_path / "tallystick.db") as ledger:
        account = ledger.open("clinic")
        with account.charge(ts.gaussian(sigma=4), why="training", key="run-17") as charge:
            charge.answer = 1
        account.reserve(ts.gaussian(sigma=10), why="maybe")
        (tmp_path / "receipt.json").write_text(charge.receipt.to_json())
    return cli


def test_a_ledger_is_made_once(cli):
    first = cli("ledger", "init", "--json")["found"]
    assert cli("ledger", "init", "--json")["found"] == first
    assert first["entries"] == 1


def test_a_command_without_a_ledger_says_how_to_make_one(cli):
    assert "ledger init" in cli("ledger", "show", code=2)


def test_the_environment_names_the_ledger(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("TALLYSTICK_LEDGER", str(tmp_path / "team.db"))
    cli("ledger", "init")
    assert (tmp_path / "team.db").exists()
    assert cli("ledger", "show", "--ledger", str(tmp_path / "team.db"), "--json")["found"]["accounts"] == []


def test_an_account_is_opened_shown_and_closed(used):
    facts = used("account", "show", "clinic", "--json")["found"]
    assert facts["filter"] == "zcdp"
    assert facts["limit"]["a0"] == 500_000_000_000
    assert "limit    never more than rho 0.5" in used("account", "show", "clinic")
    assert used("account", "close", "clinic", "--why", "done", "--dry-run", "--json")["found"]["closed"] is False
    assert used("account", "close", "clinic", "--why", "done", "--json")["found"]["closed"] is True
    assert "Refused: " in used("account", "close", "clinic", "--why", "done", code=4)


def test_a_dry_run_refuses_a_budget_for_another_unit(cli):
    budget = "zcdp(rho=0.5, unit='visit')"
    found = cli("account", "open", "clinic", "--budget", budget, "--unit", "patient", "--dry-run", code=4)
    assert "budget protects one 'visit'" in found


def test_a_dry_run_opens_nothing(cli, tmp_path):
    cli("account", "open", "clinic", "--budget", "zcdp(rho=0.5)", "--dry-run")
    assert not (tmp_path / "tallystick.db").exists()
    assert "several blocks" in cli(
        "account", "open", "w", "--budget", "zcdp(rho=1)", "--parent", "clinic", "--partition", "w", "--dry-run", code=4
    )


def test_a_block_is_opened_with_its_partition_and_milestones(used):
    words = "account open east --budget zcdp(rho=0.4,delta=1e-6) --parent clinic --partition ward --one-block-per-unit"
    facts = used(*words.split(), "--milestone", "0.1", "--json")["found"]
    assert facts["parent"] == "clinic"
    assert "part of  clinic: used" in used("account", "show", "east")
    assert used("account", "show", "clinic", "--json")["found"]["blocks"] == ["east"]


def test_a_limit_is_raised_with_a_reason(used):
    raised = used("account", "raise", "clinic", "--budget", "zcdp(rho=0.7,delta=1e-6)", "--why", "consent", "--json")
    assert raised["found"]["limit"]["rho"] == 0.7
    assert "Would raise" in used(
        "account", "raise", "clinic", "--budget", "zcdp(rho=0.9,delta=1e-6)", "--why", "x", "--dry-run"
    )


def test_charges_are_listed_with_their_states(used):
    charges = used("charge", "list", "--json")["found"]["charges"]
    assert [charge["state"] for charge in charges] == ["COMMITTED", "RESERVED"]
    assert "training" in used("charge", "list", "clinic")
    number = str(charges[0]["charge"])
    shown = used("charge", "show", number, "--json")["found"]
    assert shown["lines"] == [{"account": "clinic", "a0": 31_250_000_000, "a1": 0}]
    assert "receipt" in shown
    assert "COMMITTED" in used("charge", "show", number)
    assert "Error: " in used("charge", "show", "999", code=2)


def test_no_charges_yet_is_said(cli):
    cli("account", "open", "clinic", "--budget", "gdp(mu=1)")
    assert "no charges yet" in cli("charge", "list")
    assert "No charges yet." in cli("budget")


def test_the_budget_fits_one_screen(used):
    text = used("budget")
    assert "clinic: one budget for each patient" in text
    assert re.search(r"limit +rho 0.5, delta 1e-6 +epsilon 5.23", text)
    assert "34 more counts with an error of ±12 patients, or" in text
    assert "reserved" in text  # a state is shown if it is not the usual one
    assert "committed" not in text
    assert text.count("\n") < 24
    found = used("budget", "clinic", "--json")["found"]
    assert [event["state"] for event in found["history"]] == ["COMMITTED", "RESERVED"]
    assert {fit["error"]: fit["counts"] for fit in found["fits"]}[12] == 34


def test_a_budget_among_several_accounts_must_be_named(used):
    used("account", "open", "other", "--budget", "renyi_dp({16: 0.4})")
    assert "clinic, other" in used("budget", code=2)
    assert "RDP filter at order 16" in used("budget", "other", "--details")
    assert "filter" not in used("budget", "other")


def test_verify_checks_the_record_and_a_receipt(used, tmp_path):
    assert used("ledger", "verify", "--receipt", "receipt.json", "--json")["found"]["receipts"] == 1
    assert "intact" in used("ledger", "verify")
    assert "1 receipt agrees" in used("ledger", "verify", "--receipt", "receipt.json")
    used("ledger", "verify", "--receipt", "missing.json", code=2)
    (tmp_path / "picture.png").write_bytes(bytes(range(256)))
    assert "a receipt, which is a text file" in used("ledger", "verify", "--receipt", "picture.png", code=2)
    forged = json.loads((tmp_path / "receipt.json").read_text())
    forged["lines"][0][3] = 1
    (tmp_path / "forged.json").write_text(json.dumps(forged))
    assert "does not say what the ledger says" in used("ledger", "verify", "--receipt", "forged.json", code=6)


def test_an_altered_ledger_exits_with_six(used, tmp_path):
    with sqlite3.connect(tmp_path / "tallystick.db") as connection:
        connection.execute("UPDATE account SET used0 = own0 + 1")
    outcome = used("ledger", "verify", "--json", code=6)
    assert outcome["error"]["exit_code"] == 6


def test_an_export_is_imported_elsewhere_with_the_same_head(used, tmp_path):
    used("ledger", "export", "--out", "export.jsonl")
    head = used("ledger", "show", "--json")["found"]["head"]
    moved = used("ledger", "import", "export.jsonl", "--ledger", "moved.db", "--json")["found"]
    assert moved["head"] == head
    assert used("ledger", "export").count("\n") == (tmp_path / "export.jsonl").read_text().count("\n")
    used("ledger", "import", "nothing.jsonl", "--ledger", "x.db", code=2)
    used("ledger", "export", "--out", "no/folder/x", code=2)
    assert "accounts" in used("ledger", "show", "--json")["found"]
    assert "clinic" in used("ledger", "show")


def test_a_denial_reads_as_promised(used, tmp_path, capsys):
    from tallystick.cli import failure

    with ts.Ledger(tmp_path / "tallystick.db") as ledger, pytest.raises(ts.errors.BudgetExceeded) as caught:
        ledger.open("clinic").reserve(ts.gaussian(sigma=0.8), why="x")
    assert failure.from_error(caught.value).report(as_json=False) == 3
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Denied: the budget of clinic is too small. Nothing was charged and no data was read."
    assert lines[1:4] == ["", "  needed   rho 0.78125", "  left     rho 0.46375 of 0.5, delta 1e-6 of 1e-6"]
    assert lines[4:6] == ["", "Any one of these works:"]
    assert lines[6] == '  more noise     "gaussian(sigma=1.04)"   error ±2.04 patients at sensitivity 1'


def test_rows_of_a_block_without_a_partition_are_refused(used):
    words = ["account", "open", "w", "--budget", "zcdp(rho=0.1)", "--parent", "clinic", "--where", "island=Torgersen"]
    assert "--partition" in used(*words, code=2)


def test_another_host_types_what_the_refusal_says(used, monkeypatch, tmp_path):
    head = used("ledger", "head").strip()
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path / "other host"))
    assert used("ledger", "head", "--json")["found"]["seen"] is False
    assert used("budget", "clinic", "--json")["found"]  # reading works
    add = ("charge", "add", "gaussian(sigma=10)", "--why", "again")
    assert "tallystick ledger accept --expect-head HASH" in used(*add, code=4)
    assert "64 digits" in used("ledger", "accept", "--expect-head", head[:16], code=2)
    for dry in ([], ["--dry-run"]):
        used("ledger", "accept", "--expect-head", "0" * 64, *dry, code=6)
    used("ledger", "accept", "--expect-head", head, "--dry-run")
    used("ledger", "accept", "--first-use", "--why", "lost", "--dry-run")
    used(*add, code=4)
    assert used("ledger", "accept", "--expect-head", head, "--json")["found"]["seen"] is True
    used(*add)


def test_every_command_refuses_an_exchanged_ledger_and_verify_reports_it(used, tmp_path):
    used("account", "open", "own", "--budget", "zcdp(rho=9)", "--ledger", "own.db")
    for path in tmp_path.glob("tallystick.db*"):
        path.unlink()
    (tmp_path / "own.db").rename(tmp_path / "tallystick.db")
    commands = [
        ("ledger", "head"),
        ("ledger", "show"),
        ("ledger", "export"),
        ("ledger", "init"),
        ("ledger", "verify"),
        ("budget", "own"),
        ("dataset", "list"),
        ("charge", "add", "gaussian(sigma=10)", "--why", "x", "--account", "own"),
    ]
    for command in commands:
        said = used(*command, code=6)
        assert "this host knows ledger" in said, command
        assert "tallystick ledger accept --first-use" in said, command
    used("ledger", "accept", "--first-use", "--why", "the first was a trial", "--dry-run")
    used("ledger", "accept", "--first-use", "--why", "the first was a trial")
    used("ledger", "head")


def test_an_owner_without_a_head_says_why(used, monkeypatch, tmp_path):
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path / "other host"))
    used("ledger", "accept", code=2)
    used("ledger", "accept", "--first-use", code=2)
    used("ledger", "accept", "--why", "text", code=2)
    used("ledger", "accept", "--first-use", "--why", "the old host is gone")
    used("charge", "add", "gaussian(sigma=10)", "--why", "again")
    assert "intact" in used("ledger", "verify")


def test_an_import_on_another_host_says_what_its_first_write_needs(used, monkeypatch, tmp_path):
    head = used("ledger", "head").strip()
    used("ledger", "export", "--out", "export.jsonl")
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path / "other host"))
    assert "tallystick ledger accept --expect-head HASH" in used(
        "ledger", "import", "export.jsonl", "--ledger", "read-only.db"
    )
    add = ("charge", "add", "gaussian(sigma=10)", "--why", "again", "--ledger")
    used(*add, "read-only.db", code=4)
    found = used("ledger", "import", "export.jsonl", "--ledger", "known.db", "--expect-head", head, "--json")["found"]
    assert found["seen"] is True
    used(*add, "known.db")


def test_doctor_says_where_anchors_are_kept(cli, monkeypatch, tmp_path):
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path / "volume"))
    found = cli("doctor", "--json")["found"]["config_directory"]
    expected = {"path": str(tmp_path / "volume"), "set_by": "TALLYSTICK_CONFIG_DIR", "state": "made at the first write"}
    assert found == expected
    (tmp_path / "volume").mkdir()
    assert cli("doctor", "--json")["found"]["config_directory"]["state"] == "writable"
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(tmp_path / "export.jsonl" / "below"))
    (tmp_path / "export.jsonl").write_text("a file")
    assert "ledgers cannot be written" in cli("doctor")


def test_an_export_leaves_the_rights_of_a_pipe_alone_and_keeps_a_file_private(used, tmp_path):
    """An export to /dev/null by root would take the device away from all other users."""
    os.mkfifo(tmp_path / "pipe", 0o666)
    (tmp_path / "pipe").chmod(0o666)
    (tmp_path / "file").touch(0o644)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for name in ("pipe", "file"):
        used("ledger", "export", "--out", name)
    os.close(reader)
    assert stat.S_IMODE(os.stat(tmp_path / "pipe").st_mode) == 0o666
    assert stat.S_IMODE(os.stat(tmp_path / "file").st_mode) == 0o600


def test_an_owner_goes_on_with_an_older_copy_after_a_loss(used, tmp_path):
    shutil.copy(tmp_path / "tallystick.db", tmp_path / "backup.db")
    older = used("ledger", "head", "--json")["found"]
    used("charge", "add", "gaussian(sigma=10)", "--why", "later")
    newest = used("ledger", "head", "--json")["found"]
    for path in tmp_path.glob("tallystick.db*"):
        path.unlink()
    shutil.copy(tmp_path / "backup.db", tmp_path / "tallystick.db")
    count = newest["entries"] - older["entries"]
    assert f"At least {count} entries are missing" in used("ledger", "show", code=6)
    used("ledger", "accept", "--older", code=2)
    used("ledger", "accept", "--older", "--first-use", "--why", "x", code=2)
    accept = ("ledger", "accept", "--older", "--why", "the disk failed")
    assert "charge each one again" in used(*accept, "--dry-run")
    used("ledger", "show", code=6)
    missing = used(*accept, "--json")["found"]["missing"]
    assert missing == {
        "entries": count,
        "seen": {"seq": newest["entries"], "head": newest["head"]},
        "newest": {"seq": older["entries"], "head": older["head"]},
    }
    assert "lost: entry" in used("ledger", "verify")
    assert len(used("ledger", "verify", "--json")["found"]["losses"]) == 1
    used("charge", "add", "gaussian(sigma=10)", "--why", "charged again after the loss")
