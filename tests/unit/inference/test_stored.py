"""The same cells from a release, from its CSV file with its card, and from the mechanism itself."""

from __future__ import annotations

import json
import math

import duckdb
import pytest

import tallystick as ts
from tallystick.cards import card, check_card
from tallystick.errors import InvalidInput, Refused
from tallystick.inference import from_csv


@pytest.fixture
def clinic(tmp_path):
    path = str(tmp_path / "clinic.duckdb")
    with duckdb.connect(path) as made_up:
        made_up.execute(
            "create table visits as select i as patient, i % 20 as stay, if(i % 4 = 0, 'north', 'south') as ward "
            "from range(2000) t(i)"
        )
    with ts.Ledger(str(tmp_path / "budget.db")) as ledger:
        yield path, ledger.open("clinic", budget=ts.zcdp(rho=5, delta=1e-5), unit="patient")


def released(clinic, *, caps=(1, 1), keys=None, rho=0.5):
    path, account = clinic
    table = ts.Private(path, account=account).table("visits", unit="patient")
    capped = table.per_unit(max_groups=caps[0], max_rows_per_group=caps[1])
    measures = {
        "n": ts.count(),
        "people": ts.count_units(),
        "stay": ts.mean("stay", 0, 20),
        "days": ts.sum("stay", 0, 20),
        "shape": ts.histogram("stay", [0, 5, 10, 20]),
        "middle": ts.median("stay", 0, 20),
    }
    groups = capped.group_by("ward", keys=keys or ["north", "south"]).agg(**measures)
    return groups.plan(rho=rho).release(why="test")


def test_cells_of_a_release_have_its_own_intervals_and_more(clinic):
    table = released(clinic)
    estimates = table.estimates(confidence=0.9)
    for field in ("n", "people", "days", "shape[0,5)"):
        for row, answer in enumerate(table.answers(field).values()):
            low, high = answer.noise_interval(confidence=0.9)
            if field == "days" or field.startswith("shape"):  # shown as whole numbers, intervals rounded outward
                low, high = math.floor(low), math.ceil(high)
                assert estimates[field].value[row] == round(answer.value)
            assert (low, high) == pytest.approx((estimates[field].lower[row], estimates[field].upper[row]))
    for row, mean in enumerate(table.answers("stay").values()):
        low, high = mean.noise_interval(confidence=0.9)
        assert (low, high) == pytest.approx((estimates["stay"].lower[row], estimates["stay"].upper[row]))
        assert mean.population_interval().width > mean.noise_interval().width
        assert "clamped to [0, 20]" in mean.population_interval().about
    share = table.answers("n", of=2000)["north",].population_interval(confidence=1 - 1e-9)
    assert 0.25 in share
    assert share.width < 0.2


def test_a_csv_file_with_its_card_gives_the_same_cells(clinic):
    table = released(clinic)
    text, facts = table.to_csv(), card(table).to_json()
    for field in ("n", "people", "days", "shape[5,10)"):
        own, read = table.answers(field), from_csv(text, facts, measure=field)
        assert set(own) == set(read)
        for key, answer in own.items():
            rounded = 0.5 if field == "days" or field.startswith("shape") else 0.0  # the interval is as much wider
            assert read[key].value == pytest.approx(answer.value, abs=rounded)
            low, high = answer.noise_interval()
            assert tuple(read[key].noise_interval()) == pytest.approx((low - rounded, high + rounded), abs=rounded)
            assert read[key].noise_interval().lower <= low + 1e-9
            assert read[key].noise_interval().upper >= high - 1e-9
    shares = from_csv(text, facts, measure="n", of=2000)
    assert shares["north",].population_interval().holds == "finite-sample"


