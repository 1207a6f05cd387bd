"""Reasons, keys, questions and notes are beside the chain, and a question is found again by tags."""

from __future__ import annotations

import json
import sqlite3

import pytest

import tallystick as ts
from crash.stores import entries_of, raised, spend
from crash.tampering import edited, rows_of
from tallystick.errors import AlreadyCommitted, IdempotencyConflict, LedgerIntegrity, Unavailable
from tallystick.ledger import Budget, Ledger, Signer, journal, texts, verify
from tallystick.ledger.texts import AutoKey

CANARIES = {name: f"canary-{name}-zebedee" for name in ("why", "key", "request", "note", "raise", "close", "clear")}


@pytest.fixture
def people(ledger):
    return ledger.open("people", budget=Budget.zcdp(1), unit="person")


def answered(account, key, answer, *, a0=5, why="test", request="", **options):
    """Charge and store an answer; return the number of the charge."""
    with spend(account, a0, key=key, why=why, request=request, **options) as charge:
        charge.answer = answer
    return charge.id


def asked(account, key, *, a0=5, request="", **options):
    """The answer that is stored under a key; fail if it is charged."""
    with pytest.raises(AlreadyCommitted) as found, spend(account, a0, key=key, request=request, **options):
        pytest.fail("it was charged")
    return found.value.answer


def with_canaries(ledger):
    people = ledger.open("people", budget=Budget.zcdp(1), unit="person")
    people.register("visits", source="visits.csv", note=CANARIES["note"], fixed={"unit": "pid"})
    number = answered(people, CANARIES["key"], "the answer", a0=10**9, why=CANARIES["why"], request=CANARIES["request"])
    spend(people, 10**9, key="failed", source="visits.csv").begin().burn()
    people.clear(why=CANARIES["clear"])
    people.raise_limit(Budget.zcdp(2), why=CANARIES["raise"])
    people.close(why=CANARIES["close"])
    return number


def test_no_text_is_in_the_chain_or_in_an_export_of_the_chain(ledger):
    with_canaries(ledger)
    with ledger.store.read() as transaction:
        bodies = "".join(body for _, _, body in transaction.rows("entries_after", 0, 1000))
    chain, record, answers = ("\n".join(ledger.export(level=level)) for level in ("chain", "record", "answers"))
    for name, canary in CANARIES.items():
        assert canary not in bodies, name
        assert canary not in chain, name
        assert canary in record, name
        assert canary in answers, name
    assert ["the answer" in each for each in (chain, record, answers)] == [False, False, True]
    told = json.dumps(entries_of(ledger))
    assert all(canary in told for canary in CANARIES.values())


def test_a_text_in_the_chain_would_be_seen(ledger, people, monkeypatch):
    """The search for canaries can fail."""
    monkeypatch.setattr(
        journal, "with_commitments", lambda fields: {n: getattr(v, "body", v) for n, v in fields.items()}
    )
    answered(people, "k", 1, why=CANARIES["why"])
    assert CANARIES["why"] in "\n".join(ledger.export(level="chain"))
    assert any("is not a hash" in problem for problem in ledger.verify().problems)


def test_equal_texts_have_different_commitments(ledger, people):
    for key in ("a", "b"):
        answered(people, key, 1, why="report", request="the same question")
    with ledger.store.read() as transaction:
        begun = [json.loads(row[2]) for row in transaction.rows("entries_after", 0, 100) if '"begin"' in row[2]]
    assert len({entry[name] for entry in begun for name in ("why", "request")}) == 4


@pytest.mark.parametrize("field", ["key", "request", "why"])
def test_a_text_that_was_altered_removed_or_added_is_found(ledger, people, place, field):
    number = answered(people, "k", 1, why="report", request="a question")
    [(salt, body)] = rows_of(place, "SELECT salt, body FROM entry_text WHERE entry = ? AND field = ?", number, field)
    where = "WHERE entry = ? AND field = ?"
    for statement, values, found in (
        (f"UPDATE entry_text SET body = 'other' {where}", (number, field), f"the text {field} of entry {number} was"),
        (f"UPDATE entry_text SET salt = '{'0' * 32}' {where}", (number, field), f"the text {field} of entry {number}"),
        (f"DELETE FROM entry_text {where}", (number, field), f"the text {field} of entry {number} is missing"),
        ("INSERT INTO entry_text VALUES (?, ?, ?, ?)", (2, field, salt, body), f"entry 2 has a text {field}"),
    ):
        edited(place, (statement, values))
        assert any(found in problem for problem in ledger.verify().problems), statement
        edited(place, ("DELETE FROM entry_text WHERE (entry = ? OR entry = 2) AND field = ?", (number, field)))
        edited(place, ("INSERT INTO entry_text VALUES (?, ?, ?, ?)", (number, field, salt, body)))
        assert ledger.verify().problems == ()


