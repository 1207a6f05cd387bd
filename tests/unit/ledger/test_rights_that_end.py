"""Rights that end while something runs: what is paid keeps its answer, and nothing new begins."""

from __future__ import annotations

import pytest

from crash.teams import Team
from tallystick.accounting.losses import zcdp
from tallystick.errors import InvalidInput, NotAuthorised, Refused, Unavailable
from tallystick.ledger import Ledger
from tallystick.ledger.offline import verify_export

SOURCE = "the visits"


@pytest.fixture
def team(place, clock):
    team = Team(place, clock)
    yield team
    team.ledger.close()


def end_token(team: Team, token: int) -> None:
    team.by("ann").team.end_token(token)


def outlive_token(team: Team, token: int) -> None:
    team.clock.seconds += 2 * 86_400


def end_person(team: Team, token: int) -> None:
    team.ledger.team.end(team.ids["ann"], why="left")


def take_role(team: Team, token: int) -> None:
    team.ledger.team.revoke(team.ids["ann"], "analyst", "clinic", why="left")


ENDS = [end_token, outlive_token, end_person, take_role]


@pytest.mark.parametrize("end", ENDS)
def test_a_charge_that_runs_keeps_its_answer(team, stranger, end):
    token = team.by("ann").team.make_token(population="clinic", days=1)
    book = team.ledger.with_token(token.text)
    with book.open("ann's").charge(zcdp(rho=0.1), why="a question", source=SOURCE, lease=3 * 86_400) as charge:
        end(team, token.seq)
        charge.renew(lease=60)
        charge.answer = 7
    assert charge.state == "COMMITTED"
    assert team.ledger.verify().problems == ()
    stranger.check("".join(f"{line}\n" for line in team.ledger.export(level="chain")).encode())


@pytest.mark.parametrize("end", ENDS)
def test_a_charge_that_runs_is_ended_by_its_principal(team, end):
    token = team.by("ann").team.make_token(population="clinic", days=1)
    charge = team.ledger.with_token(token.text).open("ann's").charge(zcdp(rho=0.1), why="a question", lease=3 * 86_400)
    charge.begin()
    end(team, token.seq)
    charge.burn()
    assert charge.state == "BURNED"


@pytest.mark.parametrize("end", ENDS)
def test_a_reservation_does_not_outlive_the_right_to_pay(team, end):
    token = team.by("ann").team.make_token(population="clinic", days=1)
    own = team.ledger.with_token(token.text).open("ann's")
    charge = own.reserve(zcdp(rho=0.1), why="later", source=SOURCE, lease=300 * 86_400)
    end(team, token.seq)
    with pytest.raises(NotAuthorised):
        charge.start()
    with pytest.raises(NotAuthorised):
        charge.renew(lease=60)
    team.clock.seconds += 301 * 86_400
    assert team.ledger.recover() == (1, 0)
    assert team.ledger.verify().problems == ()


def test_a_forged_start_after_the_role_was_taken_is_found(team, stranger):
    charge = team.by("ann").open("ann's").reserve(zcdp(rho=0.1), why="later", lease=86_400)
    take_role(team, 0)
    number = team.forge([team.entry("ann", "start", charge=charge.id, fence=1)])
    lines = list(team.ledger.export(level="chain"))
    assert verify_export(lines).problems[0].startswith(f"entry {number}: ")
    with pytest.raises(stranger.Problem, match=f"entry {number}:"):
        stranger.check("".join(f"{line}\n" for line in lines).encode())


def test_a_machine_ends_with_the_person_who_answers_for_it(team, stranger):
    sue = team.by("sue").team
    machine = sue.add("machine:bot")
    sue.grant(machine, "analyst", "school", why="nightly")
    sue.allow(machine, "school", zcdp(rho=0.5), called="nightly", why="nightly")
    token = sue.make_token(principal=machine)
    book = team.ledger.with_token(token.text)
    number = team.request_of("sue", lambda each: each.team.grant(team.ids["eve"], "owner", "school", why="next"))
    team.by("tia").team.approve(number, why="ok")
    book.open("nightly").pay(zcdp(rho=0.1), why="before")
    team.ledger.team.end(team.ids["sue"], why="left")
    with pytest.raises(NotAuthorised):
        book.open("nightly").pay(zcdp(rho=0.1), why="after")
    with pytest.raises(NotAuthorised):
        team.ledger.with_token(token.text)
    assert [each.ended for each in team.ledger.team.members() if each.id == machine] == [True]
    entry = team.begin_entry(machine, team.ledger.open("nightly").id, 0.1)
    number = team.forge([entry])
    lines = list(team.ledger.export(level="chain"))
    assert verify_export(lines).problems[0].startswith(f"entry {number}: ")
    with pytest.raises(stranger.Problem, match=f"entry {number}:"):
        stranger.check("".join(f"{line}\n" for line in lines).encode())


def test_a_charge_that_ran_when_roles_began_keeps_its_answer(place, clock, stranger):
    with Ledger(place, clock=clock) as ledger:
        clinic = ledger.open("clinic", budget=zcdp(rho=1), unit="person")
        ledger.govern(why="a team uses it")
        with clinic.charge(zcdp(rho=0.1), why="a question", source=SOURCE, lease=60) as charge:
            ledger.team.begin(why="a team uses it")
            charge.answer = 7
        assert charge.state == "COMMITTED"
        assert ledger.verify().problems == ()
        stranger.check("".join(f"{line}\n" for line in ledger.export(level="chain")).encode())


