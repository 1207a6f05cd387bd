"""A few hundred random statements: none crashes, none is planned that the unit-local oracle rejects, every plan says
before its noise what plain SQL says, and no data make it fail. And each of these judges convicts what it should.

The long run is ``make campaign-sql``.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from pace import Clock
from sql import generator, hostile, locality, neighbours
from sql.small_tables import arrow, catalogue, plain
from sql.trial import Trial
from tallystick.errors import TallystickError
from tallystick.tables import run
from tallystick.tables.dialects import Words
from tallystick.tables.sql.relations import Relation
from tallystick.tables.sql.statement import Reader, planned
from tallystick.tables.unit_functions import OfUnit

NOT_LOCAL = [kind for kind in hostile.RELATIONS if kind not in hostile.LOCAL_BUT_REFUSED]
CONDITIONS = (" AND <ca>", " AND <cb>")


def test_nothing_is_wrong_with_a_few_hundred_statements() -> None:
    trial = Trial(seed=1, compare_every=12, neighbours_every=48)
    for number in range(170):
        trial.take(number)
    assert not trial.wrong, "\n".join(trial.wrong)
    assert trial.counts["planned"] > 0.4 * trial.counts["statements"]
    assert trial.counts["judged by the oracle"] > 0.9 * trial.counts["planned"]
    assert not trial.missed(1, generator.UNIT_LOCAL)


def test_a_statement_is_known_by_its_seed_and_number() -> None:
    assert generator.written(3, 17) == generator.written(3, 17)
    assert len({generator.written(seed, 17).text for seed in range(5)}) == 5


# ---- the unit-local oracle


@pytest.mark.parametrize("kind", NOT_LOCAL)
def test_the_oracle_rejects_what_is_not_unit_local(kind: str) -> None:
    """A reader that planned these would be convicted."""
    for template in hostile.RELATIONS[kind]:
        for words in CONDITIONS:
            template = template.replace(words, "")
        relation = generator.Writer(random.Random(0)).filled(template.replace("<U>", "u AS b"), 0)
        text = f"SELECT COUNT(*) AS m FROM ({relation}) AS s"
        assert locality.differs(text, locality.DATABASES, outermost=kind in hostile.ADDED_UP), text


@pytest.mark.parametrize("text", hostile.FOUND)
def test_what_was_planned_though_the_oracle_rejects_it_is_refused(text: str) -> None:
    assert locality.differs(text, locality.DATABASES)
    with pytest.raises(TallystickError):
        planned(text, catalogue())


def convicted(text: str) -> bool:
    planned(text, catalogue())  # the broken reader takes it
    return locality.differs(text, 4) is not None


def test_the_oracle_convicts_a_reader_that_takes_any_column_for_the_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    column = "SELECT COUNT(*) AS m FROM (SELECT MAX(x) OVER (PARTITION BY g) AS x FROM t) AS s"
    equal = "SELECT COUNT(*) AS m FROM t AS a JOIN u AS b ON a.h = b.z"
    other = "SELECT COUNT(*) AS m FROM t WHERE h IN (SELECT z FROM u)"
    for text in (column, equal, other):
        with pytest.raises(TallystickError):
            planned(text, catalogue())
    monkeypatch.setattr(Relation, "is_unit", lambda self, made: True)
    assert all(convicted(text) for text in (column, equal, other))


def test_the_oracle_convicts_a_reader_that_passes_over_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT COUNT(*) AS m FROM (SELECT * FROM t ORDER BY id LIMIT 3) AS s"
    monkeypatch.setattr(Reader, "_no_limit", lambda self, node: None)
    assert convicted(text)


# ---- plain SQL and neighbours


def test_plain_sql_convicts_a_reader_that_forgets_where(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT g AS k0, COUNT(*) AS m0 FROM t WHERE x > 40 GROUP BY g"
    assert not neighbours.unlike_plain_sql(text, 1, planned(text, catalogue()), 0)
    monkeypatch.setattr(Relation, "filter", lambda self, node: self)
    assert neighbours.unlike_plain_sql(text, 1, planned(text, catalogue()), 0)


def twin(monkeypatch: pytest.MonkeyPatch, *broken: Any) -> None:
    """An engine with something broken, which has no compiled plan of the sound one."""
    for kept in ("_programs", "_rehearsed", "_texts"):
        monkeypatch.setattr(run, kept, {})
    monkeypatch.setattr(*broken)


def test_neighbours_convict_an_engine_with_one_function_that_is_not_total(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cast that raises in place of one that gives nothing: one unit's value decides whether there is an answer."""
    text, number = "SELECT COUNT(*) AS m0, SUM(x) AS m1 FROM t", 14  # there x is unsigned, and some do not fit
    assert not neighbours.unequal(text, number)
    twin(monkeypatch, Words, "try_cast", lambda self, value, kind: self.cast(value, kind))
    assert any(neighbours.FAILED in line for line in neighbours.unequal(text, number))


def test_neighbours_convict_a_window_over_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT COUNT(*) AS m0 FROM (SELECT COUNT(*) OVER (PARTITION BY unit) AS h FROM t) AS s WHERE h = 7"
    assert not neighbours.unequal(text, 0)
    sound = OfUnit.sql

    def over_everybody(self: OfUnit, words: Words, schema: Any, frame: Any = None) -> Any:
        if frame is not None:
            frame.set("partition_by", [])
        return sound(self, words, schema, frame)

    twin(monkeypatch, OfUnit, "sql", over_everybody)
    assert any("no sums over units" in line for line in neighbours.unequal(text, 0))


def test_least_and_largest_values_decide_no_failure() -> None:
    text = "SELECT COUNT(*) AS n FROM t WHERE CASE x WHEN 2 THEN 'first' WHEN 3 THEN 'second' END = 'A'"
    assert not [line for number in (0, 3, 9, 12, 18, 21) for line in neighbours.unequal(text, number)]


def test_additions_inside_each_other_are_not_written_out_over_a_join() -> None:
    """Each took four times as long as the one before: seven 12 seconds, ten gigabytes of memory."""
    joined = "(SELECT a.unit, a.x FROM t AS a JOIN (VALUES ('a', 1), ('b', 2)) AS v(g, n) ON v.g = a.g) AS s"
    text = f"SELECT SUM({'(x + ' * 7}1{')' * 7}) AS m FROM {joined}"
    clock = Clock()
    assert neighbours.ended(planned(text, catalogue()), arrow(plain(random.Random(1)))).how == neighbours.ANSWERED
    assert clock.seconds < 5.0
