"""What was left out is told as a number and as a share that never contradict each other, and neither is certain."""

from __future__ import annotations

from typing import Any

import pytest

import tallystick as ts
from tallystick.mechanisms.exact.randomness import SeededSource
from tallystick.tables import run
from tallystick.tables.parts import OfTable
from tallystick.tables.plan import Plan
from tallystick.tables.release import Release
from tallystick.tables.reporting import words
from tallystick.tables.reporting.limits import REPORTS, limit_lines
from tallystick.tables.reporting.line import CELLS, Line
from unit.tables.tables import awkward, numbers_of


def _plan(**measures: Any) -> Plan:
    visits = ts.Private(awkward()).table(unit="pid").per_unit(max_rows_per_group=3)
    return visits.agg(**measures).plan(rho=0.5)


@pytest.mark.parametrize("off", [-9.0, -3.0, -1.0, 0.0, 1.0])
def test_how_many_were_left_out_and_which_share_never_contradict_each_other(off: float) -> None:
    plan = _plan(n=ts.count(), late=ts.mean("cost", -30, 70))
    told = limit_lines(plan.query.removed, numbers_of(plan, 5000.0, units_over=off, rows_over=off, outside=off), 0.95)
    assert len(told) == 4
    for each in told:
        assert each.total is not None and each.share_upper is not None  # noqa: PT018
        assert each.lower == 0
        assert each.upper > 0
        assert each.share_upper >= min(1.0, each.upper / each.total)
        assert "at most 0 %" not in str(each)


def test_a_number_that_is_not_there_is_told_in_one_sentence_that_divides() -> None:
    plan = _plan(n=ts.count())
    [units, _] = limit_lines(plan.query.removed, numbers_of(plan, 10_011.0, units_over=-3.0, rows_over=-3.0), 0.95)
    assert units.upper / 10_011 <= (units.share_upper or 0.0) < 1.1 * units.upper / 10_011


def test_shares_of_nothing_are_held_and_are_not_certain() -> None:
    """No row is over this cap: in every release the interval of the share holds 0, and none of them is only 0."""
    visits = ts.Private(awkward()).table(unit="pid").per_unit(max_rows_per_group=1000)
    plan = visits.agg(n=ts.count()).plan(rho=0.01)
    exact, source = run.integers(plan), SeededSource(5)
    told: list[Line] = []
    for _ in range(100):
        told += Release(plan, run.noisy(plan, exact, source)).removed()
    assert all((each.share_upper or 0.0) > 0.0 and each.upper > 0 for each in told)
    assert sum((each.share_lower or 0.0) == 0.0 for each in told) > 0.9 * len(told)


def test_that_there_may_be_more_is_said_once() -> None:
    for totals in (True, False):
        visits = ts.Private(awkward()).table(unit="pid").per_unit(max_rows_per_group=3)
        plan = visits.agg(n=ts.count()).plan(rho=0.5, caps_totals=totals)
        said = Release(plan, run.noisy(plan, run.integers(plan), SeededSource(5))).left_out
        assert said.count("such rows of a pid were counted") + said.count("the true number of rows may be higher") == 1


def _line(**changed: Any) -> Line:
    """A line about ratings above 5 in a table of about 500 rows that count; nothing is certain about it."""
    numbers: dict[str, Any] = {
        "value": 0, "lower": 0, "upper": 443,
        "total": 500, "total_lower": 300, "total_upper": 700,
        "share": 0.0, "share_lower": 0.0, "share_upper": 0.886,
    }  # fmt: skip
    did = "had a value of rating above 5"
    return Line("values of rating above 5", did=did, of="rows that count", **(numbers | changed))


def test_a_line_is_too_noisy_to_tell_if_its_interval_holds_zero_and_half_of_the_total() -> None:
    line = _line()
    assert line.too_noisy
    assert str(line) == "too noisy to tell how many rows that count had a value of rating above 5"
    assert _line(share_upper=0.5).too_noisy
    told = {
        "less than half": _line(upper=240, share_upper=0.49),
        "more than zero": _line(value=240, lower=40, share=0.48, share_lower=0.08),
        "no total": _line(total=None, share=None, share_lower=None, share_upper=None),
    }
    for why, each in told.items():
        assert not each.too_noisy, why
        assert "too noisy" not in str(each), why
        assert f"{each.upper}" in str(each) or f"{each.value}" in str(each), why


