"""A privacy card says everything it must, says it truly, and cannot be made to say something else."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tallystick as ts
from tallystick.cards import Card, card, check_card, meaning, preview, read_card
from tallystick.cards.charts import dots
from tallystick.cards.contents import not_protected
from tallystick.cards.page import view_of
from tallystick.digits import percent_down, percent_up, up
from tallystick.errors import InvalidInput, Refused
from tallystick.tables.keyset import PrivateKeys
from tallystick.tables.measures import parse
from tallystick.tables.reporting.words import INTERVALS
from tallystick.tables.steps import each_row

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&{{ 7*7 }}"
PARTS = (
    "answers words not-protected decisions published error trust promise mechanisms rules protected evidence".split()
)


class Elements(HTMLParser):
    """Element names, attributes and visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._hidden = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        self._hidden = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = False

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.text += data


def test_every_section_is_on_the_page_and_none_is_blank(clinic) -> None:
    made = card(clinic.release(), about={"window": "2026"})
    page = made.to_html()
    for name in PARTS:
        body = re.split(rf'id="{name}"[^>]*>', page)[1].split('id="')[0]
        assert len(Elements(f"<p>{body}").text.split()) > 10, name
    assert "<span>A</span>" not in page


def test_the_numbers_are_those_of_the_accounts_limit_and_not_of_what_was_used(clinic) -> None:
    facts = card(clinic.release()).facts
    promised = meaning(ts.zcdp(rho=0.5, delta=1e-6), delta=1e-5)
    assert facts["words"]["limit"]["sentence"] == promised.plain_sentence
    assert facts["words"]["limit"]["belief_from_prior"]["0.001"] == pytest.approx(promised.beliefs[0.001])
    assert facts["words"]["limit"]["hit_rate_at_false_alarm"]["0.01"] == pytest.approx(promised.hit_rates[0.01])
    assert facts["promise"]["limit"] == "rho 0.5, delta 1e-6"
    assert facts["promise"]["price"] == "rho 0.05"
    assert facts["words"]["table"]["guess_accuracy"] < facts["words"]["limit"]["guess_accuracy"]


def test_the_curve_lies_below_guessing_and_the_table_alone_above_the_limit(clinic) -> None:
    curve = {name: np.array(values) for name, values in card(clinic.release()).facts["promise"]["tradeoff"].items()}
    assert np.all(np.diff(curve["limit"]) <= 0)
    assert np.all(curve["limit"] <= curve["table"])
    assert np.all(curve["table"] <= 1 - curve["alpha"] + 1e-6)
    assert curve["limit"][0] > 0.9


def test_plan_hash_head_and_answer_are_those_of_the_ledger(clinic) -> None:
    release = clinic.release()
    facts = card(release).facts
    assert facts["accounting"]["plan_hash"] == release.plan.hash
    assert facts["evidence"]["head"] == clinic.ledger.head().hash
    assert facts["evidence"]["answer_hash"] == release.receipt.answer_hash
    assert "Feldman & Zrnic" in facts["accounting"]["theorem"]
    assert ts.__version__ in facts["accounting"]["software"]


def test_every_measure_has_an_error_and_every_part_a_noise_with_its_scale(clinic) -> None:
    release = clinic.release()
    facts = card(release).facts
    told = {(each["column"], each["holds"]): each["error"] for each in facts["error"]["columns"]}
    (sized,) = release.plan.error_by_size()  # the mean; nobody said how large its groups are, so none is assumed
    expected = {
        (f"{name}_limited", f"in a group of {size:,} rows"): half
        for size in (10, 100, 1_000, 10_000)
        for name, half in release.plan.error(group_size=size).items()
        if name == sized
    }
    expected |= {(f"{n}_limited", "in every group"): half for n, half in release.plan.error().items() if n != sized}
    assert told == expected
    parts = [part["part"] for part in facts["mechanisms"]["parts"]]
    assert parts[:3] == ["rows", "total of age", "rows with age"]
    assert parts[3:] == [part.label for part in release.plan.query.removed]
    assert all(part["scale"] > 0 and part["noise"] == "discrete Gaussian" for part in facts["mechanisms"]["parts"])
    assert sum(part["share"] for part in facts["mechanisms"]["parts"]) == pytest.approx(1)


