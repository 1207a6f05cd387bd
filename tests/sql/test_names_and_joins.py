"""Which table a name means, what a join keeps and what a public list still knows: plain SQL and plans say the same.

Every statement runs on plain DuckDB and, before any noise, as its plan says; the rows are few, with missing values and
people that only one table has. ``REFUSED`` are those that SQL itself rejects or whose reading would be doubtful.
"""

from __future__ import annotations

import functools
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tallystick as ts
from sql.neighbours import exact
from tallystick.errors import InvalidInput, Refused
from tallystick.tables.keyset import public_table
from tallystick.tables.sql.catalogue import Catalogue, Known
from tallystick.tables.sql.statement import planned

INTEGER = pa.int64()
DATA = {
    "v": pa.table({
        "p": [1, 1, 2, 3, 5], "x": pa.array([None, 5, 7, 9, 30], INTEGER), "s": ["a", "b", "a", "b", None],
    }),
    "w": pa.table({
        "p": [1, 2, 2, 4, 5], "y": pa.array([5, 7, None, 1, 2], INTEGER), "s": ["a", "a", "b", "a", "c"],
    }),
    "z": pa.table({"p": [1, 2, 4, 6], "x": pa.array([5, 8, 30, None], INTEGER), "q": ["m", "n", "m", "n"]}),
}  # fmt: skip
ONE = [{"s": "a", "x": 5, "t": "q"}, {"s": "b", "x": 9, "t": "r"}, {"s": "d", "x": 1, "t": "u"}]
PUB = [{"s": "a", "x": 5, "n": "A5"}, {"s": "a", "x": 7, "n": "A7"}, {"s": "b", "x": 5, "n": "B5"}]
ALONE = [{"s": "a"}, {"s": "d"}]

