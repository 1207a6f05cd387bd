"""Tables of different files meet on their unit, and each file is still the one that the ledger knows."""

from __future__ import annotations

import json
import os

import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

import tallystick as ts
from tallystick.errors import IdempotencyConflict, InvalidInput, Refused
from tallystick.tables.plan import Plan
from tallystick.tables.run import integers
from tallystick.tables.sources import BESIDE, identity, source_from_data, source_of

VISITS = "patient,ward,cost\n" + "".join(f"p{i % 30},{'ns'[i % 2]},{i % 7}\n" for i in range(300))
PEOPLE = "patient,sex\n" + "".join(f"p{i},{'mf'[i % 2]}\n" for i in range(20))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(VISITS)
    (tmp_path / "people.csv").write_text(PEOPLE)
    sexes = [line.split(",") for line in PEOPLE.splitlines()[1:]]
    table = pyarrow.table({"patient": [who for who, _ in sexes], "sex": [sex for _, sex in sexes]})
    pyarrow.parquet.write_table(table, tmp_path / "people.parquet")
    import duckdb

    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM 'people.parquet'")
    return tmp_path


def opened(place, account=None, **options):
    return ts.Private(place, account=account).table(unit="patient", **options)


def by_sex(table):
    grouped = table.per_unit(max_groups=1, max_rows_per_group=20).group_by("sex", keys=["f", "m"])
    return grouped.agg(n=ts.count()).plan(rho=0.1, caps_share=0)


def others():
    yield opened("people.csv")
    yield opened("people.parquet")
    yield ts.Private("clinic.duckdb").table("people", unit="patient")


def test_files_of_every_kind_join_as_tables_of_one_source_do(folder):
    counts = []
    for other in others():
        plan = by_sex(opened("visits.csv").join_on_unit(other, max_rows=20))
        assert plan.query.table.source.kind == BESIDE
        again = Plan.from_json(plan.to_json())
        assert again.hash == plan.hash
        counts += [[v.tolist() for v in integers(each).numbers.values()] for each in (plan, again)]
    memory = {"visits": pyarrow.csv.read_csv("visits.csv"), "people": pyarrow.csv.read_csv("people.csv")}
    source = ts.Private(memory)
    joined = source.table("visits", unit="patient").join_on_unit(source.table("people", unit="patient"), max_rows=20)
    counts.append([v.tolist() for v in integers(by_sex(joined)).numbers.values()])
    assert all(count == counts[0] for count in counts)
    assert counts[0] == [[[100], [100]]]  # 20 of 30 patients have a sex, and each has 10 visits


def test_a_dict_of_files_is_one_source(folder):
    source = ts.Private({"visits": "visits.csv", "people": "clinic.duckdb"})
    assert "visits.csv" in repr(source)
    both = source.table("visits", unit="patient").with_units_in(source.table("people", unit="patient"))
    [units] = integers(both.agg(n=ts.count_units()).plan(rho=0.1, caps_share=0)).numbers.values()
    assert units.tolist() == [[20]]
    with pytest.raises(InvalidInput, match="one of"):
        source.table("peple", unit="patient")


def test_each_file_is_who_it_was(folder):
    source = source_of({"visits": "visits.csv", "people": "clinic.duckdb"})
    assert identity(source, "visits") == identity(source_of("visits.csv"), "table")
    assert identity(source, "people") == identity(source_of("clinic.duckdb"), "people")
    joined = opened("visits.csv").with_units_in(opened(str(folder / "visits.csv")))
    assert list(json.loads(joined.source.place)) == ["visits"]  # one file by two names is one table


def test_one_key_is_one_question_of_the_same_files(folder, account):
    def asked(other):
        table = opened("visits.csv", account).with_units_in(opened(other, account))
        return table.agg(n=ts.count_units()).plan(rho=0.01, caps_share=0)

    os.mkdir("other")
    (folder / "other" / "people.csv").write_text("patient,sex\np1,f\n")
    first, second = asked("people.csv"), asked("other/people.csv")
    assert first.hash == second.hash  # where a table is does not belong to a plan
    first.release(why="x", key="k")
    assert not first.release(why="x", key="k").fresh
    with pytest.raises(IdempotencyConflict):
        second.release(why="x", key="k")


def test_where_one_file_is_registered_both_must_be(folder, account):
    account.register("visits", source=identity(source_of("visits.csv"), "table"), note="", fixed={
        "unit": "patient", "adjacency": "add_remove"})  # fmt: skip
    table = opened("visits.csv", account).with_units_in(opened("people.csv", account))
    with pytest.raises(Refused, match="only one is registered"):
        table.agg(n=ts.count_units()).plan(rho=0.01).release(why="x")
    assert account.used.a0 == 0


def test_what_cannot_meet_says_what_can(folder):
    frame = opened(pyarrow.csv.read_csv("people.csv"))
    with pytest.raises(Refused, match=r"Use files, or tables of one database\. Try: data frames"):
        opened("visits.csv").with_units_in(frame)


@pytest.mark.parametrize(
    "place",
    ['{"a": ["csv", "a.csv"]}', '{"a": ["memory", "a", "a"]}', '{"a": ["duckdb", "a.csv", "t"]}', "{}", "[]", "7", "{"],
)
def test_a_plan_can_name_nothing_but_files(place):
    with pytest.raises(InvalidInput):
        source_from_data({"kind": BESIDE, "place": place})


@pytest.mark.parametrize("how", ["own", "link", "hard link", "registered", "moved"])
def test_private_rows_are_not_read_as_public(folder, account, how):
    names = {"own": "visits.csv", "link": "link.csv", "hard link": "hard.csv"}
    os.symlink("visits.csv", "link.csv")
    os.link("visits.csv", "hard.csv")
    asked = opened("visits.csv", account)
    if how in ("registered", "moved"):
        from tallystick.publish import datasets

        table = opened(str(folder / "people.csv"), account)
        dataset = datasets.Dataset("people", "clinic", table.to_data())
        datasets.register(dataset, account)
        if how == "moved":
            moved = datasets.Dataset("people", "clinic", opened(str(folder / "people.parquet"), account).to_data())
            datasets.register(moved, account, update=True)
    public = names.get(how, "people.csv")
    column = "ward" if how in names else "patient"
    with pytest.raises(Refused, match="private_keys"):
        asked.group_by(column, keys=public)
    with pytest.raises(Refused, match="everybody may see"):
        asked.join(public, on="patient")
    if how not in names:
        with pytest.raises(Refused, match="everybody may see"):
            ts.sql("SELECT COUNT(*) FROM people", ledger=account.ledger, rho=0.1, why="x", public={"more": public})


def test_a_public_file_is_still_read(folder, account):
    (folder / "wards.csv").write_text("ward,floor\nn,1\ns,2\n")
    table = opened("visits.csv", account).join("wards.csv", on="ward")
    assert len(table.per_unit(max_groups=1).group_by("ward", keys="wards.csv").keys.rows) == 2
