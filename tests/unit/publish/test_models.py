"""Models of registered tables: sums as a plan, per person, once per key; the shell's ``fit``."""

from __future__ import annotations

import html
import json
import math
import re

import numpy as np
import pyarrow
import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Adjacency
from tallystick.errors import InvalidInput, Refused
from tallystick.learn.records import Given
from tallystick.mechanisms.exact.randomness import SYSTEM
from tallystick.publish import rows
from tallystick.publish.datasets import Dataset
from tallystick.publish.kinds.logistic import LogisticFit
from tallystick.publish.models import LinearModel
from tallystick.publish.request import Request
from tallystick.tables.reader import Reader
from tallystick.tables.release import Release
from tallystick.tables.run import integers, noisy

ADD_REMOVE = Adjacency.ADD_REMOVE
ROWS = 3000
ADD = (
    "dataset add visits.csv --population patients --unit patient --max-groups 2 --max-rows-per-group 2 "
    "--bounds age=0:110,days=0:60,cost=0:1500 --limit rho=2,delta=1e-6"
).split()
FIT = "fit linear visits --target cost --features age,days --rho 1 --why forecast".split()


def other(words, changes):
    """The same command with other values of some options, or with more of them."""
    named = dict(zip(changes[::2], changes[1::2], strict=True))
    kept = [named.pop(before, word) for before, word in zip(["", *words], words, strict=False)]
    return [*kept, *(word for pair in named.items() for word in pair)]