K = "(SELECT p, CASE WHEN s = 'a' THEN 'x' ELSE 'y' END AS k FROM {0}) {0}"
SAME = [
    # USING: two columns, expressions, three tables
    "SELECT COUNT(*) FROM v JOIN w USING (p, s)",
    "SELECT s, COUNT(*) FROM v JOIN w USING (p, s) GROUP BY s",
    "SELECT s, COUNT(*) FROM v LEFT JOIN w USING (p, s) GROUP BY s",
    "SELECT COUNT(*) FROM v LEFT JOIN w USING (p, s) WHERE w.p IS NULL",
    "SELECT COUNT(*) FROM v LEFT JOIN (SELECT DISTINCT p, s FROM w) b USING (p, s) WHERE b.s IS NULL",
    "SELECT COUNT(*) FROM v JOIN w USING (p) JOIN z USING (p)",
    "SELECT COUNT(*) FROM v JOIN w USING (p, s) JOIN z USING (p, x)",
    "SELECT COUNT(*) FROM v LEFT JOIN z USING (p, x) WHERE q IS NULL",
    "SELECT COUNT(*) FROM v LEFT JOIN w USING (p, s) LEFT JOIN z USING (p) WHERE z.p IS NULL",
    "SELECT COUNT(y) FROM v LEFT JOIN w USING (p, s)",
    "SELECT COUNT(w.s) FROM v LEFT JOIN w USING (p, s)",
    "SELECT COUNT(s) FROM v LEFT JOIN w USING (p, s)",
    # a NOT that the parser hangs on what it negates
    "SELECT COUNT(*) FROM v WHERE s NOT LIKE 'a%'",
    "SELECT COUNT(*) FROM v WHERE s NOT ILIKE 'A%'",
    "SELECT COUNT(*) FROM v WHERE s NOT LIKE 'a!%' ESCAPE '!'",
    "SELECT COUNT(*) FROM v WHERE NOT s LIKE 'a%' AND x NOT BETWEEN 1 AND 7",
    # FULL JOIN
    f"SELECT COUNT(*) FROM {K.format('v')} FULL JOIN {K.format('w')} USING (p, k) WHERE k = 'x'",
    f"SELECT k, COUNT(*) FROM {K.format('v')} FULL JOIN {K.format('w')} USING (p, k) GROUP BY k",
    "SELECT COUNT(*) FROM (SELECT p, x AS k FROM v) a FULL JOIN (SELECT p, y AS k FROM w) b USING (p, k) WHERE k = 1",
    "SELECT COUNT(*) FROM (SELECT p, UPPER(s) AS s FROM v) a FULL JOIN w USING (p, s) WHERE s = 'a'",
    "SELECT s, COUNT(*) FROM (SELECT * FROM v WHERE s = 'b') a FULL JOIN w USING (p, s) GROUP BY s",
    "SELECT COALESCE(a.s, w.s), COUNT(*) FROM (SELECT * FROM v WHERE s = 'b') a FULL JOIN w USING (p, s) GROUP BY 1",
    "SELECT COUNT(*) FROM (SELECT * FROM v FULL JOIN w USING (p, s)) t WHERE s = 'b'",
    "SELECT SUM(x) FROM v FULL JOIN z USING (p, x)",
    "SELECT COUNT(*) FROM v FULL JOIN w USING (p) FULL JOIN z USING (p)",
    "SELECT COUNT(*) FROM v FULL JOIN w USING (p, s) LEFT JOIN z USING (p) WHERE q = 'm'",
    "SELECT COUNT(*) FROM v JOIN z ON v.p = z.p AND v.x > 6 FULL JOIN w ON v.p = w.p",
    "SELECT COUNT(*) FROM v JOIN z ON v.p = z.p FULL JOIN w ON v.p = w.p WHERE v.x > 6",
    "SELECT COUNT(*) FROM v FULL JOIN w USING (p) JOIN one ON one.s = w.s AND one.x = 5",
    "SELECT COUNT(v.s) FROM v FULL JOIN w USING (p, s)",
    "SELECT COUNT(w.s) FROM v FULL JOIN w USING (p, s)",
    "SELECT COUNT(DISTINCT p) FROM v FULL JOIN w USING (p)",
    # public tables
    "SELECT COUNT(*) FROM v JOIN pub USING (s, x)",
    "SELECT s, COUNT(*) FROM v JOIN one USING (s) GROUP BY s",
    "SELECT x, COUNT(*) FROM v JOIN one USING (s, x) GROUP BY x",
    "SELECT COUNT(*) FROM one JOIN v USING (s) WHERE one.x = v.x",
    "SELECT COUNT(*) FROM v LEFT JOIN one USING (s) WHERE one.s IS NULL",
    "SELECT COUNT(one.s) FROM v LEFT JOIN one ON v.s = one.s",
    "SELECT COUNT(alone.s) FROM v LEFT JOIN alone ON v.s = alone.s",
    "SELECT COUNT(*) FROM v LEFT JOIN alone USING (s) WHERE alone.s IS NULL",
    "SELECT COUNT(five) FROM v LEFT JOIN (SELECT s, 5 AS five FROM alone) o ON v.s = o.s",
    "SELECT t, COUNT(*) FROM v LEFT JOIN one USING (s) GROUP BY t",
    "SELECT COUNT(*) FROM v JOIN one USING (s) JOIN w USING (p) WHERE w.s = one.s",
    "SELECT t, COUNT(v.p) FROM one LEFT JOIN v USING (s) GROUP BY t",
    "SELECT t, COUNT(v.p) FROM one LEFT JOIN v USING (s, x) GROUP BY t",
    "SELECT s, COUNT(v.x) FROM one LEFT JOIN v USING (s) GROUP BY s",
    "SELECT t, COUNT(v.x + one.x) FROM one LEFT JOIN v ON one.s = v.s GROUP BY t",
    "SELECT t, COUNT(CASE WHEN v.x > 6 THEN 1 END) FROM one LEFT JOIN v ON one.s = v.s GROUP BY t",
    "SELECT t, COUNT(DISTINCT v.p) FROM one LEFT JOIN v ON one.s = v.s GROUP BY t",
    # EXISTS and IN
    "SELECT COUNT(*) FROM v WHERE EXISTS (SELECT 1 FROM w WHERE w.p = v.p AND s = 'b')",
    "SELECT COUNT(*) FROM v WHERE EXISTS (SELECT 1 FROM w WHERE w.p = v.p AND s = v.s)",
    "SELECT COUNT(*) FROM v WHERE EXISTS (SELECT 1 FROM w WHERE p = v.p AND y = x)",
    "SELECT COUNT(*) FROM v WHERE NOT EXISTS (SELECT 1 FROM w WHERE w.p = v.p AND w.s = v.s)",
    "SELECT COUNT(*) FROM v WHERE NOT EXISTS (SELECT 1 FROM one WHERE one.x = v.x)",
    "SELECT COUNT(*) FROM v WHERE EXISTS (SELECT 1 FROM one WHERE s = v.s AND x = 5)",
    "SELECT COUNT(*) FROM v AS a WHERE EXISTS (SELECT 1 FROM v WHERE v.p = a.p AND x > 6)",
    "SELECT COUNT(*) FROM v WHERE x NOT IN (SELECT x FROM one)",
    # lists and bounds that outlive a step
    "SELECT m, COUNT(*) FROM (SELECT p, MAX(s) AS m FROM v WHERE s = 'b' GROUP BY p) t GROUP BY m",
    "SELECT s, COUNT(*) FROM (SELECT p, s FROM v WHERE s='a' UNION ALL SELECT p, s FROM w WHERE s='b') t GROUP BY s",
    "SELECT s, COUNT(*) FROM (SELECT p, s FROM v WHERE s = 'b' UNION SELECT p, s FROM w) t GROUP BY s",
    "SELECT k, COUNT(*) FROM (SELECT p, COALESCE(s, 'none') AS k FROM v) t GROUP BY k",
    "SELECT k, COUNT(*) FROM (SELECT v.p, COALESCE(w.s, 'none') AS k FROM v LEFT JOIN w USING (p, s)) t GROUP BY k",
    "SELECT l, COUNT(*) FROM (SELECT LAG(s) OVER (PARTITION BY p ORDER BY y) AS l FROM w WHERE s = 'a') t GROUP BY l",
    # orders, constants, aliases
    "SELECT COUNT(x) FROM (SELECT x, ROW_NUMBER() OVER (PARTITION BY p ORDER BY x DESC) AS n FROM v) t WHERE n = 1",
    "SELECT CASE WHEN x > 6 THEN TRUE ELSE FALSE END AS k, COUNT(*) FILTER (WHERE x > 6) FROM v GROUP BY 1",
    "SELECT a, COUNT(*) FROM (SELECT DISTINCT p, IF(x > 6, 1, 0) AS a, IF(x > 6, TRUE, FALSE) AS b FROM v) GROUP BY a",
    "SELECT COUNT(*) FROM (SELECT p AS q, x AS p FROM v) t WHERE p > 5",
    "SELECT COUNT(*) FROM (SELECT p, s AS x, x AS s FROM v) t WHERE x = 'a' AND s > 5",
    "WITH v AS (SELECT p, y AS x FROM w) SELECT COUNT(*) FROM v WHERE x > 1",
    "SELECT COUNT(*) FROM (SELECT * FROM v JOIN w USING (p)) t WHERE y > 1",
]  # fmt: skip

