"""Whoever edits the record is found out by verify: rows, bytes, schema, rollbacks, forged chains."""

from __future__ import annotations

import random
import shutil
import sqlite3
from functools import partial

import pytest

from crash.stores import fresh_schema, raised, spend
from crash.tampering import disarmed, furnished, random_edit, rewritten, without_triggers
from tallystick.errors import LedgerIntegrity, Unavailable
from tallystick.ledger import Ledger


@pytest.fixture
def original(tmp_path, config):
    path = tmp_path / "budget.db"
    furnished(str(path)).close()
    return path


def problems(path, config):
    """What opening and verifying find."""
    try:
        with Ledger(path, create=False, config=config) as ledger:
            return ledger.verify().problems
    except (LedgerIntegrity, Unavailable) as error:
        return (str(error),)


def test_an_untouched_ledger_verifies(original, config):
    assert problems(original, config) == ()


def test_every_random_row_edit_is_found(original, tmp_path, config):
    draw, made = random.Random(5), set()
    for number in range(250):
        copy = tmp_path / "copy.db"
        shutil.copyfile(original, copy)
        connection, done = disarmed(str(copy)), []
        without_triggers(connection, lambda c=connection, d=done: d.append(random_edit(c, draw)))
        connection.close()
        if done[0]:
            made.add(done[0])
            assert problems(copy, config), f"edit {number}, {done[0]}, was not found"
    assert len(made) > 40


def test_every_table_of_postgres_is_compared(postgres, config):
    import psycopg

    for statement in (
        "UPDATE account SET used0 = used0 + 1 WHERE name = 'a'",
        "UPDATE account SET limit0 = limit0 + 1 WHERE name = 'people'",
        "UPDATE charge SET state = 'REFUNDED' WHERE key = 'burned'",
        "DELETE FROM line WHERE a0 = 50",
        "UPDATE answer SET body = 'null'",
        "DELETE FROM dataset",
        "UPDATE dataset SET least0 = 1",
        "DELETE FROM quarantine",
        "UPDATE quarantine SET cleared = 3 WHERE cleared IS NULL",
        "UPDATE entry SET body = replace(body, '5000', '4999')",
        "DELETE FROM entry WHERE seq = (SELECT max(seq) FROM entry)",
        "ALTER TABLE account ENABLE TRIGGER USER; DROP TRIGGER account_update ON account",
        "INSERT INTO migration VALUES (9, 'future')",
    ):
        place = fresh_schema(postgres)
        ledger = furnished(place)
        assert ledger.verify().problems == ()
        with psycopg.connect(place, autocommit=True) as connection:
            for table in ("account", "charge", "line", "answer", "dataset", "quarantine", "entry"):
                connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            connection.execute(statement)
            for table in ("account", "charge", "line", "answer", "dataset", "quarantine", "entry"):
                connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        found = ledger.verify().problems
        ledger.close()
        assert found or raised(partial(Ledger, place)) == "LedgerIntegrity", statement


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET body = '{}'",
        "DELETE FROM entry",
        "UPDATE line SET a0 = 0",
        "DELETE FROM charge",
        "UPDATE charge SET state = 'RESERVED' WHERE state = 'BURNED'",
        "UPDATE charge SET state = 'REFUNDED' WHERE state = 'EXECUTING'",
        "UPDATE account SET filter = 'approx'",
        "UPDATE account SET limit0 = limit0 - 1",
        "UPDATE answer SET body = 'null'",
        "DELETE FROM account",
        "UPDATE dataset SET note = 'other'",
        "DELETE FROM quarantine",
        "UPDATE quarantine SET source = population_id WHERE cleared IS NULL",
        "UPDATE quarantine SET cleared = NULL WHERE cleared IS NOT NULL",
    ],
)
def test_the_database_itself_refuses_to_change_the_past(place, statement):
    ledger = furnished(place)
    with pytest.raises(LedgerIntegrity), ledger.store.write("edit") as transaction:
        transaction._execute(statement)
    assert ledger.verify().problems == ()
    ledger.close()


def test_a_dropped_trigger_is_found(original, config):
    sqlite3.connect(original).execute("DROP TRIGGER line_no_update")
    assert any("line_no_update" in problem for problem in problems(original, config))


