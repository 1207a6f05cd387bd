"""Journey 3: register, plan without opening data, publish once per key, and be denied in words."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import tallystick as ts
from tallystick.errors import InvalidInput, Refused
from tallystick.publish import export

REGIONS = ("north", "east", "south", "west")
ADD = (
    "dataset add visits.csv --population patients-2026 --unit patient_id --max-groups 2 --max-rows-per-group 3 "
    "--bounds age=0:110 --limit rho=0.1,delta=1e-6"
).split()
PLAN = "publish plan visits --by region --keys regions.csv --measures count,mean(age) --rho 0.06".split()
RUN = ["publish", "run", "table1.plan.json", "--why", "annual report", "--key", "report-t1"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with visits of 400 people and a public list of regions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    rows = (f"p{i % 400:03d},{REGIONS[i % 4]},{20 + i % 60}\n" for i in range(1000))
    (tmp_path / "visits.csv").write_text("patient_id,region,age\n" + "".join(rows))
    (tmp_path / "regions.csv").write_text("region\n" + "\n".join(REGIONS) + "\n")
    return tmp_path


@pytest.fixture
def planned(run: Any, here: Path) -> Path:
    assert run(*ADD).code == 0
    assert run(*PLAN, "--out", "table1.plan.json").code == 0
    return here


def found(outcome: Any) -> dict[str, Any]:
    assert outcome.code == 0, outcome.errors
    document: dict[str, Any] = outcome.document["found"]
    return document


def test_journey_three_from_registration_to_card(run, planned) -> None:
    first = run(*RUN, "--out", "table1.csv", "--card", "card.html")
    assert first.code == 0, first.errors
    left = "rho 0.04 of 0.1, delta 1e-6 of 1e-6"
    assert f"Charged  rho 0.06 (epsilon 1.58 at delta 2e-6) as ledger entry 4. Left: {left}." in first.errors
    assert first.errors.splitlines()[-1] == "Wrote    table1.csv, table1.about.csv, card.html, card.json"
    assert [line.split()[0] for line in first.out.splitlines()] == ["region", *REGIONS]
    table, card = (planned / "table1.csv").read_bytes(), (planned / "card.html").read_bytes()
    with (planned / "table1.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["region"] for row in rows] == list(REGIONS)
    assert set(rows[0]) == {
        f"{name}{end}" for name in ("count_limited", "mean_age_limited") for end in ("", "_lower", "_upper")
    } | {"region"}

    again = run(*RUN, "--out", "table2.csv", "--card", "card2.html")
    assert again.out == ""
    assert again.errors.splitlines() == [
        "Already published as report-t1 (ledger entry 4). Nothing was charged.",
        "Wrote    table2.csv, table2.about.csv, card2.html, card2.json",
    ]
    shown = run(*RUN)  # without a file, the answer is on the screen again
    assert shown.out == first.out
    assert shown.errors.splitlines()[-1] == "Already published as report-t1 (ledger entry 4). Nothing was charged."
    assert "(--details)" in shown.errors
    assert "(--details)" not in run(*RUN, "--details").errors
    assert (planned / "table2.csv").read_bytes() == table
    assert (planned / "card2.html").read_bytes() == card
    assert len(found(run("charge", "list", "--json"))["charges"]) == 1
    assert found(run("budget", "--json"))["used"]["rho"] == 0.06

    assert run("card", "verify", "card.html").code == 0
    assert run("card", "verify", "card.json", "--json").document["found"]["agrees"] is True
    assert run("ledger", "verify").code == 0


def test_a_page_of_another_version_is_not_verified_by_its_data(run, planned) -> None:
    run(*RUN, "--card", "card.html")
    page = (planned / "card.html").read_text()
    visible = page.replace(f"tallystick {ts.__version__}", "tallystick 0.1.0").replace(
        "<h1", "<h1>epsilon 0.001</h1><h1"
    )
    (planned / "forged.html").write_text(visible)
    (planned / "data.html").write_text((planned / "card.json").read_text())
    for name in ("forged.html", "data.html"):
        refused = run("card", "verify", name, "--json")
        assert refused.code == 4, name
        assert refused.document["error"]["code"] == "page_not_verified"
        assert "--data-only" in refused.errors
        assert "agrees" not in refused.errors
        checked = run("card", "verify", name, "--data-only")
        assert checked.code == 0, checked.errors
        assert checked.out.splitlines()[-1].endswith("The page was not checked.")
    (planned / "edited.html").write_text(page.replace("<h1", "<h1>epsilon 0.001</h1><h1"))
    assert run("card", "verify", "edited.html").code == 6


def test_the_same_key_gives_the_same_bytes_when_the_data_changed_or_is_gone(run, planned) -> None:
    run(*RUN, "--out", "table1.csv")
    before = (planned / "table1.csv").read_bytes()
    (planned / "visits.csv").unlink()
    assert run(*RUN, "--out", "table1.csv").code == 0
    assert (planned / "table1.csv").read_bytes() == before


def test_a_plan_opens_no_data_and_is_made_with_the_file_deleted(run, planned) -> None:
    before = (planned / "table1.plan.json").read_bytes()
    (planned / "visits.csv").unlink()
    outcome = run(*PLAN, "--out", "again.plan.json")
    assert outcome.code == 0, outcome.errors
    assert "No data was read and nothing was charged." in outcome.errors
    assert (planned / "again.plan.json").read_bytes() == before
    assert found(run(*PLAN, "--json"))["plan"]["price_amount"]["rho"] == 0.06


def test_running_a_plan_whose_data_is_gone_charges_nothing(run, planned) -> None:
    (planned / "visits.csv").unlink()
    assert run(*RUN).code in (2, 9)
    assert found(run("budget", "--json"))["used"]["rho"] == 0


def test_a_plan_without_a_key_is_charged_once_however_often_it_is_run(run, planned) -> None:
    words = ["publish", "run", "table1.plan.json", "--why", "report", "--json"]
    first, second = found(run(*words)), found(run(*words))
    assert (first["again"], second["again"]) == (False, True)
    assert first["rows"] == second["rows"]


def test_two_data_sets_of_one_population_never_share_an_answer(run, planned) -> None:
    """Found from outside: the hash of a plan leaves out its data, and the second file got the first one's numbers."""
    told = (planned / "visits.csv").read_text().splitlines(keepends=True)
    (planned / "later.csv").write_text(told[0] + "".join(told[1:101]))
    assert run("dataset", "add", "later.csv", *ADD[3:-2]).code == 0
    for name in ("visits", "later"):
        assert run(*f"publish plan {name} --measures count --rho 0.02 --out {name}.json".split()).code == 0
    ask = ["--why", "report", "--json"]
    first = found(run("publish", "run", "visits.json", *ask))
    second = found(run("publish", "run", "later.json", *ask, "--card", "card.html"))
    assert not second["again"]
    assert second["key"] != first["key"]
    assert first["rows"][0][0] > 500 > second["rows"][0][0]
    assert found(run("publish", "run", "later.json", *ask))["rows"] == second["rows"]
    assert run("publish", "run", "later.json", *ask, "--key", first["key"]).code == 8
    assert run("card", "verify", "card.json").code == 0
    card = json.loads((planned / "card.json").read_text())
    for name, problem in (("visits", "other data"), ("elsewhere", "has them as later")):
        card["released"]["dataset"] = name
        (planned / "forged.json").write_text(json.dumps(card))
        forged = run("card", "verify", "forged.json")
        assert forged.code != 0
        assert problem in forged.out + forged.errors