def test_the_page_loads_nothing_and_runs_nothing(clinic) -> None:
    page = card(clinic.release()).to_html()
    elements = Elements(page)
    assert not {"link", "img", "iframe", "object", "embed", "form"} & set(elements.names)
    assert elements.names.count("script") == 1
    assert ("type", "application/json") in elements.attributes
    assert not [
        name for name, _ in elements.attributes if name in ("src", "href", "xlink:href") or name.startswith("on")
    ]
    assert "url(" not in page
    assert "@import" not in page


def test_hostile_text_stays_text(clinic) -> None:
    release = clinic.release(why=HOSTILE)
    about = dict.fromkeys(("window", "bounds_from", "limit_reason", "decided_by", "contact"), HOSTILE)
    elements = Elements(card(release, dataset=HOSTILE, about=about).to_html())
    assert elements.names.count("script") == 1
    assert "img" not in elements.names
    assert elements.text.count(HOSTILE) >= 7


def test_a_card_is_the_same_however_often_it_is_made_and_however_it_is_read(clinic, tmp_path) -> None:
    made = card(clinic.release())
    assert made.to_html() == card(clinic.release()).to_html()
    html, beside = made.save(tmp_path / "card.html")
    assert read_card(html)[0].facts == read_card(beside)[0].facts == json.loads(made.to_json())
    assert made.save(tmp_path / "only.json") == (tmp_path / "only.json",)


def test_no_value_and_no_path_of_the_data_is_on_the_card(clinic) -> None:
    page = card(clinic.release()).to_html()
    assert "p99" not in page
    assert str(clinic.file.parent) not in page


def test_a_preview_says_that_nothing_is_released_and_charges_nothing(clinic) -> None:
    page = preview(clinic.plan(), clinic.account, why="next year").to_html()
    assert "nothing is published yet" in page
    assert "What would this table use?" in page
    assert clinic.account.used.a0 == 0


@pytest.mark.parametrize("kind", ["public", "private", "total", "rows", "replace"])
def test_what_is_not_protected_is_never_blank_and_fits_the_plan(clinic, kind) -> None:
    table = clinic.table()
    if kind == "rows":
        clinic.account = clinic.ledger.open("rows", budget=ts.zcdp(rho=1), unit="row")
        table = clinic.table(unit=each_row)
    if kind == "replace":
        clinic.account = None
        table = clinic.table(adjacency=ts.Adjacency.REPLACE)
    keys = {"private": PrivateKeys(1e-8), "total": None}.get(kind, ["north"])
    grouped = table.group_by(keys=keys) if kind == "total" else table.group_by("ward", keys=keys)
    facts = grouped.agg(**parse("count")).plan(rho=0.1).facts()
    told = not_protected(facts, population="clinic", unit="patient")
    assert len(told) >= 6
    assert all(len(sentence) > 30 for sentence in told)
    word = {
        "public": "groups were public",
        "private": "noisy number of units",
        "total": "one total",
        "rows": "Each row",
        "replace": "replacing one",
    }
    assert any(word[kind] in sentence for sentence in told)


def test_a_release_that_no_account_paid_has_no_card(clinic) -> None:
    release = clinic.release()
    with pytest.raises(Refused):
        card(type(release)(release.plan, release.answer, None))


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "<html></html>", '{"schema": "tallystick/card", "version": 99}', "\x00"]
)
def test_what_is_not_a_card_is_refused(tmp_path, text) -> None:
    (tmp_path / "x.html").write_text(text)
    with pytest.raises(InvalidInput):
        read_card(tmp_path / "x.html")
    with pytest.raises(InvalidInput):
        read_card(tmp_path / "missing.html")


def test_a_card_is_saved_as_html_or_json_and_nothing_else(clinic, tmp_path) -> None:
    made = card(clinic.release())
    with pytest.raises(InvalidInput):
        made.save(tmp_path / "card.pdf")
    with pytest.raises(InvalidInput):
        made.save(tmp_path / "no" / "folder.html")


def test_an_account_of_pure_epsilon_quotes_its_own_delta(tmp_path, clinic) -> None:
    clinic.account = clinic.ledger.open("pure", budget=ts.pure_dp(epsilon=1), unit="patient")
    plan = clinic.table().group_by("ward", keys=["north"]).agg(**parse("count")).plan(epsilon=0.25)
    facts = card(plan.release(why="x", key="k")).facts
    assert (facts["promise"]["epsilon"], facts["promise"]["delta"]) == (1.0, 0.0)
    assert facts["words"]["limit"]["belief_exceptions"] == 0
    assert "27 of 100" in facts["words"]["limit"]["sentence"]