def test_a_check_that_opens_every_commitment_would_find_nothing(ledger, people, place, monkeypatch):
    number = answered(people, "k", 1, why="report")
    edited(place, ("UPDATE entry_text SET body = 'other' WHERE entry = ? AND field = 'why'", (number,)))
    assert ledger.verify().problems
    monkeypatch.setattr(verify, "opens", lambda *given: True)
    assert ledger.verify().problems == ()


def test_a_salt_of_another_length_or_alphabet_opens_nothing():
    text = texts.committed("report")
    assert texts.opens(*text)
    for salt in ("", "00", text.salt + "00", "zz" * 16, text.salt[:-1]):
        assert not texts.opens(text.commitment, salt, "report"), salt


# -- keys of people and keys of the program


def test_a_key_of_a_person_does_not_take_the_place_of_an_automatic_key(ledger, people):
    """Whoever computes the automatic key of a question beforehand cannot store another answer there."""
    answered(people, "plan-1", "made by a person")
    assert answered(people, AutoKey("plan-1"), "computed") > 0
    assert asked(people, AutoKey("plan-1")) == "computed"
    assert asked(people, "plan-1") == "made by a person"
    assert ledger.verify().problems == ()


def test_an_automatic_key_that_a_person_gives_finds_its_answer(ledger, people):
    answered(people, AutoKey("plan-1"), "computed")
    assert asked(people, "plan-1") == "computed"
    assert people.used.a0 == 5
    with pytest.raises(IdempotencyConflict), spend(people, 5, key="plan-1", request="another question"):
        pass


def test_keys_of_two_principals_are_apart(ledger, people):
    answered(people, "k", "ours")
    others = ledger.acting_for("other")
    answered(others.open("people"), "k", "theirs")
    assert (asked(people, "k"), asked(others.open("people"), "k")) == ("ours", "theirs")


# -- tags prove nothing


def swapped(place, first, second):
    """Let the tags of the key of one charge lead to another one."""
    [tags] = rows_of(place, "SELECT key_tag, stem_tag, request_tag FROM tag WHERE charge_id = ?", first)
    edited(
        place,
        ("DELETE FROM tag WHERE charge_id IN (?, ?)", (first, second)),
        ("INSERT INTO tag VALUES (?, ?, ?, ?)", (second, *tags)),
    )


@pytest.mark.parametrize("request_of_second", ["the same", "another"])
def test_a_tag_that_leads_to_another_charge_gives_no_other_answer(ledger, people, place, request_of_second):
    january = answered(people, "january", 31, request="the same")
    february = answered(people, "february", 28, request=request_of_second)
    swapped(place, january, february)
    used = people.used
    for action in (
        lambda: spend(people, 5, key="january", request="the same").begin(),
        lambda: spend(people, 5, key="january", request="the same").stored(),
    ):
        assert raised(action) in ("LedgerIntegrity", "IdempotencyConflict")
    assert people.used == used
    assert any("tags of ledger entry" in problem for problem in ledger.verify().problems)


def test_without_the_check_of_the_key_the_other_answer_would_be_given(ledger, people, place, monkeypatch):
    january = answered(people, "january", 31)
    swapped(place, january, answered(people, "february", 28))
    monkeypatch.setattr(journal, "_has_key", lambda *given: True)
    assert asked(people, "january") == 28


def test_a_tag_and_a_text_that_lead_to_another_charge_give_no_other_answer(ledger, people, place):
    january, february = answered(people, "january", 31), answered(people, "february", 28)
    swapped(place, january, february)
    edited(place, ("UPDATE entry_text SET body = 'january' WHERE entry = ? AND field = 'key'", (february,)))
    with pytest.raises(LedgerIntegrity, match="another key"):
        spend(people, 5, key="january").stored()


def test_a_missing_tag_costs_again_and_is_found(ledger, people, place):
    number = answered(people, "k", 1)
    edited(place, ("DELETE FROM tag WHERE charge_id = ?", (number,)))
    assert any(f"the tags of ledger entry {number} are missing" in each for each in ledger.verify().problems)
    assert raised(spend(people, 5, key="k").begin) == "ok"
    assert people.used.a0 == 10