def test_three_plans_are_suggested_on_the_frontier(run, planned) -> None:
    plans = found(run(*PLAN, "--suggest", "--json"))["suggestions"]
    prices = [plan["price_amount"]["rho"] for plan in plans]
    errors = [plan["error"]["count"] for plan in plans]
    assert prices == [0.015, 0.06, 0.24]
    assert errors == sorted(errors, reverse=True)
    assert [plan["fits"] for plan in plans] == [True, True, False]
    text = run(*PLAN, "--suggest").out
    assert [line.split()[0] for line in text.splitlines()[1:4]] == ["cheaper", "as", "more"]
    assert "does not fit" in text


def test_a_price_may_be_asked_for_by_its_error(run, planned) -> None:
    words = "publish plan visits --by region --keys regions.csv --measures count --error 20 --json".split()
    plan = found(run(*words))["plan"]
    assert 18 <= plan["error"]["count"] <= 20


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_second_query_is_denied_in_words_with_what_would_fit(run, planned, dry) -> None:
    run(*RUN)
    words = "query visits --by region --keys regions.csv --measures count --rho 0.06 --why more".split()
    denied = run(*words, *dry)
    assert denied.code == 3
    lines = denied.errors.splitlines()
    assert lines[0] == "Denied: the budget of patients-2026 is too small. Nothing was charged and no data was read."
    assert lines[1:4] == ["", "  needed   rho 0.06", "  left     rho 0.04 of 0.1, delta 1e-6 of 1e-6"]
    assert lines[4:6] == ["", "Any one of these works:"]
    assert lines[6].startswith("  larger error   --rho 0.04   count ±")
    assert denied.out == ""
    assert run(*words, *dry, "--json").document["error"]["exit_code"] == 3
    assert found(run("budget", "--json"))["used"]["rho"] == 0.06