@pytest.mark.parametrize(
    ("budget", "price"),
    [
        (ts.gdp(mu=1), {"epsilon": 0.2, "pure": True}),
        (ts.renyi_dp({16: 1.0}), {"rho": 0.01}),
        (ts.approx_dp(epsilon=2, delta=1e-5), {"epsilon": 0.5, "delta": 1e-6}),
        (ts.pure_dp(epsilon=800), {"epsilon": 0.5}),
        (ts.zcdp(rho=50), {"rho": 0.01}),
    ],
    ids=["gdp", "rdp", "approx", "pure", "zcdp"],
)
def test_every_currency_has_a_card_in_legal_json_that_agrees_with_the_ledger(clinic, budget, price) -> None:
    clinic.account = clinic.ledger.open("other", budget=budget, unit="patient")
    plan = clinic.table().group_by("ward", keys=["north"]).agg(**parse("count")).plan(**price)
    made = card(plan.release(why="x", key="k"))
    json.loads(made.to_json(), parse_constant=lambda constant: pytest.fail(constant))
    assert all(finding.holds for finding in check_card(made, clinic.ledger, page=made.to_html()))


def test_a_block_names_the_lifetime_of_its_parent(clinic) -> None:
    clinic.account = clinic.ledger.open("2026", budget=ts.zcdp(rho=0.2), unit="patient", parent="patients-2026")
    assert "at most rho 0.5, delta 1e-6 (patients-2026)" in card(clinic.release()).facts["protected"]["lifetime"]


@pytest.mark.parametrize("marked", [0, 1, 27, 100])
def test_dots_are_a_hundred_of_which_so_many_are_marked(marked) -> None:
    picture = dots(marked, "x")
    filled, empty = (dots_along(picture, kind) for kind in ("dots-on", "dots-off"))
    assert (filled, empty) == (marked, 100 - marked)


