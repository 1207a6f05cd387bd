"""Only holders of a key write to a governed ledger. What someone else puts into the tables is not believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tallystick as ts
from crash.stores import entries_of, raised, spend
from crash.tampering import append_forged, edited, newest_in, rows_of
from tallystick.errors import AlreadyCommitted, InvalidInput, LedgerIntegrity, Refused
from tallystick.ledger import Account, Budget, Filter, Ledger, Signer, book, governance, import_ledger, replay
from tallystick.ledger.chain import digest, encode_answer
from tallystick.ledger.texts import Tags, committed

THIEF = Signer(b"t" * 32)
SECOND = Signer(b"2" * 32)


@pytest.fixture
def people(ledger):
    return ledger.open("people", budget=Budget(Filter("zcdp"), 100, 0), unit="person")


@pytest.fixture
def governed(ledger, people):
    """The entry that began governance, after one answer and before another."""
    answered(people, "before", "from before")
    number = ledger.govern(why="a team uses it")
    answered(people, "after", "from after")
    return number


def answered(account, key, answer, a0=5, **options):
    with spend(account, a0, key=key, **options) as charge:
        charge.answer = answer
    return charge.id


def asked(account, key, a0=5):
    """The answer that is stored under a key; fail if it is charged."""
    with pytest.raises(AlreadyCommitted) as found, spend(account, a0, key=key):
        pytest.fail("it was charged")
    return found.value.answer


def with_key(signer, folder):
    """A folder of state with this key, as that of another host."""
    folder.mkdir()
    (folder / "signing_key").write_text(signer.seed.hex())
    (folder / "signing_key").chmod(0o600)
    return folder


def opened(place, config, **options):
    with Ledger(place, config=config, create=False) as ledger:
        head = ledger.head().hash
    return Ledger(place, config=config, expect_head=head, **options)


# -- seals and signatures


def test_every_transaction_is_sealed_and_every_answer_is_signed(ledger, people, governed):
    people.raise_limit(Budget(Filter("zcdp"), 200, 0), why="more")
    with ledger.store.read() as transaction:
        entries = [(row[0], row[1], json.loads(row[2])) for row in transaction.rows("entries_after", 0, 100)]
        seals = {row[0]: row[1:] for row in transaction.rows("seals", 0)}
    public = ledger.signer().public
    assert set(seals) == {seq for seq, _, entry in entries if seq >= governed}
    assert {key for key, _ in seals.values()} == {public}
    assert all(entry.get("governed") == (governed if seq > governed else None) for seq, _, entry in entries)
    commits = [(seq, entry) for seq, _, entry in entries if entry["kind"] == "commit"]
    assert ["signature" in entry for _, entry in commits] == [seq > governed for seq, _ in commits] == [False, True]
    report = ledger.verify()
    assert (report.problems, report.sealed, report.distrusted) == ((), True, ())
    [key] = ledger.keys()
    assert (key.public, key.added, key.retired) == (public, governed, None)


def test_a_ledger_that_is_not_governed_has_no_seals_and_no_keys(ledger, people):
    answered(people, "k", 1)
    assert (ledger.keys(), ledger.verify().sealed) == ([], False)
    with ledger.store.read() as transaction:
        assert transaction.rows("seals", 0) == []


def test_governance_begins_once_and_needs_a_reason(ledger, people, governed):
    with pytest.raises(Refused, match="governed already"):
        ledger.govern(why="again")
    with pytest.raises(InvalidInput):
        ledger.govern(why="")


def test_governance_does_not_begin_on_a_record_that_was_altered(ledger, people, place):
    number = answered(people, "k", 1)
    edited(place, ("UPDATE answer SET body = ? WHERE charge_id = ?", (encode_answer(2), number)))
    with pytest.raises(LedgerIntegrity, match="answer of ledger entry"):
        ledger.govern(why="a team uses it")
    assert ledger.keys() == []


def test_answers_are_returned_from_before_and_after_governance(ledger, people, governed, place):
    assert (asked(people, "before"), asked(people, "after")) == ("from before", "from after")
    with Ledger(place, clock=ledger._clock) as later:
        account = later.open("people")
        assert (asked(account, "before"), asked(account, "after")) == ("from before", "from after")
        answered(account, "more", 3)
        assert later.verify().problems == ()


# -- a second user without a key


def test_a_user_without_the_key_reads_verifies_exports_and_cannot_write(ledger, people, governed, place, tmp_path):
    head = ledger.head()
    with opened(place, tmp_path / "other", clock=ledger._clock) as other:
        account = other.open("people")
        assert (account.used.a0, other.verify().problems, other.verify().sealed) == (10, (), True)
        assert json.loads(list(other.export())[-2])["seq"] == head.seq
        assert spend(account, 5, key="after").stored()[0] == "from after"
        for action in (
            lambda: answered(account, "new", 1),
            lambda: spend(account, 1, key="held").reserve(),
            lambda: other.open("new", budget=Budget.zcdp(1)),
            lambda: account.close(why="done"),
            lambda: account.raise_limit(Budget(Filter("zcdp"), 200, 0), why="more"),
            lambda: account.register("visits", source="visits.csv", fixed={"unit": "pid"}),
            lambda: other.erase(3, why="gone"),
            lambda: other.govern(why="mine"),
            lambda: other.add_key(THIEF.public, why="mine"),
            lambda: other.make_checkpoint(),
        ):
            with pytest.raises(Refused):
                action()
        with pytest.raises(Refused, match="only a holder of one of its keys can write") as caught:
            answered(account, "new", 1)
        assert caught.value.code == "governed_ledger"
    assert ledger.head() == head
    assert ledger.verify().problems == ()


@pytest.mark.parametrize("has_key", [False, True])
def test_the_first_use_of_a_governed_ledger_needs_a_key(ledger, people, governed, place, tmp_path, has_key):
    config = with_key(SECOND, tmp_path / "other")
    if has_key:
        ledger.add_key(SECOND.public, why="a second host")
    head = ledger.head()
    if not has_key:
        with pytest.raises(Refused, match="only a holder"):
            Ledger(place, config=config, first_use="another host")
        assert ledger.head() == head
    else:
        with Ledger(place, config=config, first_use="another host", clock=ledger._clock) as other:
            answered(other.open("people"), "theirs", 1)
        assert entries_of(ledger)[head.seq]["kind"] == "first_use"
    assert ledger.verify().problems == ()


# -- F3: an answer that nobody released


def forge(place, account, key, answer, *, governed, signer=None, **more):
    """Put an answer into all tables, as whoever can write to the store and read its secret."""
    [(newest,)] = rows_of(place, "SELECT body FROM entry ORDER BY seq DESC LIMIT 1")
    [(first,)] = rows_of(place, "SELECT body FROM entry WHERE seq = 1")
    at = json.loads(newest)["at"]
    texts = {"key": committed(key), "request": committed(""), "why": committed("test")}
    pointer = {} if governed is None else {"governed": governed}
    lines, stored = [[account, 5, 0]], committed(encode_answer(answer))
    begun: dict[str, Any] = {
        "kind": "begin", "at": at, "principal": "local", "space": "named", "software": {}, "plan": "{}",
        "plan_hash": digest("{}"), "source": None, "lines": lines, "lease_until": at, **pointer,
        **{name: text.commitment for name, text in texts.items()},
    }  # fmt: skip
    charge = append_forged(place, begun)
    done = {"kind": "commit", "at": at, "charge": charge, "fence": 1, "answer_hash": stored.commitment, **pointer}
    if signer is not None:
        ledger = json.loads(first)["ledger"]
        terms = governance.journal.answer_terms(ledger, charge, 1, begun, stored.commitment)
        done |= {"release_key": signer.public, "signature": signer.sign(terms)}
    last = append_forged(place, done, seal=signer)
    tags = Tags(*rows_of(place, "SELECT since, body FROM secret")[0])
    found = (
        tags.of_key("local", "named", key),
        tags.of_stem("local", "named", key),
        tags.of_request("local", lines, "{}", ""),
    )
    row = (charge, "local", begun["key"], begun["request"], "COMMITTED", 1, at, last)
    edited(
        place,
        ("INSERT INTO charge VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row),
        ("INSERT INTO line VALUES (?, ?, ?, ?)", (charge, *lines[0])),
        ("INSERT INTO answer VALUES (?, ?, ?)", (charge, stored.body, stored.salt)),
        ("INSERT INTO tag VALUES (?, ?, ?, ?)", (charge, *found)),
        ("UPDATE account SET own0 = own0 + 5, used0 = used0 + 5 WHERE id = ?", (account,)),
        *(("INSERT INTO entry_text VALUES (?, ?, ?, ?)", (charge, n, t.salt, t.body)) for n, t in texts.items()),
    )
    return charge


def test_in_a_ledger_that_is_not_governed_the_made_up_answer_is_believed(ledger, people, place):
    """The forgery is a good one: only a key helps against it."""
    answered(people, "k", 1)
    forge(place, people.id, "made up", 42, governed=None)
    assert asked(people, "made up") == 42
    assert ledger.verify().problems == ()


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("way", ["unsigned", "own signature", "not named", "own governance"])
def test_a_made_up_answer_is_not_returned_and_the_writer_stops(ledger, people, governed, place, way, fresh):
    pointer, signer, row = governed, None, ledger.account_row("people")
    if way == "own signature":
        signer = THIEF
    if way == "not named":
        pointer = None
    if way == "own governance":
        why, at = committed("mine"), entries_of(ledger)[-1]["at"]
        body = {"kind": "govern", "at": at, "principal": "local", "why": why.commitment, "public": THIEF.public}
        pointer, signer = append_forged(place, {**body, "vouched": []}, seal=THIEF), THIEF
        edited(place, ("INSERT INTO entry_text VALUES (?, 'why', ?, ?)", (pointer, why.salt, why.body)))
    number = forge(place, people.id, "made up", 42, governed=pointer, signer=signer)
    user = Ledger(place, clock=ledger._clock) if fresh else ledger
    assert raised(lambda: user.open("people")) == "LedgerIntegrity"
    account = Account(user, row, people.path)
    assert raised(spend(account, 5, key="made up").stored) == "LedgerIntegrity"
    assert raised(spend(account, 5, key="made up").begin) in ("LedgerIntegrity", "Refused")
    head = newest_in(place)
    assert raised(lambda: answered(account, "honest", 1)) in ("LedgerIntegrity", "Refused")
    assert newest_in(place) == head
    found = user.verify()
    assert not found.sealed
    assert any(f"{number}" in problem or f"{number + 1}" in problem or "twice" in problem for problem in found.problems)
    if fresh:
        user.close()


def test_without_the_check_of_the_signature_the_made_up_answer_would_be_returned(
    ledger, people, governed, place, monkeypatch
):
    forge(place, people.id, "made up", 42, governed=governed)
    monkeypatch.setattr(book, "require_signed", lambda *given: None)
    monkeypatch.setattr(Ledger, "believed", lambda *given, **options: None)  # it refuses the unsealed entry
    assert spend(people, 5, key="made up").stored()[0] == 42


def test_an_answer_that_was_exchanged_together_with_its_hash_is_not_returned(ledger, people, governed, place):
    number = rows_of(place, "SELECT max(id) FROM charge")[0][0]
    [(seq, body)] = rows_of(place, "SELECT seq, body FROM entry WHERE seq = (SELECT max(seq) FROM entry)")
    entry = json.loads(body)
    stored = encode_answer("exchanged")
    forged = json.dumps({**entry, "answer_hash": digest(stored)}, sort_keys=True, separators=(",", ":"))
    edited(
        place,
        ("UPDATE answer SET body = ? WHERE charge_id = ?", (stored, number)),
        ("UPDATE entry SET body = ? WHERE seq = ?", (forged, seq)),
    )
    assert raised(spend(people, 5, key="after").stored) == "LedgerIntegrity"
    assert f"entry {seq} does not have its hash" in ledger.verify().problems[0]


def test_an_answer_from_before_governance_that_was_exchanged_is_not_returned(
    ledger, people, governed, place, monkeypatch
):
    """The owner vouched for the answer that was there when governance began."""
    number = rows_of(place, "SELECT min(id) FROM charge")[0][0]
    [(seq, body)] = rows_of(place, "SELECT seq, body FROM entry WHERE seq = ?", number + 1)
    stored = encode_answer("exchanged")
    forged = json.dumps({**json.loads(body), "answer_hash": digest(stored)}, sort_keys=True, separators=(",", ":"))
    edited(
        place,
        ("UPDATE answer SET body = ? WHERE charge_id = ?", (stored, number)),
        ("UPDATE entry SET body = ? WHERE seq = ?", (forged, seq)),
    )
    with pytest.raises(LedgerIntegrity, match="not the one of the chain"):
        spend(people, 5, key="before").stored()
    assert ledger.verify().problems
    monkeypatch.setattr(Ledger, "_require_told", lambda *given: None)
    with pytest.raises(LedgerIntegrity, match="does not vouch for it"):
        spend(people, 5, key="before").stored()


def test_the_card_of_a_made_up_answer_does_not_agree_with_the_ledger(tmp_path, config, monkeypatch):
    from tallystick.cards import card, check_card
    from tallystick.tables.measures import parse
    from tallystick.tables.private import Private

    place, file = str(tmp_path / "budget.db"), tmp_path / "visits.csv"
    file.write_text("patient,ward\n" + "".join(f"p{i},{'ab'[i % 2]}\n" for i in range(200)))
    with Ledger(place) as ledger:
        account = ledger.open("people", budget=ts.zcdp(rho=1, delta=1e-6), unit="patient")
        number = ledger.govern(why="a team uses it")
        table = Private(str(file), account=account).table(unit="patient").per_unit(max_groups=1, max_rows_per_group=1)
        plan = table.group_by("ward", keys=["a", "b"]).agg(**parse("count")).plan(rho=0.1)
        honest = card(plan.release(why="report", key="t1"))
        assert [each.problem for each in check_card(honest, ledger) if each.problem] == []
        with monkeypatch.context() as patch:  # the forger has the program, and a key that is not of this ledger
            patch.setattr(governance, "may_sign", lambda *given: True)
            patch.setattr(replay, "may_sign", lambda *given: True)
            patch.setattr(ledger.writer, "signer", THIEF)
            forged = card(plan.release(why="report", key="t2"))
        assert number > 0
        found = [each.problem for each in check_card(forged, ledger) if each.problem]
        assert found
        assert any("seal" in problem or "key" in problem for problem in ledger.verify().problems)


# -- F4: tables that were edited


@pytest.fixture
def source(people):
    people.register("visits", source="visits.csv", fixed={"unit": "pid"}, least_price=ts.zcdp(rho=2e-11))


EDITS = {
    "used set to 0": "UPDATE account SET used0 = 0, own0 = 0",
    "limit raised": "UPDATE account SET limit0 = 1000",
    "account opened again": "UPDATE account SET state = 'open'",
    "quarantine deleted": "DELETE FROM quarantine",
    "quarantine cleared": "UPDATE quarantine SET cleared = 2",
    "least price lowered": "UPDATE dataset SET least0 = 1",
    "dataset removed": "DELETE FROM dataset",
    "end of a dataset edited": "UPDATE entry_text SET body = '{}' WHERE field = 'note'",
    "end of a dataset removed": "DELETE FROM entry_text WHERE field = 'note'",
}


def prepare(edit, ledger, people):
    """Bring the ledger into the state in which the edit would grant something; return that attempt."""
    if edit in ("used set to 0", "limit raised"):
        answered(people, "most", 1, a0=80)
        return lambda account: answered(account, "too much", 1, a0=30)
    if edit == "account opened again":
        people.close(why="done")
        return lambda account: answered(account, "closed", 1)
    if edit.startswith("quarantine"):
        spend(people, 30, key="failed", source="visits.csv").begin().burn()
        return lambda account: spend(account, 30, key="again", source="visits.csv").begin()
    if edit.startswith("end"):
        people.retire("visits", why="replaced")
        return lambda account: spend(account, 30, key="retired", source="visits.csv").begin()
    return lambda account: spend(account, 5, key="cheap", source="visits.csv").begin()


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_table_grants_nothing_and_stops_the_writer(ledger, people, source, place, edit, fresh):
    ledger.govern(why="a team uses it")
    attempt = prepare(edit, ledger, people)
    assert raised(lambda: attempt(people)) in ("BudgetExceeded", "Refused", "Quarantined", "BelowLeastPrice", "Retired")
    edited(place, (EDITS[edit], ()))
    head = ledger.head()
    user = Ledger(place, clock=ledger._clock) if fresh else ledger
    for _ in range(2):
        assert raised(lambda: attempt(user.open("people"))) == "LedgerIntegrity"
        assert user.head() == head
    assert user.verify().problems
    if fresh:
        user.close()


@pytest.mark.parametrize("edit", EDITS)
def test_a_ledger_that_is_not_governed_would_grant_it(ledger, people, source, place, edit):
    attempt = prepare(edit, ledger, people)
    edited(place, (EDITS[edit], ()))
    assert raised(lambda: attempt(people)) == "ok"


def test_an_edit_of_another_account_stops_a_writer_that_begins(ledger, people, place):
    """A writer compares every account once, and then those that move."""
    ledger.govern(why="a team uses it")
    ledger.open("guests", budget=Budget(Filter("zcdp"), 50, 0), unit="person")
    edited(place, ("UPDATE account SET limit0 = 1000 WHERE name = 'guests'", ()))
    with Ledger(place, clock=ledger._clock) as later:
        assert raised(lambda: answered(later.open("people"), "k", 1)) == "LedgerIntegrity"


def test_a_charge_cannot_be_given_back_after_its_row_was_edited(ledger, people, place):
    ledger.govern(why="a team uses it")
    charge = spend(people, 30, key="k").begin()
    edited(place, ("UPDATE charge SET state = 'RESERVED' WHERE id = ?", (charge.id,)))
    assert raised(charge.refund) == "LedgerIntegrity"
    edited(place, ("UPDATE charge SET state = 'EXECUTING' WHERE id = ?", (charge.id,)))
    held = spend(people, 30, key="held").reserve()
    edited(place, ("UPDATE line SET a0 = 60 WHERE charge_id = ?", (held.id,)))
    assert raised(held.refund) == "LedgerIntegrity"
    edited(place, ("UPDATE line SET a0 = 30 WHERE charge_id = ?", (held.id,)))
    held.refund()
    charge.commit(1)
    assert (people.used.a0, ledger.verify().problems) == (30, ())


# -- keys


def test_a_second_key_writes_until_it_is_retired(ledger, people, governed, place, tmp_path):
    config = with_key(SECOND, tmp_path / "second")
    added = ledger.add_key(SECOND.public, why="a second host")
    with opened(place, config, clock=ledger._clock) as second:
        answered(second.open("people"), "theirs", "by the second key")
        assert second.verify().problems == ()
        retired = ledger.retire_key(SECOND.public, why="the host is gone")
        with pytest.raises(Refused, match="only a holder"):
            answered(second.open("people"), "more", 1)
        assert spend(second.open("people"), 5, key="theirs").stored()[0] == "by the second key"
    assert asked(people, "theirs") == "by the second key"
    first, second_key = ledger.keys()
    assert (first[1:3], second_key[1:3]) == ((governed, None), (added, retired))
    answered(people, "more", 1)
    report = ledger.verify()
    assert (report.problems, report.distrusted) == ((), ())


def test_a_key_can_retire_itself_if_another_one_is_left(ledger, people, governed, place, tmp_path):
    ledger.add_key(SECOND.public, why="a second host")
    ledger.retire_key(ledger.signer().public, why="moved to the second host")
    assert raised(lambda: answered(people, "more", 1)) == "Refused"
    with opened(place, with_key(SECOND, tmp_path / "second"), clock=ledger._clock) as second:
        answered(second.open("people"), "more", 1)
        assert second.verify().problems == ()


def test_answers_that_a_stolen_key_signed_are_listed(ledger, people, governed, place, tmp_path):
    ledger.add_key(SECOND.public, why="a second host")
    with opened(place, with_key(SECOND, tmp_path / "second"), clock=ledger._clock) as second:
        account = second.open("people")
        early = answered(account, "early", 1)
        late = answered(account, "late", 2)
    ours = answered(people, "ours", 3)
    ledger.retire_key(SECOND.public, why="it was stolen", distrusted_from=late)
    report = ledger.verify()
    assert (report.problems, report.distrusted) == ((), (late,))
    assert {early, ours}.isdisjoint(report.distrusted)
    assert [asked(people, key) for key in ("early", "ours")] == [1, 3]
    with pytest.raises(ts.errors.Refused, match="stolen"):
        asked(people, "late")


def test_a_retired_key_seals_and_signs_nothing_any_more(ledger, people, governed, place):
    ledger.add_key(SECOND.public, why="a second host")
    retired = ledger.retire_key(SECOND.public, why="it was stolen")
    forge(place, people.id, "made up", 42, governed=retired, signer=SECOND)
    assert raised(spend(people, 5, key="made up").stored) == "LedgerIntegrity"
    assert raised(lambda: answered(people, "more", 1)) == "LedgerIntegrity"
    assert any("a key that may not" in problem for problem in ledger.verify().problems)


def test_keys_are_added_and_retired_once_and_one_is_left(ledger, people, governed):
    own = ledger.signer().public
    with pytest.raises(Refused, match="last key"):
        ledger.retire_key(own, why="gone")
    for public in ("", "zz" * 32, SECOND.public[:-1], SECOND.public.upper() + "A", 5):
        with pytest.raises(InvalidInput):
            ledger.add_key(public, why="a second host")
    with pytest.raises(InvalidInput):
        ledger.add_key(own, why="again")
    with pytest.raises(InvalidInput):
        ledger.retire_key(SECOND.public, why="it was never added")
    added = ledger.add_key(SECOND.public, why="a second host")
    for first in (added - 1, 10**6):
        with pytest.raises(InvalidInput):
            ledger.retire_key(SECOND.public, why="stolen", distrusted_from=first)
    ledger.retire_key(SECOND.public, why="stolen", distrusted_from=added)
    for action in (ledger.retire_key, ledger.add_key):
        with pytest.raises(InvalidInput):
            action(SECOND.public, why="again")
    assert ledger.verify().problems == ()


def test_a_ledger_that_is_not_governed_takes_no_keys(ledger, people):
    with pytest.raises(Refused, match="not governed"):
        ledger.add_key(SECOND.public, why="a second host")


@pytest.mark.parametrize("way", ["own seal", "no seal", "sealed later"])
def test_a_key_that_its_holder_added_is_not_believed(ledger, people, governed, place, way):
    """Only a key that was valid before can add one."""
    why, at = committed("mine"), entries_of(ledger)[-1]["at"]
    body = {"kind": "key_add", "at": at, "principal": "local", "why": why.commitment, "public": THIEF.public}
    body["governed"] = governed
    number = append_forged(place, body, seal=THIEF if way == "own seal" else None)
    edited(place, ("INSERT INTO entry_text VALUES (?, 'why', ?, ?)", (number, why.salt, why.body)))
    if way == "sealed later":
        forge(place, people.id, "made up", 42, governed=number, signer=THIEF)
        assert raised(spend(people, 5, key="made up").stored) == "LedgerIntegrity"
    for user in (ledger, Ledger(place, clock=ledger._clock)):
        head = newest_in(place)
        assert raised(lambda user=user: answered(user.open("people"), "more", 1)) == "LedgerIntegrity"
        assert newest_in(place) == head
        assert any(f"entry {number}" in problem or "no seal" in problem for problem in user.verify().problems)
    user.close()


def test_if_a_key_could_seal_its_own_entry_the_thief_would_be_believed(ledger, people, governed, place, monkeypatch):
    why, at = committed("mine"), entries_of(ledger)[-1]["at"]
    body = {"kind": "key_add", "at": at, "principal": "local", "why": why.commitment, "public": THIEF.public}
    number = append_forged(place, {**body, "governed": governed}, seal=THIEF)
    edited(place, ("INSERT INTO entry_text VALUES (?, 'why', ?, ?)", (number, why.salt, why.body)))
    assert ledger.verify().problems
    mistake = lambda keys, public, seq: any(key.public == public and key.is_valid(seq) for key in keys)  # noqa: E731
    monkeypatch.setattr(replay, "may_sign", mistake)
    assert ledger.verify().problems == ()


def test_an_entry_about_keys_that_was_edited_is_not_believed(ledger, people, governed, place):
    added = ledger.add_key(SECOND.public, why="a second host")
    [(body,)] = rows_of(place, "SELECT body FROM entry WHERE seq = ?", added)
    forged = body.replace(SECOND.public, THIEF.public)
    edited(place, ("UPDATE entry SET body = ? WHERE seq = ?", (forged, added)))
    with Ledger(place, clock=ledger._clock) as later:
        assert raised(later.keys) == "LedgerIntegrity"
        assert raised(lambda: answered(later.open("people"), "k", 1)) == "LedgerIntegrity"
        assert later.verify().problems


@pytest.mark.parametrize("names_keys", [True, False])
def test_an_entry_without_a_seal_stops_the_writer(ledger, people, governed, place, names_keys):
    at, pointer = entries_of(ledger)[-1]["at"], {"governed": governed} if names_keys else {}
    number = append_forged(place, {"kind": "close", "at": at, "account": people.id, "why": "0" * 64, **pointer})
    for user in (ledger, Ledger(place, clock=ledger._clock)):
        assert raised(lambda user=user: answered(user.open("people"), "more", 1)) == "LedgerIntegrity"
        assert any(f"{number}" in problem for problem in user.verify().problems)
    user.close()


def test_a_seal_of_another_entry_or_ledger_is_wrong(ledger, people, governed, place):
    [(seq, head)] = rows_of(place, "SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1")
    right = rows_of(place, "SELECT key, signature FROM seal WHERE seq = ?", seq)[0]
    [other] = rows_of(place, "SELECT signature FROM seal WHERE seq = ?", governed)
    terms = {"ledger": "0" * 32, "seq": seq, "hash": head}
    for signature in (other[0], ledger.signer().sign(terms), "0" * 128):
        edited(place, ("UPDATE seal SET signature = ? WHERE seq = ?", (signature, seq)))
        assert f"the seal of entry {seq} is wrong" in ledger.verify().problems[0]
        with Ledger(place, clock=ledger._clock) as later:
            assert raised(lambda later=later: answered(later.open("people"), "more", 1)) == "LedgerIntegrity"
        edited(place, ("UPDATE seal SET signature = ? WHERE seq = ?", (right[1], seq)))
    assert ledger.verify().problems == ()


def test_a_transaction_that_fails_leaves_the_writer_able_to_write(ledger, people, governed):
    def fail():
        with ledger.store.write("edit") as transaction:
            governance.journal.append(transaction, "close", ledger.now(), account=people.id, why=committed("done"))
            raise ZeroDivisionError

    for number in range(3):
        assert raised(fail) == "ZeroDivisionError"
        assert raised(lambda: spend(people, 500, key="too much").begin()) == "BudgetExceeded"
        answered(people, f"next {number}", number)
    assert ledger.verify().problems == ()


def test_a_key_that_was_not_added_after_all_is_forgotten(ledger, people, governed):
    """The transaction that adds a key can fail at its end. Another key then gets the same number."""
    last = ledger.head().seq

    def fail():
        with ledger.store.write("key_add") as transaction:
            fields = {"principal": "local", "why": committed("x"), "public": SECOND.public}
            governance.journal.append(transaction, "key_add", ledger.now(), **fields)
            transaction.turn.governed = last + 1
            ledger.writer.end(transaction)
            raise ZeroDivisionError

    assert raised(fail) == "ZeroDivisionError"
    third = Signer(b"3" * 32)
    assert ledger.add_key(third.public, why="another host") == last + 1
    answered(people, "k", 1)
    first, second = ledger.keys()
    assert (first.public, second.public) == (ledger.signer().public, third.public)
    assert ledger.verify().problems == ()


# -- moving


def test_an_import_keeps_seals_and_texts_and_makes_new_tags(ledger, people, governed, place, tmp_path):
    ledger.add_key(SECOND.public, why="a second host")
    lines = list(ledger.export())
    copied = str(tmp_path / "copy.db")
    with import_ledger(lines, copied, expect_head=ledger.head().hash) as copy:
        assert copy.verify().problems == ()
        assert copy.verify().sealed
        for table in ("seal", "entry_text"):
            query = f"SELECT * FROM {table} ORDER BY 1, 2"
            assert [tuple(row) for row in rows_of(place, query)] == [tuple(row) for row in rows_of(copied, query)]
        tags = [{row[1] for row in rows_of(each, "SELECT charge_id, key_tag FROM tag")} for each in (place, copied)]
        assert len(tags[0]) == len(tags[1]) == 2
        assert tags[0].isdisjoint(tags[1])
        account = copy.open("people")
        assert (asked(account, "before"), asked(account, "after")) == ("from before", "from after")
        answered(account, "more", 1)
        assert copy.verify().problems == ()


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line.pop("seal"),
        lambda line: line.update(seal=["0" * 64, line["seal"][1]]),
        lambda line: line.update(seal=[line["seal"][0], "0" * 128]),
        lambda line: line.update(seal=5),
    ],
)
def test_an_export_without_a_valid_seal_is_refused(ledger, people, governed, tmp_path, damage):
    lines = list(ledger.export())
    newest = json.loads(lines[-2])
    damage(newest)
    lines[-2] = json.dumps(newest)
    assert raised(lambda: import_ledger(lines, tmp_path / "copy.db", config=tmp_path / "new")) == "LedgerIntegrity"


@pytest.mark.parametrize("level", ["chain", "record"])
def test_only_an_export_with_answers_is_imported(ledger, people, governed, tmp_path, level):
    lines = list(ledger.export(level=level))
    with pytest.raises(InvalidInput, match="answers"):
        import_ledger(lines, tmp_path / "copy.db", config=tmp_path / "new")
    with pytest.raises(InvalidInput):
        list(ledger.export(level="everything"))