def people(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    age, days = rng.integers(20, 91, rows), rng.integers(0, 31, rows)
    cost = 5.0 * age + 20.0 * days + rng.normal(0, 30, rows)
    return {"patient": np.arange(rows) % (2 * rows // 3), "age": age, "days": days, "cost": cost}


def visits(data=None, **caps):
    table = ts.Private(pyarrow.table(people() if data is None else data)).table(unit="patient")
    return table.per_unit(max_rows_per_group=caps.get("most", 2)).bounds(age=(0, 110), days=(0, 60), cost=(0, 1500))


def released(plan, exact):
    return LinearModel(plan.regression, Release(plan.plan, noisy(plan.plan, exact, SYSTEM)))


def test_the_sums_are_those_of_the_clamped_columns_and_leave_rows_with_a_gap_out():
    data = {
        "patient": [1, 2, 3, 4], "age": [55.0, 220.0, None, 11.0], "days": [30.0, 6.0, 6.0, math.nan],
        "cost": [750.0, -4.0, 9.0, 9.0],
    }  # fmt: skip
    plan = ts.linear_regression(visits(data), target="cost", features=["age", "days"]).plan(rho=1e6)
    model = released(plan, integers(plan.plan))
    columns = np.array([[0.5, 0.5, 1.0, 0.5], [1.0, 0.1, 1.0, 0.0]])  # age, days, constant, cost of the two rows left
    assert model.statistics.xx == pytest.approx((columns.T @ columns)[:3, :3], abs=0.05)
    assert model.statistics.xy == pytest.approx((columns.T @ columns)[:3, 3], abs=0.05)
    assert model.statistics.yy == pytest.approx(0.25, abs=0.05)


def test_a_person_with_many_rows_counts_as_capped():
    data = {"patient": [1] * 100, "age": [110.0] * 100, "days": [60.0] * 100, "cost": [1500.0] * 100}
    plan = ts.linear_regression(visits(data, most=2), target="cost", features=["age"]).plan(rho=0.5)
    exact = integers(plan.plan)
    for part, found in exact.numbers.items():
        assert found.max() * part.scale <= 2.0  # the sensitivity that was paid for


@pytest.mark.parametrize("seed", range(6))
def test_one_person_more_moves_every_sum_by_no_more_than_it_pays_for(seed):
    rng = np.random.default_rng(seed)
    odd = np.array([-5.0, 0.0, 55.0, 110.0, 1e300, math.inf, math.nan])
    rows_of = {name: rng.choice(odd, 40) for name in ("age", "days", "cost")}
    data = {"patient": rng.integers(0, 6, 40), **rows_of}
    plan = ts.linear_regression(visits(data, most=2), target="cost", features=["age", "days"]).plan(rho=0.5)
    fewer = {name: column[data["patient"] != 0] for name, column in data.items()}
    other = ts.linear_regression(visits(fewer, most=2), target="cost", features=["age", "days"]).plan(rho=0.5)
    with_them, without = integers(plan.plan).numbers, integers(other.plan).numbers
    moved = {part: abs(int(with_them[part][0, 0]) - int(without[part][0, 0])) for part in with_them}
    assert all(step**2 <= part.l2_squared(plan.plan.query.caps, ADD_REMOVE) for part, step in moved.items())


def test_intervals_hold_the_line_and_the_noise_is_counted():
    plan = ts.linear_regression(visits(), target="cost", features=["age", "days"]).plan(rho=1.0)
    exact = integers(plan.plan)
    made = [released(plan, exact) for _ in range(150)]
    ends = np.array([list(model.intervals(confidence=0.9).values()) for model in made])
    truth = np.array([5.0, 20.0, 0.0])
    share = ((ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])).mean(axis=0)
    assert (share >= 0.8).all()
    lines = np.array([[*model.coefficients.values(), model.intercept] for model in made])
    half = 1.645 * lines.std(axis=0)
    assert (ends[:, :, 1] - ends[:, :, 0]).mean(axis=0) / 2 == pytest.approx(half, rel=0.3)
    assert made[0].predict([[50.0, 10.0]]) == pytest.approx([450.0], abs=60)


def test_saying_the_same_five_times_makes_no_interval_narrower():
    once = people(600) | {"patient": np.arange(600)}
    widths = []
    for times in (1, 5):
        data = {name: np.repeat(column, times) for name, column in once.items()}
        plan = ts.linear_regression(visits(data, most=times), target="cost", features=["age", "days"]).plan(rho=1e6)
        ends = np.array(list(released(plan, integers(plan.plan)).intervals().values()))
        widths.append(ends[:, 1] - ends[:, 0])
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


def test_too_little_data_has_a_finite_line_and_no_intervals():
    plan = ts.linear_regression(visits(people(20)), target="cost", features=["age", "days"]).plan(rho=0.01)
    told = released(plan, integers(plan.plan)).to_data()
    assert told["intervals"] is None
    assert "no interval" in told["no_intervals"]
    assert all(math.isfinite(value) for value in [*told["coefficients"].values(), told["intercept"]])
    assert json.loads(json.dumps(told, allow_nan=False)) == told


@pytest.mark.parametrize(
    "bad",
    [
        {"target": "nobody"}, {"features": []}, {"features": "age"}, {"features": ["age", "age"]},
        {"features": ["cost"]}, {"features": ["age", "note"]}, {"features": [f"x{i}" for i in range(12)]},
        {"bounds": {"age": 3}}, {"bounds": {"age": (5, 1)}}, {"features": ["weight"]},
    ],
)  # fmt: skip
def test_bad_questions_are_refused(bad):
    data = people(9) | {"note": ["a"] * 9, "weight": [1.0] * 9}
    with pytest.raises(InvalidInput):
        ts.linear_regression(visits(data), **{"target": "cost", "features": ["age"], **bad})


def test_a_dozen_columns_are_not_nested_too_deeply_for_the_engine():
    rng = np.random.default_rng(1)
    columns = {f"x{i}": rng.uniform(0, 1, 50) for i in range(12)}
    table = ts.Private(pyarrow.table({"who": np.arange(50), **columns})).table(unit="who")
    table = table.per_unit(max_rows_per_group=1).bounds(**dict.fromkeys(columns, (0, 1)))
    plan = ts.linear_regression(table, target="x11", features=[f"x{i}" for i in range(11)]).plan(rho=1.0)
    assert len(integers(plan.plan).numbers) == 91


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    data = people()
    lines = zip(*(column.tolist() for column in data.values()), strict=True)
    text = "".join(f"p{who},{age},{days},{cost:.2f}\n" for who, age, days, cost in lines)
    (tmp_path / "visits.csv").write_text("patient,age,days,cost\n" + text)
    return tmp_path


def test_fit_linear_from_registration_to_card(run, here):
    assert run(*ADD).code == 0
    dry = run(*FIT, "--dry-run")
    assert dry.code == 0
    assert "Would charge rho 1 " in dry.out
    first = run(*FIT, "--out", "model.json", "--card", "card.html")
    assert first.code == 0, first.errors
    assert "Charged  rho 1 " in first.errors
    assert "Intervals include privacy noise and sampling." in first.errors
    about = "about cost clamped to [0, 1500]; over noise and sampling of people with up to 2 rows each"
    assert about in run(*FIT, "--details").errors
    assert [line.split()[0] for line in first.out.splitlines()] == ["cost", "age", "days", "intercept"]
    model = json.loads((here / "model.json").read_text())
    assert model["coefficients"]["days"] == pytest.approx(20, abs=8)
    (here / "visits.csv").unlink()
    again = run(*FIT, "--out", "again.json", "--json")
    assert again.document["found"]["again"] is True
    assert json.loads((here / "again.json").read_text()) == model
    assert len(run("charge", "list", "--json").document["found"]["charges"]) == 1
    assert run("card", "verify", "card.html").code == 0
    assert "sum of age squared" in (here / "card.html").read_text()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--out", "model.csv"], 2), (["--target", "nobody"], 2), (["--bounds", "age=5"], 2), (["--rho", "99"], 3),
        (["--features", "age,age"], 2), (["--where", "age=young"], 2),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_before_the_charge(run, here, words, code):
    assert run(*ADD).code == 0
    assert run(*other(FIT, words)).code == code
    assert run("charge", "list", "--json").document["found"]["charges"] == []


def test_registered_bounds_apply_and_a_column_without_a_type_says_where_to_declare_it(run, here):
    assert run(*[word.replace("age=0:110,", "") for word in ADD]).code == 0
    untyped = run(*FIT, "--bounds", "age=18:90")
    assert untyped.code == 2
    assert "tallystick dataset update visits --type age=number" in untyped.errors
    days = other(FIT, ["--features", "days"])
    refused = run(*days, "--bounds", "days=0:90")
    assert refused.code == 2
    assert "declared within [0, 60]" in refused.errors
    assert run(*days, "--bounds", "days=0:60", "--dry-run").code == 0


def words_of(page):
    """The visible text of a page."""
    body = page.split("<body", 1)[1].split('<script type="application/json"')[0]
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)))