def test_the_sentence_under_a_table_has_a_share_that_noise_alone_does_not_explain() -> None:
    large = _line(value=240, lower=140, share=0.48, share_lower=0.0811)
    by_chance = _line(value=240, lower=110, share=0.48, share_lower=0.0811)
    hidden = "It is too noisy to tell how many values are outside the bounds."
    assert words.effect([by_chance], "patient", words.Touched()) == hidden
    said = words.effect([large], "patient", words.Touched())
    assert said.startswith("At least 8.11 % of rows had a value of rating above 5")
    (details,) = [cell for cell in words.number_cells(large) if "%" in cell]
    assert details.startswith("8.11 %")
    assert "(8.11 % to " in str(large)


def _rows(**changed: Any) -> Line:
    """A line about rows over the limits: their share is 0 to 9.29 %."""
    numbers: dict[str, Any] = {
        "value": 100, "lower": 0, "upper": 290, "total": 3100, "total_lower": 3000, "total_upper": 3200,
        "share": 0.03, "share_lower": 0.0, "share_upper": 0.09285, "may_be_more": True, "seen_to": 10,
    }  # fmt: skip
    return Line("rows over the caps, of each unit up to 10", did="were over", of="rows", **(numbers | changed))


CERTAIN = {"value": 300, "lower": 250, "share_lower": 0.07945}
COUNTS = words.Touched.of([("rows", None)])
MEANS = words.Touched.of([("means", 0.0), ("people", None)])


def test_rows_that_may_be_over_the_limits_are_said_with_their_direction() -> None:
    """Silence was read as "nothing is left out": the share was 0 to 9.29 % and no line said so."""
    up_to = words.effect([_rows()], "patient", COUNTS)
    assert up_to == (
        "Up to 9.29 % of rows may be over the limits per patient (counting at most 10 such rows of a patient) and "
        "would not be counted in full: the true numbers of rows may be higher."
    )
    assert words.effect([_rows(**CERTAIN)], "patient", COUNTS) == (
        "At least 250 more rows (7.94 % of rows) are over the limits per patient and are not counted in full: the true "
        "numbers of rows are higher."
    )
    assert words.effect([_rows(share_upper=0.0099)], "patient", COUNTS) == ""
    by_chance = words.effect([_rows(value=240, lower=110, share_lower=0.01)], "patient", COUNTS)
    assert by_chance.startswith("Up to 9.29 %")  # the noise alone gives such a lower end in 1 of 40 releases
    hidden = words.effect([_rows(value=240, lower=110, share_lower=0.01, share_upper=0.9)], "patient", COUNTS)
    assert hidden == "It is too noisy to tell how many rows are over the limits per patient."
    alone = dict.fromkeys(("total", "share", "share_lower", "share_upper"))
    assert words.effect([_rows(**alone)], "patient", COUNTS).startswith("Up to 290 rows may be over")


def test_the_direction_fits_the_columns_of_the_table() -> None:
    sums = words.Touched.of([("sums", 0.0)])
    signed = words.Touched.of([("sums", -5.0), ("rows", None)])
    over = [_rows(**CERTAIN)]
    assert words.effect(over, "patient", sums).endswith("in full: the true sums are higher.")
    assert words.effect(over, "patient", signed).endswith(
        "the true numbers of rows are higher, and the true sums are different."
    )
    of_means = words.effect(over, "patient", MEANS)
    assert of_means.endswith("over the limits per patient: patients with many rows weigh less in means.")
    assert "sums" not in of_means


def test_rows_that_may_be_over_the_limits_are_said_for_means_too() -> None:
    """Details had a share of such rows, and no sentence under the table did."""
    said = words.effect([_rows()], "patient", MEANS)
    assert said.startswith("Up to 9.29 % of rows may be over the limits per patient")
    assert said.endswith(": patients with many rows may weigh less in means.")
    people = words.Touched.of([("people", None)])
    assert words.effect([_rows()], "patient", people) == ""  # a number of people does not depend on rows


