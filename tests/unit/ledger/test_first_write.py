"""A host that has not seen a ledger reads it; its first write needs a known head or the owner's word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crash.stores import entries_of, spend
from tallystick.errors import InvalidInput, LedgerIntegrity, Refused, Unavailable
from tallystick.ledger import Ledger, Signer, import_ledger
from tallystick.ledger.budget import Budget
from tallystick.ledger.chain import canonical


def paid(ledger, times=1):
    account = ledger.open("people", budget=Budget.zcdp(100), unit="person")
    for _ in range(times):
        with spend(account, 1):
            pass
    return account


def shortened(ledger, signer, keep):
    """The export of a ledger, cut after ``keep`` entries and signed again: a valid export of an old state."""
    opening, *lines, _ = list(ledger.export())
    kept = lines[:keep]
    newest = json.loads(kept[-1])
    checkpoint = {"ledger": ledger.id, "seq": newest["seq"], "head": newest["hash"], "at": 1}
    signed = {"checkpoint": checkpoint, "by": signer.public, "signature": signer.sign(checkpoint)}
    return [opening, *kept, canonical(signed)]


def test_a_host_that_creates_a_ledger_needs_neither_head_nor_reason(place, config):
    with Ledger(place, config=config):
        pass
    with Ledger(place, config=config) as ledger:  # also if it has only its first entry
        paid(ledger)
        assert "first_use" not in [entry["kind"] for entry in entries_of(ledger)]


def test_another_host_reads_and_may_not_write(ledger, place, tmp_path):
    paid(ledger, 3)
    with Ledger(place, config=tmp_path / "other") as other:
        assert other.open("people").used.a0 == 3
        assert other.verify().problems == ()
        assert not other.is_seen
        for action in (lambda: paid(other), lambda: other.open("new", budget=Budget.zcdp(1))):
            with pytest.raises(Refused, match="expect_head="):
                action()
        assert other.open("people").used.a0 == 3
    with Ledger(place, config=tmp_path / "other") as again:  # reading left no anchor behind
        assert not again.is_seen


def test_a_known_head_lets_another_host_write(ledger, place, tmp_path):
    paid(ledger, 2)
    known = ledger.head().hash
    paid(ledger, 2)
    with Ledger(place, config=tmp_path / "other", expect_head=known) as other:
        paid(other)
    with Ledger(place, config=tmp_path / "other") as again:  # once is enough
        paid(again)
        assert again.open("people").used.a0 == 6
        assert "first_use" not in [entry["kind"] for entry in entries_of(again)]
        assert again.verify().problems == ()


def test_the_head_of_a_receipt_is_enough(ledger, place, tmp_path):
    account = paid(ledger)
    with spend(account, 1) as charge:
        pass
    with Ledger(place, config=tmp_path / "other", expect_head=charge.receipt.head) as other:
        paid(other)


def test_a_head_that_the_chain_does_not_have_is_refused(ledger, place, tmp_path):
    paid(ledger)
    with pytest.raises(LedgerIntegrity, match="None of the"):
        Ledger(place, config=tmp_path / "other", expect_head="0" * 64)
    with Ledger(place, config=tmp_path / "other") as other:
        assert not other.is_seen


def test_a_head_that_was_only_written_into_the_table_is_refused(tmp_path):
    from crash.tampering import disarmed, without_triggers

    path, known = tmp_path / "budget.db", "ab" * 32
    with Ledger(path, config=tmp_path / "first") as ledger:
        paid(ledger)
    connection = disarmed(str(path))
    without_triggers(connection, lambda: connection.execute("UPDATE entry SET hash = ? WHERE seq = 3", (known,)))
    connection.close()
    with pytest.raises(LedgerIntegrity, match="entry 3 was altered"):
        Ledger(path, config=tmp_path / "other", expect_head=known)


def test_a_first_use_is_an_entry_of_the_chain_once_per_host(ledger, place, tmp_path):
    paid(ledger)
    for _ in range(2):
        with Ledger(place, config=tmp_path / "other", first_use="the old host burned down") as other:
            paid(other)
    found = [entry for entry in entries_of(ledger) if entry["kind"] == "first_use"]
    assert [(entry["why"], entry["principal"]) for entry in found] == [("the old host burned down", "local")]
    assert ledger.verify().problems == ()
    assert ledger.open("people").used.a0 == 3


def test_a_ledger_with_a_first_use_moves_to_another_store(ledger, place, tmp_path):
    paid(ledger)
    with Ledger(place, config=tmp_path / "other", first_use="new host") as other:
        lines = list(other.export())
    with import_ledger(lines, tmp_path / "copy.db", config=tmp_path / "third") as copy:
        assert copy.verify().problems == ()
        assert copy.head() == ledger.head()


def test_a_shortened_export_with_a_new_signature_cannot_be_written_on_a_fresh_host(ledger, tmp_path):
    paid(ledger, 5)
    known = ledger.head().hash
    lines = shortened(ledger, Signer.of_user(tmp_path / "attacker"), keep=4)
    with import_ledger(lines, tmp_path / "copy.db", config=tmp_path / "fresh") as copy:
        assert copy.open("people").used.a0 == 1
        with pytest.raises(Refused, match="has not seen this ledger"):
            paid(copy)
    with pytest.raises(LedgerIntegrity, match="None of the 4 entries"):
        import_ledger(lines, tmp_path / "copy2.db", config=tmp_path / "fresh", expect_head=known)
    with pytest.raises(LedgerIntegrity, match="None of the 4 entries"):
        Ledger(tmp_path / "copy.db", config=tmp_path / "fresh", expect_head=known)


def test_an_import_with_a_known_head_or_a_reason_can_be_written(ledger, tmp_path):
    paid(ledger, 2)
    known, lines = ledger.head().hash, list(ledger.export())
    for number, given in enumerate(({"expect_head": known}, {"first_use": "restored from the vault"})):
        with import_ledger(lines, tmp_path / f"{number}.db", config=tmp_path / f"host-{number}", **given) as copy:
            paid(copy)
            assert copy.open("people").used.a0 == 3
            assert copy.verify().problems == ()


@pytest.mark.parametrize("head", ["abc", "A" * 64, 7])
def test_a_head_that_is_not_a_hash_is_refused(tmp_path, head):
    with pytest.raises(InvalidInput, match="expect_head"):
        Ledger(tmp_path / "budget.db", expect_head=head)
    assert not (tmp_path / "budget.db").exists()


def test_a_known_head_never_creates_a_ledger(tmp_path):
    with pytest.raises(InvalidInput, match="there is no ledger at"):
        Ledger(tmp_path / "budget.db", expect_head="0" * 64)
    assert not (tmp_path / "budget.db").exists()


def test_head_and_first_use_exclude_each_other(tmp_path):
    with pytest.raises(InvalidInput, match="first_use"):
        Ledger(tmp_path / "budget.db", expect_head="0" * 64, first_use="why")
    with pytest.raises(InvalidInput, match="first_use"):
        Ledger(tmp_path / "budget.db", first_use=" ")


def test_a_config_directory_that_cannot_be_written_is_an_error_before_the_first_write(tmp_path):
    blocked = tmp_path / "config"
    blocked.write_text("a file where the directory should be")
    with pytest.raises(Unavailable, match="TALLYSTICK_CONFIG_DIR"):
        Ledger(tmp_path / "new.db", config=blocked)
    with Ledger(tmp_path / "old.db", config=tmp_path / "good") as ledger:
        paid(ledger)
        head = ledger.head()
    with Ledger(tmp_path / "old.db", config=blocked) as other:
        with pytest.raises(Unavailable, match="Nothing was written"):
            paid(other)
        assert other.head() == head
    with pytest.raises(Unavailable, match="TALLYSTICK_CONFIG_DIR"):
        Ledger(tmp_path / "old.db", config=blocked, expect_head=head.hash)
    with pytest.raises(Unavailable, match="TALLYSTICK_CONFIG_DIR"):
        Ledger(tmp_path / "old.db", config=blocked, first_use="why")


def test_a_ledger_of_an_older_format_is_to_be_kept(tmp_path):
    from crash.tampering import disarmed, without_triggers

    path = tmp_path / "budget.db"
    with Ledger(path, config=tmp_path / "config"):
        pass
    connection = disarmed(str(path))
    old = "UPDATE entry SET body = replace(body, 'ledger/3', 'ledger/1') WHERE seq = 1"
    without_triggers(connection, lambda: connection.execute(old))
    connection.close()
    with pytest.raises(LedgerIntegrity, match=r"Keep this file: a later version converts it.*another path"):
        Ledger(path, config=tmp_path / "config")


# -- after a loss: only an older copy is left


def emptied(place):
    """Remove the ledger at a place."""
    if not str(place).startswith("postgresql"):
        for each in Path(str(place)).parent.glob(f"{Path(str(place)).name}*"):
            each.unlink()
        return
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(str(place), autocommit=True) as connection:
        [[schema]] = connection.execute("SELECT current_schema()").fetchall()
        connection.execute(f"DROP SCHEMA {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")


@pytest.fixture
def loss(place, config, tmp_path):
    """A place at which an older copy was restored: its head, and the newest head that this host has seen."""
    with Ledger(place, config=config) as ledger:
        paid(ledger, 3)
        older, backup = ledger.head(), list(ledger.export())
        paid(ledger, 2)
        newest = ledger.head()
    emptied(place)
    import_ledger(backup, place, config=tmp_path / "backup host").close()
    return older, newest, backup


def test_an_older_copy_is_refused_with_the_number_of_missing_entries(place, config, loss):
    older, newest, _ = loss
    first = older.seq + 1
    text = f"At least {newest.seq - older.seq} entries are missing: {first} to {newest.seq}. Restore the newest copy"
    with pytest.raises(LedgerIntegrity, match=text) as caught:
        Ledger(place, config=config)
    assert caught.value.code == "older_ledger"
    assert [remedy.kind for remedy in caught.value.remedies] == ["accept_older"]
    for options in ({"first_use": "x"}, {"expect_head": older.hash}):  # these say nothing about what was lost
        with pytest.raises(LedgerIntegrity, match="At least"):
            Ledger(place, config=config, **options)


def test_the_owner_goes_on_with_an_older_copy_and_the_chain_says_what_is_lost(place, config, loss):
    older, newest, _ = loss
    with Ledger(place, config=config, older="the disk failed") as ledger:
        entry = entries_of(ledger)[-1]
        heads = {"newest": [older.seq, older.hash], "seen": [newest.seq, newest.hash]}
        assert {name: entry[name] for name in ("kind", "why", "principal", *heads)} == {
            "kind": "older",
            "why": "the disk failed",
            "principal": "local",
            **heads,
        }
        assert ledger.lost.entries == newest.seq - older.seq
        assert ledger.open("people").used.a0 == 3  # nothing is made up about the lost charges
        paid(ledger, 2)  # the owner charges them again
    with Ledger(place, config=config) as again:  # once is enough
        assert again.lost is None
        paid(again)
        report = again.verify()
        assert report.problems == ()
        [sentence] = report.losses
        assert f"at least {newest.seq - older.seq} entries up to entry {newest.seq}" in sentence


def test_the_lost_copy_is_refused_after_the_owner_has_gone_on(place, config, loss, tmp_path):
    """The anchor is that of the copy that is used now."""
    _, _, backup = loss
    with Ledger(place, config=config, older="the disk failed") as ledger:
        paid(ledger, 9)
    emptied(place)
    import_ledger(backup, place, config=tmp_path / "backup host 2").close()
    with pytest.raises(LedgerIntegrity, match="old or altered copy"):
        Ledger(place, config=config)


def test_another_host_that_has_seen_lost_entries_is_accepted_the_same_way(place, config, loss, tmp_path):
    """The other host has an anchor of an entry that the chain does not have any more; another one has its number."""
    _, newest, _ = loss
    other = tmp_path / "other"
    (other / "anchors").mkdir(parents=True)
    with Ledger(place, config=config, older="the disk failed") as ledger:
        paid(ledger, 9)
        (other / "anchors" / ledger.id).write_bytes(b"%020d %s\n" % (newest.seq, newest.hash.encode()))
    with pytest.raises(LedgerIntegrity, match=f"entry {newest.seq} has another hash"):
        Ledger(place, config=other)
    with Ledger(place, config=other, older="the same loss") as ledger:
        paid(ledger)
        assert (ledger.lost.entries, len(ledger.verify().losses)) == (None, 2)


def test_an_older_copy_needs_a_reason_and_nothing_else(place, config, loss):
    for options in ({"older": " "}, {"older": "x", "first_use": "y"}, {"older": "x", "expect_head": "0" * 64}):
        with pytest.raises(InvalidInput):
            Ledger(place, config=config, **options)


def test_a_copy_that_lacks_nothing_is_not_called_older(ledger, place, config):
    paid(ledger)
    before = ledger.head()
    with Ledger(place, config=config, older="by mistake") as same:
        assert (same.lost, same.head()) == (None, before)


def test_an_older_copy_that_was_altered_is_refused(tmp_path):
    from crash.tampering import disarmed, without_triggers

    path, config = tmp_path / "budget.db", tmp_path / "config"
    with Ledger(path, config=config) as ledger:
        paid(ledger, 3)
    connection = disarmed(str(path))

    def cut() -> None:
        connection.execute("DELETE FROM entry WHERE seq > 6")
        connection.execute("UPDATE entry SET body = replace(body, 'people', 'person') WHERE seq = 2")

    without_triggers(connection, cut)
    connection.close()
    with pytest.raises(LedgerIntegrity, match="entry 2 was altered"):
        Ledger(path, config=config, older="the disk failed")
    with pytest.raises(LedgerIntegrity, match="At least"):  # the anchor is the same
        Ledger(path, config=config)


def test_an_older_export_is_imported_with_a_reason(place, config, loss):
    older, newest, backup = loss
    emptied(place)
    with pytest.raises(LedgerIntegrity, match=f"entry {newest.seq} of this ledger was seen") as caught:
        import_ledger(backup, place, config=config)
    assert [remedy.kind for remedy in caught.value.remedies] == ["import_older"]
    emptied(place)
    with import_ledger(backup, place, config=config, older="the disk failed") as ledger:
        assert ledger.lost.entries == newest.seq - older.seq
        paid(ledger)
        assert ledger.verify().problems == ()
