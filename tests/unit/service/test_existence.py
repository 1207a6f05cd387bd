"""What is not there and what belongs to others have answers of equal bytes, in every field of every message."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from served import VISITS, Service, statement
from tallystick.errors import TallystickError


def told(service: Service, who: str, action: str, called: str, **fields: Any) -> str:
    """The answer as text, without the name that was asked for."""
    try:
        answer = service.ask(who, action, **fields)
    except TallystickError as problem:
        answer = problem.to_data()
    return json.dumps(answer, sort_keys=True).replace(called, "NAME")


@pytest.mark.parametrize("foreign", ["school", "sams", "bobs"])
@pytest.mark.parametrize("action", ["offer", "submit"])
def test_an_account_of_others_looks_absent(service: Service, action: str, foreign: str) -> None:
    fields: dict[str, Any] = {"sizes": []} if action == "offer" else {"name": None, "wait": 0}
    fields["population"] = None
    answers = []
    for name in (foreign, "qqqqqq"):
        request = statement(VISITS)
        request["what"]["account"] = name
        answers.append(told(service, "ann", action, name, request=request, **fields))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("foreign", ["school", "sams", "bobs"])
@pytest.mark.parametrize("action", ["datasets", "failures", "suspended"])
def test_what_is_no_population_of_ones_own_looks_absent(service: Service, action: str, foreign: str) -> None:
    foreign_answer, absent = (told(service, "ann", action, name, population=name) for name in (foreign, "qqqqqq"))
    assert foreign_answer == absent


def test_an_absent_account_is_not_offered_for_opening_to_those_who_see_others(service: Service) -> None:
    with service.ledger() as ledger:
        ledger.is_served = True
        view = ledger.acting_for(service.ids["ann"])
        with pytest.raises(ts.errors.InvalidInput) as problem:
            view.open("school")
    assert "clinic" in str(problem.value.allowed)


@pytest.mark.parametrize("broken", [b"", b"a,b\n1,2\n", b"\xff\xfe" * 50, b"who,ward,AGE\n1,north,2\n"])
def test_an_analyst_reads_no_place_of_data(fresh: Service, broken: bytes) -> None:
    (fresh.data / "visits.csv").write_bytes(broken)
    fresh.start()
    text = json.dumps(fresh.submit("ann", statement(VISITS)))
    assert "visits.csv" in text
    assert str(fresh.folder) not in text


def test_an_analyst_reads_no_place_of_the_ledger(fresh: Service) -> None:
    fresh.start()
    fresh.ask("ann", "offer", request=statement(VISITS, rho=0.02), sizes=[], population=None)
    Path(fresh.place).rename(fresh.folder / "moved.db")
    job = fresh.submit("ann", statement(VISITS))["job"]
    assert job["state"] == "REFUSED"
    assert "cannot be used now" in job["problem"]["message"]
    assert str(fresh.folder) not in json.dumps(job)
