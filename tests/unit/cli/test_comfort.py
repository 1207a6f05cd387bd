"""Options that behave alike, files that stay private, and one way to say what was paid and written."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import typer.main

from tallystick.cli.app import _COMMANDS, app, run
from tallystick.errors import TallystickError

PEOPLE = "patient,age,city\n" + "".join(f"p{i},{i % 90},{'ab'[i % 2]}\n" for i in range(40))
VISITS = "patient,ward,sex,cost\n" + "".join(
    f"p{i % 40},{'ns'[i % 2]},{'mf'[i % 3 == 0]},{i % 9}\n" for i in range(400)
)
PRICE = ["--rho", "0.1", "--why", "x"]
JOINED = "SELECT v.ward, COUNT(*) AS n FROM visits v JOIN people p ON v.patient = p.patient GROUP BY v.ward"


@pytest.fixture
def shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    for name, text in (
        ("visits", VISITS),
        ("people", PEOPLE),
        ("wards", "ward\nn\ns\n"),
        ("floors", "ward,floor\nn,1\n"),
    ):
        Path(f"{name}.csv").write_text(text)

    def call(*words, code=0):
        found = run([*words])
        said = capsys.readouterr()
        assert found == code, said.err
        return said.out + said.err

    caps = ["--max-groups", "2", "--max-rows-per-group", "20", "--unit", "patient", "--population", "clinic"]
    call("dataset", "add", "visits.csv", *caps, "--limit", "rho=2", "--limit", "delta=1e-6", "--keys", "ward=wards.csv")
    call("dataset", "add", "people.csv", *caps)
    return call


def asked(said):
    return json.loads(said)


def test_a_list_is_given_with_commas_or_by_repeating_the_option(shell):
    plan = ["publish", "plan", "visits", "--private-keys", "1e-7", "--rho", "0.1", "--json"]
    one = asked(shell(*plan, "--by", "ward,sex", "--measures", "count,count_units", "--group-size", "5,50"))
    two = asked(shell(*plan, "--by", "ward", "--by", "sex", "--measures", "count", "--measures", "count_units",
                      "--group-size", "5", "--group-size", "50"))  # fmt: skip
    assert one["found"]["plan"]["hash"] == two["found"]["plan"]["hash"]
    assert two["asked"]["by"] == ["ward", "sex"]
    suggest = ["dataset", "suggest", "visits", *PRICE, "--dry-run", "--json"]
    one = asked(shell(*suggest, "--by", "ward,sex"))
    assert (
        one["found"]["plan"]["hash"] == asked(shell(*suggest, "--by", "ward", "--by", "sex"))["found"]["plan"]["hash"]
    )
    assert one["found"]["plan"]["hash"] != asked(shell(*suggest, "--by", "sex"))["found"]["plan"]["hash"]
    reports = asked(shell("respond", "yes", "--choices", "yes", "--choices", "no", "--epsilon", "1", "--json"))
    assert reports["asked"]["choices"] == ["yes", "no"]
    shell("account", "open", "b", "--budget", "zcdp(rho=1)", "--milestone", "0.1,0.2", "--milestone", "0.3")


@pytest.mark.parametrize(
    "words",
    [
        ["--rho", "0.1", "--rho", "0.2"],
        ["--rho=0.1", "--rho=0.2"],
        ["--rho", "0.1", "--keys", "wards.csv", "--keys", "wards.csv"],
    ],
)
def test_an_option_with_room_for_one_value_takes_no_second(shell, words):
    said = shell("query", "visits", "--measures", "count", "--why", "x", *words, code=2)
    assert "given 2 times" in said
    assert "--rho" in said or "--keys" in said


def test_one_name_has_one_value(shell):
    for words in (["--bounds", "cost=0:1,cost=0:2"], ["--type", "cost=number", "--type", "cost=integer"],
                  ["--about", "window=a", "--about", "window=b"]):  # fmt: skip
        said = shell("dataset", "add", "visits.csv", "--population", "clinic", "--unit", "patient", *words, code=2)
        assert "twice" in said


def test_several_public_files_are_joined(shell):
    Path("names.csv").write_text("floor,name\n1,ground\n")
    words = ["--join", "floors.csv", "--join", "names.csv", "--by", "name", "--private-keys", "1e-7"]
    assert "Error    count" in shell("publish", "plan", "visits", "--measures", "count", "--rho", "0.1", *words)


@pytest.mark.parametrize("name", ["visits.csv", "people.csv", "link.csv", "hard.csv"])
def test_a_private_file_is_not_public_under_any_name(shell, name):
    os.symlink("visits.csv", "link.csv")
    os.link("people.csv", "hard.csv")
    query = ["query", "visits", "--measures", "count", *PRICE]
    before = shell("budget", "clinic")
    for words, works in (
        (["--by", "ward", "--keys", name], "--private-keys"),
        (["--join", name], "tallystick sql"),
    ):
        assert works in shell(*query, *words, code=4)
        assert works in shell(*query, *words, "--dry-run", code=4)
    assert "tallystick sql" in shell("sql", "SELECT COUNT(*) FROM visits", *PRICE, "--public", f"more={name}", code=4)
    add = ["dataset", "add", "visits.csv", "--population", "clinic", "--unit", "patient", "--update"]
    assert "--key-delta" in shell(*add, "--keys", f"ward={name}", code=4)
    assert shell("budget", "clinic") == before


def test_a_new_data_set_is_not_its_own_public_list(shell):
    Path("new.csv").write_text("who,ward\n1,n\n")
    words = ["--population", "clinic", "--unit", "who", "--keys", "ward=new.csv"]
    assert "the rows that are asked about" in shell("dataset", "add", "new.csv", *words, code=4)


def test_two_registered_files_are_joined_in_sql(shell):
    said = asked(shell("sql", JOINED, *PRICE, "--json"))["found"]
    assert said["columns"][:2] == ["ward", "n_limited"]
    counts = dict(row[:2] for row in said["rows"])
    assert all(abs(counts[ward] - 200) < 300 for ward in "ns")


def test_sql_writes_what_publish_run_writes_and_says_what_it_says(shell):
    shell("publish", "plan", "visits", "--by", "ward", "--keys", "wards.csv", "--measures", "count", "--rho", "0.1",
          "--out", "plan.json")  # fmt: skip
    ran = shell("publish", "run", "plan.json", "--why", "x", "--out", "run.csv")
    sql = "SELECT ward, COUNT(*) AS count FROM visits GROUP BY ward"
    said = shell("sql", sql, *PRICE, "--out", "sql.csv")
    about = [Path(name).read_text().splitlines() for name in ("run.about.csv", "sql.about.csv")]
    assert [line.split(",")[0] for line in about[0]] == [line.split(",")[0] for line in about[1]]
    paid = [line.split("(")[0] for text in (ran, said) for line in text.splitlines() if line.startswith("Charged")]
    assert paid[0] == paid[1] == "Charged  rho 0.1 "
    assert "rho 0.1 (epsilon" in said
    again = asked(shell("sql", sql, *PRICE, "--out", "sql.parquet", "--json"))["found"]
    assert again["again"]
    assert again["about"] == "sql.about.csv"
    import pyarrow.parquet

    table = pyarrow.parquet.read_table("sql.parquet").to_pydict()
    assert ",".join(str(column[0]) for column in table.values()) == Path("sql.csv").read_text().splitlines()[1]


def test_a_dry_statement_says_what_the_statement_would(shell):
    sql = ["sql", JOINED, "--why", "x"]
    assert "Would charge rho 0.1" in shell(*sql, "--rho", "0.1", "--dry-run")
    assert shell(*sql, "--rho", "9", "--dry-run", code=3) == shell(*sql, "--rho", "9", code=3)
    shell(*sql, "--rho", "0.1")
    assert "has the answer. Nothing would be charged." in shell(*sql, "--rho", "0.1", "--dry-run")
    os.rename("people.csv", "gone.csv")
    other = [*sql, "--rho", "0.2"]
    assert shell(*other, "--dry-run", code=2) == shell(*other, code=2)


def test_a_dry_run_asks_the_accounts_above_too(shell):
    shell("account", "open", "block", "--budget", "zcdp(rho=2)", "--parent", "clinic")
    shell("query", "visits", "--measures", "count_units", "--rho", "1.5", "--why", "x")
    words = ["query", "visits", "--measures", "count_units", "--rho", "1", "--why", "x", "--account", "block"]
    assert shell(*words, "--dry-run", code=3) == shell(*words, code=3)
    charge = ["charge", "add", "zcdp(rho=1)", "--account", "block", "--why", "x"]
    assert shell(*charge, "--dry-run", code=3) == shell(*charge, code=3)
    fits = ["charge", "add", "zcdp(rho=0.1)", "--account", "block", "--why", "x", "--key", "k"]
    before = shell("budget", "clinic")
    assert "Would charge rho 0.1" in shell(*fits, "--dry-run")
    assert shell("budget", "clinic") == before
    shell(*fits)
    assert "Asked before" in shell(*fits, "--dry-run")
    assert "made with the reason 'x'" in shell(*fits[:-3], "another", *fits[-2:])


# ---- manners of all commands


def commands():
    found = []

    def walk(command, words):
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, [*words, name])
        if not hasattr(command, "commands"):
            found.append((" ".join(words), {name for one in command.params for name in one.opts}))

    walk(typer.main.get_command(app), [])
    return dict(found)


COMMANDS = commands()
SPEND = ["query", "sql", "publish run", "dataset suggest", "fit linear", "fit logistic", "charge add"]
DECIDE = ["dataset clear", "dataset retire", "account raise", "account close", "ledger accept", "ledger govern",
    "ledger add-key", "ledger retire-key", "ledger erase"]  # fmt: skip
ROLES = ["account allow", "account approve", "account open", "account reject", "account request", "dataset add",
    "dataset remove", "dataset update", "ledger begin-roles", "ledger break-glass", "ledger end", "ledger grant",
    "ledger quorum", "ledger revoke"]  # fmt: skip
"""Commands about roles, and those that take a reason with ``--request``."""
NO_JSON = {"ledger export"}  # what it prints is the record itself


def test_the_static_lines_of_the_help_are_those_of_the_commands():
    listed = [line for group in _COMMANDS.values() for line in group]
    made = typer.main.get_command(app).commands
    groups = {name for name, command in made.items() if hasattr(command, "commands")}
    assert {name for name, where, _ in listed if where.endswith(".app")} == groups
    assert {name for name, _, _ in listed} == set(made)
    assert all(made[name].help for name, _, _ in listed)


def test_the_help_has_groups_and_cuts_nothing_off(run):
    text = run("--help").out
    for group, lines in _COMMANDS.items():
        assert f"{group}:" in text
        for name, _, about in lines:
            assert len(about) <= 60
            assert re.search(rf"  {name} +{re.escape(about)}\n", text), name


def test_every_command_prints_json():
    assert {name for name, options in COMMANDS.items() if "--json" not in options} == NO_JSON


@pytest.mark.parametrize("name", SPEND + DECIDE + ROLES)
def test_what_spends_or_decides_takes_a_reason_and_can_be_tried(name):
    assert {"--why", "--dry-run", "--json", "--ledger"} <= COMMANDS[name]


def test_whatever_takes_a_reason_is_in_the_list_above():
    reasons = {name for name, options in COMMANDS.items() if "--why" in options}
    assert reasons == {
        *SPEND,
        *DECIDE,
        *ROLES,
        "ledger import",
        "ledger init",
    }  # these two can be tried in an empty place


def test_every_way_out_has_an_exit_code_of_its_own():
    def kinds(kind):
        return {kind, *(each for inner in kind.__subclasses__() for each in kinds(inner))}

    assert {each.exit_code for each in kinds(TallystickError)} <= {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["epsilon", "gaussian(sigma=1)", "--delta", "x"], ["Error: --delta is x. Give a number."]),
        (["charge", "show", "x"], ["number is x. Give a whole number."]),
        (["query"], ["dataset is missing."]),
        (["epslon"], ["unknown command epslon. Did you mean epsilon"]),
        (["epsilon", "gaussian(sigma=1)", "--dleta", "1"], ["unknown option --dleta. Did you mean --delta?"]),
        (["epsilon", "gausian(sigma=1)", "--delta", "1"], ["unknown name gausian (column 1). Did you mean gaussian?"]),
        (["epsilon", "gaussian(sgma=1)", "--delta", "1"], ["it has no sgma"]),
        (["publish", "plan", "visits", "--measures", "count", "--where", "cost > 3", "--rho", "1"],
         ["Error: --where: ", "--type cost=number"]),
        (["publish", "plan", "visits", "--measures", "count", "--by", "wrd", "--rho", "1"],
         ["Error: --by is wrd", "ward (did"]),
        (["dataset", "add", "visits.csv", "--unit", "patent", "--population", "p"],
         ["Error: --unit is patent", "patient (did"]),
        (["dataset", "add", "visits.xls", "--unit", "patient", "--population", "p"], ["Give a .parquet, .csv"]),
        (["fit", "linear", "visits", "--target", "cost", "--features", "agee", *PRICE], ["Error: --features is agee"]),
        (["plot", "gaussian(sigma=1)", "--out", "x.svg", "--kind", "trade"], ["Give one of tradeoff, profile"]),
    ],
)  # fmt: skip
def test_a_slip_is_answered_in_words_of_the_shell(shell, words, says):
    said = shell(*words, code=2)
    for piece in says:
        assert piece in said
    for python in ("valid int", "valid float", "Invalid value", "Missing", "required argument", "data frame", "['"):
        assert python not in said


def test_a_registered_file_is_not_released_from_without_its_account(shell):
    words = ["release", "count", "--epsilon", "1", "--file"]
    assert "a query, which charges the account" in shell(*words, "people.csv", code=4)
    shell(*words, "wards.csv")


def test_another_reason_under_the_same_key_is_said_by_the_dry_run_too(shell):
    words = ["query", "visits", "--measures", "count_units", "--rho", "0.1", "--key", "k", "--why"]
    shell(*words, "x")
    for more in ([], ["--dry-run"]):
        assert "was made with the reason 'x'" in shell(*words, "y", *more)


def test_a_table_in_any_format_is_drawn(shell):
    for name in ("t.csv", "t.json", "t.parquet", "t.arrow"):
        words = ["--by", "ward", "--keys", "wards.csv", "--measures", "count", "--key", "k", *PRICE]
        shell("query", "visits", *words, "--out", name)
        shell("plot", name, "--out", f"{name}.svg")
    sizes = {Path(f"t.{ending}.svg").read_text().count("<path") for ending in ("csv", "json", "parquet", "arrow")}
    assert len(sizes) == 1
    assert "a .csv, .json, .parquet or .arrow file that a release wrote" in shell(
        "plot", "no.parquet", "--out", "x.svg", code=2
    )