def test_a_dry_run_spends_nothing_and_reads_no_row(run, planned) -> None:
    visits = planned / "visits.csv"
    visits.write_text(visits.read_text().splitlines()[0] + "\n")  # its columns are all that is looked at
    assert found(run(*RUN, "--dry-run", "--json"))["dry_run"] is True
    would = "Would charge rho 0.06 (epsilon 1.58 at delta 2e-6) to patients-2026. Left now: "
    assert would in run(*RUN, "--dry-run").out
    assert found(run("budget", "--json"))["used"]["rho"] == 0


def test_a_query_prints_its_table_with_intervals(run, planned) -> None:
    words = "query visits --measures count,median(age) --where region=north --rho 0.01 --why look".split()
    outcome = run(*words)
    assert outcome.code == 0, outcome.errors
    assert outcome.out.split()[:2] == ["count_limited", "±128"]
    assert " to " in outcome.out.splitlines()[1]
    assert found(run(*words, "--json"))["again"] is False
    assert len(found(run("charge", "list", "--json"))["charges"]) == 2


def test_groups_may_be_found_in_the_data_privately(run, planned) -> None:
    words = "query visits --by region --private-keys 1e-8 --measures count_units --rho 0.05 --why look --json".split()
    made = found(run(*words))
    assert {row[0] for row in made["rows"]} <= set(REGIONS)
    assert found(run("budget", "--json"))["used"]["delta"] == 1e-8


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--out", "no/folder/t.csv"], 2),
        (["--out", "table.xlsx"], 2),
        (["--card", "card.pdf"], 2),
        (["--card", "t.html", "--out", "t.json"], 2),
    ],
)
def test_files_that_cannot_be_written_are_found_before_anything_is_charged(run, planned, words, code) -> None:
    assert run(*RUN, *words).code == code
    assert found(run("budget", "--json"))["used"]["rho"] == 0


def test_another_plan_under_the_same_key_is_a_conflict(run, planned) -> None:
    run(*RUN)
    run(*PLAN[:-1], "0.01", "--out", "table1.plan.json")
    assert run(*RUN).code == 8


def edited(folder: Path, path: list[Any], value: Any) -> None:
    told = json.loads((folder / "table1.plan.json").read_text())
    place = told["plan"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    (folder / "table1.plan.json").write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["noise", "scales"], [0.001, 0.001, 0.001]),
        (["budget", "rho"], 0.0001),
        (["query", "table", "unit"], "region"),
        (["query", "table", "unit"], None),
        (["query", "table", "max_rows"], 1),
        (["query", "table", "source", "place"], "elsewhere.csv"),
        (["hash"], "0" * 64),
    ],
)
def test_an_edited_plan_is_refused(run, planned, path, value) -> None:
    edited(planned, path, value)
    assert run(*RUN).code == 4
    assert found(run("budget", "--json"))["used"]["rho"] == 0


@pytest.mark.parametrize("text", ["", "{}", "[]", "not json"])
def test_what_is_not_a_plan_is_said_to_be_none(run, planned, text) -> None:
    (planned / "table1.plan.json").write_text(text)
    assert run(*RUN).code == 2
    assert run("publish", "run", "missing.json", "--why", "x").code == 2


