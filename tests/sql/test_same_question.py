"""One question in other words has one form, one charge and one stored answer; another question has its own."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tallystick as ts
from sql import judge
from sql.catalogue import catalogue
from sql.test_corpus import BY_ID, outcome
from sql.test_doors import ledger, used
from tallystick.tables.plan import Plan
from tallystick.tables.release import Release, answer_of
from tallystick.tables.run import integers
from tallystick.tables.sql.one_form import OneForm, one_form
from tallystick.tables.sql.statement import Statement, planned

__all__ = ["ledger"]

CAPPED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(max_groups_contributed={}) ward, COUNT(*) FROM visits GROUP BY ward"
NUMBERED = "(SELECT patient, ward, ROW_NUMBER() OVER (PARTITION BY patient ORDER BY {}) AS {} FROM visits) AS t"
OFTEN = "SELECT n, COUNT(*) FROM (SELECT patient, {} AS n FROM visits GROUP BY patient) AS t GROUP BY n"
LISTED = "SELECT {0}, COUNT(v.patient) FROM (VALUES {1}) AS {2} LEFT JOIN visits v ON v.ward = {0} GROUP BY 1"
SAME = [
    (
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
        "select V.WARD as w, count(*) as how_many\n from Visits v group by 1 order by 2 desc",
        "SELECT ward AS station, COUNT(*) FROM visits GROUP BY station HAVING COUNT(*) > 10 LIMIT 3",
        "SELECT COUNT(*) * 100, ward FROM visits GROUP BY ward",
        CAPPED.format(catalogue().private["visits"].table.max_groups),
        "WITH v AS (SELECT * FROM visits) SELECT ward, COUNT(1) FROM v GROUP BY ward",
    ),
    (
        "SELECT AVG(age) AS a, COUNT(*) AS n FROM visits",
        "SELECT COUNT(*), AVG(age) FROM visits",
        "SELECT COUNT(*), AVG(age CLAMPED BETWEEN 0 AND 110) FROM visits",
        "SELECT 2 * AVG(x.age), COUNT(*) FROM (SELECT age, ward FROM visits) AS x",
    ),
    (
        "SELECT ward, urgent, COUNT(*) FROM visits GROUP BY ward, urgent",
        "SELECT urgent, ward, COUNT(*) FROM visits GROUP BY urgent, ward",
    ),
    (
        "SELECT COUNT(*) FROM visits WHERE age BETWEEN 18 AND 65 AND ward IN ('cardiology', 'oncology')",
        "SELECT COUNT(*) FROM visits WHERE ward IN ('oncology', 'cardiology', 'oncology') AND age >= 18 AND age <= 65",
        "SELECT COUNT(*) FROM visits WHERE 18 <= age AND 65 >= age AND ward IN ('cardiology', 'oncology')",
    ),
    (
        "SELECT FLOOR(age / 10) * 10 AS decade, SUM(cost + 1) AS s, SUM(cost - 1) AS d FROM visits GROUP BY 1",
        "SELECT SUM(cost - 1) AS down, FLOOR(age / 10) * 10 AS tens, SUM(1 + cost) AS up FROM visits GROUP BY tens",
    ),
    (
        "SELECT p.region, AVG(v.cost) AS c FROM patients p JOIN visits v ON v.patient = p.patient GROUP BY p.region",
        "SELECT AVG(b.cost), a.region FROM patients AS a JOIN visits AS b USING (patient) GROUP BY a.region",
    ),
    (
        OFTEN.format("COUNT(*)"),
        "SELECT k, COUNT(*) AS n FROM (SELECT COUNT(*) AS k, patient FROM visits GROUP BY patient) AS f GROUP BY k",
    ),
    (
        f"SELECT ward, COUNT(*) FROM {NUMBERED.format('visited DESC', 'n')} WHERE n = 1 GROUP BY ward",
        f"SELECT t.ward AS w, COUNT(*) FROM {NUMBERED.format('visits.visited DESC', 'r')} WHERE 1 = r GROUP BY w",
    ),
    (
        LISTED.format("k.w", "('cardiology'), ('oncology')", "k(w)"),
        LISTED.format("x.y", "('oncology'), ('cardiology')", "x(y)"),
    ),
    (
        "SELECT COUNT(*) FROM (SELECT patient, ward AS x FROM visits UNION SELECT patient, ward FROM visits) AS t",
        "SELECT COUNT(*) FROM (SELECT patient, ward AS y FROM visits UNION SELECT patient, ward AS z FROM visits) AS u",
    ),
]  # fmt: skip
"""Lists of statements that ask the same."""

OTHER = [
    ("SELECT AVG(age) FROM visits", "SELECT AVG(age CLAMPED BETWEEN 0 AND 100) FROM visits"),
    ("SELECT COUNT(*) FROM visits WHERE age > 50", "SELECT COUNT(*) FROM visits WHERE age >= 50"),
    ("SELECT COUNT(*) FROM visits WHERE age > 50", "SELECT COUNT(*) FROM visits WHERE age < 50"),
    ("SELECT COUNT(*) FROM visits", "SELECT COUNT(DISTINCT patient) FROM visits"),
    ("SELECT SUM(cost - age) FROM visits", "SELECT SUM(age - cost) FROM visits"),
    ("SELECT ward, COUNT(*) FROM visits GROUP BY ward", "SELECT ward, COUNT(*), AVG(age) FROM visits GROUP BY ward"),
    ("SELECT ward, COUNT(*) FROM visits GROUP BY ward",
     CAPPED.format(1)),
    ("SELECT COUNT(*) FROM visits WHERE ward = 'cardiology' OR age > 50",
     "SELECT COUNT(*) FROM visits WHERE ward = 'cardiology' AND age > 50"),
    (OFTEN.format("COUNT(*)"), OFTEN.format("COUNT(DISTINCT ward)")),
    (f"SELECT COUNT(*) FROM {NUMBERED.format('visited, age', 'n')} WHERE n = 1",
     f"SELECT COUNT(*) FROM {NUMBERED.format('age, visited', 'n')} WHERE n = 1"),
]  # fmt: skip
"""Pairs of statements that look alike and are two questions."""


def form(sql: str) -> OneForm:
    statement = planned(sql, catalogue())
    return one_form(statement.plan, statement.released.query)


@pytest.mark.parametrize("statements", SAME, ids=lambda each: each[0][:40])
def test_one_question_in_other_words_has_one_form(statements: tuple[str, ...]) -> None:
    forms = [form(sql) for sql in statements]
    assert {each.plan.hash for each in forms} == {forms[0].plan.hash}
    assert all(each.plan.privacy == forms[0].plan.privacy for each in forms)


@pytest.mark.parametrize("pair", OTHER, ids=lambda each: each[0][:40])
def test_another_question_has_another_form(pair: tuple[str, str]) -> None:
    assert form(pair[0]).plan.hash != form(pair[1]).plan.hash


def test_a_question_is_brought_to_its_form_and_never_left_as_it_was() -> None:
    """Statements of the corpus have a form, at their own price, which is its own form; no two of them share one."""
    forms: dict[str, str] = {}
    for name in list(BY_ID)[::3]:
        statement = outcome(BY_ID[name])
        if isinstance(statement, Statement):
            made = one_form(statement.plan, statement.released.query)
            assert made.plan is not statement.plan, name
            assert made.plan.privacy == statement.plan.privacy, name
            assert one_form(made.plan, made.plan.query).plan.hash == made.plan.hash, name
            assert forms.setdefault(made.plan.hash, name) == name


RUN = ("tpch-13", "bigquery-public-groups", "zetasql-except", "cohort-months-since", "prompt-latest-row")


@pytest.mark.parametrize("name", RUN)
def test_before_the_noise_the_form_has_the_answer_of_the_question(name: str) -> None:
    text = re.sub(r"WITH\s+DIFFERENTIAL_PRIVACY(\s+OPTIONS\s*\([^)]*\))?", "", BY_ID[name]["sql"])
    statement = planned(text, judge.uncapped())
    made = one_form(statement.plan, statement.released.query)
    own = statement.released.rows(released(statement.plan))
    assert own == statement.released.rows(made.shown(released(made.plan)))


def released(plan: Plan) -> Release:
    """A release without noise."""
    there = plan.on({name: judge.data()[name] for name in catalogue().private})
    exact = integers(there)
    return Release(there, answer_of(there, exact.keys, [exact.numbers[noise.part] for noise in there.noises]))


def test_one_question_in_other_words_is_charged_once(ledger: str) -> None:
    first = ts.sql("SELECT ward, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY ward", ledger=ledger, why="one")
    paid = used(ledger)
    again = ts.sql(
        "SELECT avg(v.age CLAMPED BETWEEN 0 AND 10) AS mean, COUNT(*) AS c, v.ward AS w FROM visits AS v GROUP BY 3",
        ledger=ledger, why="two",
    )  # fmt: skip
    assert not again.fresh
    assert used(ledger) == paid
    assert again.columns == ("mean", "mean_lower", "mean_upper", "c", "c_lower", "c_upper", "w")
    renamed = {"mean": "a", "c": "n", "w": "ward", "mean_lower": "a_lower", "c_upper": "n_upper"}
    assert all(again.data[name] == first.data[own] for name, own in renamed.items())
    assert again.release.receipt == first.release.receipt
    explained = ts.sql("EXPLAIN SELECT ward AS x, AVG(age), COUNT(*) FROM visits GROUP BY ward", ledger=ledger)
    assert any(f"Plan in the record: {first.release.plan.hash[:16]}" in line for line in explained.details())


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        ("SELECT ward, COUNT(*) AS n, AVG(age CLAMPED BETWEEN 0 AND 9) AS a FROM visits GROUP BY ward", {}),
        ("SELECT ward, COUNT(*) AS n, AVG(age) AS a FROM visits WHERE year = 2026 GROUP BY ward", {}),
        ("SELECT ward, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY ward", {"rho": 0.021}),
        ("SELECT ward, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY ward", {"key": "own"}),
    ],
)
def test_another_question_or_price_is_charged(ledger: str, sql: str, options: dict[str, Any]) -> None:
    ts.sql("SELECT ward, COUNT(*) AS n, AVG(age) AS a FROM visits GROUP BY ward", ledger=ledger, why="one")
    paid = used(ledger)
    assert ts.sql(sql, ledger=ledger, why="two", **options).fresh
    assert used(ledger) > paid


def test_with_a_key_the_plan_that_was_shown_is_the_plan_that_is_paid(ledger: str) -> None:
    sql = "SELECT ward AS w, COUNT(*) AS n FROM visits GROUP BY ward"
    shown = ts.sql(f"EXPLAIN {sql}", ledger=ledger).plan.hash
    answer = ts.sql(sql, ledger=ledger, why="x", key="mine")
    assert answer.release.plan.hash == shown
    assert answer.release.columns == ("ward", "n", "n_lower", "n_upper")