def test_everything_that_the_noise_hides_is_named_once_beside_what_it_does_not_hide() -> None:
    noisy = {"share_upper": 0.9}
    groups = Line(
        "units with more than 2 groups", 40, 0, 8000, "had more than 2 groups", "patients", 9983, 9900, 10_060,
        0.004, 0.0, 0.8, limit=2, is_of_groups=True,
    )  # fmt: skip
    bound = _line(value=240, lower=140, share=0.48, share_lower=0.0811, share_upper=0.6)
    both = [_line(share_upper=0.7), _line(share_upper=0.8)]  # below and above the bounds of one column
    assert words.effect([bound, _rows(**noisy), groups], "patient", MEANS) == (
        "At least 8.11 % of rows had a value of rating above 5, outside the bounds. It is too noisy to tell how many "
        "rows are over the limits per patient and how many patients are in more than 2 groups."
    )
    assert words.effect([_rows(**CERTAIN), *both], "patient", MEANS).endswith(
        "It is too noisy to tell how many values are outside the bounds."
    )


def test_people_in_too_many_groups_are_said_where_people_are_counted() -> None:
    groups = Line(
        "units with more than 2 groups", 40, 0, 120, "had more than 2 groups", "patients", 9983, 9900, 10_060,
        0.004, 0.0, 0.01215, limit=2, is_of_groups=True,
    )  # fmt: skip
    said = words.effect([groups], "patient", MEANS)
    assert said == (
        "Up to 1.22 % of patients may be in more than 2 groups and would not be counted in all of them: the true "
        "numbers of patients may be higher."
    )
    assert words.effect([groups], "patient", COUNTS) == ""


def test_details_and_the_line_under_a_table_have_the_same_end_of_a_share() -> None:
    assert words.number_cells(_rows())[2] == "at most 9.29 % of these"
    assert words.number_cells(_rows(**CERTAIN))[2] == "at least 7.94 %"


def test_a_number_of_people_over_a_limit_is_not_said_to_be_higher() -> None:
    """Each person over a limit is counted once; only rows of a person are counted up to a limit."""
    people = _line(share_upper=0.1, upper=20, limit=3)
    assert words.explain(people).endswith(": 95 % interval for the privacy noise only")
    assert words.explain(_rows()).endswith("so the true number of rows may be higher")


def test_a_line_that_is_too_noisy_keeps_its_numbers_in_json() -> None:
    data = _line().to_data()
    assert data["too_noisy"] is True
    assert data["said"].startswith("too noisy to tell")
    assert (data["value"], data["lower"], data["upper"], data["share_upper"]) == (0, 0, 443, 0.886)
    assert _line(share_upper=0.1).to_data()["too_noisy"] is False


def _kinds(kind: type) -> set[type]:
    return {kind}.union(*(_kinds(inner) for inner in kind.__subclasses__()))


def test_every_number_of_the_whole_table_has_a_report_or_is_a_total() -> None:
    kinds = {kind.kind for kind in _kinds(OfTable) if "kind" in vars(kind)}  # type: ignore[attr-defined]
    totals = {report.total.kind for report in REPORTS.values()}
    assert kinds == {kind.kind for kind in REPORTS} | totals


def test_a_line_about_a_column_has_words_and_no_number() -> None:
    line = Line("age", did="mean of age")
    assert str(line) == "age: mean of age"
    assert not line.too_noisy
    cells = dict(zip(CELLS, line.to_cells(), strict=True))
    assert (cells["what"], cells["about"], cells["value"], cells["too_noisy"]) == ("age", "mean of age", None, None)


def test_cells_without_a_value_are_named_as_too_noisy_and_explained_once() -> None:
    cells = {"region": ["north", "west", "east"], "sex": ["m", "m", "f"]}
    ages = {"age": [None, 50, 48.0], "age_lower": [None, 1, 47.0], "age_upper": [None, 100, 49.0]}
    said = words.too_noisy_to_use(cells | ages, {"age": (0.0, 110.0)}, ["region", "sex"])
    assert said == (
        "Too noisy to use: age of north m and west m (the interval covers more than half of the bounds 0 to 110). "
        '"-" means no value: the noise hides it.'
    )
    many = {"g": list("abcde"), "age": [None] * 5, "age_lower": [None] * 5, "age_upper": [None] * 5}
    assert "age of a, b, c and 2 more groups (" in words.too_noisy_to_use(many, {"age": (0.0, 110.0)}, ["g"])
    spread = {"sd": [None], "sd_lower": [None], "sd_upper": [None]}
    assert words.too_noisy_to_use(spread, {}, []) == words.HIDDEN