def test_data_that_moved_is_named_when_the_plan_is_run(run, planned) -> None:
    (planned / "visits.csv").rename(planned / "moved.csv")
    assert run(*RUN, "--source", "moved.csv").code == 0


def test_another_file_does_not_answer_while_the_registered_one_is_at_its_place(run, planned) -> None:
    """Made-up rows were published under the name of the dataset, with a card that verified."""
    made_up = (planned / "visits.csv").read_text().replace("p", "q")
    (planned / "false.csv").write_text(made_up.replace("qatient_id", "patient_id"))
    outcome = run(*RUN, "--source", "false.csv")
    assert outcome.code == 4
    assert "whose registered file is at its place" in outcome.errors
    assert "dataset update visits --source NEW_PLACE" in outcome.errors
    assert found(run("budget", "--json"))["used"]["rho"] == 0
    assert run("dataset", "update", "visits", "--source", "false.csv").code == 0
    assert run(*PLAN, "--out", "table1.plan.json").code == 0
    assert run(*RUN).code == 0


def test_a_card_says_that_its_rows_came_from_a_place_that_is_not_registered(run, planned) -> None:
    (planned / "moved.csv").write_bytes((planned / "visits.csv").read_bytes())
    (planned / "visits.csv").unlink()
    assert run(*RUN, "--source", "moved.csv", "--card", "card.html").code == 0
    said = "The rows came from a place that is not registered for this dataset"
    assert said in (planned / "card.html").read_text()
    checked = run("card", "verify", "card.html")
    assert checked.code == 0, checked.errors
    assert "they were read from a place that is not registered" in checked.out
    assert "dataset and whom it protects" not in checked.out
    card = json.loads((planned / "card.json").read_text())
    assert card["released"]["place"].startswith(said)
    card["released"]["place"] = "All rows are registered."
    (planned / "card.json").write_text(json.dumps(card))
    assert run("card", "verify", "card.json").code == 6
    assert run("dataset", "update", "visits", "--source", "moved.csv").code == 0
    later = run("card", "verify", "card.html")
    assert later.code == 0
    assert "dataset and whom it protects" in later.out


def test_a_card_of_an_earlier_version_does_not_say_where_its_rows_came_from(run, planned) -> None:
    (planned / "moved.csv").write_bytes((planned / "visits.csv").read_bytes())
    (planned / "visits.csv").unlink()
    assert run(*RUN, "--source", "moved.csv", "--card", "card.html").code == 0
    card = json.loads((planned / "card.json").read_text())
    del card["released"]["place"]
    (planned / "card.json").write_text(json.dumps(card))
    checked = run("card", "verify", "card.json")
    assert checked.code == 0
    assert "they were read from a place that is not registered" in checked.out


def test_a_page_whose_text_cannot_be_checked_does_not_end_with_agreement(run, planned) -> None:
    """All visible text was replaced, one word names another version, and the last line said that the card agrees."""
    assert run(*RUN, "--card", "card.html").code == 0
    version = ts.__version__
    page = (planned / "card.html").read_text().replace(f"tallystick {version}", "tallystick 0.1.0")
    (planned / "edited.html").write_text(page.replace("<body>", "<body><p>epsilon 0.001</p>"))
    checked = run("card", "verify", "edited.html")
    assert checked.code == 4
    assert "the text of the page could not be verified" in checked.errors
    true = run("card", "verify", "card.html")
    assert true.out.splitlines()[-1] == "The card agrees with the ledger in every part that was checked."


def test_data_registered_under_another_name_do_not_answer_for_a_dataset(run, planned) -> None:
    """Found from outside: --source made the other file's numbers those of this data set, and the card was verified."""
    (planned / "later.csv").write_bytes((planned / "visits.csv").read_bytes())
    later = [word.replace("visits", "later") for word in ADD]
    assert run(*later).code == 0
    outcome = run(*RUN, "--source", "later.csv")
    assert outcome.code == 4
    assert "cannot answer for 'visits'" in outcome.errors
    assert found(run("budget", "--json"))["used"]["rho"] == 0