def test_what_a_csv_file_does_not_hold_is_refused(clinic):
    table = released(clinic)
    text, facts = table.to_csv(), card(table).to_json()
    for field in ("stay", "middle"):
        with pytest.raises(Refused, match="cannot be read back"):
            from_csv(text, facts, measure=field)
    with pytest.raises(InvalidInput, match="measure"):
        from_csv(text, facts, measure="nothing")
    with pytest.raises(InvalidInput, match="without these columns"):
        from_csv("ward\nnorth\n", facts, measure="n")
    with pytest.raises(InvalidInput, match="not a number"):
        from_csv("ward,n\nnorth,many\n", facts, measure="n")
    with pytest.raises(InvalidInput, match="tallystick/card"):
        from_csv(text, '{"schema": "other"}', measure="n")


def test_where_a_unit_counts_more_than_once_there_is_no_share_and_a_wider_mean(clinic):
    table = released(clinic, caps=(2, 3))
    with pytest.raises(Refused, match="counts once"):
        table.answers("n", of=2000)
    with pytest.raises(Refused, match="more than once"):
        from_csv(table.to_csv(), card(table).to_json(), measure="n", of=2000)
    assert table.answers("stay")["north",].rows_per_unit == 3


def test_private_keys_condition_the_law_of_the_number_that_was_compared(clinic):
    table = released(clinic, keys=ts.private_keys(delta=1e-6))
    people = table.answers("people")["north",]
    assert people.shown_from == table.plan.threshold
    assert "shown only where it reached" in str(people.noise_interval())
    assert table.answers("n")["north",].shown_from is None  # its own noise did not choose
    for ask in (
        lambda: table.answers("n", of=2000),
        lambda: from_csv(table.to_csv(), card(table).to_json(), measure="n", of=2000),
    ):
        with pytest.raises(Refused, match="likelier to be shown"):
            ask()
    assert from_csv(table.to_csv(), card(table).to_json(), measure="people")["north",].shown_from == people.shown_from


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("mechanisms", "parts", 0, "scale"), -1.0),
        (("mechanisms", "parts", 0, "step"), 0),
        (("mechanisms", "parts", 0, "noise"), "none"),
        (("mechanisms", "parts"), None),
        (("mechanisms", "parts", 0, "step"), 1e-5),
        (("mechanisms", "parts", 0, "noise"), "discrete Laplace"),
        (("mechanisms", "parts", 0, "scale"), 0.01),
        (("again", "plan", "noise", "scales", 0), 0.01),
        (("again", "plan", "noise", "threshold"), 5),
        (("again", "plan", "query", "table", "max_groups"), 2),
        (("again", "plan", "hash"), "0" * 64),
        (("accounting", "plan_hash"), "0" * 64),
        (("again", "plan", "query", "measures"), [1]),
        (("again",), {}),
    ],
)
def test_a_card_that_was_bent_is_refused_and_never_believed(clinic, path, value):
    table = released(clinic)
    facts = json.loads(card(table).to_json())
    place = facts
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises((InvalidInput, Refused)):
        from_csv(table.to_csv(), json.dumps(facts), measure="n")


BENT = [
    "", "ward,n", "ward,n|north", "ward,n|north,1|north,2", "ward,n|north,nan", "ward,n|mars,5", "ward,n|north,5.5",
    "ward,n|north,1_000", "ward,n|north, 5", "ward,n,n|north,5,6", "ward,n,n_lower|north,5,4.9", "ward,n|north,5,6",
    'ward,n|"north,5',
]  # fmt: skip


@pytest.mark.parametrize("lines", BENT)
def test_a_csv_file_that_was_bent_is_refused(clinic, lines):
    with pytest.raises(InvalidInput):
        from_csv(lines.replace("|", "\n"), card(released(clinic)).to_json(), measure="n")