def test_the_card_of_a_linear_fit_shows_the_model_as_the_terminal_does(run, here):
    assert run(*ADD).code == 0
    screen = run(*FIT, "--where", "age > 25", "--card", "card.html").out
    page = words_of((here / "card.html").read_text())
    for name in ("age", "days", "intercept"):
        value, ends = re.search(rf"  {name} +(\S+)  (\S+ to \S+)", screen).groups()
        assert f"{name} {value} {ends}" in page
        assert f"{name} {value} ({ends})" in page
    assert "A linear model of cost on age and days, fitted to the rows of visits, after filter." in page
    assert "What did this model use?" in page
    assert "95 times in 100, privacy noise and sampling." in page
    assert "Intervals include privacy noise and sampling." in page
    for wrong in (" table ", " table's", "in every group", "noise only", "fit_0", "One total"):
        assert wrong not in page, wrong
    shown = run("card", "show", "card.html").out
    assert "cost = age" in shown
    assert "this model" in shown


def test_a_changed_coefficient_on_a_card_is_found(run, here):
    from tallystick.cards.card import Card, read_card

    assert run(*ADD).code == 0
    assert run(*FIT, "--card", "card.html").code == 0
    for field, other_value in (("value", 7.0), ("upper", 9.0), ("name", "days")):
        facts = json.loads(read_card("card.html")[0].to_json())
        facts["model"]["coefficients"][0][field] = other_value
        Card(facts).save("forged.html")
        forged = run("card", "verify", "forged.html")
        assert forged.code == 6
        assert "model" in forged.errors


def test_a_plan_that_is_not_that_of_a_linear_model_has_the_card_of_a_table():
    from dataclasses import replace

    from tallystick.cards.linear import LinearForm

    plan = ts.linear_regression(visits(), target="cost", features=["age", "days"]).plan(rho=1).plan
    form = LinearForm.of(plan)
    assert (form.target, form.features, form.bounds[0]) == ("cost", ("age", "days"), (0.0, 110.0))
    query = plan.query
    fewer = replace(plan, query=replace(query, measures=query.measures[:-1]))
    other_steps = replace(plan, query=replace(query, table=replace(query.table, steps=query.table.steps[1:])))
    assert LinearForm.of(fewer) is None
    assert LinearForm.of(other_steps) is None
    assert LinearForm.of(visits().agg(n=ts.count()).plan(rho=1)) is None


def test_the_card_of_a_model_without_intervals_says_why(run, here):
    assert run(*ADD).code == 0
    assert run(*other(FIT, ["--rho", "0.001"]), "--card", "card.html").code == 0
    page = words_of((here / "card.html").read_text())
    assert "How accurate is it? Not stated No interval: the noise" in page
    assert run("card", "show", "card.html").code == run("card", "verify", "card.html").code == 0