def test_a_unit_is_read_as_the_type_it_is_registered_with(run, here) -> None:
    """Found from outside: declared as text, 7 and 07 were two patients where the registration has one number."""
    (here / "visits.csv").write_text("patient_id,region,age\n7,a,1\n07,a,1\n")
    assert run(*ADD, "--type", "patient_id=integer").code == 0
    with ts.Ledger(here / "tallystick.db") as ledger:
        source = ts.Private(str(here / "visits.csv"), account=ledger.open("patients-2026"))
        for types, allowed in (({"patient_id": "integer"}, True), ({}, False)):
            plan = source.table(unit="patient_id", types=types).agg(n=ts.count_units()).plan(rho=0.01)
            if allowed:
                plan.release(why="x")
            else:
                with pytest.raises(Refused, match="registered as integer"):
                    plan.release(why="x")


def test_no_name_of_registered_data_is_written_to(run, planned) -> None:
    """Found from outside: a hard link to the source, and the source of another data set, were overwritten."""
    before = (planned / "visits.csv").read_bytes()
    (planned / "linked.csv").hardlink_to(planned / "visits.csv")
    (planned / "later.csv").write_bytes(before)
    assert run(*(word.replace("visits", "later") for word in ADD)).code == 0
    for name in ("linked.csv", "later.csv"):
        assert run(*RUN, "--out", name).code == 2
        assert (planned / name).read_bytes() == before
    assert found(run("budget", "--json"))["used"]["rho"] == 0


def test_a_card_whose_numbers_were_edited_does_not_verify(run, planned) -> None:
    run(*RUN, "--card", "card.html")
    page = (planned / "card.html").read_text()
    (planned / "card.html").write_text(page.replace("rho 0.1", "rho 0.01"))
    outcome = run("card", "verify", "card.html")
    assert outcome.code == 6
    assert "does not say what the ledger says" in outcome.errors


def test_decisions_on_a_card_are_those_that_were_registered(run, here) -> None:
    said = ["--about", "bounds_from=guessed after looking", "--about", "window=2026"]
    assert run(*ADD, *said).code == 0
    assert run(*PLAN, "--out", "table1.plan.json").code == 0
    assert run(*RUN, "--card", "card.json").code == 0
    assert run("card", "verify", "card.json").code == 0
    assert run(*ADD[:-2], "--about", "window=the year 2026", "--update").code == 0
    assert run("card", "verify", "card.json").code == 0  # what was registered when it was made
    forged = (here / "card.json").read_text().replace("guessed after looking", "set by law")
    (here / "card.json").write_text(forged)
    outcome = run("card", "verify", "card.json")
    assert outcome.code == 6
    assert "other decisions" in outcome.errors


def test_a_damaged_card_is_said_to_be_one(run, planned) -> None:
    assert run(*RUN, "--card", "card.json").code == 0
    whole = json.loads((planned / "card.json").read_text())
    for part in ("accounting", "decisions", "error", "evidence", "not_protected", "promise", "released", "words"):
        (planned / "damaged.json").write_text(json.dumps({**whole, part: None}))
        outcome = run("card", "show", "damaged.json")
        assert outcome.code == 2, part
        assert "all its parts" in outcome.errors


def test_a_card_is_read_in_the_terminal(run, planned) -> None:
    run(*RUN, "--card", "card.html")
    text = run("card", "show", "card.html").out
    assert "Bounds can change a mean" in text
    assert "If you are not in the data, about" in text
    assert "Not protected:" in text
    assert "Rho 0.1, delta 1e-6, for everything that will ever be published" in text
    assert found(run("card", "show", "card.html", "--json"))["schema"] == "tallystick/card"


def test_an_interruption_after_the_start_burns_the_charge_and_says_so(run, planned, monkeypatch) -> None:
    from tallystick.tables import run as running

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "_integers", interrupted)
    outcome = run(*RUN, "--out", "table1.csv")
    assert outcome.code == 130
    assert "The charge in ledger entry 4 had started, under the key 'report-t1'. It stays paid." in outcome.errors
    assert "Whether it has an answer is withheld." in outcome.errors
    assert "tallystick dataset clear visits --why" in outcome.errors
    assert [charge["state"] for charge in found(run("charge", "list", "--json"))["charges"]] == ["CLOSED"]
    assert found(run("budget", "--json"))["used"]["rho"] == 0.06
    assert not (planned / "table1.csv").exists()


