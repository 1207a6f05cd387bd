"""Plans are frozen, priced and predicted before any data is opened."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Adjacency
from tallystick.digits import up
from tallystick.errors import InvalidInput, Refused
from tallystick.ledger import Account
from tallystick.tables import measures
from tallystick.tables.budget import cost_of
from tallystick.tables.files import OpenFile
from tallystick.tables.keyset import read_keys
from tallystick.tables.parts import Caps, Rows, Units
from tallystick.tables.plan import Plan
from tallystick.tables.table import Table
from unit.tables.tables import awkward


@pytest.fixture
def visits() -> Table:
    return ts.Private(awkward(100)).table("table", unit="pid").per_unit(max_groups=4, max_rows_per_group=5)


def test_a_plan_is_made_priced_and_explained_with_the_file_deleted(tmp_path: Path) -> None:
    path = tmp_path / "visits.parquet"
    pq.write_table(awkward(100), path)
    text = (
        ts.Private(path).table(unit="pid").bounds(days=(0, 60)).per_unit(max_groups=2, max_rows_per_group=3).to_json()
    )
    path.unlink()
    plan = Table.from_json(text).group_by("ward", keys=["a", "b"]).agg(n=ts.count(), d=ts.mean("days")).plan(rho=0.1)
    assert plan.privacy == ts.zcdp(rho=0.1)
    assert plan.error()["n"] > 0
    assert re.search(r"total of days .* Gaussian \S+ +\S+ %", plan.explain())
    assert Plan.from_json(plan.to_json()).hash == plan.hash


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_sensitivities_are_those_of_the_table(adjacency: Adjacency) -> None:
    k, length = 4, 5
    groups = k if adjacency is Adjacency.ADD_REMOVE else 2 * k
    caps = Caps(k, length)
    tree = measures.median("age", 0, 63).bound(ts.Private(pa.table({"u": [1], "age": [1]})).table(unit="u").schema, {})
    h, weight = 6, 2**16
    for part, peak, levels in [
        (Rows(), length, 1),
        (Units(), 1, 1),
        (tree.parts()[0], length * weight, h),
    ]:
        assert part.l1(caps, adjacency) == groups * peak * levels
        assert part.l2_squared(caps, adjacency) == groups * levels * peak**2


def test_the_budget_is_the_total_and_the_parts_stay_within_it(visits: Table) -> None:
    query = visits.group_by("ward", keys=ts.private_keys(delta=1e-9)).agg(
        n=ts.count(), cost=ts.sum("cost", 0, 5000), mid=ts.median("days", 0, 60)
    )
    plan = query.plan(rho=0.02)
    assert plan.privacy == ts.zcdp(rho=0.02, delta=1e-9)
    assert Fraction(2, 100) * Fraction(999, 1000) < cost_of(query, plan.noises) <= Fraction(2, 100)
    assert 0 < plan.lone_probability <= 1e-9
    assert sum(part["share"] for part in plan.facts()["parts"]) == pytest.approx(1)


def test_epsilon_and_delta_together_hold_for_noise_and_keys(visits: Table) -> None:
    query = visits.group_by("ward", keys=ts.private_keys(delta=1e-9)).agg(n=ts.count())
    for epsilon, delta in [(1.0, 1e-6), (0.05, 1e-5)]:
        plan = query.plan(epsilon=epsilon, delta=delta)
        assert 0.99 * epsilon < plan.privacy.epsilon(delta=delta) <= epsilon
        assert plan.delta == delta


def test_epsilon_alone_gets_laplace_noise_and_pure_privacy(visits: Table) -> None:
    plan = (
        visits.group_by("ward", keys=["a"]).agg(n=ts.count(), people=ts.count_units()).plan(epsilon=0.5, caps_share=0)
    )
    assert plan.privacy == ts.pure_dp(epsilon=0.5)
    # K = 1 because there is one key; L = 5; half of the budget each
    assert [noise.law.scale for noise in plan.noises] == [20.0, 4.0]


def test_a_wanted_error_is_reached_at_the_least_price(visits: Table) -> None:
    query = visits.group_by("ward", keys=["a", "b"]).agg(n=ts.count(), cost=ts.sum("cost", 0, 100))
    plan = query.plan(error={"n": 20})
    assert plan.error()["n"] <= 20
    assert query.plan(rho=plan.budget["rho"] * 0.97).error()["n"] > 20
    with pytest.raises(InvalidInput, match="depend on the size"):
        visits.agg(m=ts.mean("cost", 0, 1)).plan(error=1)


def test_weights_move_the_budget_and_suggestions_move_the_error(visits: Table) -> None:
    query = visits.agg(n=ts.count(), cost=ts.sum("cost", 0, 100))
    assert query.plan(rho=0.1, weights={"n": 4}).error()["n"] < query.plan(rho=0.1).error()["n"]
    cheap, asked, exact = query.suggest(rho=0.1)
    assert cheap.error()["n"] > asked.error()["n"] > exact.error()["n"]
    with pytest.raises(InvalidInput, match="weights"):
        query.plan(rho=0.1, weights={"m": 4})


def test_replace_costs_twice_the_groups(visits: Table) -> None:
    table = ts.Private(awkward(100), adjacency="replace").table(unit="pid").per_unit(max_rows_per_group=1)
    plan = table.agg(n=ts.count()).plan(rho=0.5, caps_share=0)
    assert plan.privacy.adjacency is Adjacency.REPLACE
    assert plan.noises[0].law.scale == pytest.approx(2**0.5)


def test_the_hash_depends_on_question_and_price_but_not_on_the_place(visits: Table) -> None:
    query = visits.group_by("ward", keys=["a"]).agg(n=ts.count())
    plan = query.plan(rho=0.1)
    assert plan.on(awkward(7 * 10)).hash == plan.hash
    others = [
        query.plan(rho=0.2),
        visits.filter(ts.col("ok")).group_by("ward", keys=["a"]).agg(n=ts.count()).plan(rho=0.1),
        visits.group_by("ward", keys=["b"]).agg(n=ts.count()).plan(rho=0.1),
    ]
    assert plan.hash not in {other.hash for other in others}


def test_json_keeps_every_kind_of_step_key_and_measure(visits: Table) -> None:
    plan = (
        visits.filter(ts.col("day") >= __import__("datetime").date(2024, 12, 31))
        .derive(year=ts.col("day").year(), late=ts.when(ts.col("days") > 30, 1, 0))
        .join([{"ward": "a", "floor": 1}], on="ward", how="left")
        .group_by("floor", "ok", keys=[(1, True), (1, False)])
        .agg(n=ts.count(), v=ts.standard_deviation("days", 0, 60), h=ts.histogram("cost", [0, 1, 2]))
        .plan(epsilon=1, delta=1e-6)
    )
    again = Plan.from_json(plan.to_json(), source=awkward(100))
    assert again == plan
    assert again.to_json() == plan.to_json()


def test_an_edited_plan_is_refused(visits: Table) -> None:
    told = json.loads(visits.agg(n=ts.count()).plan(rho=0.1).to_json())
    told["noise"]["scales"] = [0.5]
    with pytest.raises(Refused, match="edited"):
        Plan.from_json(json.dumps(told))
    told = json.loads(visits.agg(n=ts.count()).plan(rho=0.1).to_json())
    told["query"]["table"]["max_rows"] = 1
    with pytest.raises(Refused, match="edited"):
        Plan.from_json(json.dumps(told))
    for text in ("", "{}", "[1]", '{"format": "tallystick/plan/1"}', '{"format": "x"}'):
        with pytest.raises(InvalidInput):
            Plan.from_json(text)


def test_a_password_is_not_written_into_a_plan() -> None:
    from tallystick.tables.sources import source_of

    assert source_of("postgresql://me:secret@host/db").to_data()["place"] == "postgresql://me@host/db"  # the user stays


def test_shared_parts_are_paid_once(visits: Table) -> None:
    one = visits.agg(a=ts.median("days", 0, 60)).plan(rho=0.1)
    two = visits.agg(a=ts.median("days", 0, 60), b=ts.quantile("days", 0.9, 0, 60)).plan(rho=0.1)
    assert [noise.law.scale for noise in one.noises] == [noise.law.scale for noise in two.noises]


def test_keys_are_read_from_a_public_file(tmp_path: Path, visits: Table) -> None:
    path = tmp_path / "keys.csv"
    path.write_text("note,ok,ward\nx,true,a\ny,false,b\nx,true,a\n")
    assert read_keys(OpenFile(path), ["ward", "ok"], visits.schema) == [("a", True), ("b", False)]
    with pytest.raises(InvalidInput):
        read_keys(OpenFile(path), ["day"], visits.schema)


SQL = """\
-- view _stored0
SELECT @READ_U AS "c0", @READ_G AS "c1" FROM "table" AS _t;
-- view _here
SELECT _t."c0" AS "_unit", _t."c1" AS "_key0" FROM (SELECT * FROM "_stored0") AS _t \
WHERE NOT (_t."c0" IS NULL) AND NOT (_t."c1" IS NULL);
-- stage _cells
SELECT _r."_unit", _r."_key0", COUNT(*) AS "_rows" FROM "_here" AS _r GROUP BY _r."_unit", _r."_key0";
-- stage _ranked
SELECT _c."_unit" AS "_unit", _c."_key0" AS "_key0", _c."_rows" AS "_rows", \
((_o."_a" * _g."_x") + _o."_b") % 2147483647 AS "_place" FROM "_cells" AS _c JOIN \
(SELECT "_unit", (@HEX("_md5", 1) % 2147483646 + 1) AS "_a", @HEX("_md5", 9) % 2147483647 AS "_b" FROM \
(SELECT "_unit", MD5('SALT:unit:' || CAST("_unit" AS TEXT) || ':') AS "_md5" FROM \
(SELECT "_unit" FROM "_cells" GROUP BY "_unit" HAVING (COUNT(*) > 2)) AS _u) AS _h) AS _o \
ON _c."_unit" = _o."_unit" JOIN \
(SELECT "_key0", @HEX(MD5('SALT:group:' || CAST(LENGTH(CAST("_key0" AS TEXT)) AS TEXT) || ':' \
|| CAST("_key0" AS TEXT)), 1) % 2147483647 AS "_x" FROM (SELECT "_key0" FROM "_cells" GROUP BY "_key0") AS _g) AS _g \
ON _c."_key0" = _g."_key0";
-- stage _dropped
SELECT _r."_unit" AS "_unit", _r."_key0" AS "_key0", _r."_rows" AS "_rows" FROM "_ranked" AS _r JOIN \
(SELECT "_unit", @CUT AS "_cut" FROM "_ranked" GROUP BY "_unit") AS _x \
ON _r."_unit" = _x."_unit" WHERE _r."_place" >= _x."_cut";
-- totals
SELECT "_key0", CAST(LEAST(COALESCE(SUM((1 * "_sign")), 0), 4611686018427387904) AS BIGINT) FROM \
(SELECT "_key0", "_rows", 1 AS "_sign" FROM "_cells" UNION ALL \
SELECT "_key0", "_rows", -1 AS "_sign" FROM "_dropped") AS _c GROUP BY "_key0" HAVING (SUM("_sign") > 0);
-- units with more than 2 groups, units in all
SELECT * FROM (SELECT CAST(LEAST(COALESCE(SUM(("_o0" * 65536)), 0), 4611686018427387904) AS BIGINT) FROM \
(SELECT MAX("_wide") AS "_o0" FROM \
(SELECT "_unit", 1 AS "_wide", 0 AS "_long", CASE WHEN ("_rows" > 1) THEN 1 ELSE "_rows" END AS "_lost" \
FROM "_dropped") AS _l GROUP BY "_unit") AS _u) AS _q0 CROSS JOIN \
(SELECT CAST(LEAST(COALESCE(SUM(65536), 0), 4611686018427387904) AS BIGINT) FROM \
(SELECT "_unit" FROM "_cells" GROUP BY "_unit") AS _u) AS _q1;
"""
MARKED = """\
-- stage _cells
SELECT "_unit", "_key0", "_rows", (COUNT(*) OVER (PARTITION BY "_unit" ORDER BY "_place") > 2) AS "_out" FROM \
(SELECT "_unit", "_key0", "_rows", (("_a" * "_x") + "_b") % 2147483647 AS "_place" FROM \
(SELECT "_unit", "_key0", "_rows", MAX((@HEX("_md5", 1) % 2147483646 + 1)) OVER (PARTITION BY "_unit") AS "_a", \
MAX(@HEX("_md5", 9) % 2147483647) OVER (PARTITION BY "_unit") AS "_b", @HEX("_md5g", 1) % 2147483647 AS "_x" FROM \
(SELECT "_unit", "_key0", "_rows", CASE WHEN (("_wide" > 2) AND ("_key0" = "_least")) \
THEN MD5('SALT:unit:' || CAST("_unit" AS TEXT) || ':') ELSE NULL END AS "_md5", \
CASE WHEN ("_wide" > 2) THEN MD5('SALT:group:' || CAST(LENGTH(CAST("_key0" AS TEXT)) AS TEXT) || ':' \
|| CAST("_key0" AS TEXT)) ELSE NULL END AS "_md5g" FROM \
(SELECT "_unit", "_key0", "_rows", COUNT(*) OVER (PARTITION BY "_unit") AS "_wide", \
MIN("_key0") OVER (PARTITION BY "_unit") AS "_least" FROM \
(SELECT _r."_unit", _r."_key0", COUNT(*) AS "_rows" FROM "_here" AS _r GROUP BY _r."_unit", _r."_key0") AS _c) AS _w) \
AS _h) AS _o) AS _p;
-- totals
SELECT "_key0", CAST(LEAST(COALESCE(SUM(1), 0), 4611686018427387904) AS BIGINT) FROM \
(SELECT "_unit", "_key0", "_rows" FROM "_cells" WHERE NOT "_out") AS _c GROUP BY "_key0";
-- units with more than 2 groups, units in all
SELECT CAST(LEAST(COALESCE(SUM("_o0"), 0), 4611686018427387904) AS BIGINT), \
CAST(LEAST(COALESCE(SUM("_o1"), 0), 4611686018427387904) AS BIGINT) FROM \
(SELECT MAX(CASE WHEN "_out" THEN 65536 ELSE 0 END) AS "_o0", 65536 AS "_o1" FROM "_cells" GROUP BY "_unit") AS _u;
"""
WORDS = {
    "duckdb": {
        "@READ_U": 'TRY_CAST(_t."u" AS BIGINT)',
        "@READ_G": '(CASE WHEN (STRLEN(TRY_CAST(_t."g" AS TEXT)) <= 4096) '
        'THEN TRY_CAST(_t."g" AS TEXT) ELSE NULL END COLLATE "C")',
        "@CUT": 'LIST_EXTRACT(MIN("_place", 3), 3)',
        "@HEX": r"CAST('0x' || SUBSTR(\1, \2, 8) AS BIGINT)",
    },
    "postgres": {
        "@READ_U": 'CAST(_t."u" AS BIGINT)',
        "@READ_G": '(CASE WHEN (OCTET_LENGTH(CAST(_t."g" AS TEXT)) <= 4096) '
        'THEN CAST(_t."g" AS TEXT) ELSE NULL END COLLATE "C")',
        "@CUT": '(ARRAY_AGG("_place" ORDER BY "_place"))[3]',
        "@HEX": r"CAST(CAST(('x' || SUBSTR(\1, \2, 8)) AS BIT(32)) AS BIGINT)",
    },
    "spark": {
        "@READ_U": 'CAST(_t."u" AS BIGINT)',
        "@READ_G": 'CASE WHEN ((OCTET_LENGTH(CAST(_t."g" AS TEXT)) <= 4096) AND '
        """(ENCODE(CAST(_t."g" AS TEXT), 'UTF-8') = CAST(CAST(_t."g" AS TEXT) AS BINARY))) """
        'THEN CAST(_t."g" AS TEXT) ELSE NULL END',
        "@HEX": r"CAST(CONV(SUBSTR(\1, \2, 8), 16, 10) AS BIGINT)",
        " TEXT)": " STRING)",
        '"': "`",
    },
}


def test_spark_adds_up_what_could_pass_64_bits_in_decimals() -> None:
    visits = ts.Private(awkward(100)).table(unit="pid")
    small = visits.per_unit(max_rows_per_group=8).agg(v=ts.sum("cost", 0, 1)).plan(rho=0.1)
    large = visits.per_unit(max_rows_per_group=9).agg(v=ts.sum("cost", 0, 1)).plan(rho=0.1)
    assert "DECIMAL" not in small.sql(dialect="spark")
    assert "DECIMAL" in large.sql(dialect="spark")


@pytest.mark.parametrize("dialect", WORDS)
def test_the_sql_of_every_engine_is_the_one_that_was_reviewed(dialect: str) -> None:
    table = ts.Private(pa.table({"u": [1], "g": ["x"]})).table(unit="u").per_unit(max_groups=2)
    plan = table.group_by("g", keys=ts.private_keys(delta=1e-6)).agg(people=ts.count_units()).plan(rho=0.1)
    words = WORDS[dialect]
    asked = SQL.partition("-- stage")[0] + MARKED if dialect == "spark" else SQL
    text = re.sub(r"@HEX\((.+?), (1|9)\)", words["@HEX"], asked)
    for ours, theirs in words.items():
        text = text.replace(ours, theirs)
    assert plan.sql(dialect=dialect) == text.replace("SALT", plan.salt)


def test_a_plan_without_a_price_names_no_word_that_nobody_typed(visits: Table) -> None:
    with pytest.raises(InvalidInput, match=r"^no cost is named; give one cost: a rho, an epsilon, or an error$"):
        visits.agg(n=ts.count()).plan()
    with pytest.raises(InvalidInput, match=r"^rho and epsilon are two costs; give one cost"):
        visits.agg(n=ts.count()).plan(rho=1.0, epsilon=1.0)


def test_a_join_whose_columns_both_sides_have_names_the_prefix(visits: Table) -> None:
    with pytest.raises(InvalidInput, match="prefix="):
        visits.join_on_unit(visits)


def test_absurd_budgets_and_weights_are_refused(visits: Table) -> None:
    asked = visits.agg(n=ts.count())
    for budget in ({"rho": 5e-324}, {"epsilon": 5e-324}, {"epsilon": 5e-324, "delta": 1e-6}, {"rho": 1e300}):
        with pytest.raises(InvalidInput, match="budget from 1e-9"):
            asked.plan(**budget)
    for weight in (1e300, 5e-324):
        with pytest.raises(InvalidInput, match="a weight from"):
            asked.plan(rho=1.0, weights={"n": weight})


def test_an_account_of_people_does_not_pay_for_the_privacy_of_rows(account: Account) -> None:
    """Found from outside: the card promised patients, and one patient had fifty rows."""
    rows = ts.Private(awkward(100), account=account).table(unit=ts.each_row)
    with pytest.raises(Refused, match="promises something to each patient"):
        rows.agg(n=ts.count()).plan(rho=0.01)


def test_a_measure_of_words_is_refused_with_the_way_out_and_texts_read_as_numbers_are_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("u,word,v\n1,x,2\n")
    words = ts.Private(str(path)).table(unit="u").per_unit(max_rows_per_group=1)
    for measure in (ts.sum("word", 0, 1), ts.histogram("word", [0, 1])):
        with pytest.raises(InvalidInput, match=r"word is text.*types="):
            words.agg(total=measure)
    numbers = ts.Private(str(path)).table(unit="u", types={"v": "number"}).per_unit(max_rows_per_group=1)
    plan = numbers.agg(total=ts.sum("v", 0, 1)).plan(rho=1)
    assert "Note     cells of v that are not numbers count as missing" in plan.explain()
    assert numbers.agg(n=ts.count()).plan(rho=1).facts()["warnings"] == []


def test_a_plan_says_epsilon_beside_rho(visits: Table) -> None:
    plan = visits.agg(n=ts.count()).plan(rho=0.02)
    shown = next(line for line in plan.explain().splitlines() if line.startswith("Cost"))
    assert shown == f"Cost     rho 0.02 (epsilon {up(plan.privacy.epsilon(delta=1e-6))} at delta 1e-6)"
    assert "Rho (zCDP) is the unit of cost" in plan.explain()
