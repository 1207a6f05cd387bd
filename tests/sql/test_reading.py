"""What is refused says what, where, and what works; nothing that is not on the list gets through; nothing is slow."""

from __future__ import annotations

import pytest
from sqlglot import exp

from pace import Clock
from sql.catalogue import catalogue
from tallystick.errors import InvalidInput, Refused, TallystickError
from tallystick.tables.parts import Caps
from tallystick.tables.sql.options import cut
from tallystick.tables.sql.statement import planned
from tallystick.tables.sql.tree import ALLOWED, Text


def refusal(sql: str, **budget: float) -> str:
    with pytest.raises(TallystickError) as caught:
        planned(sql, catalogue(), **budget)
    return str(caught.value)


@pytest.mark.parametrize(
    ("sql", "what", "position"),
    [
        ("SELECT ward, MIN(cost) FROM visits GROUP BY ward", "MIN", "1:14"),
        ("SELECT ward,\n  STRING_AGG(remark, ',') FROM visits GROUP BY ward", "STRING_AGG", "2:3"),
        ("SELECT COUNT(*) FROM visits\nWHERE visited > CURRENT_DATE", "CURRENT_DATE", "2:17"),
        ("SELECT COUNT(*) FROM visits WHERE cost > (SELECT AVG(cost) FROM visits)", "subquery", "1:50"),
        ("SELECT COUNT(*) FROM visits WHERE read_text(remark) = 'x'", "READ_TEXT", "1:35"),
        ("SELECT COUNT(*) FROM visits FOR UPDATE", "FOR UPDATE", "1:1"),
        ("SELECT COUNT(*) FROM visits, LATERAL (SELECT 1) AS x", "LATERAL", "1:30"),
        ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", "READ_CSV", "1:22"),
        ("SELECT DISTINCT ON (ward) ward, COUNT(*) FROM visits GROUP BY ward", "DISTINCT ON", "1:21"),
        ("SELECT SUM(DISTINCT cost) FROM visits", "DISTINCT", "1:12"),
        ("SELECT COUNT(*) FROM visits; DELETE FROM visits", "several statements", "1:28"),
        ("COPY visits TO 'x'", "COPY", "1:1"),
        ("PRAGMA database_list", "PRAGMA", "1:1"),
        ("SELECT ward, COUNT(*) FROM visits GROUP BY CUBE (ward)", "CUBE", "1:44"),
        ("SELECT COUNT(*) FROM visits WHERE ward = :ward", ":", "1:42"),
        ("SELECT COUNT(*) FROM visits WHERE ward ~ 'a.*'", "a regular expression", "1:35"),
        ("SELECT COUNT(*) OVER () FROM visits", "window", "1:8"),
    ],
)
def test_a_refusal_names_the_construct_its_position_and_a_way_out(sql: str, what: str, position: str) -> None:
    said = refusal(sql)
    assert what.lower() in said.lower()
    line, column = position.split(":")
    assert f" (line {line}, column {column}) " in said
    assert any(words in said for words in (". Try: ", "; give "))


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ("(SELECT patient, COUNT(cost CLAMPED BETWEEN 0 AND 9) AS s FROM visits GROUP BY patient) AS t", "CLAMPED"),
        ("visits WHERE ward IN (SELECT ward FROM wards ORDER BY beds LIMIT 2)", "LIMIT"),
        ("(SELECT patient FROM visits HAVING urgent) AS t", "HAVING"),
        ("(SELECT patient FROM visits UNION ALL SELECT patient FROM visits OFFSET 3) AS t", "UNION"),
        ("visits v WHERE EXISTS (SELECT COUNT(*) FROM patients p WHERE p.patient = v.patient)", "EXISTS"),
        ("visits WHERE CAST(cost AS DECIMAL(10, 0)) > 3", "DECIMAL"),
        ("visits AS v(a, b, c, d, e, f, g, h, i, j, k, l, m)", "13 names"),
        ("(SELECT ROW_NUMBER() OVER (PARTITION BY patient ORDER BY cost NULLS FIRST) FROM visits) AS t", "NULLS FIRST"),
    ],
)
def test_nothing_that_changes_the_meaning_is_passed_over(rows: str, what: str) -> None:
    assert what in refusal(f"SELECT COUNT(*) FROM {rows}")


def test_distinct_counts_where_it_stands() -> None:
    rows = "SELECT DISTINCT patient FROM visits GROUP BY patient, ward"
    kinds = [step.kind for step in planned(f"SELECT COUNT(*) FROM ({rows}) AS t", catalogue()).plan.query.table.steps]
    assert kinds == ["per_unit_rows", "per_unit_rows"]
    joined = "SELECT COUNT(*) FROM visits v JOIN (SELECT DISTINCT year FROM calendar) AS y ON y.year = v.severity"
    public = planned(joined, catalogue()).plan.query.table.steps[0].public
    assert public is not None
    assert len(public.rows) == 1


def test_what_the_parser_knows_and_the_list_does_not_is_refused() -> None:
    """An argument that a later parser adds to a node must not be ignored."""
    text = Text("SELECT COUNT(*) FROM visits")
    tokens, _ = cut(text)
    tree = text.tree(tokens)
    tree.set("something_new", exp.Literal.number(1))
    with pytest.raises(Refused, match=r"a part of SELECT .something new."):
        text.check_node(tree)
    assert exp.Anonymous not in ALLOWED
    assert exp.Command not in ALLOWED
    assert exp.Func not in ALLOWED


