"""Roles outlive a checkpoint, an export, an import, a purge and another store."""

from __future__ import annotations

import json

import pytest

from crash.stores import raised, spend
from crash.tampering import edited, rows_of
from crash.teams import Team
from tallystick.accounting.losses import zcdp
from tallystick.errors import LedgerIntegrity, NotAuthorised
from tallystick.ledger import Ledger, authority, checkpoints, import_ledger
from tallystick.ledger.authority import DAY
from tallystick.ledger.chain import canonical
from tallystick.ledger.offline import verify_export


@pytest.fixture
def team(place, clock):
    """A ledger in which every part of the state about people has something."""
    team = Team(place, clock)
    number = team.raise_to("root", 2)
    team.by("bob").team.approve(number, why="ok")
    team.raise_to("root", 3)
    team.by("cat").team.reject(team.raise_to("bob", 4), why="no")
    quorum = team.request_of("root", lambda book: book.team.set_quorum("clinic", {"money": 1}, why="x"))
    team.by("bob").team.approve(quorum, why="ok")
    team.by("root").team.break_glass(team.ids["eve"], "school", why="all left")
    token = team.by("ann").team.make_token(population="clinic", ceiling=zcdp(rho=0.2))
    with spend(team.by("ann", token.seq).open("ann's"), 10, key="paid"):
        pass
    team.ledger.team.end(team.ids["amy"], why="left")
    yield team
    team.ledger.close()


def go_on(team):
    """Use every part of the state after it was read again."""
    ledger = team.ledger
    open_one = max(each.number for each in ledger.team.requests() if each.state == "OPEN")
    assert team.by("cat").team.approve(open_one, why="ok").state == "EXECUTED"
    assert raised(lambda: team.by("amy").open("clinic").raise_limit(zcdp(rho=9), why="x")) == "NotAuthorised"
    with spend(team.by("ann").open("ann's"), 10, key="paid later"):
        pass


def test_the_state_about_people_is_the_same_as_data(team):
    found = team.authority
    data = authority.to_data(found)
    assert all(data.values()), [name for name, value in data.items() if not value]
    again = authority.of_data(json.loads(canonical(data)))
    assert again == found
    assert authority.to_data(again) == data


def test_a_copy_of_the_state_changes_apart(team):
    """A turn that is undone has changed a copy only."""
    found = team.authority
    before = authority.to_data(found)
    again = found.copy()
    assert again == found
    for name in authority.to_data(found):
        value = getattr(again, name)
        if isinstance(value, dict):
            for each in value.values():
                if isinstance(each, (dict, list)):
                    each.clear()
            value.clear()
    assert authority.to_data(found) == before


def test_a_check_from_a_checkpoint_says_what_a_full_one_says(team):
    team.ledger.make_checkpoint()
    go_on(team)
    full, quick = team.ledger.verify(), team.ledger.verify(full=False)
    assert (full.problems, quick.problems) == ((), ())
    assert quick.checkpoint > 0
    assert (full.entries, full.head, full.losses) == (quick.entries, quick.head, quick.losses)


def test_a_writer_that_begins_at_a_checkpoint_judges_as_before(team, place, clock):
    team.ledger.make_checkpoint()
    team.ledger.close()
    with Ledger(place, clock=clock) as ledger:
        team.ledger = ledger
        go_on(team)
        assert ledger.verify().problems == ()


def test_a_forgery_after_a_checkpoint_is_found_from_there(team):
    team.ledger.make_checkpoint()
    number = team.forge([team.raise_entry("root", 9, was=2)])
    for full in (True, False):
        [problem, *_] = team.ledger.verify(full=full).problems
        assert problem.startswith(f"entry {number}: this needs 1 approval by others: to raise a limit")


def test_a_writer_stops_at_a_forged_entry(team, place, clock):
    number = team.forge([team.raise_entry("root", 9, was=2)])
    with pytest.raises(LedgerIntegrity, match=f"entry {number}"):
        team.by("ann").team.make_token()


def test_a_checkpoint_of_an_older_program_is_read(ledger, clock):
    """It has no part about people. The principals that it lacks are those that no older program named."""
    people = ledger.open("people", budget=zcdp(rho=1), unit="person")
    with ledger.store.read() as transaction:
        from tallystick.ledger.journal import head
        from tallystick.ledger.replay import Book

        book = Book()
        for seq, _, body in transaction.rows("entries_after", 0, 100):
            book.apply(seq, body)
        state = checkpoints.state_of(book, head(transaction))
    del state["authority"]
    again, _ = checkpoints.book_of(json.loads(canonical(state)))
    assert again.authority == authority.Authority()
    assert again.accounts[people.id] == book.accounts[people.id]


