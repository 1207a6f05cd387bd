"""Breaks found from outside (gates): links, imports that forget, amounts that are none, names that look alike."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat

import pytest

import tallystick as ts
from crash.stores import raised, spend
from tallystick.errors import InvalidInput, LedgerIntegrity
from tallystick.ledger import Budget, Ledger, Signer, import_ledger
from tallystick.ledger.chain import GENESIS, canonical, link

# -- one file, one name


def test_a_ledger_with_two_names_is_refused_under_both(tmp_path, config):
    path, other = tmp_path / "budget.db", tmp_path / "other.db"
    with Ledger(path) as ledger:
        ledger.open("people", budget=Budget.zcdp(1))
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(LedgerIntegrity, match="hard links"):
            Ledger(name)
    other.unlink()
    Ledger(path).close()


def test_a_second_name_given_while_it_is_open_stops_writing(tmp_path, config):
    """Two logs and two gates let 1.8 be spent of 1."""
    path, other = tmp_path / "budget.db", tmp_path / "other.db"
    with Ledger(path) as ledger:
        people = ledger.open("people", budget=Budget.zcdp(1))
        other.hardlink_to(path)
        with pytest.raises(LedgerIntegrity, match="hard links"):
            spend(people, 9 * 10**11).reserve()
        other.unlink()
        spend(people, 9 * 10**11).reserve()


def test_a_file_that_was_replaced_is_not_written_to(tmp_path, config):
    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        people = ledger.open("people", budget=Budget.zcdp(1))
        os.rename(path, tmp_path / "moved.db")
        assert raised(spend(people, 1).reserve) == "Unavailable"
        shutil.copyfile(tmp_path / "moved.db", path)
        assert raised(spend(people, 1).reserve) == "LedgerIntegrity"


def test_a_symbolic_link_is_the_file_it_points_to(tmp_path, config):
    path, link_ = tmp_path / "budget.db", tmp_path / "link.db"
    link_.symlink_to(path)
    with Ledger(path) as ledger, Ledger(link_) as same:
        people = ledger.open("people", budget=Budget.zcdp(1))
        spend(people, 9 * 10**11).reserve()
        assert raised(spend(same.open("people"), 9 * 10**11).reserve) == "BudgetExceeded"
    assert not (tmp_path / "link.db.gate").exists()


def test_a_copy_that_was_made_while_it_was_open_does_not_pay_again(tmp_path, config):
    """One handle each on a ledger and its copy: both had the anchor's entry when they were opened."""
    path, copy = tmp_path / "budget.db", tmp_path / "copy.db"
    with Ledger(path) as ledger:
        people = ledger.open("people", budget=Budget.zcdp(1))
        sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copyfile(path, copy)
        with Ledger(copy) as other:
            others = other.open("people")
            spend(people, 9 * 10**11).begin()
            with pytest.raises(LedgerIntegrity, match="old or altered copy"):
                spend(others, 9 * 10**11).begin()


