"""Whoever edits the record is found out by verify: rows, bytes, schema, rollbacks, forged chains."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from functools import partial

import pytest

from crash.stores import fresh_schema, raised, spend
from crash.tampering import TABLES, disarmed, furnished, random_edit, rewritten, without_triggers
from tallystick.errors import LedgerIntegrity, Unavailable
from tallystick.ledger import Ledger
from tallystick.ledger.texts import Tags


@pytest.fixture
def original(tmp_path, config):
    path = tmp_path / "budget.db"
    furnished(str(path), governed=True).close()
    return path


@pytest.fixture
def plain(tmp_path, config):
    """A ledger that is not governed: every host may write to it."""
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
    for number in range(400):
        copy = tmp_path / "copy.db"
        shutil.copyfile(original, copy)
        connection, done = disarmed(str(copy)), []
        without_triggers(connection, lambda c=connection, d=done: d.append(random_edit(c, draw)))
        connection.close()
        if done[0]:
            made.add(done[0])
            assert problems(copy, config), f"edit {number}, {done[0]}, was not found"
    assert len(made) > 60
    assert {name.split(".")[0].split()[-1] for name in made} == set(TABLES)


def test_a_seal_that_a_later_one_covers_can_be_missing_and_no_other(original, tmp_path, config):
    """Every entry about keys has a seal of its own, and the newest seal covers all entries."""
    with sqlite3.connect(original) as connection:
        seals = [seq for (seq,) in connection.execute("SELECT seq FROM seal ORDER BY seq")]
        kinds = {seq: json.loads(body)["kind"] for seq, body in connection.execute("SELECT seq, body FROM entry")}
    needed = {seq for seq in seals if kinds[seq] in ("govern", "key_add", "key_retire")} | {seals[-1]}
    assert len(seals) > len(needed) == 4
    for seq in seals:
        copy = tmp_path / "copy.db"
        shutil.copyfile(original, copy)
        connection = disarmed(str(copy))
        without_triggers(connection, lambda c=connection, s=seq: c.execute("DELETE FROM seal WHERE seq = ?", (s,)))
        connection.close()
        assert bool(problems(copy, config)) is (seq in needed), kinds[seq]


def test_without_its_checkpoint_a_ledger_is_checked_from_the_beginning(original, config):
    connection = disarmed(str(original))
    without_triggers(connection, lambda: connection.execute("DELETE FROM checkpoint"))
    connection.close()
    with Ledger(original, config=config) as ledger:
        assert (ledger.verify().problems, ledger.verify(full=False).checkpoint) == ((), 0)


def test_every_table_of_postgres_is_compared(postgres, config):
    import psycopg

    copied = "SELECT seq + 1, key, signature FROM seal ORDER BY seq DESC LIMIT 1"
    for statement in (
        "UPDATE entry_text SET body = 'another reason' WHERE field = 'why'",
        "UPDATE entry_text SET salt = repeat('0', 32)",
        "DELETE FROM entry_text WHERE field = 'request'",
        "INSERT INTO entry_text SELECT entry, 'more', salt, body FROM entry_text WHERE field = 'key'",
        "UPDATE tag SET key_tag = repeat('0', 64) WHERE charge_id = (SELECT max(charge_id) FROM tag)",
        "DELETE FROM tag",
        "UPDATE secret SET body = repeat('0', 64)",
        "UPDATE secret SET since = 2",
        "DELETE FROM secret",
        "UPDATE seal SET signature = repeat('0', 128)",
        "UPDATE seal SET key = repeat('0', 64)",
        "DELETE FROM seal WHERE seq = (SELECT max(seq) FROM seal)",
        "DELETE FROM seal WHERE seq = (SELECT min(seq) FROM seal)",
        f"DELETE FROM seal WHERE seq = (SELECT max(seq) - 1 FROM seal); INSERT INTO seal {copied} OFFSET 1",
        "UPDATE checkpoint SET body = replace(body, 'people', 'person')",
        "UPDATE checkpoint SET signature = repeat('0', 128)",
        "UPDATE account SET used0 = used0 + 1 WHERE name = 'a'",
        "UPDATE account SET limit0 = limit0 + 1 WHERE name = 'people'",
        "UPDATE charge SET state = 'REFUNDED' WHERE state = 'BURNED'",
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
        ledger = furnished(place, governed=True)
        assert ledger.verify().problems == ()
        with psycopg.connect(place, autocommit=True) as connection:
            for table in TABLES:
                connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
            connection.execute(statement)
            for table in TABLES:
                connection.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL")
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
        "UPDATE entry_text SET body = 'another reason'",
        "UPDATE tag SET stem_tag = key_tag",
        "UPDATE secret SET body = body",
        "DELETE FROM secret",
        "UPDATE seal SET key = signature",
        "DELETE FROM seal",
        "UPDATE checkpoint SET body = '{}'",
        "DELETE FROM checkpoint",
    ],
)
def test_the_database_itself_refuses_to_change_the_past(place, statement):
    ledger = furnished(place, governed=True)
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


def test_a_copy_that_went_its_own_way_is_refused(plain, tmp_path, config):
    fork = tmp_path / "fork.db"
    shutil.copyfile(plain, fork)
    for path, times in ((fork, 3), (plain, 1)):
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
        Ledger(plain, config=config)


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
        tags = Tags(*connection.execute("SELECT since, body FROM secret").fetchone())
        tag = tags.of_request("local", [[account.id, 1, 0]], "{}", "")
        connection.execute("UPDATE tag SET request_tag = ?", (tag,))

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