def test_no_digest_of_a_question_can_be_guessed_from_the_chain(ledger, people):
    """Entries and tags hold no unsalted digest of a text: a guess of the text is not confirmed."""
    question, key = "how many are ill?", "ward-7"
    answered(people, key, 1, why="report", request=question)
    with ledger.store.read() as transaction:
        chain = "".join(body for _, _, body in transaction.rows("entries_after", 0, 100))
        tags = json.dumps([list(row) for row in transaction.rows("tags", 0)])
    guesses = [journal.digest(each) for each in (question, key, "report")]
    guesses.append(journal.request_digest([[people.id, 5, 0]], "{}", question))
    assert not any(guess in chain + tags for guess in guesses)


# -- who acted, and when


def test_entries_name_their_principal_the_space_of_the_key_and_the_software(ledger, people):
    spend(people, 5, key="k").begin().burn()
    spend(people, 5, key=AutoKey("plan-1")).reserve().refund()
    spend(people, 10**9, key="table", source="visits.csv").begin().commit(1)
    by_kind = [(entry["kind"], entry.get("principal"), entry.get("space")) for entry in entries_of(ledger)[2:]]
    assert by_kind == [
        ("begin", "local", "named"), ("burn", "local", None), ("reserve", "local", "auto"), ("refund", "local", None),
        ("begin", "local", "named"), ("commit", None, None),
    ]  # fmt: skip
    software = [entry["software"] for entry in entries_of(ledger) if entry["kind"] == "begin"]
    assert software[0] == {}
    assert software[1]["tallystick"] == ts.__version__


def test_a_lease_that_another_principal_ends_names_that_one(ledger, people, clock):
    spend(people, 5, key="k", lease=10).begin()
    clock.seconds += 11
    assert ledger.acting_for("sweeper").recover() == (0, 1)
    last = entries_of(ledger)[-1]
    assert (last["kind"], last["principal"], last["why"]) == ("burn", "sweeper", "lease expired")


def test_times_never_run_backwards(ledger, people, clock):
    answered(people, "a", 1)
    clock.seconds -= 1.5
    answered(people, "b", 2)
    times = [entry["at"] for entry in entries_of(ledger)]
    assert times == sorted(times)
    assert ledger.verify().problems == ()


def test_a_receipt_has_the_time_of_its_entry_if_the_clock_is_a_little_behind(ledger, people, clock):
    answered(people, "a", 1)
    clock.seconds -= 1.5
    receipts = [spend(people, 5, key="b").begin().commit(2), people.pay(ts.zcdp(rho=0.1), why="report")]
    assert ledger.verify(receipts=receipts).problems == ()


def test_without_governance_a_clock_that_was_far_ahead_locks_nobody_out(ledger, people, clock):
    clock.seconds += 10_000_000
    answered(people, "a", 1)
    clock.seconds -= 10_000_000
    answered(people, "b", 2)
    times = [entry["at"] for entry in entries_of(ledger)]
    assert times == sorted(times), "times stand still"
    assert ledger.verify().problems == ()


def test_a_governed_ledger_takes_nothing_from_a_clock_that_is_far_behind(ledger, people, clock):
    answered(people, "a", 1)
    ledger.govern(why="team")
    head = ledger.head()
    clock.seconds -= 2.5
    for action in (
        lambda: answered(people, "b", 2),
        lambda: ledger.open("new", budget=Budget.zcdp(1)),
        lambda: people.close(why="done"),
        lambda: ledger.erase(3, why="gone"),
    ):
        with pytest.raises(Unavailable, match=r"seconds behind its newest entry\. Nothing was written"):
            action()
    assert ledger.head() == head
    assert asked_without_writing(people) == 1
    clock.seconds += 2
    answered(people, "b", 2)


def asked_without_writing(people):
    stored = spend(people, 5, key="a").stored()
    return None if stored is None else stored[0]


def test_an_entry_from_before_the_one_before_it_is_found(tmp_path):
    from crash.tampering import disarmed, rewritten, without_triggers

    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        people = ledger.open("people", budget=Budget.zcdp(1), unit="person")
        number = answered(people, "k", 1)
    connection = disarmed(str(path))
    without_triggers(connection, lambda: rewritten(connection, number, lambda entry: entry.update(at=5)))
    connection.close()
    with Ledger(path, config=tmp_path / "elsewhere") as ledger:
        assert f"entry {number}: its time is before that of an earlier entry" in ledger.verify().problems


# -- pages of the history