@pytest.mark.parametrize("anchored", [True, False])
def test_a_backup_written_over_an_open_ledger_does_not_pay_again(tmp_path, config, anchored):
    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        people = ledger.open("people", budget=Budget.zcdp(1))
        sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        backup = path.read_bytes()
        spend(people, 9 * 10**11).begin()
        sqlite3.connect(path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if not anchored:  # what the process itself has seen is enough
            shutil.rmtree(config / "anchors")
        with path.open("r+b") as file:
            file.write(backup)
            file.truncate()
        with pytest.raises(LedgerIntegrity, match="old or altered copy"):
            spend(people, 9 * 10**11).begin()


def test_a_trigger_named_almost_like_statistics_is_seen(tmp_path, config):
    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        sqlite3.connect(path).execute("ANALYZE")
        assert ledger.verify().problems == ()
        with sqlite3.connect(path) as editor:
            editor.execute('CREATE TRIGGER "sqlite-stat" BEFORE INSERT ON quarantine BEGIN SELECT RAISE(IGNORE); END')
        assert "sqlite-stat" in " ".join(ledger.verify().problems)


# -- imports


def export(bodies, signer, ledger_id, texts=()):
    """A well-hashed, well-signed export of any entries, and of the texts beside them."""
    opening = {"format": "tallystick/export/2", "ledger": ledger_id, "level": "answers"}
    lines, head = [canonical(opening)], GENESIS
    for seq, body in enumerate(bodies, 1):
        text = canonical(body)
        head = link(head, text)
        beside = {"texts": texts[seq - 1]} if seq <= len(texts) and texts[seq - 1] else {}
        lines.append(canonical({"seq": seq, "hash": head, "body": text, **beside}))
    checkpoint = {"ledger": ledger_id, "seq": len(bodies), "head": head, "at": 0}
    return [*lines, canonical({"checkpoint": checkpoint, "by": signer.public, "signature": signer.sign(checkpoint)})]


def bodies_of(ledger):
    with ledger.store.read() as transaction:
        return [json.loads(row[2]) for row in transaction.rows("entries_after", 0, 1000)]


def texts_of(ledger):
    """The texts beside each entry, with their salts."""
    with ledger.store.read() as transaction:
        rows = transaction.rows("entries_after", 0, 1000)
        return [{name: [salt, text] for name, salt, text in transaction.rows("texts_of", row[0])} for row in rows]


@pytest.fixture
def spent(tmp_path, config):
    """Entries and texts when rho 0.1 was spent, and the path and id of a ledger in which 0.9 is spent by now."""
    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        people = ledger.open("people", budget=Budget.zcdp(1), unit="person")
        spend(people, 10**11, key="first").begin()
        early, texts = bodies_of(ledger), texts_of(ledger)
        spend(people, 8 * 10**11, key="second").begin()
        return early, texts, path, ledger.id


def test_an_old_export_with_filler_does_not_replace_the_anchor(spent, tmp_path):
    early, texts, path, ledger_id = spent
    filler = {**early[1], "at": early[-1]["at"]}
    for count in (0, 1, 5):
        more = [{**filler, "name": f"f{n}"} for n in range(count)]
        forged = export([*early, *more], Signer.of_user(), ledger_id, texts)
        with pytest.raises(LedgerIntegrity, match=r"forgotten|another hash"):
            import_ledger(forged, tmp_path / f"copy{count}.db")
    with Ledger(path) as ledger:  # the true one is not refused as old
        assert ledger.open("people").used.a0 == 9 * 10**11
    whole = export(early, Signer.of_user(), ledger_id, texts)
    with import_ledger(whole, tmp_path / "elsewhere.db", config=tmp_path / "new"):
        pass  # whoever never saw more cannot know
    with pytest.raises(LedgerIntegrity, match="texts of ledger entry 3 are missing"):
        import_ledger(export(early, Signer.of_user(), ledger_id), tmp_path / "bare.db", config=tmp_path / "newer")


@pytest.mark.parametrize(
    "lines",
    [[[2, 0, 0]], [[2, 1.5, 0]], [[2, "1", 0]], [[2, True, 0]], [[2, -5, 0]], [[2, 2**63, 0]], [[2, 1, -1]], [2]],
)
def test_an_import_with_amounts_that_are_none_is_refused(tmp_path, config, lines):
    with Ledger(tmp_path / "budget.db") as ledger:
        people = ledger.open("people", budget=ts.zcdp(rho=1), unit="person")
        people.charge(ts.zcdp(rho=0.1), why="x").begin()
        bodies, ledger_id = bodies_of(ledger), ledger.id
    bodies[-1]["lines"] = lines
    forged = export(bodies, Signer.of_user(), ledger_id)
    with pytest.raises(LedgerIntegrity, match="breaks a rule"):
        import_ledger(forged, tmp_path / "copy.db", config=tmp_path / "new")


def test_what_costs_nothing_may_cost_nothing(tmp_path, config):
    with Ledger(tmp_path / "budget.db") as ledger:
        people = ledger.open("people", budget=ts.zcdp(rho=1), unit="person")
        people.charge(ts.no_loss(unit="person"), why="x").begin()
        assert ledger.verify().problems == ()


@pytest.mark.parametrize(
    "line",
    [
        '{"format": "tallystick/export/1", "ledger": 5}',
        '{"format": "tallystick/export/1", "ledger": "' + "0" * 32 + '", "ledger": "' + "1" * 32 + '"}',
        '{"format": "tallystick/export/1", "ledger": "../../../etc/passwd"}',
    ],
)
def test_a_first_line_that_means_two_things_or_names_a_file_is_refused(tmp_path, config, line):
    with pytest.raises(InvalidInput):
        import_ledger([line], tmp_path / "copy.db")


@pytest.mark.parametrize("checkpoint", ['{"checkpoint": 5}', '{"checkpoint": null, "by": 1}', '{"checkpoint": []}'])
def test_a_checkpoint_that_is_none_is_refused(spent, tmp_path, checkpoint):
    early, _, _, ledger_id = spent
    lines = export(early, Signer.of_user(), ledger_id)[:-1]
    with pytest.raises(LedgerIntegrity):
        import_ledger([*lines, checkpoint], tmp_path / "copy.db", config=tmp_path / "new")


def test_an_entry_that_is_not_canonical_is_refused(tmp_path, config):
    ledger_id = "a" * 32
    body = '{"kind": "genesis", "at": 0, "format": "tallystick/ledger/2", "ledger": "' + ledger_id + '"}'
    head, signer = link(GENESIS, body), Signer.of_user()
    checkpoint = {"ledger": ledger_id, "seq": 1, "head": head, "at": 0}
    lines = [
        canonical({"format": "tallystick/export/1", "ledger": ledger_id}),
        canonical({"seq": 1, "hash": head, "body": body}),
        canonical({"checkpoint": checkpoint, "by": signer.public, "signature": signer.sign(checkpoint)}),
    ]
    with pytest.raises(LedgerIntegrity, match="canonical"):
        import_ledger(lines, tmp_path / "copy.db")


# -- names and files


UNSEEN = ["pat\u200bients", "patients\u200d", "pat\u00adients", "a\u202eb", "\ue000", "a\u2028b"]
OTHER_SPELLINGS = ["\uff50atients", "\ufb01nance", "e\u0301t\u00e9"]


@pytest.mark.parametrize("name", UNSEEN + OTHER_SPELLINGS)
def test_names_that_look_like_others_are_refused(ledger, name):
    account = ledger.open("patients", budget=Budget.zcdp(1))
    before = ledger.head()
    for attempt in (
        lambda: ledger.open(name, budget=Budget.zcdp(1)),
        lambda: account.register(name),
        lambda: spend(account, key=name),
    ):
        with pytest.raises(InvalidInput):
            attempt()
    assert ledger.head() == before


def test_reasons_may_be_written_in_any_language(ledger):
    account = ledger.open("patients", budget=Budget.zcdp(1))
    for why in ("هفته‌نامه", "e\u0301t\u00e9", "½ year", "👩‍⚕️ asked"):
        with spend(account, why=why):
            pass
    assert len(account.history()) == 4


def test_an_export_is_for_its_owner_only(tmp_path, config, monkeypatch):
    from tallystick.cli import main

    monkeypatch.chdir(tmp_path)
    Ledger("tallystick.db").close()
    out = tmp_path / "export.jsonl"
    out.write_text("")
    out.chmod(0o644)
    monkeypatch.setattr("sys.argv", ["tallystick", "ledger", "export", "--out", str(out)])
    with pytest.raises(SystemExit) as ended:
        raise SystemExit(main())
    assert not ended.value.code
    for path in tmp_path.iterdir():
        if path.is_file():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_a_ledger_of_the_older_format_is_refused_by_name(tmp_path, config):
    path = tmp_path / "budget.db"
    Ledger(path).close()
    from crash.tampering import disarmed, rewritten, without_triggers

    connection = disarmed(str(path))
    without_triggers(connection, lambda: rewritten(connection, 1, lambda e: e.update(format="tallystick/ledger/1")))
    connection.close()
    with pytest.raises(LedgerIntegrity, match="older format, tallystick/ledger/1"):
        Ledger(path, config=tmp_path / "new")
