"""Data that a failure closed, in a ledger with roles: who ends what still runs, and who opens which population."""

from __future__ import annotations

import pytest

from crash.teams import Team
from tallystick.accounting.losses import zcdp
from tallystick.errors import InvalidInput, NotAuthorised, Quarantined, Refused, Unavailable
from tallystick.ledger.filters import LARGEST

SOURCE = "the visits"
YEAR = 365 * 86_400.0


@pytest.fixture
def team(place, clock):
    team = Team(place, clock)
    yield team
    team.ledger.close()


def begun(team: Team, name: str, account: str, *, lease: float = 600.0, **more):
    return team.by(name).open(account).charge(zcdp(rho=0.01), why="a table", source=SOURCE, lease=lease, **more).begin()


def closed_while_one_runs(team: Team):
    """An analyst holds a charge for a year while another one closes the data."""
    running = begun(team, "ann", "ann's", lease=YEAR)
    begun(team, "ann", "ann's").burn()
    return running


def cleared(team: Team, owner: str, approver: str, population: str) -> str:
    number = team.request_of(owner, lambda book: book.open(population).clear(why="looked at the log"))
    return team.by(approver).team.approve(number, why="looked as well").state


def checked(team: Team, stranger) -> None:
    assert team.ledger.verify().problems == ()
    stranger.check("".join(f"{line}\n" for line in team.ledger.export(level="chain", withheld=True)).encode())


def test_an_analyst_who_keeps_a_charge_running_does_not_keep_data_closed(team, stranger):
    running = closed_while_one_runs(team)
    with pytest.raises(Unavailable, match="not ended"):
        cleared(team, "root", "bob", "clinic")
    assert team.ledger.open("clinic").end_running() == [running.id]
    assert cleared(team, "root", "bob", "clinic") == "EXECUTED"
    begun(team, "ann", "ann's").commit(1)
    checked(team, stranger)


def test_an_ended_principal_does_not_keep_data_closed(team):
    running = closed_while_one_runs(team)
    team.ledger.team.end(team.ids["ann"], why="left")
    running.renew(lease=YEAR)
    assert team.ledger.open("clinic").end_running() == [running.id]
    assert cleared(team, "root", "bob", "clinic") == "EXECUTED"


def test_only_owners_end_what_runs(team):
    closed_while_one_runs(team)
    for name in ("amy", "bob", "aud", "opal", "max", "sue"):
        with pytest.raises(NotAuthorised):
            team.by(name).open("clinic").end_running()


def test_a_dry_run_ends_nothing(team):
    running = closed_while_one_runs(team)
    assert team.ledger.open("clinic").end_running(dry_run=True) == [running.id]
    assert team.ledger.open("clinic").end_running() == [running.id]


def test_a_request_for_a_clear_ends_nothing(team):
    closed_while_one_runs(team)
    with pytest.raises(InvalidInput, match=r"account\.end_running\(\)"):
        team.request_of("root", lambda book: book.open("clinic").clear(why="looked", end_running=True))


# -- two populations


@pytest.fixture
def both(team):
    """A charge of both populations on data of the clinic: its payer owns both, and only the clinic after that."""
    number = team.request_of("sue", lambda book: book.team.grant(team.ids["root"], "owner", "school", why="both"))
    team.by("tia").team.approve(number, why="for one table")
    number = team.request_of("root", lambda book: book.open("clinic").register("visits", source=SOURCE))
    team.by("bob").team.approve(number, why="the visits")
    charge = begun(team, "root", "clinic", also=[team.ledger.open("school")], lease=YEAR)
    other = begun(team, "root", "clinic", also=[team.ledger.open("school")], lease=YEAR)
    charge.burn()
    number = team.request_of("sue", lambda book: book.team.revoke(team.ids["root"], "owner", "school", why="done"))
    team.by("tia").team.approve(number, why="done")
    return other


def test_a_population_is_opened_by_its_own_people(team, both, stranger):
    team.ledger.open("clinic").end_running()
    assert cleared(team, "root", "bob", "clinic") == "EXECUTED"
    with pytest.raises(Quarantined):
        team.by("sue").open("school").charge(zcdp(rho=0.01), why="a table", source="pupils").begin()
    with pytest.raises(Refused, match="owners of school clear"):
        cleared(team, "root", "bob", "clinic")
    assert cleared(team, "sue", "tia", "school") == "EXECUTED"
    team.by("sue").open("school").charge(zcdp(rho=0.01), why="a table", source="pupils").begin().commit(1)
    checked(team, stranger)


def test_the_owner_of_one_population_ends_what_keeps_it_closed(team, both, stranger):
    assert team.by("sue").open("school").end_running() == [both.id]
    assert cleared(team, "sue", "tia", "school") == "EXECUTED"
    checked(team, stranger)


def test_a_forged_clear_of_another_population_is_found(team, both, stranger):
    team.ledger.open("clinic").end_running()
    number = team.request_of("root", lambda book: book.open("clinic").clear(why="looked at the log"))
    rows = [[charge, team.school] for charge, _ in team.authority.requests[number].effect["rows"]]
    entry = team.entry("sue", "clear", principal=team.ids["sue"], account=team.clinic, rows=rows, why="forged")
    assert team.refused_by_writer([entry]).code == "other_population"
    team.forge([entry])
    assert any("another population" in problem for problem in team.ledger.verify().problems)
    with pytest.raises(stranger.Problem):
        stranger.check("".join(f"{line}\n" for line in team.ledger.export(level="chain", withheld=True)).encode())


# -- tokens


@pytest.mark.parametrize("which", ["own", LARGEST])
def test_a_forged_token_of_no_population_is_found(team, stranger, which):
    number = team.own if which == "own" else which
    entry = team.entry(
        "ann", "token_add", principal=team.ids["ann"], roles=["analyst"], population=number, doors=["http"],
        until=team.ledger.now() + 1000, ceiling=None, hash="ab" * 32, name="a program",
    )  # fmt: skip
    assert team.refused_by_writer([entry]).code == "bad_population"
    team.forge([entry])
    assert any("a population that is not there" in problem for problem in team.ledger.verify().problems)
    with pytest.raises(stranger.Problem):
        stranger.check("".join(f"{line}\n" for line in team.ledger.export(level="chain")).encode())
