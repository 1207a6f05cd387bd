"""A host that has not seen a ledger reads it; its first write needs a known head or the owner's word."""

from __future__ import annotations

import json

import pytest

from crash.stores import spend
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


def entries_of(ledger):
    with ledger.store.read() as transaction:
        return [json.loads(body) for _, _, body in transaction.rows("entries_after", 0, 1000)]


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
    with pytest.raises(InvalidInput, match="an existing ledger"):
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
    old = "UPDATE entry SET body = replace(body, 'ledger/2', 'ledger/1') WHERE seq = 1"
    without_triggers(connection, lambda: connection.execute(old))
    connection.close()
    with pytest.raises(LedgerIntegrity, match=r"Keep this file: a later version converts it.*another path"):
        Ledger(path, config=tmp_path / "config")