def test_an_erasure_requested_after_a_checkpoint_is_judged_alike_without_it(team, place, clock):
    paid = team.by("ann").open("ann's").pay(zcdp(rho=0.1), why="about Mrs Miller")
    team.ledger.make_checkpoint()
    with Ledger(place, clock=clock) as again:
        root = again.acting_for(team.ids["root"])
        number = root.team.request(lambda book: book.erase(paid.charge, why="she asked"), why="she asked")
        [asked] = [each for each in again.team.requests() if each.number == number]
        assert asked.population == "clinic"
    assert team.ledger.verify().problems == ()
    assert team.by("bob").team.approve(number, why="ok").state == "EXECUTED"
    assert team.ledger.verify(full=False).problems == ()


def test_the_record_of_a_raise_names_only_approvals_that_counted(team):
    for name in ("dan", "dee"):
        team.ids[name] = team.ledger.team.add(name)
        number = team.request_of("root", lambda book, who=name: book.team.grant(who, "approver", "clinic", why="x"))
        for approver in ("bob", "cat"):
            if team.authority.requests[number].state == "OPEN":
                team.by(approver).team.approve(number, why="ok")
    number = team.raise_to("ann", 2)
    team.by("bob").team.approve(number, why="ok")
    revoke = team.request_of("root", lambda book: book.team.revoke(team.ids["bob"], "approver", "clinic", why="left"))
    for approver in ("cat", "dan"):
        team.by(approver).team.approve(revoke, why="ok")
    assert team.by("cat").team.approve(number, why="ok").state == "EXECUTED"
    [found] = team.ledger.team.approved_raises(team.clinic)
    assert found.approved_by == (team.ids["cat"],)
    team.ledger.make_checkpoint()
    with Ledger(team.place, clock=team.clock) as again:
        assert again.team.approved_raises(team.clinic) == [found]


def test_a_request_is_not_made_if_its_state_changed_on_the_way(team):
    def late(book: Ledger) -> None:
        try:
            book.open("clinic").raise_limit(zcdp(rho=3), why="more")
        finally:
            team.by("bob").team.approve(first, why="ok")

    first = team.raise_to("root", 2)
    with pytest.raises(Unavailable, match="another change came before"):
        team.by("ann").team.request(late, why="more")


def test_the_words_of_a_request_say_that_a_block_is_one_of_a_partition(team):
    from tallystick.ledger import Partition

    north = Partition("region", by="unit id", one_block_per_unit=True, column="region", values=("n", "m"))
    number = team.request_of(
        "ann", lambda book: book.open("north", budget=zcdp(rho=1), parent="clinic", partition=north)
    )
    [asked] = [each for each in team.ledger.team.requests() if each.number == number]
    words = ", as a block of partition region, for rows where region is n, m: only its largest block counts above"
    assert words in asked.change


@pytest.mark.parametrize("name", [None, 7, b"ann", [], "", "an\nn", "a\u202enn", "\ud800", "x" * 201])
@pytest.mark.parametrize("call", ["add", "end", "make_token"])
def test_a_name_is_text_that_can_be_seen(team, call, name):
    if name is None and call == "make_token":
        return  # the caller
    calls = {
        "add": lambda: team.ledger.team.add(name),
        "end": lambda: team.ledger.team.end(name, why="left"),
        "make_token": lambda: team.ledger.team.make_token(principal=name),
    }
    with pytest.raises(InvalidInput):
        calls[call]()


@pytest.mark.parametrize("number", [None, [], "1", 1.5, 10**40])
def test_a_number_that_is_none_is_refused(team, number):
    bob = team.by("bob").team
    calls = [lambda: bob.approve(number, why="ok"), lambda: bob.reject(number, why="no"), lambda: bob.withdraw(number)]
    for call in (*calls, lambda: bob.end_token(number)):
        with pytest.raises((InvalidInput, NotAuthorised, Refused)):
            call()


@pytest.mark.parametrize("value", [None, 7, b"x", [None], "analyst"])
def test_what_is_no_list_function_or_mapping_is_refused(team, value):
    own = team.ledger.team
    calls = [
        lambda: own.make_token(roles=value),
        lambda: own.make_token(doors=value),
        lambda: own.make_token(days=None),
        lambda: own.set_quorum("clinic", value, why="x"),
        lambda: own.request(value, why="x"),
        lambda: own.roles(value),
        lambda: own.allow("ann", value, zcdp(rho=0.1), why="x"),
        lambda: team.ledger.charge_row(value),
        lambda: team.ledger.is_about(-1, "a question"),
        lambda: team.ledger.account_by_id(-1),
        lambda: team.ledger.account_by_id(10**40),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()


@pytest.mark.parametrize("text", [None, 7, b"x", "\ud800"])
def test_what_no_store_can_hold_is_refused_before_the_charge(team, text):
    own = team.by("ann").open("ann's")
    calls = [
        lambda: own.charge(zcdp(rho=0.1), why="a question", request=text),
        lambda: own.charge(zcdp(rho=0.1), why="a question", source=text),
        lambda: own.charge(zcdp(rho=0.1), why="a question", also=[text]),
        lambda: own.training(zcdp(rho=0.1), steps=2, why="a run", request=text).start(),
    ]
    for call in calls:
        with pytest.raises(InvalidInput):
            call()
    assert own.used.a0 == 0
