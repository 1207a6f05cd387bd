"""Unit-local steps: what they make of a table is the union, over units, of what they make of one unit's rows alone.

Judged by running the same step on every unit's rows in a database of their own. The controls do what the steps refuse,
in plain SQL, and must differ: otherwise the judge would see nothing.
"""

from __future__ import annotations

import datetime
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tallystick as ts
from sweeps import share
from tallystick.errors import InvalidInput, Refused
from tallystick.ledger import Ledger
from tallystick.tables import run
from tallystick.tables.engines.duckdb import DuckEngine
from tallystick.tables.local import JoinOnUnit
from tallystick.tables.plan import Plan
from tallystick.tables.reader import open_engine
from tallystick.tables.table import Table
from unit.tables.relations import Compiled, Row, rows_of
from worlds.tables import FLOATS, INTEGERS, TEXTS

Bag = Counter[Row]
Rows = list[dict[str, Any]]
VISITS = {"u": pa.int64(), "g": pa.string(), "x": pa.float64(), "n": pa.int64(), "d": pa.date32(), "b": pa.bool_()}
CASES = {"who": pa.int64(), "g": pa.string(), "y": pa.float64(), "d": pa.date32()}
DAYS = [datetime.date(2024, 2, 29), datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]


def drawn(draw: random.Random, units: int = 5, rows: int = 25) -> tuple[Rows, Rows]:
    """Two small tables about some of the same units; rows without a unit, equal rows, hostile values."""

    def row(kinds: dict[str, Any]) -> dict[str, Any]:
        values = {"g": [*TEXTS[:6], None], "x": [*FLOATS, None, 0.1, 0.2, 0.3], "n": [*INTEGERS, None], "d": DAYS}
        values |= {"y": values["x"], "b": [True, False, None]}
        unit = draw.choice([*range(units), None])
        return {name: unit if name in ("u", "who") else draw.choice(values[name]) for name in kinds}

    visits = [row(VISITS) for _ in range(rows)]
    return visits + draw.choices(visits, k=5), [row(CASES) for _ in range(rows // 4)]


def opened(visits: Rows, cases: Rows) -> tuple[Table, Table]:
    given = {
        "visits": pa.Table.from_pylist(visits, pa.schema(VISITS)),
        "cases": pa.Table.from_pylist(cases, pa.schema(CASES)),
    }
    source = ts.Private(given)
    return source.table("visits", unit="u"), source.table("cases", unit="who")


x, n, g, d = ts.col("x"), ts.col("n"), ts.col("g"), ts.col("d")
Step = Callable[[Table, Table], Table]
STEPS: dict[str, Step] = {
    "with units": lambda v, c: v.with_units_in(c),
    "with units of a filter": lambda v, c: v.filter(n > 1).with_units_in(c.filter(ts.col("y") > 0)),
    "without units": lambda v, c: v.without_units_in(c),
    "join": lambda v, c: v.join_on_unit(c, prefix="c_", max_rows=3),
    "join also": lambda v, c: v.join_on_unit(c, also=["g"], how="left", prefix="c_", max_rows=4),
    "left join": lambda v, c: v.join_on_unit(c, how="left", prefix="c_", max_rows=1),
    "full join": lambda v, c: v.join_on_unit(c, how="full", prefix="c_", max_rows=3),
    "full join also": lambda v, c: v.join_on_unit(c, how="full", also=["g", "d"], prefix="c_", max_rows=6),
    "full join of totals": lambda v, c: c.join_on_unit(v.per_unit_rows(k=ts.unit_count()), how="full").derive(
        u=ts.col("who")
    ),
    "self join": lambda v, c: v.join_on_unit(v, prefix="o_", max_rows=5).filter(n < ts.col("o_n")),
    "join of totals": lambda v, c: v.join_on_unit(c.per_unit_rows(k=ts.unit_count(), m=ts.unit_max("y")), how="left"),
    "totals": lambda v, c: v.per_unit_rows(
        k=ts.unit_count(most=3), kx=ts.unit_count("x"), dg=ts.unit_count_distinct("g"), s=ts.unit_sum("x", -5, 1000),
        i=ts.unit_sum("n", -(10**6), 10**6), m=ts.unit_mean("x", -1, 7), lo=ts.unit_min("x"), hi=ts.unit_max("g"),
        day=ts.unit_min("d"),
    ),
    "totals by": lambda v, c: v.per_unit_rows(by=["g", "b"], s=ts.unit_sum("x", 0, 9.5), hi=ts.unit_max("n")),
    "derived totals": lambda v, c: v.derive(z=-1 * x * n).per_unit_rows(s=ts.unit_sum("z", -9, 9), lo=ts.unit_min("z")),
    "ranks": lambda v, c: v.window(order_by=["g", ("x", "desc")], r=ts.rank(), k=ts.dense_rank()).window(
        by=["b"], order_by=["d"], rb=ts.rank()
    ),
    "numbered": lambda v, c: v.window(order_by=["d", ("n", "desc")], r=ts.row_number()).filter(ts.col("r") <= 2),
    "window": lambda v, c: v.window(
        order_by=[("x", "desc")], before=ts.lag("n"), later=ts.lead("g", 2), s=ts.unit_sum("x", -3, 900),
        k=ts.unit_count(), m=ts.unit_mean("x", 0, 2), hi=ts.unit_max("d"),
    ),
    "window by": lambda v, c: v.window(by=["g"], k=ts.unit_count(most=2), s=ts.unit_sum("n", 0, 9), a=ts.unit_min("x")),
    "distinct": lambda v, c: v.distinct("g", "x"),
    "distinct rows": lambda v, c: v.derive(z=x * 0).distinct(),
    "distinct units": lambda v, c: v.distinct("u"),
    "union all": lambda v, c: v.derive(y=x).distinct("g", "y", "d").union_all(c),
    "except": lambda v, c: v.except_rows(v.filter(n > 1)),
    "intersect": lambda v, c: v.derive(y=x).distinct("g", "d").intersect_rows(c),
    "public join": lambda v, c: v.join([{"g": "a", "land": 1}, {"g": "a", "land": 2}], on="g").with_units_in(
        c.join([{"g": "A", "z": 0.5}], on="g", how="left")
    ),
    "many": lambda v, c: v.union_all(v.with_units_in(c)).window(order_by=["n"], r=ts.row_number()).join_on_unit(
        c.window(order_by=["y"], r=ts.row_number()).filter(ts.col("r") == 1).distinct("d"), also=["d"], max_rows=7
    ).per_unit_rows(by=["d"], top=ts.unit_max("r")),
}  # fmt: skip


def bag(rows: list[Row]) -> Bag:
    """Rows with their numbers; the two zeros are one, and NaN would not be equal to itself."""
    assert not any(isinstance(value, float) and math.isnan(value) for row in rows for value in row)
    return Counter(tuple(value + 0.0 if isinstance(value, float) else value for value in row) for row in rows)


Asked = list[tuple[str, Compiled, tuple[str, ...]]]


def whole(asked: Asked, visits: Rows, cases: Rows) -> list[Bag]:
    """What each step makes of everybody, as the next stage sees it: rows without a unit are gone."""
    found = []
    with open_engine(opened(visits, cases)[0].source) as engine:
        assert isinstance(engine, DuckEngine)
        engine.connection.execute("SET threads = 1")
        for text, compiled, names in asked:
            compiled.upload(engine)
            rows = engine.connection.execute(text).fetchall()
            found.append(bag([row for row in compiled.shown(rows, names) if row[names.index("u")] is not None]))
    return found


def by_unit(step: Callable[[Rows, Rows], list[Bag]], visits: Rows, cases: Rows) -> list[Bag]:
    """The steps on each unit's rows alone, put together."""
    units = {row["u"] for row in visits} | {row["who"] for row in cases}
    found: list[Bag] = []
    for unit in units - {None}:
        here = step([r for r in visits if r["u"] == unit], [r for r in cases if r["who"] == unit])
        found = [one + two for one, two in zip(found, here, strict=True)] if found else here
    return found


def test_a_step_is_the_union_over_units_of_what_it_makes_of_one() -> None:
    visits, cases = opened([], [])
    with open_engine(visits.source) as engine:
        tables = [step(visits, cases) for step in STEPS.values()]
        compiled = [(Compiled.of(table, engine), table.schema.names) for table in tables]
        everything = [(engine.words.render(made.rows), made, names) for made, names in compiled]

    def asked(visits: Rows, cases: Rows) -> list[Bag]:
        return whole(everything, visits, cases)

    assert not any(asked([], []))  # f(no rows) = no rows
    made: Counter[str] = Counter()
    for seed in range(2):
        pair = drawn(random.Random(seed), units=5, rows=60)
        found = zip(STEPS, asked(*pair), by_unit(asked, *pair), asked(pair[0][::-1], pair[1][::-1]), strict=True)
        for name, one, two, mixed in found:
            assert one == two, name
            assert one == mixed, name
            made[name] += one.total()
    assert all(made[name] > 3 for name in STEPS), made  # there was something to be compared


def steps_agree(there: tuple[Table, Table], pair: tuple[Rows, Rows], names: Iterable[str] = STEPS) -> None:
    """Check that each of these steps makes the same rows of the same tables on another engine as on DuckDB."""
    here = opened(*pair)
    for name in names:
        one, two = STEPS[name](*here), STEPS[name](*there)
        assert bag(rows_of(one)) == bag(rows_of(two)), name


def hostile() -> tuple[Rows, Rows]:
    return drawn(random.Random(5), units=6, rows=60)


def test_steps_mean_the_same_on_postgresql(postgres: str) -> None:
    psycopg = pytest.importorskip("psycopg")
    pair = hostile()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("create table visits (u bigint, g text, x float8, n bigint, d date, b boolean)")
        connection.execute("create table cases (who bigint, g text, y float8, d date)")
        try:
            for name, rows in zip(("visits", "cases"), pair, strict=True):
                with connection.cursor() as cursor, cursor.copy(f"copy {name} from stdin") as copy:
                    for row in rows:
                        copy.write_row(tuple(row.values()))
            source = ts.Private(postgres)
            steps_agree((source.table("visits", unit="u"), source.table("cases", unit="who")), pair, share(STEPS, 2))
        finally:
            connection.execute("drop table visits, cases")


CONTROLS = {
    "join on another column": "SELECT v.u, c.y FROM visits v JOIN cases c ON v.g = c.g",
    "unit = unit under OR": "SELECT v.u, c.y FROM visits v JOIN cases c ON v.u = c.who OR v.d = c.d",
    "scalar subquery": "SELECT u, n FROM visits WHERE n > (SELECT avg(n) FROM visits)",
    "global window": "SELECT u, row_number() OVER (ORDER BY n, u) FROM visits",
    "LIMIT inside": "SELECT u, n FROM (SELECT * FROM visits ORDER BY n, u LIMIT 3)",
    "NOT IN with a NULL": "SELECT u, n FROM visits WHERE u NOT IN (SELECT who FROM cases)",
    "correlated NOT IN": "SELECT u, n FROM visits v WHERE n NOT IN (SELECT n FROM visits w WHERE w.u <> v.u AND n > 0)",
    "public LEFT JOIN private": "SELECT v.u, p.g FROM (VALUES ('a'), ('zz')) p(g) LEFT JOIN visits v ON v.g = p.g",
    "GROUP BY without the unit": "SELECT min(u), g FROM visits GROUP BY g",
}


@pytest.mark.parametrize("statement", CONTROLS.values(), ids=CONTROLS)
def test_what_is_not_unit_local_is_told_apart(statement: str) -> None:
    pairs = [drawn(random.Random(seed), units=9) for seed in range(6)]
    with duckdb.connect() as connection:

        def asked(visits: Rows, cases: Rows) -> list[Bag]:
            connection.register("visits", pa.Table.from_pylist(visits, pa.schema(VISITS)))
            connection.register("cases", pa.Table.from_pylist(cases, pa.schema(CASES)))
            return [Counter(connection.execute(statement).fetchall())]

        assert sum(asked(*pair) != by_unit(asked, *pair) for pair in pairs) >= 3


CUT = {"join", "join also", "left join", "full join", "full join also", "self join"}
"""Steps that take some rows of each unit."""

THREADED: dict[str, tuple[Step, str]] = {
    "per-unit totals": (
        lambda v, c: v.per_unit_rows(s=ts.unit_sum("x", 0, 100), m=ts.unit_mean("x", 0, 1)),
        "SELECT u, sum(x) FROM visits GROUP BY u",
    ),
    "windows": (
        lambda v, c: v.window(order_by=["n"], r=ts.row_number(), s=ts.unit_sum("x", 0, 100)),
        "SELECT u, x, row_number() OVER (PARTITION BY u ORDER BY n) FROM visits",
    ),
    "joins": (
        lambda v, c: v.join_on_unit(c, prefix="c_", max_rows=2),
        "SELECT u, x FROM (SELECT *, row_number() OVER (PARTITION BY u ORDER BY n) AS r FROM visits) WHERE r <= 2",
    ),
}


@pytest.mark.parametrize(("step", "naive"), THREADED.values(), ids=THREADED)
def test_steps_give_the_same_on_every_run_with_any_number_of_threads(
    step: Step, naive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doubles in whatever order, and rows that tie, do not: the plain statements must differ between orders of rows."""
    draw, count = random.Random(7), 60_000
    columns = {"u": [i % 6_000 for i in range(count)], "n": [draw.randrange(3) for _ in range(count)]}
    visits = pa.table({**columns, "x": [draw.choice((0.1, 0.2, 0.3)) for _ in range(count)]})
    cases = pa.table({"who": list(range(6_000)) * 4, "y": [float(i % 7) for i in range(24_000)]})
    mixed = visits.take(draw.sample(range(count), count))
    connect, answers = DuckEngine.__init__, []
    for threads, rows in ((1, visits), (2, visits), (2, mixed), (4, mixed)):

        def with_threads(self: DuckEngine, source: Any, threads: int = threads) -> None:
            connect(self, source)
            self.connection.execute(f"SET threads = {threads}")

        monkeypatch.setattr(DuckEngine, "__init__", with_threads)
        source = ts.Private({"visits": rows, "cases": cases})
        answers.append(Counter(rows_of(step(source.table("visits", unit="u"), source.table("cases", unit="who")))))
    assert all(answer == answers[0] for answer in answers)
    plain = []
    for rows in (visits, mixed):
        with duckdb.connect() as connection:
            connection.register("visits", rows)
            plain.append(Counter(connection.execute(naive).fetchall()))
    assert plain[0] != plain[1]


# ---- plans


@pytest.mark.parametrize("name", share(STEPS, 2, always=CUT))
def test_a_plan_of_a_step_is_read_back_runs_on_nothing_first_and_has_sql_in_every_dialect(name: str) -> None:
    visits, cases = opened(*drawn(random.Random(0)))
    table = STEPS[name](visits, cases).per_unit(max_groups=1, max_rows_per_group=2)
    plan = table.agg(n=ts.count(), people=ts.count_units()).plan(rho=1)
    run.preflight(plan)
    again = Plan.from_json(plan.to_json(), source=visits.source)
    assert again.hash == plan.hash
    assert [v.tolist() for v in run.integers(again).numbers.values()] == [
        v.tolist() for v in run.integers(plan).numbers.values()
    ]
    assert len({plan.sql(dialect=dialect) for dialect in ("duckdb", "spark", "postgres")}) == 3
    rules = plan.facts()["rules"]
    assert "private tables meet on their unit alone" in rules
    assert any("how many are left out is not measured" in rule for rule in rules) == (name in CUT)


def test_totals_of_units_are_measured_without_bounds_and_hashes_tell_steps_apart() -> None:
    visits, _ = opened(*drawn(random.Random(0)))

    def plan(most: int, upper: float) -> Plan:
        totals = visits.per_unit_rows(k=ts.unit_count(most=most), s=ts.unit_sum("x", 0, upper))
        return totals.per_unit(max_rows_per_group=1).agg(k=ts.mean("k"), s=ts.sum("s")).plan(rho=1)

    assert len({plan(5, 10).hash, plan(6, 10).hash, plan(5, 11).hash}) == 3


def test_one_unit_cannot_make_a_join_large() -> None:
    rows = [{"u": 1, "g": "a", "x": float(i), "n": i, "d": None, "b": None} for i in range(20_000)]
    visits, _ = opened(rows, [])
    assert len(rows_of(visits.join_on_unit(visits, prefix="o_"))) == 100 * 100
    joined = visits.join_on_unit(visits.per_unit_rows(k=ts.unit_count(most=10**6)))
    assert len(rows_of(joined)) == 20_000  # no row has two partners, so none is left out


@pytest.mark.parametrize(("many", "most"), [(1, 1), (5, 1), (7, 7), (6, 7), (100, 7), (365, 12), (20_000, 100)])
def test_a_join_takes_rows_at_equal_distances(many: int, most: int) -> None:
    """Its first ones would be the earliest, and every later month would seem to have fewer."""
    order = random.Random(3).sample(range(many), many)
    rows = [{"u": 1, "g": "a", "x": None, "n": i, "d": None, "b": None} for i in order]
    visits, cases = opened(rows, [{"who": 1, "g": "a", "y": None, "d": None}])
    met = visits.join_on_unit(cases, prefix="c_", max_rows=most, other_rows=1)
    taken = sorted(row[-1] for row in rows_of(met.distinct("n")))
    assert len(taken) == min(many, most)
    wanted = [(k + 0.5) * many / len(taken) for k in range(len(taken))]
    assert all(abs(n + 0.5 - middle) <= 1 for n, middle in zip(taken, wanted, strict=True))


def test_how_many_rows_meet_follows_from_the_caps_of_the_other_table() -> None:
    visits, cases = opened(*drawn(random.Random(0)))

    def meet(other: Table, **how: int) -> tuple[int, int]:
        made = visits.join_on_unit(other, prefix="c_", **how).steps[-1].local
        assert isinstance(made, JoinOnUnit)
        return made.most, made.most_other

    assert meet(cases) == (100, 100)
    assert meet(cases.per_unit(max_groups=1, max_rows_per_group=1)) == (10_000, 1)
    assert meet(cases.per_unit(max_groups=1, max_rows_per_group=2)) == (100, 100)
    assert meet(cases, max_rows=20) == (20, 20)
    assert meet(cases, other_rows=20) == (500, 20)
    assert meet(cases, max_rows=5_000, other_rows=2) == (5_000, 2)
    for wrong in ({"max_rows": 5_000}, {"max_rows": 101, "other_rows": 100}, {"other_rows": 0}, {"max_rows": 0}):
        with pytest.raises(InvalidInput):
            meet(cases, **wrong)


def _other_source() -> Table:
    return opened([], [])[0]


REFUSED: dict[str, Callable[[Table, Table], Any]] = {
    "another source": lambda v, c: v.with_units_in(_other_source()),
    "no table": lambda v, c: v.with_units_in(7),  # type: ignore[arg-type]
    "a public table": lambda v, c: v.with_units_in([{"u": 1}]),  # type: ignore[arg-type]
    "join as if public": lambda v, c: v.join(c, on="g"),
    "single rows": lambda v, c: ts.Private(v.source).table("visits", unit=ts.each_row).with_units_in(v),
    "single rows of the other": lambda v, c: v.with_units_in(ts.Private(v.source).table("visits", unit=ts.each_row)),
    "totals of single rows": lambda v, c: ts.Private(v.source).table("visits", unit=ts.each_row).distinct(),
    "units of another type": lambda v, c: v.with_units_in(ts.Private(v.source).table("cases", unit="g")),
    "one table, two units": lambda v, c: v.with_units_in(ts.Private(v.source).table("visits", unit="n")),
    "other neighbours": lambda v, c: ts.Private(v.source, adjacency="replace").table("visits", unit="u").union_all(v),
    "a join on a number": lambda v, c: v.derive(y=x).join_on_unit(c, also=["y"]),
    "a join on the unit twice": lambda v, c: v.join_on_unit(v, also=["u"], prefix="o_"),
    "names that collide": lambda v, c: v.join_on_unit(c),
    "another join": lambda v, c: v.join_on_unit(c, how="right", prefix="c_"),
    "too many rows": lambda v, c: v.join_on_unit(c, prefix="c_", max_rows=101),
    "by a number": lambda v, c: v.per_unit_rows(by=["x"], k=ts.unit_count()),
    "by the unit": lambda v, c: v.per_unit_rows(by=["u"], k=ts.unit_count()),
    "no function": lambda v, c: v.per_unit_rows(),
    "a measure": lambda v, c: v.per_unit_rows(k=ts.count()),  # type: ignore[arg-type]
    "a name that is there": lambda v, c: v.per_unit_rows(by=["g"], G=ts.unit_count()),
    "order in totals": lambda v, c: v.per_unit_rows(r=ts.row_number()),
    "no order": lambda v, c: v.window(r=ts.row_number()),
    "a rank without order": lambda v, c: v.window(r=ts.rank()),
    "ranks in totals": lambda v, c: v.per_unit_rows(r=ts.dense_rank()),
    "another order": lambda v, c: v.window(order_by=[("n", "up")], r=ts.row_number()),
    "values in a window": lambda v, c: v.window(k=ts.unit_count_distinct("g")),
    "a sum of text": lambda v, c: v.per_unit_rows(s=ts.unit_sum("g", 0, 1)),
    "no bounds": lambda v, c: v.per_unit_rows(s=ts.unit_sum("x", 1, 1)),
    "the least of booleans": lambda v, c: v.per_unit_rows(lo=ts.unit_min("b")),
    "other columns": lambda v, c: v.union_all(c),
    "columns of other types": lambda v, c: v.distinct("g", "x").except_rows(c.derive(x=1)),
    "twenty tables": lambda v, c: [v := v.union_all(v) for _ in range(5)],
    "a count of nothing": lambda v, c: ts.unit_count(most=0),
    "a step of none": lambda v, c: v.window(order_by=["n"], r=ts.lag("n", 0)),
}  # fmt: skip


@pytest.mark.parametrize("asked", REFUSED.values(), ids=REFUSED)
def test_tables_that_may_not_meet_and_functions_that_do_not_fit_are_refused(asked: Callable[..., Any]) -> None:
    with pytest.raises((InvalidInput, Refused)):
        asked(*opened(*drawn(random.Random(0))))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("most",), 10**6),
        (("how",), "right"),
        (("also",), ["x"]),
        (("also",), "g"),
        (("other", "unit"), "g"),
        (("other", "unit"), None),
        (("other", "columns"), [["who", "text"]]),
        (("other", "name"), "visits"),
        (("kind",), "cross_join"),
        (("prefix",), 3),
    ],
)
def test_a_plan_cannot_lie_about_a_step(path: tuple[str, ...], value: Any) -> None:
    visits, cases = opened(*drawn(random.Random(0)))
    table = visits.join_on_unit(cases, prefix="c_").per_unit(max_groups=1, max_rows_per_group=2)
    data = table.to_data()
    place = data["steps"][0]
    for key in path[:-1]:
        place = place[key]
    assert path[-1] in place
    place[path[-1]] = value
    with pytest.raises((InvalidInput, Refused)):
        Table.from_data(data)


def test_other_tables_are_as_registered(tmp_path: Any) -> None:
    place = str(tmp_path / "clinic.duckdb")
    with duckdb.connect(place) as connection:
        connection.execute("create table visits as select i % 7 as u, i % 2 as land from range(50) t(i)")
        connection.execute("create table cases as select i % 5 as who, i % 2 as land, i as hid from range(20) t(i)")
    with Ledger(tmp_path / "budget.db") as ledger:
        people = ledger.open("people", budget=ts.zcdp(rho=50), unit="person")
        others = ledger.open("others", budget=ts.zcdp(rho=50), unit="person")
        source = ts.Private(place, account=people)

        def asked(unit: str = "who") -> Plan:
            joined = source.table("visits", unit="u").with_units_in(source.table("cases", unit=unit))
            return joined.per_unit(max_rows_per_group=2).agg(n=ts.count()).plan(rho=1)  # type: ignore[no-any-return]

        def registered(name: str, unit: str) -> None:
            fixed = {"unit": unit, "adjacency": "add_remove"}
            people.register(name, source=f"file {place} {name}", fixed=fixed)

        assert asked().release(why="both are free").fresh
        registered("visits", "u")
        with pytest.raises(Refused, match="only one is registered"):
            asked().release(why="one is not")
        registered("cases", "who")
        assert asked().release(why="both are registered").fresh
        with pytest.raises(Refused, match="registered with unit 'who'"):
            asked("hid").release(why="somebody else")
        with pytest.raises(Refused, match="belongs to population"):
            asked().with_account(others).release(why="somebody else pays")
        with pytest.raises(Refused, match="stands twice"):  # DuckDB's names ignore case
            source.table("visits", unit="u").with_units_in(source.table("VISITS", unit="land"))


def test_every_table_keeps_to_the_block_that_pays(tmp_path: Any) -> None:
    visits = pa.table({"u": [1, 2, 3], "land": ["a", "a", "b"]})
    cases = pa.table({"who": [1, 2, 3], "land": ["b", "a", "b"]})
    cut = ts.Partition("land", by="public attribute", one_block_per_unit=True, column="land", values=["a"])
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("people", budget=ts.zcdp(rho=50), unit="person")
        block = ledger.open("a", budget=ts.zcdp(rho=9), unit="person", parent="people", partition=cut)
        source = ts.Private({"visits": visits, "cases": cases}, account=block)
        here, there = source.table("visits", unit="u"), source.table("cases", unit="who")
        for table in (here.with_units_in(there), here.union_all(here.with_units_in(there)).with_units_in(there)):
            plan = table.per_unit(max_rows_per_group=1).agg(n=ts.count_units()).plan(rho=1)
            assert [values.tolist() for values in run.integers(plan).numbers.values()] == [[[1]]]  # unit 2 alone
            assert all(leaf.steps[0].kind == "filter" for leaf in plan.query.table.leaves())
            assert Plan.from_json(plan.to_json(), account=block).hash == plan.hash
        bare = ts.Private({"visits": visits, "cases": cases.drop(["land"])}, account=block)
        with pytest.raises(InvalidInput):  # nothing says which of its rows are the block's
            bare.table("visits", unit="u").with_units_in(bare.table("cases", unit="who")).agg(n=ts.count_units()).plan(
                rho=1
            )


def test_tables_within_tables_without_end_are_refused() -> None:
    visits, _ = opened([], [])
    data = visits.with_units_in(visits).to_data()
    for _ in range(3_000):
        data["steps"][0]["other"] = {**data["steps"][0]["other"], "steps": [dict(data["steps"][0])]}
    with pytest.raises((InvalidInput, Refused)):
        Table.from_data(data)
