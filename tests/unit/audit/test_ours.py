"""Everything of ours is attacked by our own auditor, and nothing new escapes it."""

from __future__ import annotations

from typing import Any

import pytest

import tallystick as ts
from sweeps import share
from tallystick.audit.two_sample import mechanism
from tallystick.errors import InvalidInput
from tallystick.learn.estimator import Estimator
from tallystick.tables.aggregates import WORDS
from unit.audit.ours import (
    ESTIMATORS,
    MEASURES,
    NOT_FITTED_ALONE,
    OF_VERBS,
    TABLES,
    Attack,
    estimators,
    mechanisms,
    plan,
    plans,
)
from unit.mechanisms.registry import VERBS

NEVER = 1e-9
DRAWS = {"mechanism": 150, "estimator": 150, "plan": 150}


@pytest.mark.parametrize("attack", share(mechanisms(), 2), ids=lambda attack: attack.name)
def test_a_mechanism_is_not_falsified(attack: Attack) -> None:
    found = mechanism(
        attack.f, neighbours=attack.neighbours, claim=attack.claim, draws=DRAWS["mechanism"], significance=NEVER
    )
    assert not found.falsified, str(found)


@pytest.mark.parametrize("attack", list(estimators()), ids=lambda attack: attack.name)
def test_an_estimator_is_not_falsified(attack: Attack) -> None:
    found = mechanism(
        attack.f, neighbours=attack.neighbours, claim=attack.claim, draws=DRAWS["estimator"], significance=NEVER
    )
    assert not found.falsified, str(found)


@pytest.mark.parametrize("attack", share(plans(), 2), ids=lambda attack: attack.name)
def test_a_table_plan_is_not_falsified(attack: Attack) -> None:
    found = mechanism(attack.f, neighbours=attack.neighbours, draws=DRAWS["plan"], significance=NEVER)
    assert not found.falsified, str(found)


@pytest.mark.parametrize("kind", DRAWS)
def test_so_few_draws_would_have_caught_an_answer_without_noise(kind: str) -> None:
    found = mechanism(lambda data: data, neighbours=(0, 1), claim=ts.gdp(mu=1), draws=DRAWS[kind], significance=NEVER)
    assert found.falsified, str(found)


def test_a_plan_that_says_too_little_is_falsified() -> None:
    found = mechanism(plan("sum", rho=0.5), neighbours=TABLES, claim=ts.zcdp(rho=0.05), draws=1500)
    assert found.falsified, str(found)


def test_only_small_made_up_tables_are_asked_without_a_charge(tmp_path: Any) -> None:
    asked = plan("count", rho=0.5)
    large = tmp_path / "large.csv"
    large.write_text("u,g,v\n" + "1,a,2.5\n" * 150_000)
    for table in ("postgresql://somewhere/db", str(large)):
        with pytest.raises(InvalidInput, match="made up"):
            mechanism(asked, neighbours=(table, TABLES[1]), draws=60)


def test_nothing_of_ours_is_without_an_attack() -> None:
    assert set(OF_VERBS) == {verb.name for verb in VERBS}
    public = {name for name in ts.learn.__all__ if isinstance(getattr(ts.learn, name), type)}
    fitting = {name for name in public if issubclass(getattr(ts.learn, name), Estimator)}
    assert fitting - NOT_FITTED_ALONE == set(ESTIMATORS)
    assert set(WORDS) <= set(MEASURES)