def test_a_fit_without_a_price_names_the_options_of_the_shell(run, here):
    assert run(*ADD).code == 0
    priceless = run(*FIT[:-4], "--why", "forecast")
    assert priceless.code == 2
    assert "--epsilon" in priceless.errors
    helped = run("fit")
    assert helped.code == 2
    assert "\\n" not in helped.out + helped.errors
    assert "logistic" in helped.out + helped.errors


def test_a_denied_line_is_told_no_names_of_its_sums(run, here):
    assert run(*ADD).code == 0
    for words in (["--dry-run"], []):
        denied = run(*other(FIT, ["--rho", "5"]), *words)
        assert denied.code == 3
        assert "lower cost     --rho 2\n  higher limit   tallystick account raise" in denied.errors
        assert "s0" not in denied.errors


def test_a_failure_after_the_start_says_nothing_and_closes_the_data(run, here, monkeypatch):
    from tallystick.tables import run as running

    def fails(*given):
        raise ValueError("age 37")

    assert run(*ADD).code == 0
    monkeypatch.setattr(running, "_integers", fails)
    broken = run(*FIT)
    assert broken.code == 9
    assert "age 37" not in broken.out + broken.errors
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert run(*FIT, "--key", "another").code == 4  # closed until the owner clears it


# ---- logistic regression: rows are read after the charge ----

ADD_ILL = (
    "dataset add ill.csv --population people --unit who --max-groups 1 --max-rows-per-group 1 --bounds age=0:110 "
    "--limit epsilon=3,delta=1e-5"
).split()
LOGISTIC = "fit logistic ill --target ill --features age --labels no,yes --epsilon 1 --why triage".split()


@pytest.fixture
def ill(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)
    ages = np.random.default_rng(3).integers(10, 100, 4000)
    lines = "".join(f"p{i},{age},{'yes' if age > 55 else 'no'}\n" for i, age in enumerate(ages.tolist()))
    (tmp_path / "ill.csv").write_text("who,age,ill\n" + lines + "p1,,yes\n,40,no\np2,60,perhaps\n")
    return tmp_path


def classification(data, **options):
    table = ts.Private(pyarrow.table(data)).table(unit="who").per_unit(max_rows_per_group=2).bounds(age=(0, 110))
    asked = {"target": "ill", "features": ["age"], "labels": ["no", "yes"], "epsilon": 1.0, **options}
    return rows.logistic_regression(table, **asked)


def fit_of(asked, account, name):
    request = Request(LogisticFit(name, "ill", ("age",)), key="k", why="triage")
    return rows.RowsWork.of(asked, Dataset(name, account.name, {}), account, request)


def test_fit_logistic_is_charged_once_and_finds_the_slope(run, ill):
    assert run(*ADD_ILL).code == 0
    dry = run(*LOGISTIC, "--dry-run")
    assert dry.code == 0, dry.errors
    assert "Would charge epsilon 1 " in dry.out
    for words in ([], ["--delta", "1e-6"]):
        first = run(*LOGISTIC, *words, "--out", "model.json", "--card", "card.html")
        assert first.code == 0, first.errors
        checked = run("card", "verify", "card.html")
        assert checked.code == 0, checked.out
        assert run("card", "show", "card.html").code == 0
        model = json.loads((ill / "model.json").read_text())
        assert model["coefficients"][0][0] > 0.02
        assert "Every number is noisy." in first.errors
        assert 30 < -model["intercepts"][0] / model["coefficients"][0][0] < 80  # the age at which it is even
        again = run(*LOGISTIC, *words, "--json").document["found"]
        assert again["again"] is True
        assert again["model"] == model
    assert len(run("charge", "list", "--json").document["found"]["charges"]) == 2
    assert run("ledger", "verify").code == 0
    for words in (["--dry-run"], []):
        denied = run(*other(LOGISTIC, ["--epsilon", "2"]), *words)
        assert denied.code == 3
        assert "lower cost     --epsilon 1\n  higher limit   tallystick account raise" in denied.errors
        assert "laplace(" not in denied.errors