def test_byte_flips_that_change_what_is_read_are_found(original, tmp_path, config):
    """A flip either changes nothing that can be read (free space), or is found."""
    draw, found, harmless = random.Random(11), 0, 0
    content = original.read_bytes()
    reference = dump(original)
    for _ in range(120):
        copy = tmp_path / "flipped.db"
        at = draw.randrange(len(content))
        copy.write_bytes(content[:at] + bytes([content[at] ^ (1 << draw.randrange(8))]) + content[at + 1 :])
        if problems(copy, config):
            found += 1
        else:
            assert dump(copy) == reference, f"a flip at byte {at} changed the record and was not found"
            harmless += 1
        for extra in tmp_path.glob("flipped.db-*"):
            extra.unlink()
    assert found > 10


def dump(path):
    connection = sqlite3.connect(path)
    try:
        return "\n".join(connection.iterdump())
    finally:
        connection.close()


def test_a_restored_old_copy_is_refused(original, tmp_path, config):
    old = tmp_path / "old.db"
    shutil.copyfile(original, old)
    with Ledger(original) as ledger, spend(ledger.open("people"), 1):
        pass
    with pytest.raises(LedgerIntegrity, match="old or altered copy"):
        Ledger(old)


def test_a_copy_that_went_its_own_way_is_refused(original, tmp_path, config):
    fork = tmp_path / "fork.db"
    shutil.copyfile(original, fork)
    for path, times in ((fork, 3), (original, 1)):
        try:
            with Ledger(path, config=tmp_path / f"config-{path.stem}", first_use="another host") as ledger:
                for _ in range(times):
                    with spend(ledger.open("people"), 1):
                        pass
        except LedgerIntegrity:
            pytest.fail("without an anchor of its own a fork cannot be told")
    with Ledger(fork, config=config):
        pass
    with Ledger(fork, config=config) as ledger, spend(ledger.open("people"), 1):
        pass
    with pytest.raises(LedgerIntegrity):
        Ledger(original, config=config)


def test_a_forged_chain_is_found_by_the_anchor_and_by_any_receipt(tmp_path, config):
    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        from tallystick.ledger import Budget

        account = ledger.open("people", budget=Budget.zcdp(1), unit="person")
        charge = spend(account, 1000, key="k")
        with charge:
            charge.answer = 1
        receipt = charge.receipt

    connection = disarmed(str(path))

    def forge():
        rewritten(connection, charge.id, lambda entry: entry.update(lines=[[account.id, 1, 0]]))
        connection.execute("UPDATE account SET own0 = 1, used0 = 1")
        connection.execute("UPDATE line SET a0 = 1")

    without_triggers(connection, forge)
    connection.close()
    assert raised(lambda: Ledger(path)) == "LedgerIntegrity"
    with Ledger(path, config=tmp_path / "elsewhere") as ledger:
        assert ledger.verify().problems == (), "the forged chain is consistent in itself"
        assert ledger.verify(receipts=(receipt,)).problems


def test_a_forged_limit_needs_a_signature(tmp_path, config):
    path = tmp_path / "budget.db"
    furnished(str(path)).close()
    connection = disarmed(str(path))

    def forge():
        seq = connection.execute('SELECT seq FROM entry WHERE body LIKE \'%"kind":"raise"%\'').fetchone()[0]
        rewritten(connection, seq, lambda entry: entry.update(limit=[9 * 10**12, entry["limit"][1]]))
        connection.execute("UPDATE account SET limit0 = 9000000000000 WHERE name = 'people'")

    without_triggers(connection, forge)
    connection.close()
    with Ledger(path, config=tmp_path / "elsewhere") as ledger:
        assert any("signature" in problem for problem in ledger.verify().problems)


@pytest.mark.parametrize(
    "where", [b"CREATE TABLE entry", b'"kind":"genesis"', b"CREATE TRIGGER line_no_update", b"visits"]
)
def test_text_that_is_no_longer_text_is_called_damage(original, config, where):
    content = original.read_bytes()
    at = content.index(where) + len(where) - 2
    original.write_bytes(content[:at] + b"\xa0" + content[at + 1 :])
    assert problems(original, config)


def test_a_flipped_letter_in_the_list_of_schema_objects_is_found(original, tmp_path, config):
    """Found by the campaign: SQLite itself does not look at this column."""
    content = original.read_bytes()
    at = content.index(b"indexcharge_key")
    for offset in range(5):
        flipped = bytes([content[at + offset] ^ 0x20])
        original.write_bytes(content[: at + offset] + flipped + content[at + offset + 1 :])
        assert problems(original, config), offset