def test_intervals_of_shown_groups_count_that_they_were_chosen(tmp_path):
    """5,000 groups of 5: those that are shown had positive noise; their own intervals hold 5 all the same."""
    path = str(tmp_path / "small.duckdb")
    with duckdb.connect(path) as made_up:
        made_up.execute("create table visits as select i as patient, i // 5 as ward from range(25_000) t(i)")
    with ts.Ledger(str(tmp_path / "budget.db")) as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=5, delta=1e-2), unit="patient")
        table = ts.Private(path, account=account).table("visits", unit="patient")
        capped = table.per_unit(max_groups=1, max_rows_per_group=1)
        asked = capped.group_by("ward", keys=ts.private_keys(delta=1e-3)).agg(people=ts.count_units(), n=ts.count())
        plan = asked.plan(rho=0.1)
        shown = plan.release(why="test")
    assert len(shown) > 20, len(shown)
    for name in ("people", "n"):  # the noise of n did not choose: its intervals hold as they are
        ends = list(zip(shown.data[f"{name}_lower"], shown.data[f"{name}_upper"], strict=True))
        assert sum(low <= 5 <= high for low, high in ends) >= 0.7 * len(shown)
    for cell, low, high in zip(
        shown.answers("people").values(), shown.data["people_lower"], shown.data["people_upper"], strict=True
    ):
        own = cell.noise_interval()
        assert (low, high) == (math.ceil(max(0, own.lower) - 1e-9), math.floor(own.upper + 1e-9))
    facts = card(shown).facts
    assert f"reached {plan.threshold}." in facts["error"]["intervals"]
    assert f"reached {plan.threshold}." in str(shown)
    holds = {one["column"]: one["holds"] for one in facts["error"]["columns"]}
    assert holds == {
        "people_limited": f"well above the threshold {plan.threshold}",
        "n_limited": "in every group that is shown",
    }


def test_an_edited_cell_is_found_by_its_own_interval_and_by_the_ledger(clinic, tmp_path):
    table = released(clinic)
    text, facts = table.to_csv(), card(table)
    number = str(table.data["n"][0])
    edited = text.replace(f"north,{number},", f"north,{int(number) + 100},")
    with pytest.raises(InvalidInput, match="does not follow"):
        from_csv(edited, facts.to_json(), measure="n")
    ledger = clinic[1].ledger
    assert all(finding.holds for finding in check_card(facts, ledger, table=text))
    cut = text.replace(f",{table.data['days'][0]},", ",7,")
    for wrong in (edited, cut, ""):
        assert [one.what for one in check_card(facts, ledger, table=wrong) if not one.holds] == [
            "published table (CSV)"
        ]


def test_files_are_read_and_names_are_told_from_texts(clinic, tmp_path):
    table = released(clinic)
    paths = tmp_path / "t.csv", tmp_path / "card.json"
    paths[0].write_text(table.to_csv(), encoding="utf-8")
    paths[1].write_text(card(table).to_json(), encoding="utf-8")
    assert from_csv(*paths, measure="n") == from_csv(*(path.read_text() for path in paths), measure="n")
    for wrong in ("t.csv", 5, tmp_path / "nothing.csv", None):
        with pytest.raises(InvalidInput, match="table"):
            from_csv(wrong, paths[1], measure="n")
    with pytest.raises(InvalidInput, match="pathlib"):
        from_csv(paths[0], "card.json", measure="n")


def test_groups_that_a_spreadsheet_would_run_have_their_own_names(tmp_path):
    path = str(tmp_path / "odd.duckdb")
    with duckdb.connect(path) as made_up:
        made_up.execute("create table visits as select i as patient, '-x' as ward from range(50) t(i)")
    with ts.Ledger(str(tmp_path / "budget.db")) as ledger:
        account = ledger.open("clinic", budget=ts.zcdp(rho=50, delta=1e-2), unit="patient")
        capped = ts.Private(path, account=account).table("visits", unit="patient").per_unit(
            max_groups=1, max_rows_per_group=1
        )  # fmt: skip
        for keys in (["-x", "'-x"], ts.private_keys(delta=1e-3), None):
            grouped = capped.group_by("ward", keys=keys) if keys is not None else capped
            table = grouped.agg(n=ts.count()).plan(rho=10).release(why="test")
            facts = card(table).to_json()
            expected = set(table.answers("n"))
            assert set(from_csv(table.to_csv(), facts, measure="n")) == expected