def test_a_fit_of_rows_is_about_the_registered_people_and_name(run, ill):
    """A unit registered as a number was fitted as a text, in which 7 and 07 are two people."""
    (ill / "ill.csv").write_text("who,age,ill\n7,40,no\n07,60,yes\n")
    assert run(*ADD_ILL, "--type", "who=integer").code == 0
    with ts.Ledger(ill / "tallystick.db") as ledger:
        account = ledger.open("people")
        for kind, name, problem in (
            ("text", "ill", "registered as integer"),
            ("integer", "other", "registered as ill"),
        ):
            table = ts.Private("ill.csv", account=account).table(unit="who", types={"age": "number", "who": kind})
            table = table.per_unit(max_rows_per_group=1).bounds(age=(0, 110))
            asked = rows.logistic_regression(table, target="ill", features=["age"], labels=["no", "yes"], epsilon=1.0)
            with pytest.raises(Refused, match=problem):
                fit_of(asked, account, name).fit()
        assert account.history() == []


@pytest.mark.parametrize("words", [["--out", "book.json"], ["--card", "book.html"], ["--out", "extra.json"]])
def test_fit_logistic_overwrites_neither_the_ledger_nor_a_registered_file(run, ill, words):
    (ill / "extra.csv").write_text("who\n7\n")
    assert run(*ADD_ILL, "--ledger", "book.json").code == 0
    extra = "dataset add extra.csv --population people --unit who --ledger book.json".split()
    assert run(*extra).code == 0
    (ill / "extra.json").symlink_to(ill / "extra.csv")  # the registered file under a second name
    before = (ill / "book.json").read_bytes(), (ill / "extra.csv").read_bytes()
    for further in (["--dry-run"], []):
        refused = run(*LOGISTIC, *words, *further, "--ledger", "book.json")
        assert refused.code == 2, refused.errors
        assert "would be overwritten" in refused.errors
    assert ((ill / "book.json").read_bytes(), (ill / "extra.csv").read_bytes()) == before
    assert run("charge", "list", "--ledger", "book.json", "--json").document["found"]["charges"] == []


def test_the_same_question_about_other_data_of_the_population_has_a_key_of_its_own(run, ill):
    assert run(*ADD_ILL).code == 0
    (ill / "sick.csv").write_bytes((ill / "ill.csv").read_bytes() + b"p9999,50,no\n")
    assert run(*[word.replace("ill.csv", "sick.csv") for word in ADD_ILL[:-2]]).code == 0
    for name in ("ill", "sick"):
        asked = run("fit", "logistic", name, *LOGISTIC[3:], "--delta", "1e-6")
        assert asked.code == 0, asked.errors


def test_what_was_decided_and_how_wide_a_fit_is_cannot_be_rewritten_on_its_card(run, ill):
    """Found from outside: a card of a fit was not compared with the registration, and its columns with nothing."""
    from tallystick.cards.card import Card, card_of, read_card
    from tallystick.cards.contents import Subject
    from tallystick.cards.fits import FitPlan
    from tallystick.ledger.book import opened
    from tallystick.ledger.pay import Receipt

    assert run(*ADD_ILL, "--about", "bounds_from=guessed after looking", "--about", "limit_reason=none").code == 0
    assert run(*LOGISTIC, "--delta", "1e-6", "--card", "card.html").code == 0
    assert run("card", "verify", "card.html").code == 0
    text = read_card("card.html")[0].to_json()
    Card(json.loads(text.replace("guessed after looking", "set by law"))).save("forged.html")
    assert "other decisions" in run("card", "verify", "forged.html").errors
    facts = json.loads(text)
    with opened("tallystick.db") as ledger:
        receipt = Receipt.from_json(facts["evidence"]["receipt"])
        account, plan = ledger.account_by_id(receipt.lines[0][0]), facts["again"]["plan"]
        wide = FitPlan(plan["estimator"], plan["parameters"], 300, plan["rows"])
        said = (facts["decisions"]["purpose"], facts["released"]["dataset"], facts["again"]["about"])
        card_of(Subject(wide, account, account.limit, receipt, *said)).save("wide.html")
    wider = run("card", "verify", "wide.html")
    assert wider.code != 0
    assert "columns" in wider.errors


def read_rows(asked):
    fit = rows.RowsWork(None, None, "", "", asked.plan(), asked, None, None, False)
    with Reader(asked.table.source) as reader:
        return rows.OpenedFit(fit, reader, "").data()


def test_the_rows_of_a_person_are_capped_in_an_order_of_their_own():
    asked = classification({"who": [1, 2, 1, 1], "age": [110.0, 55.0, 0.0, 55.0], "ill": ["no", "yes", "no", "other"]})
    with_others = read_rows(asked)
    assert with_others.units.count(1) == 3
    kept = with_others.usable(2)
    assert kept.rows[:, 0].tolist() == [-1.0, 0.0, 0.0]  # ages 0 and 55 of the first, 55 of the second
    assert sorted(kept.targets.tolist()) == [-1.0, 0.0, 1.0]  # an undeclared label is none of them
    alone = classification({"who": [1, 1, 1], "age": [55.0, 110.0, 0.0], "ill": ["other", "no", "no"]})
    found = read_rows(alone).usable(2)
    assert found.rows[:, 0].tolist() == [-1.0, 0.0]