@pytest.mark.parametrize(
    "hostile",
    [
        "(" * 5_000 + "1" + ")" * 5_000,
        "NOT " * 5_000 + "urgent",
        "- " * 3_000 + "1 = 1",
        "CASE WHEN " * 500 + "urgent" + " THEN TRUE END" * 500,
        " AND ".join(["urgent"] * 3_000),
        "cost + " * 3_000 + "1 > 0",
        "urgent" + "::boolean" * 3_000,
        "abs(" * 2_000 + "cost" + ")" * 2_000 + " > 1",
        "cost IN (" + ",".join("1" for _ in range(20_000)) + ")",
        "ward = '" + "x" * 200_000 + "'",
        "[" * 3_000 + "]" * 3_000,
        '"' * 9_999,
        "ward = 'unclosed",
    ],
)
def test_deep_and_long_texts_are_refused_at_once(hostile: str) -> None:
    clock = Clock()
    said = refusal(f"SELECT COUNT(*) FROM visits WHERE {hostile}")
    assert len(said) < 1_000
    assert clock.seconds < 1.0


def test_subqueries_that_double_at_every_level_are_refused_at_once() -> None:
    levels = ["SELECT patient, cost AS x FROM visits"]
    for _ in range(25):
        levels.append(f"SELECT patient, x + x AS x FROM ({levels[-1]}) AS t")
    clock = Clock()
    refusal(f"SELECT COUNT(*) FROM ({levels[-1]}) AS t WHERE x > 1")
    assert clock.seconds < 1.0


def test_reading_and_planning_takes_a_few_milliseconds() -> None:
    sql = """SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE urgent AND age BETWEEN 18 AND 65
             GROUP BY ward HAVING COUNT(*) > 10 ORDER BY n DESC"""
    planned(sql, catalogue())
    clock = Clock()
    for _ in range(20):
        planned(sql, catalogue())
    assert clock.seconds / 20 < 0.010  # 5 ms is the goal


OPTIONS = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({}) ward, COUNT(*) AS n FROM visits GROUP BY ward"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ("epsilon=1e20", "epsilon"),
        ("epsilon=1e308", "epsilon"),
        ("epsilon=1e999", "1e999"),
        ("epsilon=-1", "epsilon"),
        ("epsilon=0", "epsilon"),
        ("epsilon=1, delta=0.5", "delta"),
        ("rho=100", "epsilon"),
        ("rho=0.01, epsilon=1", "two costs"),
        ("rho=0.01, max_groups_contributed=5", "max_groups_contributed"),
        ("rho=0.01, max_rows_per_group=6", "max_rows_per_group"),
        ("rho=0.01, max_groups_contributed=0", "max_groups_contributed"),
        ("rho=0.01, max_groups_contributed=1.5", "max_groups_contributed"),
        ("rho=0.01, max_rows_contributed=0", "a whole number from 1"),
        ("rho=0.01, privacy_unit_column=ward", "privacy_unit_column"),
        ("rho=0.01, noise=off", "noise"),
        ("rho=0.01, rho=0.02", "rho"),
        ("rho", "OPTIONS"),
        ("rho=0.01, group_selection_strategy=NONE", "group_selection_strategy"),
    ],
)
def test_options_may_tighten_and_never_widen(options: str, word: str) -> None:
    assert word in refusal(OPTIONS.format(options))


def test_rows_in_all_are_limited_by_the_statement() -> None:
    sql = OPTIONS.format("rho=0.01, max_groups_contributed=2, max_rows_per_group=3, max_rows_contributed={}")
    caps = [planned(sql.format(most), catalogue()).plan.query.caps for most in (2, 4, 6)]
    assert caps == [Caps(2, 2, 2), Caps(2, 3, 4), Caps(2, 3)]


def test_tighter_caps_and_bounds_are_taken() -> None:
    caps = planned(
        OPTIONS.format("rho=0.01, max_groups_contributed=2, max_rows_per_group=3"), catalogue()
    ).plan.query.caps
    assert (caps.max_groups, caps.max_rows) == (2, 3)
    query = planned("SELECT SUM(cost CLAMPED BETWEEN 10 AND 90) AS s FROM visits", catalogue()).plan.query
    assert query.measures[0][1].to_data()["upper"] == 90
    same = planned("SELECT SUM(cost, contribution_bounds_per_row => (10, 90)) AS s FROM visits", catalogue()).plan.query
    assert same.measures == query.measures


def test_a_statement_says_its_price_before_the_caller_and_both_before_the_registration() -> None:
    plain = "SELECT COUNT(*) FROM visits"
    own = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(rho=0.03) COUNT(*) FROM visits"
    assert planned(plain, catalogue()).plan.budget["rho"] == 0.02
    assert planned(plain, catalogue(), rho=0.04).plan.budget["rho"] == 0.04
    assert planned(own, catalogue(), epsilon=1.0).plan.budget["rho"] == 0.03
    with pytest.raises(InvalidInput, match="no cost is named"):
        planned("SELECT COUNT(*) FROM t", _without_price())


def _without_price() -> object:
    from dataclasses import replace

    from tallystick.tables.sql.catalogue import Catalogue

    return Catalogue({"t": replace(catalogue().private["visits"], price={})})


def test_an_aggregate_that_is_used_only_after_the_noise_is_paid_for_and_said() -> None:
    found = planned("SELECT ward FROM visits GROUP BY ward HAVING SUM(cost) > 1000 ORDER BY COUNT(*)", catalogue())
    assert len(found.plan.measures) == 2
