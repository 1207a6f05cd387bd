"""Who may do what: every role tries every action that the ledger checks, and the table is that of the design."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from contracts.other_users import acting_as
from crash.stores import spend
from crash.teams import CLINIC, NOBODY, Team
from tallystick.accounting.losses import zcdp
from tallystick.errors import InvalidInput, LedgerIntegrity, NotAuthorised, Refused
from tallystick.ledger import Ledger, authority
from tallystick.ledger.actions import ACTIONS, ROLES

ACTORS = {**CLINIC, "none": NOBODY}
PUBLIC = "cd" * 32
NAMES = ("owner", "approver", "analyst", "auditor", "operator", "runner", "none")
EXPECTED = {
    # y: may, q: may request, -: neither. By owner, approver, analyst, auditor, operator here, runner, no role.
    "release": "y - y - - - -",
    "report a payment made elsewhere": "y - y - - y -",
    "open a population": "- - - - - - -",
    "register a new data set": "q - - - - - -",
    "raise a limit": "q q q - - - -",
    "close an account": "q q - - - - -",
    "give an allowance": "y - q - - - -",
    "decide on a request": "- y - - - - -",
    "withdraw a request of another": "- - - - - - -",
    "change the quorum": "q q - - - - -",
    "grant approver": "q q - - - - -",
    "revoke owner": "q q - - - - -",
    "grant analyst": "y - - - - - -",
    "revoke runner": "y - - - - - -",
    "grant auditor here": "y - - - - - -",
    "end a principal everywhere": "- - - - - - -",
    "clear a quarantine": "q q - - - - -",
    "make an own token": "y y y y y y y",
    "end a token of another": "y - - - - - -",
    "add a key": "q q - - - - -",
    "erase texts": "q q - - - - -",
    "break the glass": "- - - - - - -",
}
"""Where the ledger allows more than the design: owners and analysts report payments that were made elsewhere, because
a ledger without a service has no other payments. The operator here is that of a population, who is none of the ledger:
what the design gives to the operator is in ``OF_THE_OPERATOR``."""
OF_THE_OPERATOR = {
    "open a population": "y", "end a principal everywhere": "y", "end a token of another": "y", "break the glass": "y",
    "add a key": "q", "raise a limit": "-", "grant approver": "-", "grant analyst": "-",
    "erase texts": "-", "decide on a request": "-", "release": "-",
}  # fmt: skip
ALONE = {
    "raise a limit": "y", "close an account": "y", "register a new data set": "y", "change the quorum": "y",
    "grant approver": "y", "clear a quarantine": "y", "erase texts": "y", "give an allowance": "y",
    "open a population": "-", "break the glass": "-", "decide on a request": "-",
}  # fmt: skip
"""What an owner may do where no approval is needed."""


class Trial(Ledger):
    """A ledger whose writes are undone. The right to write is checked before."""

    def write(self, operation: str, *, dry_run: bool = False) -> Any:
        return super().write(operation, dry_run=True)


def trial(team: Team, principal: str) -> Ledger:
    book = object.__new__(Trial)
    book.__dict__.update(team.ledger.__dict__)
    return book.acting_for(principal)


def opened_or_tried(book: Ledger) -> None:
    """Open a population. In a trial it cannot be read afterwards."""
    try:
        book.open("new", budget=zcdp(rho=1), unit="person")
    except LedgerIntegrity as problem:
        assert "is missing" in str(problem) or "differs from the chain" in str(problem)  # noqa: PT017


def clear(book: Ledger) -> None:
    book.open("clinic").clear(why="looked")


def own_account(team: Team, actor: str) -> str:
    return "ann's" if actor == "ann" else "max's" if actor == "max" else "clinic"


def actions(team: Team, actor: str) -> dict[str, Callable[[Ledger], Any]]:
    """What each action of the table is, for a person who uses the own allowance, if there is one."""
    ids, own = team.ids, own_account(team, actor)
    to_decide = next(number for number, each in team.authority.requests.items() if each.state == "OPEN")
    amy = team.grant_of("amy", "analyst", team.clinic)
    token = next(number for number, each in team.authority.tokens.items() if each.ended is None)
    return {
        "release": lambda book: spend(book.open(own), 1, source="visits.csv").begin(),
        "report a payment made elsewhere": lambda book: spend(book.open(own), 1).begin(),
        "open a population": opened_or_tried,
        "register a new data set": lambda book: book.open("clinic").register("new", source="new.csv", fixed={"a": "b"}),
        "raise a limit": lambda book: book.open("clinic").raise_limit(zcdp(rho=3), why="x"),
        "close an account": lambda book: book.open("clinic").close(why="x"),
        "give an allowance": lambda book: book.team.allow(ids["amy"], "clinic", zcdp(rho=0.1), why="x"),
        "decide on a request": lambda book: book.team.reject(to_decide, why="x"),
        "withdraw a request of another": lambda book: book.team.withdraw(to_decide),
        "change the quorum": lambda book: book.team.set_quorum("clinic", {"money": 0}, why="x"),
        "grant approver": lambda book: book.team.grant(ids["amy"], "approver", "clinic", why="x"),
        "revoke owner": lambda book: book.team.revoke(ids["ole"], "owner", "clinic", why="x"),
        "grant analyst": lambda book: book.team.grant(ids["sue"], "analyst", "clinic", why="x"),
        "revoke runner": lambda book: book.team.revoke(ids["max"], "runner", "clinic", why="x"),
        "grant auditor here": lambda book: book.team.grant(ids["sue"], "auditor", "clinic", why="x"),
        "end a principal everywhere": lambda book: book.team.end(ids["amy"], why="x"),
        "clear a quarantine": clear,
        "make an own token": lambda book: book.team.make_token(),
        "end a token of another": lambda book: book.team.end_token(token),
        "add a key": lambda book: book.add_key(PUBLIC, why="x"),
        "erase texts": lambda book: book.erase(amy, why="x"),
        "break the glass": lambda book: book.team.break_glass(ids["eve"], "clinic", why="x"),
    }


def cell(book: Ledger, action: Callable[[Ledger], Any]) -> str:
    """What the ledger says to somebody who tries, and then requests."""
    try:
        action(book)
    except NotAuthorised as refusal:
        needs = refusal.code == "needs_approval"
    except InvalidInput as refusal:
        if refusal.code != "unknown_account":  # an account that they may not see looks absent
            raise
        needs = False
    else:
        return "y"
    try:
        book.team.request(action, why="asked")
    except (NotAuthorised, Refused, InvalidInput):
        return "needs approval, and cannot be requested" if needs else "-"
    return "q" if needs else "not allowed, and can be requested"


def prepared(tmp_path, clock, *, approvers=True):
    """A team with a request, a token, a failure and a second owner. The owner of the matrix is not the operator."""
    team = Team(str(tmp_path / "team.db"), clock, approvers=approvers)
    team.ids["ole"] = team.ledger.team.add("ole")
    if approvers:
        number = team.request_of("root", lambda book: book.team.grant(team.ids["ole"], "owner", "clinic", why="x"))
        team.by("bob").team.approve(number, why="ok")
    else:
        team.ledger.team.grant(team.ids["ole"], "owner", "clinic", why="x")
    team.raise_to("root", 2)
    team.by("amy").team.make_token()
    team.ledger.team.allow(team.ids["max"], "clinic", zcdp(rho=0.1), called="max's", why="x")
    spend(team.ledger.open("clinic"), 1, source="failed.csv", key="fails").begin().burn()
    return team


@pytest.fixture
def team(tmp_path, clock):
    team = prepared(tmp_path, clock)
    yield team
    team.ledger.close()


def table(team, names=EXPECTED):
    """The cells that the ledger enforces, by action. Releases are tried where no data are closed."""
    people = {**ACTORS, "owner": "ole"}
    found = {}
    for action in names:
        cells = []
        for role in NAMES:
            who = people[role]
            cells.append(cell(trial(team, team.ids[who]), actions(team, who)[action]))
        found[action] = " ".join(cells)
    return found


PAYMENTS = ("release", "report a payment made elsewhere")


def opened(team):
    number = team.request_of("root", clear)
    team.by("bob").team.approve(number, why="ok")


@pytest.mark.filterwarnings("ignore")  # charges of the trial are dropped
def test_the_ledger_enforces_the_table_of_the_design(team):
    rest = [action for action in EXPECTED if action not in PAYMENTS]
    found = table(team, rest)
    opened(team)
    found |= table(team, PAYMENTS)
    assert found == EXPECTED
    assert sum(len(cells.split()) for cells in found.values()) == 7 * len(EXPECTED) == 154


@pytest.mark.filterwarnings("ignore")
def test_the_operator_of_the_ledger_has_no_right_on_data(team):
    """The operator who is no owner: ``root`` gives up the clinic."""
    opened(team)
    number = team.request_of("root", lambda book: book.team.revoke(team.ids["root"], "owner", "clinic", why="x"))
    team.by("bob").team.approve(number, why="ok")
    team.raise_to("ole", 2)
    found = {name: cell(trial(team, team.ids["root"]), actions(team, "root")[name]) for name in OF_THE_OPERATOR}
    assert found == OF_THE_OPERATOR


@pytest.mark.filterwarnings("ignore")
def test_an_owner_acts_alone_until_two_approvers_exist(tmp_path, clock):
    team = prepared(tmp_path, clock, approvers=False)
    found = {name: cell(trial(team, team.ids["ole"]), actions(team, "ole")[name]) for name in ALONE}
    team.ledger.close()
    assert found == {**ALONE, "decide on a request": "y"}  # made by the other owner, who could have done it alone


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("row", "role", "word", "action"),
    [
        ("set_limit", "owner", "yes", "raise a limit"),
        ("set_limit", "analyst", "no", "raise a limit"),
        ("set_limit", "auditor", "ask", "raise a limit"),
        ("close_account", "analyst", "ask", "close an account"),
        ("register", "approver", "ask", "register a new data set"),
        ("give_allowance", "analyst", "yes", "give an allowance"),
        ("change_people", "owner", "yes", "change the quorum"),
        ("change_people", "approver", "no", "grant approver"),
        ("change_members", "none", "yes", "grant analyst"),
        ("change_members", "approver", "ask", "grant auditor here"),
        ("end_principal", "owner", "yes", "end a principal everywhere"),
        ("clear", "analyst", "ask", "clear a quarantine"),
        ("change_keys", "approver", "no", "add a key"),
        ("erase", "owner", "no", "erase texts"),
        ("break_glass", "runner", "yes", "break the glass"),
        ("open_population", "analyst", "yes", "open a population"),
    ],
)
def test_a_cell_that_changes_is_seen(team, monkeypatch, row, role, word, action):
    changed = ACTIONS[row]._replace(**{role: word})
    monkeypatch.setitem(authority.ACTIONS, row, changed)
    assert table(team, [action]) != {action: EXPECTED[action]}


def test_the_roles_are_those_of_the_table():
    assert set(NAMES) == {*ROLES, "none"}


# -- what a request must not do


def test_making_a_request_charges_and_releases_nothing(team):
    """The operation of a request is undone. A charge in it would be a release that nobody pays."""
    opened(team)
    head, answers = team.ledger.head(), []

    def operation(book):
        charge = spend(book.open("ann's"), 1, key="free").begin()
        answers.append("data were read")
        charge.commit("an answer")

    with pytest.raises(Refused) as caught:
        team.by("ann").team.request(operation, why="free")
    assert caught.value.code == "bad_request"
    assert (answers, team.ledger.head()) == ([], head)


def test_a_request_for_two_changes_is_refused(team):
    def operation(book):
        book.open("clinic").raise_limit(zcdp(rho=2), why="x")
        book.open("clinic").raise_limit(zcdp(rho=3), why="x")

    head = team.ledger.head()
    with pytest.raises(Exception, match="one change"):
        team.by("root").team.request(operation, why="x")
    assert team.ledger.head() == head


def test_an_effect_that_can_no_longer_be_done_changes_nothing(team):
    """Two requests for an allowance of one name: the second one becomes void."""
    numbers = [
        team.request_of(
            "ann", lambda book: book.team.allow(team.ids["amy"], "clinic", zcdp(rho=0.1), called="one", why="x")
        )
        for _ in range(2)
    ]
    assert team.by("bob").team.approve(numbers[0], why="ok").state == "EXECUTED"
    assert team.by("cat").team.approve(numbers[1], why="ok").state == "VOID"
    assert team.ledger.verify().problems == ()


def test_texts_that_are_requested_to_be_erased_twice_are_erased_once(team):
    seq = team.grant_of("amy", "analyst", team.clinic)
    numbers = [team.request_of("root", lambda book: book.erase(seq, why="x")) for _ in range(2)]
    assert team.by("bob").team.approve(numbers[0], why="ok").state == "EXECUTED"
    assert team.by("bob").team.approve(numbers[1], why="ok").state == "VOID"
    assert team.ledger.verify().problems == ()


def test_a_block_can_be_requested(team):
    def operation(book):
        book.open("north", budget=zcdp(rho=0.5), parent=book.open("clinic"))

    with pytest.raises(NotAuthorised):
        operation(team.by("root"))
    number = team.request_of("root", operation)
    assert team.by("bob").team.approve(number, why="ok").state == "EXECUTED"
    assert team.ledger.open("north").parent.name == "clinic"
    assert team.ledger.verify().problems == ()


@pytest.mark.parametrize("field", ["why"])
def test_a_request_whose_texts_are_gone_is_not_carried_out(team, field):
    """Somebody deletes the row of the text, as the erasure would, without an entry."""
    from crash.tampering import edited

    number = team.raise_to("root", 2)
    edited(team.place, ("DELETE FROM entry_text WHERE entry = ?", (number,)))
    head = team.ledger.head()
    with pytest.raises(Refused, match="texts of request"):
        team.by("bob").team.approve(number, why="ok")
    assert team.ledger.head() == head


# -- names


def test_the_name_of_somebody_who_ended_can_be_erased_and_is_gone(team):
    ledger = team.ledger
    seq = team.authority.principals[team.ids["amy"]].seq
    ledger.team.end(team.ids["amy"], why="left")
    number = team.request_of("root", lambda book: book.erase(seq, why="she asked"))
    for name in ("bob", "tia"):
        outcome = team.by(name).team.approve(number, why="ok")
    assert (outcome.state, outcome.needed) == ("EXECUTED", 2)  # entries of no population need one of each
    assert "amy" not in [member.name for member in ledger.team.members()]
    assert ledger.verify().problems == ()


def test_effects_are_data_classes_no_more():
    """The rules read plain data only, so a checkpoint holds them."""
    assert {field.name for field in dataclasses.fields(authority.Authority)} == set(
        authority.to_data(authority.Authority())
    )


def test_a_user_who_never_wrote_begins_roles_and_owns_every_population(tmp_path):
    """In one transaction: a ledger with roles and without owners would be of use to no user."""
    with Ledger(tmp_path / "x.db", config=tmp_path) as ledger:
        for name in ("clinic", "school"):
            ledger.open(name, budget=zcdp(rho=1), unit="person")
        ledger.govern(why="a team")
    with acting_as("olga"), Ledger(tmp_path / "x.db", config=tmp_path) as ledger:
        seq = ledger.team.begin(why="a team", dry_run=True)
        assert not ledger.team.begin(why="a team") - seq
        [member] = [each for each in ledger.team.members() if each.name == "olga"]
        assert member.roles == (("operator", None), ("owner", "clinic"), ("owner", "school"))
        ledger.open("clinic").pay(zcdp(rho=0.1), why="a table")
        assert ledger.verify().problems == ()
