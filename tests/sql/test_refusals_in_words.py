"""A refusal names what the analyst typed, where it stands and what works, in words of SQL and not of the parser."""

from __future__ import annotations

import re

import pytest

from sql.catalogue import catalogue
from sql.corpus.tables import statements
from tallystick.errors import TallystickError
from tallystick.tables.sql.statement import planned

VISITS = "SELECT COUNT(*) FROM visits"
SAID = {
    "DELETE FROM visits": ("the statement DELETE (line 1, column 1)", "a SELECT statement"),
    "SELEC COUNT(*) FROM visits": ("SELEC (line 1, column 1)", "SELECT (did you mean this?)"),
    "SELECT COUNT(*) FORM visits": ("visits (line 1, column 22)", "FROM in place of FORM"),
    "SELECT COUNT(* FROM visits": ("FROM (line 1, column 16)", "closes the one in line 1, column 13"),
    f"{VISITS} WHERE ward = 'a": ("a quote or a comment (line 1, column 42)", "closed again"),
    f"{VISITS} /* x": ("(line 1, column 29)", "closed again"),
    f"{VISITS} WHERE age > 3 AND": ("AND (line 1, column 43)", "may be missing"),
    "SELECT COUNT(*) FROM vists": ("table vists (line 1, column 22)", "visits (did you mean this?)"),
    f"{VISITS} WHERE wrad = 'a'": ("column wrad (line 1, column 35)", "ward (did you mean this?)"),
    f'{VISITS} WHERE ward = "card"': ("column card (line 1, column 42)", "single quotes, 'card'"),
    f"{VISITS} v WHERE visits.ward = 'a'": ("visits before column ward (line 1, column 37)", "one of: v"),
    "SELECT AVRG(age) FROM visits": ("AVRG (line 1, column 8)", "AVG (did you mean this?)"),
    f"{VISITS} WHERE UPER(ward) = 'A'": ("UPER (line 1, column 35)", "UPPER (did you mean this?)"),
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilonn=1) COUNT(*) FROM visits": (
        "epsilonn (line 1, column 42)",
        "epsilon (did",
    ),
    f"{VISITS} WHERE ward = 5": ("= of text, integer (line 1, column 35)", "single quotes"),
    f"{VISITS} WHERE ward || age = 'a1'": ("|| of text, integer", "CAST"),
    f"{VISITS} WHERE age IS DISTINCT FROM 3": ("IS DISTINCT FROM (line 1, column 35)", "IS NULL"),
    f"{VISITS} WHERE ward SIMILAR TO 'x'": ("SIMILAR TO (line 1, column 35)", "LIKE"),
    f"{VISITS} WHERE visited AT TIME ZONE 'UTC' > '2026-01-01'": ("AT TIME ZONE (line 1, column 35)", "day in UTC"),
    f"{VISITS} WHERE POSITION('a' IN ward) = 1": ("POSITION (line 1, column 35)", "LIKE"),
    f"{VISITS} WHERE visited > INTERVAL '1 day'": ("INTERVAL alone (line 1, column 45)", "a date + INTERVAL"),
    f"{VISITS} NATURAL JOIN patients": ("NATURAL", "USING"),
    f"{VISITS} RIGHT JOIN patients USING (patient)": ("RIGHT JOIN (line 1, column 35)", "other way round"),
    f"{VISITS} GROUP BY": ("GROUP BY with nothing behind it", "columns"),
    "SELECT TO_CHAR(visited, 'YYYY') AS y, COUNT(*) FROM visits GROUP BY 1": (
        "TO_CHAR (line 1, column 8)",
        "DATE_TRUNC",
    ),
    "SELECT SUM(DISTINCT age) FROM visits": ("DISTINCT in SUM (line 1, column 12)", "subquery"),
    "SELECT APPROX_COUNT_DISTINCT(ward) FROM visits": ("APPROX_COUNT_DISTINCT (line 1, column 8)", "COUNT(DISTINCT"),
    "SELECT ARRAY_AGG(ward) FROM visits": ("ARRAY_AGG (line 1, column 8)", "rows of people"),
    "SELECT ward, COUNT(*) FROM visits GROUP BY ward WITH ROLLUP": ("ROLLUP", "finest level"),
    "SELECT JSON_EXTRACT(remark, '$.x') AS j, COUNT(*) FROM visits GROUP BY 1": (
        "JSON_EXTRACT (line 1, column 8)",
        "the owner",
    ),
    f"{VISITS} WHERE TRIM(BOTH 'x' FROM ward) = 'a'": ("other characters in TRIM", "spaces"),
    f"{VISITS} WHERE age = {'9' * 5000}": ("a number of 5000 digits (line", "at most 400"),
    f"{VISITS} LIMIT {'9' * 5000}": ("a number of 5000 digits (line", "at most 400"),
}  # fmt: skip