def dots_along(picture: str, kind: str) -> int:
    """Count the dots of a path: each piece of length l has one dot at its start and one every 20 units."""
    path = picture.split(f'class="{kind}" d="')[1].split('"')[0]
    return sum(1 + int(float(length) // 20) for length in re.findall(r"h([\d.]+)", path))


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_a_printed_bound_is_never_below_the_bound(value) -> None:
    shown = float(up(value).replace(",", ""))
    assert value <= shown <= value * 1.011


def test_a_card_shows_what_the_caps_left_out_and_a_preview_how_exactly_it_will_be_told(clinic) -> None:
    release = clinic.release()
    made = card(release)
    told = [(line["what"], line["value"], line["lower"], line["upper"]) for line in made.facts["left_out"]]
    assert told == [(each.what, each.value, each.lower, each.upper) for each in release.removed()]
    page = made.to_html()
    for each in release.removed():
        share = percent_down(each.share_lower) if each.lower else percent_up(each.share_upper)
        did = each.did.replace("units", "patients").replace("each unit", "each patient").replace("unit", "patient")
        assert each.too_noisy or (share in page and did in page), each
    assert INTERVALS in page.replace("&#39;", "'")
    before = preview(clinic.plan(), clinic.account, why="x")
    totals = ["units in all", "rows that count"]
    assert [line["what"] for line in before.facts["left_out"]] == [*(line[0] for line in told), *totals]
    assert all("value" not in line and line["error"] > 0 for line in before.facts["left_out"])
    assert "Will be measured to ±" in before.to_html()


def test_a_card_says_of_every_column_what_was_done_to_its_values_and_how_much_of_one_counts(clinic) -> None:
    made = card(clinic.plan("count,mean(age,0,110)").release(why="x"))
    text = Elements(made.to_html().split("<script")[0]).text
    assert "Mean of age; values below 0 count as 0, above 110 as 110; missing values are skipped." in text
    counts = made.facts["protected"]["counts"]
    assert f"{counts[:1].upper()}{counts[1:]}." in text
    assert counts.startswith("a patient counts in at most ")
    assert "weight of" not in text


def test_a_card_of_another_version_is_told_apart_from_an_edited_one_by_what_to_do(clinic) -> None:
    made = card(clinic.release())
    older = json.loads(made.to_json())
    del older["protected"]["counts"]
    [wrong] = [each for each in check_card(Card(older), clinic.ledger) if not each.holds]
    assert "changed: protected" in wrong.problem
    assert "another version of tallystick" in wrong.problem
    assert "charges nothing" in wrong.problem


def test_a_card_of_things_speaks_of_things_and_sets_thousands_apart(clinic) -> None:
    fleet = clinic.ledger.open("fleet", budget=ts.zcdp(rho=4), unit="aircraft")
    clinic.account = fleet
    plan = clinic.plan("standard_deviation(age,0,110)", rho=2)
    page = card(plan.release(why="how they fly")).to_html().split("<script")[0]
    text = Elements(page).text
    assert "everything about every other aircraft" in text
    assert "If it is not in the data" in text
    assert "as likely with one aircraft as without it" in text
    assert " of people" not in text
    assert " you " not in text.replace("Whom you have to trust", "")
    assert "Standard deviation of age" in text
    assert "e+0" not in text


@pytest.mark.parametrize(("unit", "whose"), [("patient", "your data"), ("Aircraft", "the data of one Aircraft")])
def test_a_card_about_replaced_units_does_not_speak_of_being_in_the_data(clinic, unit, whose) -> None:
    budget = ts.zcdp(rho=0.5, adjacency=ts.Adjacency.REPLACE)
    clinic.account = clinic.ledger.open("fixed", budget=budget, unit=unit)
    grouped = clinic.table(adjacency=ts.Adjacency.REPLACE).group_by("ward", keys=["north", "south"])
    made = card(grouped.agg(**parse("count")).plan(rho=0.1).release(why="report"))
    text = Elements(made.to_html().split("<script")[0]).text
    words = text.split("What could someone learn")[1].split("What is not protected")[0]
    assert f"which of two versions of {whose} was used" in words
    assert "If the first was used" in words
    assert f"with one version of {whose} as with another" in text
    assert "in the data" not in words
    assert "not in the data who are accused" not in text
    assert all(finding.holds for finding in check_card(made, clinic.ledger))


def test_a_card_draws_its_table_with_intervals_and_the_check_makes_it_again(clinic) -> None:
    made = card(clinic.release())
    page = made.to_html()
    assert page.count('<table class="bars">') == 2
    assert page.count('<rect class="bar" x="0%"') == 2
    # two means and the one of the legend; the noise makes a mean too uncertain to draw in one of 40 releases
    assert page.count('<circle class="dot" cx="') in (2, 3)
    facts = json.loads(made.to_json())
    facts["chart"][0]["value"][0] += 1
    assert any(not finding.holds for finding in check_card(Card(facts), clinic.ledger))


def test_a_card_explains_rows_that_count_and_what_clamping_can_do_where_it_says_so(clinic) -> None:
    text = Elements(card(clinic.release()).to_html().split("<script")[0]).text
    assert text.count('"Rows that count" are rows after the limits. A row counts as 1. If a patient') == 1
    assert (
        "If a patient has more rows in a group than the limit, each of them counts less: the limit divided by" in text
    )
    assert text.count("Bounds can change a mean, a total or a variance by any amount") == 1
    assert "This card says how many values were outside the bounds." in text
    assert "It does not include the effect of limits and bounds, or sampling" in text
    silent = (
        clinic.table()
        .group_by("ward", keys=["north", "south"])
        .agg(m=ts.mean("age", 0, 110))
        .plan(rho=0.01, caps_share=0)
    )
    told = card(silent.release(why="x")).facts["error"]
    assert told["rows_that_count"] == ""
    assert told["clamping"].endswith("It was not measured.")
    late = clinic.table().derive(old=ts.when(ts.col("age") > 60, 1, 0)).group_by("ward", keys=["north", "south"])
    plain = card(late.agg(n=ts.sum("old", 0, 1), m=ts.median("age", 0, 110)).plan(rho=0.01).release(why="x")).facts
    assert plain["error"]["clamping"] == ""
    assert plain["error"]["rows_that_count"]


def test_a_card_says_which_way_limits_move_its_numbers_and_never_at_least_none(clinic) -> None:
    facts = json.loads(card(clinic.release()).to_json())
    [line] = [each for each in facts["left_out"] if each["what"].startswith("rows over the caps")]
    line |= {"value": 10, "lower": 0, "share_lower": 0.0, "share_upper": 0.09285, "too_noisy": False}
    shown = Elements(Card(facts).to_html()).text
    assert "Up to 9.29 % of rows may be over the limits per patient" in shown
    assert "the true numbers of rows may be higher." in shown
    assert "At least 0 %" not in shown
    line |= {"value": 90, "lower": 80, "share_lower": 0.07945}
    shown = Elements(Card(facts).to_html()).text
    assert "At least 80 more rows (7.94 % of rows) are over the limits per patient and are not counted in full" in shown
    assert "the true numbers of rows are higher." in shown
    assert "To measure this share, at most 10 such rows of a patient were counted." in shown


def test_a_card_has_the_epsilon_of_the_charge_and_not_that_of_its_cost(clinic) -> None:
    """The charge said epsilon 0.5 and the card 0.543 at the same delta."""
    asked = clinic.table().group_by("ward", keys=["north", "south"]).agg(n=ts.count())
    made = asked.plan(epsilon=0.2, pure=True).release(why="x")
    page = card(made)
    said = clinic.account.release_epsilon(clinic.account.paid(made.receipt), made.plan.privacy)
    assert said == f"epsilon {page.facts['promise']['table_epsilon']:g}" == "epsilon 0.2"
    assert page.facts["words"]["table"]["epsilon"] > 0.4  # that of its cost
    assert all(finding.holds for finding in check_card(page, clinic.ledger) if finding.is_checked)


def test_a_card_names_people_and_columns_without_a_chart_and_the_larger_side(clinic) -> None:
    plan = clinic.plan("count_units,mean(age,0,110),count,median(age,0,110),sum(age,0,110)")
    made = plan.release(why="x")
    text = Elements(card(made).to_html().split("<script")[0]).text
    assert "Patients ±" in text
    assert "The table has more columns, which are not drawn here: median_age_limited and sum_age_limited." in text
    [age] = [each for each in card(made).facts["error"]["released"] if each["column"] == "mean_age_limited"]
    cells = zip(*(made.data[f"mean_age{end}"] for end in ("", "_lower", "_upper")), strict=True)
    sides = [
        (high - low) / 2 if value is None else max(high - value, value - low)  # a cell without a value: all its bounds
        for value, low, high in cells
    ]
    assert age["largest"] == pytest.approx(max(sides))


def test_sentences_of_a_card_say_who_is_trusted_and_what_a_family_risks(clinic) -> None:
    text = Elements(card(clinic.release()).to_html().split("<script")[0]).text
    assert "You do not have to trust the readers." in text
    assert "For a family of four, odds that double for one person can grow sixteenfold or more." in text
    assert "Only the published numbers and the shares that were measured with them come from the data" in text
    for before in ("need no trust", "k-th power", "need not start", "Three things make", "are counted per patient"):
        assert before not in text


def test_the_words_below_a_chart_keep_its_bars_from_being_added_up_or_ranked(clinic) -> None:
    text = Elements(card(clinic.release()).to_html()).text
    assert "the table does not show which is larger" in text
    assert "One patient can count in 2 groups, so adding up the groups counts some patients more than once." in text
    once = clinic.table().per_unit(max_groups=1, max_rows_per_group=2).group_by("ward", keys=["north", "south"])
    alone = Elements(card(once.agg(n=ts.count()).plan(rho=0.01).release(why="x")).to_html()).text
    assert "the table does not show which is larger" in alone
    assert "adding up the groups" not in alone


@pytest.mark.parametrize("rho", [0.04, 0.05, 0.07])
def test_the_card_shows_the_epsilon_of_the_release_with_the_digits_of_the_screen(tmp_path, rho: float) -> None:
    visits = pa.table({"patient": range(200), "ward": ["n", "s"] * 100})
    with ts.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=0.5), unit="patient")
        plan = ts.Private(visits, account=account).table(unit="patient").per_unit(max_rows_per_group=1)
        release = plan.agg(n=ts.count()).plan(rho=rho).release(why="count", key="n")
        on_screen = account.release_epsilon(account.paid(release.receipt), ts.zcdp(rho=rho))
        assert view_of(card(release).facts)["epsilon_alone"] == on_screen.removeprefix("epsilon ")


def test_a_limit_in_epsilon_is_shown_as_it_was_written(tmp_path) -> None:
    visits = pa.table({"patient": range(200), "ward": ["n", "s"] * 100})
    with ts.Ledger(tmp_path / "ledger.db") as ledger:
        account = ledger.open("clinic", budget=ts.approx_dp(epsilon=1.1, delta=1e-6), unit="patient")
        plan = ts.Private(visits, account=account).table(unit="patient").per_unit(max_rows_per_group=1)
        made = card(plan.agg(n=ts.count()).plan(epsilon=0.29, delta=1e-7).release(why="count", key="n"))
    view = view_of(made.facts)
    assert (view["epsilon"], view["epsilon_alone"].split()[0]) == ("1.1 at delta 1e-6", "0.29")
    assert "epsilon 1.11" not in made.to_html()