def test_a_failure_of_the_engine_after_the_start_burns_the_charge_and_quotes_nothing(run, planned, monkeypatch) -> None:
    from tallystick.tables import run as running

    def failed(plan: Any) -> None:
        raise RuntimeError("could not convert SECRET7 to a number")

    monkeypatch.setattr(running, "_integers", failed)
    outcome = run(*RUN)
    assert outcome.code == 9
    assert "SECRET7" not in outcome.errors + outcome.out
    assert "stays spent" in outcome.errors


def test_stages_are_shown_on_a_terminal_and_nowhere_else(capsys: pytest.CaptureFixture[str]) -> None:
    from tallystick.cli.output import working

    with working("publishing") as tell:
        tell("cells")
    assert capsys.readouterr() == ("", "")


def test_a_release_tells_its_stages(run, planned, monkeypatch: pytest.MonkeyPatch) -> None:
    from tallystick.cli import outcomes

    told: list[str] = []
    real = outcomes.answer
    monkeypatch.setattr(outcomes, "answer", lambda request, book, progress: real(request, book, progress=told.append))
    assert run("publish", "run", "table1.plan.json", "--key", "t9", "--why", "report").code == 0
    assert told[0] == "cells"
    assert told[-2:] == ["totals", "limits and bounds"]


def test_errors_are_shown_for_the_sizes_of_groups_that_were_named_or_for_several(run, here) -> None:
    assert run(*ADD).code == 0
    usual = run(*PLAN)
    lines = [line.strip() for line in usual.out.splitlines() if "in a group of" in line]
    assert [line.split("group of ")[1] for line in lines] == ["10,000 rows", "1,000 rows", "100 rows", "10 rows"]
    assert lines[-1] == "no information in a group of 10 rows"
    named = found(run(*PLAN, "--group-size", "250,40", "--plot", "error.svg", "--json"))["plan"]
    assert (named["group_size"], list(named["error_by_size"]["mean_age"])) == (250, ["250", "40"])
    assert named["error"]["mean_age"] == named["error_by_size"]["mean_age"]["250"]
    assert named["error_by_size"]["mean_age"]["40"] > 5 * named["error"]["mean_age"]
    assert "count" not in named["error_by_size"]
    assert (here / "error.svg").stat().st_size > 5_000
    assert "mean_age: in a group of 1,000 rows; choose other sizes with --group-size" in run(*PLAN, "--suggest").errors
    for wrong in ("0", "many", "5,x", ""):
        assert run(*PLAN, "--group-size", wrong).code == 2


def test_after_a_release_the_widths_of_its_intervals_are_said(run, planned) -> None:
    run(*RUN, "--out", "table1.csv")
    facts = found(run(*RUN, "--json"))
    with (planned / "table1.csv").open(newline="") as file:
        wide = sorted(
            float(row["mean_age_limited_upper"]) - float(row["mean_age_limited_lower"]) for row in csv.DictReader(file)
        )
    assert facts["widths"]["mean_age_limited"]["median"] == pytest.approx((wide[1] + wide[2]) / 2, rel=1e-6)
    assert facts["widths"]["mean_age_limited"]["largest"] == pytest.approx(wide[-1], rel=1e-6)
    assert facts["wide"].startswith("Error in a middle group: count_limited ±")


def test_a_plan_is_written_over_nothing_but_a_plan(tmp_path: Path) -> None:
    """Found from outside: `publish plan --out penguins.csv` wrote over the registered data."""
    data = tmp_path / "penguins.csv"
    data.write_text("a\n1\n")
    other = tmp_path / "notes.json"
    other.write_text("{}")
    for out in (data, other, tmp_path, tmp_path / "nowhere" / "plan.json"):
        with pytest.raises(InvalidInput, match="out = "):
            export.check_plan_file(out)
    export.check_plan_file(tmp_path / "plan.json")
