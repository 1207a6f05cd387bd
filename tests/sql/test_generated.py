"""Random statements: none crashes, every plan says before its noise what plain SQL says, and no data make it fail."""

from __future__ import annotations

import random

import pytest

from sql import generator
from tallystick.errors import TallystickError
from tallystick.tables.sql.relations import Relation
from tallystick.tables.sql.statement import Statement

STATEMENTS = 250
RUN = 16


def written(seed: int, count: int) -> list[tuple[str, int]]:
    writer = generator.Writer(random.Random(seed))
    return [writer.statement() for _ in range(count)]


def plans(seed: int, count: int) -> list[tuple[str, int, Statement]]:
    found = [(text, keys, generator.outcome(text)) for text, keys in written(seed, count)]
    return [(text, keys, made) for text, keys, made in found if isinstance(made, Statement)]


def judged(text: str, keys: int, made: Statement, seed: int) -> list[str]:
    data = generator.tables(random.Random(seed))
    if "AS whole" in text:
        return []
    return generator.differences(text, keys, generator.exact(made, data), generator.oracle(text, data))


def test_every_statement_is_planned_or_refused_with_a_way_out() -> None:
    refusals = [
        str(made) for text, _ in written(1, STATEMENTS) if isinstance(made := generator.outcome(text), TallystickError)
    ]
    assert 0.05 * STATEMENTS < len(refusals) < 0.6 * STATEMENTS
    assert all("works: " in said or "; give " in said for said in refusals)


def test_before_the_noise_a_plan_says_what_plain_sql_says() -> None:
    wrong = [
        line for i, (text, keys, made) in enumerate(plans(2, 2 * RUN)[:RUN]) for line in judged(text, keys, made, i)
    ]
    assert not wrong


def test_the_oracle_finds_a_reader_that_forgets_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Relation, "filter", lambda self, node: self)
    found = [each for each in plans(2, 2 * RUN) if " WHERE " in each[0]][:8]
    assert any(judged(text, keys, made, i) for i, (text, keys, made) in enumerate(found))


def test_a_plan_runs_on_neighbouring_and_on_hostile_tables_alike() -> None:
    for i, (_, _, made) in enumerate(plans(3, RUN)[: RUN // 2]):
        for gone in (None, i % 9):
            generator.exact(made, generator.tables(random.Random(i), odd=True, gone=gone))


@pytest.mark.parametrize("name", generator.LOCAL)
def test_every_relation_of_one_unit_says_what_plain_sql_says(name: str) -> None:
    source = f"({generator.LOCAL[name].format('x > 20')}) AS s"
    measures = "COUNT(*) AS m0, COUNT(DISTINCT unit) AS m1, SUM(h) AS m2, AVG(x) AS m3"
    text = f"SELECT flag AS k0, {measures} FROM {source} GROUP BY 1"
    made = generator.outcome(text)
    assert isinstance(made, Statement), made
    assert not judged(text, 1, made, 4)
