"""Registering a dataset: what is public is stored once, whom it protects does not change, nothing private is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from crash.stores import fresh_schema, postgres  # noqa: F401
from tallystick import zcdp
from tallystick.errors import Refused
from tallystick.ledger import Ledger
from tallystick.publish import datasets

ADD = "dataset add visits.csv --population patients --unit patient_id --limit rho=0.5".split()
CAPS = "--max-groups 2 --max-rows-per-group 3".split()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    (tmp_path / "visits.csv").write_text("patient_id,ward,age\nSECRET1,a,30\nSECRET2,b,40\n")
    return tmp_path


def test_a_dataset_is_added_listed_and_shown(run, here) -> None:
    added = run(*ADD, *CAPS, "--bounds", "age=0:110", "--about", "window=2026, all of it")
    assert added.code == 0, added.errors
    assert "columns  patient_id text, ward text, age number" in added.out
    listed = run("dataset", "list", "--json").document["found"]["datasets"]
    assert [each["name"] for each in listed] == ["visits"]
    shown = run("dataset", "show", "visits", "--json").document["found"]
    assert shown["account"]["limit"]["rho"] == 0.5
    assert shown["account"]["unit"] == "patient"
    assert shown["about"] == {"window": "2026, all of it"}
    assert "bounds   age 0 to 110" in run("dataset", "show", "visits").out
    assert shown["least_price"]["rho"] == 0.0001
    assert "cost     at least rho 0.0001 for each query" in added.out
    assert not list(here.glob("*.json"))
    with Ledger("tallystick.db") as book:
        assert "SECRET" not in book.datasets()["visits"].note
        assert book.verify().problems == ()


def test_a_limit_on_rows_in_all_is_enough_to_ask_for_groups_and_is_kept_by_updates(run, here) -> None:
    added = run(*ADD, "--max-rows", "60")
    assert added.code == 0, added.errors
    assert "patient_id: at most 60 rows in all" in added.out
    assert "only totals of people" not in added.out
    (here / "wards.csv").write_text("ward\na\nb\n")
    asked = ["--by", "ward", "--keys", "wards.csv", "--measures", "count,count_units", "--rho", "0.01"]
    planned = run("publish", "plan", "visits", *asked)
    assert planned.code == 0, planned.errors
    assert "a patient counts in at most 2 groups, with at most 60 rows in all" in planned.out
    updated = run("dataset", "update", "visits", "--max-rows-per-group", "40")
    assert "at most 40 rows in each, 60 rows in all" in updated.out, updated.out
    assert run("dataset", "show", "visits", "--json").document["found"]["table"]["max_rows_in_all"] == 60
    changed = run("dataset", "update", "visits", "--max-rows", "50", "--json").document["found"]["changes"]
    assert changed == {"max_rows_in_all": [60, 50]}


def test_a_limit_on_rows_in_all_beyond_what_a_group_may_have_needs_one_on_that(run, here) -> None:
    added = run(*ADD, "--max-rows", "5000")
    assert "without --max-rows-per-group only totals of people" in added.out


def test_no_datasets_yet_is_said(run, here) -> None:
    assert "No datasets yet" in run("dataset", "list").out


def test_a_dry_run_adds_nothing(run, here) -> None:
    assert "Would add visits" in run(*ADD, "--dry-run").out
    assert sorted(path.name for path in here.iterdir()) == ["visits.csv"]


def test_adding_twice_changes_nothing_and_a_change_is_asked_for(run, here) -> None:
    assert run(*ADD, *CAPS).code == 0
    with Ledger("tallystick.db") as book:
        before = book.head()
    assert run(*ADD, *CAPS).code == 0
    with Ledger("tallystick.db") as book:
        assert book.head() == before
    assert run(*ADD, "--max-groups", "9").code == 2
    assert run(*ADD, "--max-groups", "9", "--update").code == 0


def test_an_update_keeps_what_it_does_not_name(run, here) -> None:
    """Found by a newcomer: new bounds dropped the caps without a word."""
    run(*ADD, *CAPS, "--bounds", "age=0:110", "--about", "window=2026")
    assert run(*ADD, "--max-groups", "1", "--about", "contact=nobody", "--update").code == 0
    shown = run("dataset", "show", "visits", "--json").document["found"]
    assert "at most 1 group, 3 rows in each" in run("dataset", "show", "visits").out
    assert shown["about"] == {"window": "2026", "contact": "nobody"}
    assert "bounds   age 0 to 110" in run("dataset", "show", "visits").out


def test_whom_a_dataset_protects_does_not_change(run, here) -> None:
    run(*ADD)
    other = "dataset add visits.csv --population patients --unit ward --update".split()
    assert run(*other).code == 4
    elsewhere = "dataset add visits.csv --population others --unit patient_id --limit rho=9 --update".split()
    assert run(*elsewhere).code == 4


def test_two_datasets_share_one_population_and_its_limit(run, here) -> None:
    run(*ADD, *CAPS)
    second = "dataset add visits.csv --name second --population patients --unit patient_id".split()
    assert run(*second, *CAPS).code == 0
    run(*"query visits --measures count --rho 0.3 --why a".split())
    assert run(*"query second --measures count --rho 0.3 --why b".split()).code == 3


def test_single_rows_may_be_protected_and_the_plan_warns(run, here) -> None:
    words = "dataset add visits.csv --population rows --unit each-row --limit epsilon=1".split()
    assert run(*words).code == 0
    assert run("dataset", "show", "visits", "--json").document["found"]["account"]["unit"] == "row"
    assert (
        "single rows are protected, not the people"
        in run(*"publish plan visits --measures count --epsilon 0.1".split()).out
    )


@pytest.mark.parametrize(
    ("limit", "currency"),
    [("rho=0.5", "zcdp"), ("epsilon=1", "approx"), ("epsilon=1,delta=1e-6", "approx"), ("mu=1", "gdp")],
)
def test_a_limit_names_its_filter(run, here, limit, currency) -> None:
    run(*ADD[:-1], limit)
    assert run("dataset", "show", "visits", "--json").document["found"]["account"]["filter"] == currency


def test_replacement_of_one_unit_is_a_choice_of_its_own(run, here) -> None:
    assert run(*ADD, "--replace-one").code == 0
    assert run("dataset", "show", "visits", "--json").document["found"]["account"]["adjacency"] == "replace"


@pytest.mark.parametrize(
    "words",
    [
        ["--limit", "rho=x"],
        ["--limit", "sigma=1"],
        ["--limit", "rho=-1"],
        ["--bounds", "age"],
        ["--bounds", "age=5"],
        ["--bounds", "age=9:1"],
        ["--bounds", "height=0:1"],
        ["--type", "age=colour"],
        ["--about", "mood=good"],
        ["--max-groups", "0"],
        ["--unit", "nobody"],
        ["--name", ""],
        ["--name", "a\nb"],
    ],
)
def test_bad_input_is_named_and_leaves_nothing_behind(run, here, words) -> None:
    outcome = run(*ADD, *words)
    if words == ["--name", ""]:
        assert outcome.code == 0  # an empty name is no name
        return
    assert outcome.code == 2, outcome.errors
    assert "SECRET" not in outcome.errors
    assert "No datasets yet" in run("dataset", "list").out


@pytest.mark.parametrize("source", ["missing.csv", "visits.xlsx", "http://example.org/a.csv", "."])
def test_a_source_that_cannot_be_read_is_said_before_an_account_is_opened(run, here, source) -> None:
    outcome = run("dataset", "add", source, *ADD[3:])
    assert outcome.code in (2, 9)
    assert not (here / "tallystick.db").exists()


@pytest.mark.parametrize("name", ["'; DROP TABLE account; --", '"quoted"', "../../etc/passwd", "ünï çødé", "{{7*7}}"])
def test_hostile_names_are_only_names(run, here, name) -> None:
    assert run(*ADD, *CAPS, "--name", name).code == 0
    assert name in run("dataset", "list").out
    outcome = run("query", name, "--measures", "count", "--rho", "0.1", "--why", name, "--card", "card.html")
    assert outcome.code == 0, outcome.errors
    assert run("card", "verify", "card.html").code == 0
    assert run("ledger", "verify").code == 0


def test_an_unknown_dataset_lists_those_there_are(run, here) -> None:
    run(*ADD)
    outcome = run(*"publish plan visit --measures count --rho 0.1".split())
    assert outcome.code == 2
    assert "one of: visits" in outcome.errors


def test_a_file_of_registrations_from_before_is_refused_by_name(run, here) -> None:
    run(*ADD)
    old = here / "tallystick.db.datasets.json"
    old.write_text("{}")
    for words in (["dataset", "list"], ["dataset", "show", "visits"], [*ADD, "--update"]):
        outcome = run(*words)
        assert outcome.code == 4
        assert "tallystick.db.datasets.json" in outcome.errors
        assert "dataset add" in outcome.errors
    old.unlink()
    assert run("dataset", "list").code == 0


@pytest.mark.parametrize(
    "edit",
    [
        """UPDATE entry_text SET body = replace(body, '"unit":"patient_id"', '"unit":null') WHERE field = 'note'""",
        "UPDATE dataset SET note = (SELECT body FROM entry_text WHERE field = 'note')",
    ],
)
def test_a_registration_edited_in_the_database_is_found(run, here, edit) -> None:
    import sqlite3

    run(*ADD, *CAPS)
    connection = sqlite3.connect(here / "tallystick.db", isolation_level=None)
    names = ("dataset_no_update", "entry_text_no_update")
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    triggers = {name: sql for name, sql in connection.execute(query) if name in names}
    for name in names:
        connection.execute(f"DROP TRIGGER {name}")
    before = connection.execute("SELECT d.note, t.body FROM dataset d JOIN entry_text t ON t.field = 'note'").fetchall()
    assert connection.execute(edit).rowcount == 1
    after = connection.execute("SELECT d.note, t.body FROM dataset d JOIN entry_text t ON t.field = 'note'").fetchall()
    assert before != after
    for sql in triggers.values():
        connection.execute(sql)
    connection.close()
    assert run("ledger", "verify").code == 6


@pytest.mark.parametrize("how", ["same", "symlink", "hard link", "dots"])
def test_a_source_belongs_to_one_population(run, here, how) -> None:
    run(*ADD, *CAPS)
    place = {"same": "visits.csv", "symlink": "other.csv", "hard link": "other.csv", "dots": "sub/../visits.csv"}[how]
    (here / "sub").mkdir()
    if how == "symlink":
        (here / "other.csv").symlink_to(here / "visits.csv")
    if how == "hard link":
        (here / "other.csv").hardlink_to(here / "visits.csv")
    words = ["dataset", "add", place, "--name", "second", "--population", "others"]
    outcome = run(*words, "--unit", "patient_id", "--limit", "rho=9")
    assert outcome.code == 4
    assert "one population" in outcome.errors
    assert "others" not in run("ledger", "show").out  # nothing was opened for it


def test_python_pays_for_a_registered_source_from_its_population_only(run, here) -> None:
    import tallystick as ts

    run(*ADD, *CAPS)
    with Ledger("tallystick.db") as book:
        other = book.open("others", budget=ts.zcdp(rho=9), unit="patient")
        table = ts.Private("visits.csv", account=other).table(unit="patient_id").per_unit(max_rows_per_group=1)
        with pytest.raises(Refused, match="belongs to population 'patients'"):
            table.agg(n=ts.count()).plan(rho=1).release(why="twice the budget")
        assert other.used.a0 == 0


def test_datasets_added_at_the_same_moment_are_all_kept(run, here) -> None:
    from concurrent.futures import ThreadPoolExecutor

    run(*ADD)
    with Ledger("tallystick.db") as book:
        account, table = book.open("patients"), datasets.find("visits", book).table
        with ThreadPoolExecutor(8) as pool:
            made = [datasets.Dataset(f"d{i}", "patients", table) for i in range(24)]
            list(pool.map(lambda each: datasets.register(each, account), made))
        assert len(datasets.known(book)) == 25
        assert book.verify().problems == ()


def test_plans_cost_at_least_what_was_registered(run, here) -> None:
    assert run(*ADD, *CAPS, "--least-price", "rho=0.01").code == 0
    cheap = "query visits --measures count --rho 0.009 --why x".split()
    for words in (cheap, [*cheap, "--dry-run"]):
        outcome = run(*words)
        assert outcome.code == 4
        assert "the least cost of this dataset is rho 0.01" in outcome.errors
    planned = run(*"publish plan visits --measures count --rho 0.009".split())
    assert planned.code == 0
    assert "the least cost of this dataset is rho 0.01" in planned.out
    assert run(*"query visits --measures count --rho 0.01 --why x".split()).code == 0
    for price in ("epsilon=1", "rho=9", "rho=x", "sigma=1", "rho=-1"):
        assert run(*ADD, *CAPS, "--update", "--least-price", price).code == 2, price
    assert run(*ADD, *CAPS, "--update", "--least-price", "rho=0.001").code == 0
    assert run(*"query visits --measures count --rho 0.001 --why x".split()).code == 0


def test_a_failure_closes_the_dataset_until_its_owner_clears_it(run, here, monkeypatch: pytest.MonkeyPatch) -> None:
    from tallystick.tables import run as running

    def broken(*_: object) -> None:
        raise ValueError("row of SECRET1")

    run(*ADD, *CAPS)
    asked = "query visits --measures count --rho 0.01 --why x".split()
    assert run("dataset", "clear", "visits", "--why", "nothing").code == 4
    monkeypatch.setattr(running, "_integers", broken)
    failed = run(*asked)
    assert failed.code == 9
    assert "SECRET" not in failed.errors
    assert "ValueError" not in failed.errors
    monkeypatch.undo()
    monkeypatch.chdir(here)
    for words in (asked, [*asked, "--dry-run"]):
        closed = run(*words)
        assert closed.code == 4
        assert "dataset clear" in closed.errors
    assert "closed   by the failure of ledger entry" in run("dataset", "show", "visits").out
    assert "Would open" in run("dataset", "clear", "visits", "--why", "looked", "--dry-run").out
    assert "Opened visits and population patients" in run("dataset", "clear", "visits", "--why", "looked").out
    assert run(*asked).code == 0
    assert run("ledger", "verify").code == 0


def test_a_missing_cap_is_said_when_the_dataset_is_added(run, here) -> None:
    assert "without --max-groups and --max-rows-per-group only totals of people" in run(*ADD).out
    assert run(*"query visits --measures count_units --rho 0.1 --why x".split()).code == 0
    assert run(*"query visits --measures count --rho 0.1 --why x".split()).code == 4


def test_datasets_of_a_postgresql_ledger_are_seen_from_another_machine(
    run,
    here,
    postgres: str,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    url = fresh_schema(postgres)
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(here / "config"))
    assert run(*ADD, *CAPS, "--ledger", url).code == 0
    assert run(*ADD, "--max-groups", "9", "--ledger", url).code == 2
    assert run(*ADD, "--max-groups", "7", "--max-rows-per-group", "3", "--update", "--ledger", url).code == 0
    assert not list(here.glob("*.json"))
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("TALLYSTICK_CONFIG_DIR", str(elsewhere / "config"))
    found = run("dataset", "show", "visits", "--ledger", url, "--json").document["found"]
    assert found["table"]["max_groups"] == 7
    assert found["account"]["used"]["rho"] == 0
    (elsewhere / "wards.csv").write_text("ward\na\nb\n")
    asked = "publish plan visits --by ward --keys wards.csv --measures count --rho 0.1 --out t.json".split()
    assert run(*asked, "--ledger", url).code == 0
    publish = ("publish", "run", "t.json", "--why", "report", "--out", "t.csv", "--ledger", url)
    refused = run(*publish)
    assert refused.code == 4
    assert "ledger accept --expect-head" in refused.errors
    head = run("ledger", "head", "--ledger", url, "--json").document["found"]["head"]
    assert run("ledger", "accept", "--expect-head", head, "--ledger", url).code == 0
    released = run(*publish)
    assert released.code == 0, released.errors
    assert run("ledger", "verify", "--ledger", url).code == 0
    assert run("dataset", "show", "nothing", "--ledger", url).code == 2


def test_no_file_that_is_read_is_written_over(run, here) -> None:
    run(*ADD, *CAPS)
    before = (here / "visits.csv").read_bytes()
    asked = "query visits --measures count --rho 0.1 --why x --out visits.csv".split()
    outcome = run(*asked)
    assert outcome.code == 2
    assert "overwritten" in outcome.errors
    assert (here / "visits.csv").read_bytes() == before


def test_a_note_in_the_words_of_a_program_is_left_alone(run, here) -> None:
    notes = ("own words", '{"owner": "the board"}', "[1, 2]", '"text"', "{", "[" * 5_000, '{"format": 7}')
    with Ledger("tallystick.db") as book:
        account = book.open("people", budget=zcdp(rho=1), unit="person")
        for place, note in enumerate(notes):
            account.register(f"extract {place}", note=note)
    added = run(*ADD, *CAPS)
    assert added.code == 0, added.errors
    listed = run("dataset", "list", "--json").document["found"]["datasets"]
    assert [each["name"] for each in listed] == ["visits"]
    assert run("dataset", "show", "visits").code == 0
    unknown = run("dataset", "show", "extract 0")
    assert unknown.code == 2
    assert "a program registered this one" in unknown.errors
    with Ledger("tallystick.db") as book:
        assert book.datasets()["extract 0"].note == "own words"


@pytest.mark.parametrize("note", ['{"format":"tallystick/dataset/1"}', '{"format":"tallystick/dataset/9","table":{}}'])
def test_a_note_of_our_format_that_cannot_be_read_is_still_refused(run, here, note) -> None:
    with Ledger("tallystick.db") as book:
        book.open("people", budget=zcdp(rho=1), unit="person").register("broken", note=note)
    outcome = run("dataset", "list")
    assert outcome.code == 6
    assert "'broken' cannot be read" in outcome.errors


def test_bounds_keep_the_type_that_was_declared(run, here) -> None:
    assert run(*ADD, *CAPS, "--type", "age=integer").code == 0
    for dry in (["--dry-run"], []):
        changed = run("dataset", "update", "visits", "--bounds", "age=0:110", *dry, "--json").document["found"]
        assert changed["changes"] == {"bounds of age": [None, "0 to 110"]}
    shown = run("dataset", "show", "visits").out
    assert "age integer" in shown
    typed = run("dataset", "update", "visits", "--bounds", "age=0:99", "--type", "age=number", "--json")
    assert typed.document["found"]["changes"]["type of age"] == ["integer", "number"]


def test_bounds_make_an_undeclared_column_a_number(run, here) -> None:
    assert run(*ADD, *CAPS).code == 0
    changed = run("dataset", "update", "visits", "--bounds", "age=0:110", "--json").document["found"]
    assert changed["changes"]["type of age"] == ["text", "number"]
