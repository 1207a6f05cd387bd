"""``tallystick release`` and ``tallystick respond``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    rows = [f"{20 + i % 60},{'north' if i % 3 else 'south'}" for i in range(3000)]
    path.write_text("age,ward\n" + "\n".join(rows) + "\nunknown,north\n,south\n", encoding="utf-8")
    return path


def test_a_number_comes_back_near_itself_with_price_and_error(run) -> None:
    found = run("release", "1234", "--epsilon", "2", "--sensitivity", "1", "--json").document["found"]
    assert abs(found["value"] - 1234) < 30
    assert found["epsilon"] == pytest.approx(2)
    assert 1 < found["error"] < 2


def test_counts_of_rows_and_of_rows_with_a_text(run, table) -> None:
    everyone = run("release", "count", "--epsilon", "5", "--file", str(table), "--json").document["found"]["value"]
    assert abs(everyone - 3002) < 12
    south = run(
        "release", "count", "--epsilon", "5", "--file", str(table), "--column", "ward", "--equals", "south", "--json"
    )
    assert abs(south.document["found"]["value"] - 1001) < 12
    assert isinstance(south.document["found"]["value"], int)


def test_mean_and_quantile_of_a_column_skip_what_is_no_number(run, table) -> None:
    where = ("--file", str(table), "--column", "age", "--lower", "0", "--upper", "100", "--json")
    mean = run("release", "mean", "--epsilon", "2", *where).document["found"]
    assert abs(mean["value"] - 49.5) < 2
    assert mean["epsilon"] == pytest.approx(2, rel=1e-5)
    median = run("release", "quantile", "--alpha", "0.5", "--epsilon", "2", *where).document["found"]
    assert abs(median["value"] - 49.5) < 4


def test_a_dry_run_opens_no_data(run, tmp_path) -> None:
    missing = str(tmp_path / "not-there.csv")
    outcome = run("release", "count", "--epsilon", "1", "--file", missing, "--dry-run", "--json")
    assert outcome.code == 0
    assert outcome.document["found"]["value"] is None
    assert outcome.errors == ""


def test_a_release_says_that_nothing_is_recorded(run) -> None:
    assert "Not recorded" in run("release", "5", "--epsilon", "1", "--sensitivity", "1").errors


@pytest.mark.parametrize(
    "arguments",
    [
        ("release", "5", "--epsilon", "1"),
        ("release", "many", "--epsilon", "1"),
        ("release", "nan", "--epsilon", "1", "--sensitivity", "1"),
        ("release", "5", "--epsilon", "0", "--sensitivity", "1"),
        ("release", "count", "--epsilon", "1"),
        ("release", "count", "--epsilon", "1", "--file", "TABLE", "--equals", "south"),
        ("release", "mean", "--epsilon", "1", "--file", "TABLE", "--column", "age"),
        ("release", "mean", "--epsilon", "1", "--file", "TABLE", "--lower", "0", "--upper", "1"),
        ("release", "mean", "--epsilon", "1", "--file", "TABLE", "--column", "age", "--lower", "1", "--upper", "0"),
        ("release", "quantile", "--epsilon", "1", "--file", "TABLE", "--column", "no", "--lower", "0", "--upper", "1"),
        ("release", "count", "--epsilon", "1", "--file", "no-such-file.csv"),
        ("respond", "--epsilon", "1", "--choices", "yes,no"),
        ("respond", "maybe", "--choices", "yes,no"),
        ("respond", "yes"),
        ("respond", "yes", "--lower", "0", "--upper", "1"),
        ("respond", "yes", "--choices", "yes,no", "--lower", "0"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error_that_names_the_way_out(run, table, arguments) -> None:
    outcome = run(*(str(table) if part == "TABLE" else part for part in arguments))
    assert outcome.code == 2
    assert "Give " in outcome.errors or "Try: " in outcome.errors
    assert outcome.out == ""


def test_answers_are_randomized_and_estimated_from(run, tmp_path) -> None:
    answers = tmp_path / "answers.txt"
    answers.write_text("yes\n" * 700 + "no\n" * 300, encoding="utf-8")
    reports = run("respond", "--file", str(answers), "--epsilon", "3", "--choices", "yes,no").out.split()
    assert len(reports) == 1000
    assert set(reports) == {"yes", "no"}
    collected = tmp_path / "reports.txt"
    collected.write_text("\n".join(reports), encoding="utf-8")
    outcome = run("respond", "--file", str(collected), "--epsilon", "3", "--choices", "yes,no", "--estimate", "--json")
    yes, no = outcome.document["found"]["estimates"]
    assert abs(yes["value"] - 0.7) < 0.15
    assert yes["value"] + no["value"] == pytest.approx(1)
    assert yes["lower"] < yes["value"] < yes["upper"]


def test_numbers_are_noised_and_their_mean_estimated(run) -> None:
    found = run("respond", "1", "2", "--lower", "0", "--upper", "5", "--epsilon", "1", "--json").document["found"]
    assert len(found["reports"]) == 2
    estimate = run("respond", *["2.5"] * 50, "--lower", "0", "--upper", "5", "--estimate", "--json").document["found"]
    assert estimate["estimates"][0]["value"] == pytest.approx(2.5)


def test_answers_of_a_registered_file_are_not_randomized_without_a_charge(run, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.csv").write_text("who\n1\n0\n1\n")
    assert run("dataset", "add", "m.csv", "--population", "p", "--unit", "who", "--limit", "rho=1").code == 0
    Path("link.csv").symlink_to("m.csv")
    for name in ("m.csv", "link.csv"):
        outcome = run("respond", "--file", name, "--choices", "who,0,1", "--epsilon", "40")
        assert outcome.code == 4
        assert "registered dataset 'm'" in outcome.errors
        assert "Use a query" in outcome.errors
        assert outcome.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("respond", "--choices", "a,b", "--epsilon", "1", "--file", "PIPE"),
        ("card", "show", "PIPE"),
        ("ledger", "import", "PIPE"),
        ("certificate", "check", "PIPE"),
    ],
)
def test_a_pipe_is_refused_and_not_waited_for(run, tmp_path, arguments) -> None:
    """Without the refusal this test would not end."""
    os.mkfifo(tmp_path / "pipe")
    outcome = run(*(str(tmp_path / "pipe") if part == "PIPE" else part for part in arguments))
    assert outcome.code == 2
    assert "pipe" in outcome.errors