def test_an_export_of_a_ledger_with_roles_is_imported_whole(team, tmp_path, monkeypatch):
    for level in ("chain", "record", "answers"):
        assert verify_export(team.ledger.export(level=level)).problems == ()
    lines = list(team.ledger.export())
    key = team.ledger.signer()
    folder = tmp_path / "another"
    folder.mkdir()
    (folder / "signing_key").write_text(key.seed.hex())
    (folder / "signing_key").chmod(0o600)
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(folder))
    with import_ledger(lines, tmp_path / "copy.db", expect_head=team.ledger.head().hash) as again:
        assert again.verify().problems == ()
        names = {member.name: member.roles for member in again.team.members()}
        assert names == {member.name: member.roles for member in team.ledger.team.members()}
        assert authority.to_data(team.authority) == authority.to_data(believed(again))
        assert raised(lambda: again.acting_for(team.ids["eve"]).team.grant("x", "owner", "clinic", why="x")) != "ok"


def believed(ledger):
    with ledger.store.read() as transaction:
        return ledger.believed(transaction).authority


def test_names_in_an_export_without_texts_are_nowhere(team):
    chain = "\n".join(team.ledger.export(level="chain"))
    for name in ("system user", "root", "approves", "works here", "all left"):
        assert f'"{name}"' not in chain
        assert f"user {name}" not in chain


def test_a_purge_removes_the_name_of_somebody_who_left(team, place, tmp_path):
    if not place.endswith(".db"):
        pytest.skip("files of a server are not ours")
    seq = team.authority.principals[team.ids["amy"]].seq
    number = team.request_of("root", lambda book: book.erase(seq, why="asked for it"))
    for name in ("bob", "tia"):
        team.by(name).team.approve(number, why="ok")
    team.ledger.purge()
    assert team.ledger.verify().problems == ()
    team.ledger.close()
    assert b"system user amy" not in b"".join(path.read_bytes() for path in tmp_path.glob("budget.db*"))


def test_a_user_without_a_role_is_told_so_and_changes_nothing(team, place, clock, monkeypatch):
    """Another user of the operating system, or another role of the database, who has the key, too."""
    head = team.ledger.head()
    store = type(team.ledger.store)
    team.ledger.close()
    monkeypatch.setattr(store, "user", lambda self: "system user mallory")
    with Ledger(place, clock=clock) as ledger:
        account = ledger.open("clinic")
        for action in (
            lambda: spend(account, 1, key="x").begin(),
            lambda: account.raise_limit(zcdp(rho=9), why="x"),
            lambda: ledger.open("new", budget=zcdp(rho=1), unit="person"),
            lambda: ledger.team.grant("mallory", "owner", "clinic", why="x"),
            lambda: ledger.team.begin(why="x"),
            lambda: ledger.team.make_token(),
            lambda: ledger.make_checkpoint(),
        ):
            with pytest.raises(NotAuthorised) as caught:
                action()
            assert caught.value.code == "unknown_principal"
        assert (ledger.actor, ledger.head()) == ("", head)


def test_a_token_acts_for_its_principal_and_dies_with_it(team, clock):
    token = team.by("ann").team.make_token(population="clinic", ceiling=zcdp(rho=20 / 10**12))
    book = team.ledger.with_token(token.text)
    with spend(book.open("ann's"), 15, key="by token"):
        pass
    assert raised(lambda: spend(book.open("ann's"), 15, key="too much").begin()) == "NotAuthorised"
    clock.seconds = (clock.seconds * 1000 // DAY + 1) * DAY / 1000
    with spend(book.open("ann's"), 15, key="the next day"):
        pass
    with pytest.raises(NotAuthorised, match="typing error"):
        team.ledger.with_token(token.text[:-1] + ("0" if token.text[-1] != "0" else "1"))
    team.ledger.team.end(team.ids["ann"], why="left")
    assert raised(lambda: spend(book.open("ann's"), 1, key="late").begin()) == "NotAuthorised"
    with pytest.raises(NotAuthorised, match="not accepted"):
        team.ledger.with_token(token.text)
    assert token.text not in repr(token)
    assert team.ledger.verify().problems == ()


def test_the_text_of_a_token_is_nowhere_in_the_ledger(team, place):
    text = team.by("ann").team.make_token(name="laptop").text
    tables = ("entry", "entry_text")
    everything = json.dumps(
        [[str(each) for each in row] for table in tables for row in rows_of(place, f"SELECT * FROM {table}")]
    )
    assert "laptop" in everything
    assert text not in everything
    assert text.removeprefix("tsk_")[:32] not in everything


def test_a_name_that_somebody_moves_to_another_entry_opens_nothing(team, place, clock):
    """With the rights of the database, and without the key: eve's name takes the text of an owner."""
    subject = rows_of(place, "SELECT entry, salt, body FROM entry_text WHERE field = 'subject' AND entry = 1")[0]
    eve = team.authority.principals[team.ids["eve"]].seq
    edited(
        place,
        ("UPDATE entry_text SET body = ? WHERE field = 'subject' AND entry = ?", ("somebody else", 1)),
        ("UPDATE entry_text SET body = ? WHERE field = 'subject' AND entry = ?", (subject[2], eve)),
    )
    with Ledger(place, clock=clock) as again, pytest.raises(LedgerIntegrity, match="was altered"):
        again.team.set_quorum("clinic", {"money": 0}, why="x")
