"""The newest stored answers about some data: only those that the caller may see, and none that is hidden or erased."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from crash.stores import spend
from crash.teams import CLINIC, NOBODY, Team
from tallystick.errors import TallystickError
from tallystick.ledger.chain import SourceId

VISITS, OTHER = "visits.csv", "other.csv"
SOURCES = [SourceId.of(VISITS)]


@pytest.fixture
def team(place: str, clock: Any) -> Any:
    team = Team(place, clock)
    yield team
    team.ledger.close()


def answered(account: Any, key: str, answer: Any, source: str = VISITS) -> int:
    with spend(account, 5, key=key, source=source, request=f"question {key}") as charge:
        charge.answer = answer
    return int(charge.id)


def seen(account: Any, **options: Any) -> list[Any]:
    return [answer for _, answer in account.newest_answers(SOURCES, **options)]


def test_they_come_newest_first_and_are_about_the_data(team: Team) -> None:
    clinic = team.ledger.open("clinic")
    for number in range(4):
        answered(clinic, f"k{number}", {"n": number}, VISITS if number != 1 else OTHER)
    assert seen(clinic) == [{"n": 3}, {"n": 2}, {"n": 0}]
    assert seen(clinic, most=2) == [{"n": 3}, {"n": 2}]
    assert list(clinic.newest_answers([])) == []


def test_only_roles_that_may_see_stored_answers_get_them(team: Team) -> None:
    answered(team.ledger.open("clinic"), "k", {"n": 1})
    may = {role: bool(seen(team.by(name).open("clinic"))) for role, name in CLINIC.items()}
    assert may == {
        "owner": True, "approver": True, "analyst": True, "auditor": True, "operator": False, "runner": False,
    }  # fmt: skip
    assert seen(team.by(NOBODY).open("clinic")) == []
    assert seen(team.by("sue").open("clinic")) == []  # an owner of other people
    answered(team.by("ann").open("ann's"), "own", {"n": 2})
    assert seen(team.by("amy").open("ann's")) == [{"n": 2}]
    assert seen(team.by("opal").open("ann's")) == []


def test_an_erased_answer_or_question_is_passed_over(team: Team) -> None:
    clinic = team.ledger.open("clinic")
    charges = [answered(clinic, f"k{number}", {"n": number}) for number in range(3)]
    for charge, answers in ((charges[2], True), (charges[1], False)):
        number = team.request_of("root", lambda book, of=charge, also=answers: book.erase(of, why="law", answers=also))
        team.by("bob").team.approve(number, why="ok")
    assert seen(clinic) == [{"n": 0}]


def test_an_answer_whose_outcome_is_withheld_looks_like_none(team: Team) -> None:
    """A release that runs while another one fails is withheld, whether it has an answer or not."""
    clinic = team.ledger.open("clinic")
    before = answered(clinic, "before", {"n": 0})
    running = spend(clinic, 5, key="running", source=VISITS, request="runs")
    running.begin()
    with pytest.raises(RuntimeError), spend(clinic, 5, key="fails", source=VISITS, request="fails"):
        raise RuntimeError
    with contextlib.suppress(TallystickError):
        running.commit({"n": 1})
    assert [charge for charge, _ in clinic.newest_answers(SOURCES)] == [before]
