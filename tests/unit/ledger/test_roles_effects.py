"""Every change that can be requested is carried out by its approval as it would be at once, in both stores."""

from __future__ import annotations

import pytest

from crash.stores import raised, spend
from crash.teams import Team
from tallystick.accounting.losses import zcdp
from tallystick.errors import Refused
from tallystick.ledger import Partition
from tallystick.ledger.offline import verify_export
from tallystick.ledger.texts import AutoKey

PUBLIC = "cd" * 32


@pytest.fixture
def team(place, clock):
    team = Team(place, clock)
    yield team
    assert team.ledger.verify().problems == ()
    assert verify_export(team.ledger.export(level="answers")).problems == ()
    team.ledger.make_checkpoint()
    assert team.ledger.verify(full=False).problems == ()
    team.ledger.close()


def carried_out(team, operation, *approvers):
    number = team.request_of("root", operation)
    for name in approvers or ("bob",):
        outcome = team.by(name).team.approve(number, why="ok")
    assert outcome.state == "EXECUTED"


def years(year):
    return Partition("year", by="public attribute", one_block_per_unit=True, column="year", values=(year,))


def test_a_block_of_a_partition(team):
    def operation(book, year="2025", name="a"):
        book.open(name, budget=zcdp(rho=0.5), parent=book.open("clinic"), partition=years(year))

    withdrawn = team.request_of("root", lambda book: operation(book, name="b"))
    team.by("root").team.withdraw(withdrawn)
    carried_out(team, operation)
    block = team.ledger.open("a")
    assert (block.parent.name, block.partition) == ("clinic", "year")
    with pytest.raises(Refused):  # rows of the same year
        carried_out(team, lambda book: operation(book, name="c"))
    carried_out(team, lambda book: operation(book, "2026", "d"))
    with spend(team.by("root").open("d"), 5, key="pays"):
        pass


def test_a_dataset_is_registered_changed_and_retired(team):
    register = {"source": "v.csv", "fixed": {"unit": "pid"}, "note": "a note", "marks": ["file /v.csv"]}
    carried_out(team, lambda book: book.open("clinic").register("visits", **register))
    carried_out(team, lambda book: book.open("clinic").register("visits", **{**register, "note": "new"}, update=True))
    assert team.ledger.datasets()["visits"].note == "new"
    carried_out(team, lambda book: book.open("clinic").retire("visits", why="replaced"))
    assert team.ledger.datasets()["visits"].retired == "replaced"
    assert raised(lambda: spend(team.by("ann").open("ann's"), 5, source="v.csv", key="late").begin()) == "Retired"


def test_closed_data_are_opened_again(team):
    with pytest.raises(RuntimeError), spend(team.ledger.open("clinic"), 10**9, source="v.csv", key="fails"):
        raise RuntimeError
    assert raised(lambda: spend(team.by("ann").open("ann's"), 5, source="v.csv", key="x").begin()) == "Quarantined"
    carried_out(team, lambda book: book.open("clinic").clear(why="looked"))
    with spend(team.by("ann").open("ann's"), 10**9, source="v.csv", key="x"):
        pass


def test_a_request_to_open_data_is_void_once_more_failed(team):
    def fails(key, source):
        spend(team.ledger.open("clinic"), 10**9, source=source, key=key).begin().burn()

    running = spend(team.ledger.open("clinic"), 10**9, source="w.csv", key="runs").begin()
    fails("first", "v.csv")
    assert raised(lambda: team.request_of("root", lambda book: book.open("clinic").clear(why="x"))) == "Unavailable"
    running.burn()
    number = team.request_of("root", lambda book: book.open("clinic").clear(why="looked"))
    assert team.by("bob").team.approve(number, why="ok").state == "EXECUTED"
    fails("second", "v.csv")
    assert raised(lambda: team.by("cat").team.approve(number, why="again")) == "Refused"
    carried_out(team, lambda book: book.open("clinic").clear(why="looked again"))


def test_an_account_is_closed(team):
    carried_out(team, lambda book: book.open("ann's").close(why="done"))
    assert raised(lambda: spend(team.by("ann").open("ann's"), 5, key="late").begin()) != "ok"


def test_keys_come_and_go(team):
    carried_out(team, lambda book: book.add_key(PUBLIC, why="a host"), "bob", "tia")
    carried_out(team, lambda book: book.retire_key(PUBLIC, why="gone"), "cat", "tom")
    added, retired = team.ledger.keys()
    assert (added.public, added.retired, retired.public) == (team.ledger.signer().public, None, PUBLIC)
    assert retired.retired is not None


def test_texts_and_answers_are_erased(team):
    with spend(team.by("ann").open("ann's"), 10**9, key="hers") as charge:
        charge.answer = "an answer"
    carried_out(team, lambda book: book.erase(charge.id, why="she asked", answers=True))
    with team.ledger.store.read() as transaction:
        assert transaction.rows("texts_of", charge.id) == []
        assert transaction.row("answer_of", charge.id) is None


def test_roles_are_given_and_taken(team):
    carried_out(team, lambda book: book.team.grant(team.ids["amy"], "approver", "clinic", why="x"))
    carried_out(team, lambda book: book.team.grant(team.ids["eve"], "auditor", None, why="x"), "bob", "tia")
    carried_out(team, lambda book: book.team.set_quorum("clinic", {"people": 2}, why="x"))
    carried_out(team, lambda book: book.team.set_quorum("clinic", {"people": 0}, why="x"), "bob", "amy")
    assert team.by("root").team.grant(team.ids["ann"], "approver", "clinic", why="alone now")


@pytest.mark.parametrize("state", ["RESERVED", "EXECUTING"])
def test_people_ask_the_same_question_of_different_allowances(team, clock, state):
    """A question has one automatic key. What one analyst left is ended by its lease, and another asks again."""
    team.by("root").team.allow(team.ids["amy"], "clinic", zcdp(rho=0.2), called="amy's", why="x")

    def question(name, account, **options):
        options = {"request": "how many?", "key": AutoKey("q"), **options}
        return spend(team.by(name).open(account), 10**9, **options)

    held = question("ann", "ann's", lease=60)
    held = held.reserve() if state == "RESERVED" else held.begin()
    assert raised(lambda: question("amy", "amy's").begin()) == "Unavailable"
    clock.seconds += 61
    ended = raised(lambda: question("amy", "amy's", lease=60).reserve().refund())
    assert ended == ("ok" if state == "RESERVED" else "IdempotencyConflict"), ended
    if state == "RESERVED":
        with question("ann", "ann's") as charge:
            charge.answer = 7
        assert raised(lambda: question("amy", "amy's").begin()) == "AlreadyCommitted"
        assert team.ledger.open("amy's").used.a0 == 0