def refusal(sql: str) -> str:
    with pytest.raises(TallystickError) as problem:
        planned(sql, catalogue())
    return str(problem.value)


@pytest.mark.parametrize("sql", SAID, ids=lambda sql: sql[:100])
def test_a_refusal_says_what_where_and_the_way_out(sql: str) -> None:
    said = refusal(sql)
    what, fix = SAID[sql]
    assert what in said
    rest = re.split(r"cannot be answered|is not allowed; |there is no column ", said, maxsplit=1)[1]
    assert fix in rest.replace(". Try: ", "", 1)


def test_no_refusal_of_the_corpus_has_a_word_in_it_that_nobody_typed() -> None:
    """Names of the parser's own, such as TIME_TO_STR for TO_CHAR, would stand before the position."""
    seen = 0
    for record in statements():
        try:
            planned(record["sql"], catalogue())
        except TallystickError as problem:
            what = re.split(r" \(line \d+", str(problem))[0]
            strange = [word for word in re.findall(r"[A-Z_]{3,}", what) if word not in record["sql"].upper()]
            assert not set(strange) - {"JOIN", "FROM", "SELECT", "PARTITION", "STRING_AGG"}, what
            seen += 1
    assert seen == 72


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SHOW TABLES", ("the statement SHOW (line 1, column 1)", "ledger.datasets()")),
        ("DESCRIBE visits", ("the statement DESCRIBE (line 1, column 1)", "ledger.datasets()")),
        (f"{VISITS} WHERE 1 = 0", ("a condition that no row meets (line 1, column 35)", "EXPLAIN")),
        (f"{VISITS} WHERE FALSE AND age > 3", ("a condition that no row meets", "EXPLAIN")),
        (f"{VISITS} WHERE EXTRACT(hour FROM visited) > 3", ("EXTRACT(hour)", "counts as its day in UTC", "dow")),
        (
            "SELECT AVG(ward) FROM visits",
            ("ward is text (line 1, column 8)", "AVG(CAST(ward AS INTEGER) CLAMPED"),
        ),
        ("SELECT AVG(ward || 'a') FROM visits", ("AVG of type text", "a column or expression of numbers")),
    ],
)
def test_what_newcomers_type_is_refused_with_the_way_out(sql: str, words: tuple[str, ...]) -> None:
    said = refusal(sql)
    assert all(word in said for word in words), said


@pytest.mark.parametrize(
    "sql", [f"{VISITS} WHERE 1 = 1", f"{VISITS} WHERE TRUE AND age > 3", f"{VISITS} WHERE NOT 1 = 0"]
)
def test_a_condition_that_every_row_meets_is_no_reason_to_refuse(sql: str) -> None:
    planned(sql, catalogue())


def test_a_value_that_is_no_registered_group_is_refused_before_it_is_paid_for() -> None:
    known = catalogue().private["visits"]
    column = next(name for name, keys in known.keys.items() if all(isinstance(key, str) for key in keys))
    first = known.keys[column][0]
    for condition in (f"{column} = '{first}x'", f"{column} IN ('{first}', '{first}x')"):
        said = refusal(f"{VISITS} WHERE {condition}")
        assert f"{first} (did you mean this?)" in said, said
        assert f"LIKE '{first}x'" in said
    for condition in (f"{column} = '{first}'", f"{column} LIKE '{first}x'", f"{column} <> '{first}x'"):
        planned(f"{VISITS} WHERE {condition}", catalogue())


def test_the_answer_says_which_price_counts_where_two_are_named() -> None:
    own = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(rho=0.01) COUNT(*) FROM visits"
    for beside, lost in (({"rho": 0.02}, "rho=0.02"), ({"epsilon": 0.5}, "epsilon=0.5")):
        statement = planned(own, catalogue(), **beside)
        assert f"the cost is that of the statement, OPTIONS(rho=0.01), and not {lost} beside it" in statement.notes
        assert statement.plan.budget["rho"] == 0.01
    for same in ({}, {"rho": 0.01}, {"rho": None}):
        assert not [note for note in planned(own, catalogue(), **same).notes if "the price is" in note]