@pytest.mark.parametrize(
    "bad",
    [
        {"target": "age"}, {"target": "nobody"}, {"labels": ["no"]}, {"labels": ["no", "no"]}, {"labels": [0, 1]},
        {"features": ["ill"]}, {"features": []}, {"epsilon": 0}, {"epsilon": 1e9}, {"delta": 2.0}, {"solver": "x"},
        {"bounds": {"age": (1, 0)}},
    ],
)  # fmt: skip
def test_bad_classifications_are_refused(bad):
    with pytest.raises(InvalidInput):
        classification({"who": [1], "age": [40.0], "ill": ["no"]}, **bad)


def test_the_price_is_about_the_whole_person():
    asked = classification({"who": [1], "age": [40.0], "ill": ["no"]}, delta=1e-6)
    assert asked.model().rows_per_unit == 2
    assert 0.95 <= asked.model().privacy.epsilon(delta=1e-6) <= 1.0


def test_a_fit_that_fails_after_its_charge_says_nothing_and_closes_the_data(run, ill, monkeypatch):
    def fails(*given):
        raise ValueError("age 37")

    assert run(*ADD_ILL).code == 0
    monkeypatch.setattr(rows.OpenedFit, "data", fails)
    broken = run(*LOGISTIC, "--delta", "1e-6")
    assert broken.code == 9
    assert "age 37" not in broken.out + broken.errors
    monkeypatch.undo()
    monkeypatch.chdir(ill)
    assert run(*LOGISTIC, "--delta", "1e-6", "--key", "another").code == 4


def test_more_rows_than_can_be_certified_are_thinned_and_never_fail(run, ill, monkeypatch):
    monkeypatch.setattr(rows.thinned, "__defaults__", (1 << 11,))  # 4,000 rows: most slots are drawn twice
    assert run(*ADD_ILL).code == 0
    for words in ([], ["--delta", "1e-6", "--solver", "objective"]):
        made = run(*LOGISTIC, *words, "--json")
        assert made.code == 0, made.errors


class Drawn:
    """A source that gives the slots it was told."""

    def __init__(self, slots):
        self.slots = slots

    def words(self, count):
        return np.array(self.slots[:count], dtype=np.uint64)


def test_thinned_rows_are_few_and_one_row_more_changes_one_row():
    random = np.random.default_rng(0)
    values = random.normal(size=(40, 2))
    for slots in (1, 7, 30, 10**6):
        drawn = random.integers(0, 2**60, 40)
        kept = []
        for gone in (None, *range(40)):
            stay = np.arange(40) != gone
            data = Given(values[stay], np.arange(40)[stay], None)
            found = rows.thinned(data, Drawn(drawn[stay]), slots)
            assert len(found.rows) <= slots
            kept.append(set(found.targets.tolist()))
        assert all(len(kept[0] ^ other) <= 1 for other in kept[1:])
    # A twin that keeps the first five rows lets another one in when one goes.
    first = [set(np.flatnonzero(stay)[:5].tolist()) for stay in (np.arange(9) >= 0, np.arange(9) > 0)]
    assert len(first[0] ^ first[1]) == 2


def test_a_fit_that_a_block_pays_for_reads_the_rows_of_the_block_only(tmp_path):
    data = {
        "who": list(range(40)),
        "age": [30.0] * 40,
        "ill": ["no", "yes"] * 20,
        "ward": ["east"] * 15 + ["west"] * 25,
    }
    partition = ts.Partition(
        "ward", by="public attribute", one_block_per_unit=True, column="ward", values=("east",)
    )  # fmt: skip
    with ts.Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("clinic", budget=ts.approx_dp(epsilon=3, delta=1e-5), unit="patient")
        budget = ts.approx_dp(epsilon=2, delta=1e-6)
        east = ledger.open("east", budget=budget, unit="patient", parent="clinic", partition=partition)
        fit = fit_of(classification(data), east, "visits")
        with fit.opened() as opened:
            assert len(opened.data().rows) == 15
        made = fit.fit()
        assert made.paid.fresh
        assert fit.fit().to_data() == made.to_data()