REFUSED = {
    "of several tables": [
        "SELECT COUNT(*) FROM v LEFT JOIN w ON v.p = w.p AND s = w.s",
        "SELECT COUNT(*) FROM v FULL JOIN w ON v.p = w.p AND s = w.s",
        "SELECT COUNT(*) FROM v LEFT JOIN w ON p = w.p",
        "SELECT COUNT(*) FROM v LEFT JOIN one ON v.s = one.s AND x = 5",
        "SELECT t, COUNT(v.p) FROM one LEFT JOIN v ON one.s = v.s WHERE x = 5 GROUP BY t",
        "SELECT COUNT(*) FROM v JOIN w ON v.p = w.p JOIN z USING (p)",
        "SELECT COUNT(*) FROM v JOIN w USING (p) WHERE s = 'a'",
    ],
    "of people's rows": [
        "SELECT COUNT(*) FROM v JOIN w ON p = p",
        "SELECT COUNT(*) FROM v, w FULL JOIN z ON w.p = z.p WHERE v.p = w.p",
    ],
    "over people": [
        "SELECT COUNT(*) FROM v WHERE EXISTS (SELECT 1 FROM w WHERE p = w.p)",
        "SELECT COUNT(*) FROM v WHERE NOT EXISTS (SELECT 1 FROM w WHERE p = p)",
        "SELECT COUNT(*) FROM v WHERE EXISTS (SELECT 1 FROM v WHERE v.p = v.p)",
    ],
    "a group without rows as one": [
        "SELECT t, COUNT(one.s) FROM one LEFT JOIN v ON one.s = v.s GROUP BY t",
        "SELECT t, COUNT(s) FROM one LEFT JOIN v USING (s) GROUP BY t",
        "SELECT t, COUNT(COALESCE(v.x, 1)) FROM one LEFT JOIN v ON one.s = v.s GROUP BY t",
        "SELECT t, COUNT(CASE WHEN v.x IS NULL THEN 1 END) FROM one LEFT JOIN v ON one.s = v.s GROUP BY t",
        "SELECT t, COUNT(v.x IS NULL) FROM one LEFT JOIN v ON one.s = v.s GROUP BY t",
        "SELECT t, COUNT(DISTINCT one.x) FROM one LEFT JOIN v ON one.x = v.p GROUP BY t",
    ],
    "NULLS FIRST": [
        f"SELECT COUNT(*) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY p ORDER BY x {way} NULLS FIRST) AS n FROM v) t"
        for way in ("", "DESC")
    ],
    "by their places": [
        "SELECT COUNT(*) FROM (SELECT * FROM v JOIN z USING (p)) AS t(a, b, c, d, e)",
        "SELECT COUNT(*) FROM (SELECT * FROM v JOIN z USING (p) UNION SELECT * FROM v JOIN z USING (p)) AS t",
    ],
    "USING with a subquery without a name": ["SELECT COUNT(*) FROM v JOIN (SELECT p FROM w) USING (p)"],
    "of no table before it": ["SELECT COUNT(*) FROM v JOIN w USING (y)"],
    "table in FROM before": ["SELECT COUNT(*) FROM (SELECT w.* FROM v) t"],
}  # fmt: skip