def test_the_history_comes_in_pages(ledger, people):
    numbers = [answered(people, f"k{number}", number) for number in range(5)]
    pages, last = [], 0
    while page := people.history(limit=2, after=last):
        pages.append([event.charge for event in page])
        last = page[-1].charge
    assert pages == [numbers[:2], numbers[2:4], numbers[4:]]
    assert [event.charge for event in people.history()] == numbers
    assert [event.key for event in people.history(limit=1)] == ["k0"]
    for options in ({"limit": 0}, {"limit": -1}, {"limit": 1.5}, {"after": -1}, {"after": "3"}):
        with pytest.raises(ts.errors.InvalidInput):
            people.history(**options)


# -- ledgers of format 2


def test_asking_for_a_stored_answer_does_not_upgrade_a_ledger(tmp_path, config):
    """The first entry that is written upgrades it. A question that is answered from the record writes nothing."""
    path = str(tmp_path / "budget.db")
    of_format_2(path)
    with Ledger(path) as ledger:
        people = ledger.open("people")
        head = ledger.head()
        assert asked(people, "old") == 7
        assert ledger.head() == head
        answered(people, "new", 8)
        kinds = [entry["kind"] for entry in entries_of(ledger)][head.seq :]
        assert kinds == ["upgrade", "begin", "commit"]
        assert (asked(people, "old"), asked(people, "new")) == (7, 8)
        assert ledger.verify().problems == ()


def test_texts_of_format_2_cannot_be_erased(tmp_path, config):
    path = str(tmp_path / "budget.db")
    of_format_2(path)
    with Ledger(path) as ledger:
        head = ledger.head()
        with pytest.raises(ts.errors.Refused, match="format 2"):
            ledger.erase(3, why="gone")
        assert ledger.head() == head


def test_the_first_use_of_a_ledger_of_format_2_upgrades_it(tmp_path, config):
    path = str(tmp_path / "budget.db")
    of_format_2(path)
    with Ledger(path, config=tmp_path / "other", first_use="another host") as ledger:
        assert [entry["kind"] for entry in entries_of(ledger)][-2:] == ["upgrade", "first_use"]
        assert ledger.verify().problems == ()
        assert entries_of(ledger)[-1]["why"] == "another host"


def test_times_that_ran_backwards_in_format_2_do_not_break_the_upgrade(tmp_path, config):
    """An entry counts from the newest one on: earlier clocks could be ahead, and format 2 allowed it."""
    path = str(tmp_path / "budget.db")
    of_format_2(path, begun_at=4 * 10**12)
    with Ledger(path) as ledger:
        answered(ledger.open("people"), "new", 8)
        assert ledger.verify().problems == ()
        ledger.govern(why="a team uses it")
        answered(ledger.open("people"), "newer", 9)
        assert ledger.verify().problems == ()


def of_format_2(path, begun_at=3):
    """Make a ledger of format 2 with one answer: import an export as version 0.1.0 wrote it."""
    from tallystick.ledger import import_ledger
    from tallystick.ledger.chain import GENESIS, canonical, digest, encode_answer, link

    ledger_id, answer, signer = "ab" * 16, encode_answer(7), Signer.of_user()
    bodies = [
        {"kind": "genesis", "at": 1, "format": "tallystick/ledger/2", "ledger": ledger_id},
        {
            "kind": "open", "at": 2, "name": "people", "parent": None, "partition": None, "account_kind": "population",
            "filter": "zcdp", "unit": "person", "adjacency": "add_remove", "milestones": "[]", "limit": [10**12, 0],
        },
        {
            "kind": "begin", "at": begun_at, "principal": "local", "key": "old", "why": "report", "plan": "{}",
            "request": journal.request_digest([[2, 5, 0]], "{}", ""), "plan_hash": digest("{}"), "source": None,
            "lines": [[2, 5, 0]], "lease_until": 4,
        },
        {"kind": "commit", "at": 4, "charge": 3, "fence": 1, "answer_hash": digest(answer)},
    ]  # fmt: skip
    lines, head = [canonical({"format": "tallystick/export/1", "ledger": ledger_id})], GENESIS
    for seq, body in enumerate(bodies, 1):
        head = link(head, canonical(body))
        more = {"answer": answer} if body["kind"] == "commit" else {}
        lines.append(canonical({"seq": seq, "hash": head, "body": canonical(body), **more}))
    checkpoint = {"ledger": ledger_id, "seq": len(bodies), "head": head, "at": 5}
    lines.append(canonical({"checkpoint": checkpoint, "by": signer.public, "signature": signer.sign(checkpoint)}))
    import_ledger(lines, path, expect_head=head).close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM secret").fetchone() == (0,)