@functools.cache
def catalogue() -> Catalogue:
    private = ts.Private(dict(DATA))
    price, caps = {"rho": 1.0, "caps_share": 0}, {"max_groups": 20, "max_rows_per_group": 20}
    bounds = {"v": {"x": (0, 30)}, "w": {"y": (0, 10)}, "z": {"x": (0, 40)}}
    keys = {"v": {"s": ("a", "b")}, "w": {"s": ("a", "b", "c")}, "z": {}}
    known = {
        name: Known(private.table(name, unit="p").per_unit(**caps).bounds(**bounds[name]), "", keys[name], 1e-6, price)
        for name in DATA
    }
    public = {"one": public_table(ONE), "pub": public_table(PUB), "alone": public_table(ALONE)}
    return Catalogue(known, public)


@functools.cache
def engine() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name, rows in (*DATA.items(), ("one", ONE), ("pub", PUB), ("alone", ALONE)):
        connection.register(name, rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows))
    return connection


def shown(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows but for groups that are missing, and for public groups that nobody is in."""
    return sorted(row for row in rows if row[0] is not None and (len(row) == 1 or row[-1] != 0))


@pytest.mark.parametrize("text", SAME)
def test_before_the_noise_a_plan_says_what_plain_sql_says(text: str) -> None:
    mine = exact(planned(text, catalogue()), DATA)
    assert shown(mine) == shown(engine().execute(text).fetchall())


@pytest.mark.parametrize(("words", "text"), [(words, text) for words, texts in REFUSED.items() for text in texts])
def test_what_sql_rejects_or_engines_read_in_two_ways_is_refused(words: str, text: str) -> None:
    with pytest.raises((Refused, InvalidInput), match=words):
        planned(text, catalogue())
