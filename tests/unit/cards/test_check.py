"""``check_card`` finds every change, and finds nothing where nothing was changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from markupsafe import escape

import tallystick as ts
from sweeps import ALL
from tallystick.cards import Card, card, check_card, preview
from tallystick.cards.card import read_card
from tallystick.cards.summary import summary_lines
from tallystick.cards.versions import same
from tallystick.errors import InvalidInput
from unit.cards.conftest import opened

CHANGES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "a smaller price": (("promise", "price"), "rho 0.001"),
    "a smaller limit": (("promise", "limit_amount", 0), 1000),
    "another epsilon": (("promise", "epsilon"), 0.1),
    "kinder odds": (("words", "limit", "hit"), 0.51),
    "a kinder curve": (("promise", "tradeoff", "limit", 5), 0.9),
    "another plan hash": (("accounting", "plan_hash"), "0" * 64),
    "another theorem": (("accounting", "theorem"), "trust me"),
    "another head": (("evidence", "head"), "0" * 64),
    "a smaller error": (("error", "columns", 0, "error"), 0.5),
    "another scale": (("mechanisms", "parts", 0, "scale"), 1e6),
    "less left out": (("left_out", 1, "value"), -1),
    "another purpose": (("decisions", "purpose"), "something else"),
    "a blank list": (("not_protected",), []),
    "another unit": (("protected", "unit"), "household"),
    "an edited plan": (("again", "plan", "budget", "rho"), 0.001),
    "missing parts": (("again",), {}),
}


SAID_BY_PEOPLE = {("released", "dataset")}


def problems(made: Card, ledger: Any, page: str | None = None) -> list[str]:
    return [finding.problem for finding in check_card(made, ledger, page=page) if finding.problem]


def changed(made: Card, path: tuple[Any, ...], value: Any) -> Card:
    facts = copy.deepcopy(dict(made.facts))
    place: Any = facts
    for name in path[:-1]:
        place = place[name]
    assert place[path[-1]] != value
    place[path[-1]] = value
    return Card(facts)


@pytest.fixture(scope="module")
def paid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One release, its card, and the ledger that paid for it; tests compare changed copies of the card with it."""
    with opened(tmp_path_factory.mktemp("paid")) as clinic:
        release = clinic.release()
        yield SimpleNamespace(ledger=clinic.ledger, release=release, card=card(release))


def test_a_true_card_agrees_with_the_ledger_and_its_page_with_its_data(clinic) -> None:
    made = card(clinic.release(), about={"window": "2026"})
    assert problems(made, clinic.ledger, made.to_html()) == []
    findings = check_card(made, clinic.ledger, page=made.to_html())
    assert [finding.what for finding in findings if finding.is_checked] == [
        "charge, entry and head on the card",
        "receipt",
        "plan",
        "limit of the account",
        "every number, the chart and the sentences",
        "column names",
        "text of the page (HTML)",
    ]
    assert [finding.what for finding in findings if not finding.is_checked] == [
        "name of the dataset",
        "decisions people made (period, reasons, contact)",
        "published table (CSV)",
        "author of the card",
    ]
    assert all(finding.against for finding in findings if finding.is_checked)


def of_version(made: Card, version: str = "0.1.0") -> Card:
    """The card as if another version had made it."""
    return changed(made, ("accounting", "software"), f"tallystick {version}")


NOT_COMPARED = {"a smaller error": "intervals and predicted errors (error)"}


@pytest.mark.parametrize("change", sorted(CHANGES))
def test_a_changed_number_on_a_card_of_another_version_is_found(paid, change: str) -> None:
    findings = check_card(changed(of_version(paid.card), *CHANGES[change]), paid.ledger)
    assert not all(finding.holds for finding in findings)
    if change in NOT_COMPARED:
        told = [finding for finding in findings if "another version (tallystick 0.1.0)" in finding.not_checked]
        assert [finding.what for finding in told] == [NOT_COMPARED[change]]


def test_nothing_is_found_on_an_unchanged_card_of_another_version(paid) -> None:
    assert problems(of_version(paid.card), paid.ledger) == []


def test_true_is_not_one(clinic) -> None:
    """JSON has both, and Python takes them for equal."""
    assert same(1, 1)
    assert not same(1, True)
    assert not same(False, 0)
    made = card(clinic.release())
    facts = copy.deepcopy(dict(made.facts))
    facts["version"] = True
    assert problems(Card(facts), clinic.ledger)


def test_values_of_a_card_of_another_version_cannot_be_moved_between_groups_or_columns(clinic) -> None:
    made = of_version(card(clinic.release()))
    facts = copy.deepcopy(dict(made.facts))
    first, second = facts["chart"][0], facts["chart"][1]
    assert first["value"] != second["value"]
    first["value"], second["value"] = second["value"], first["value"]
    assert problems(Card(facts), clinic.ledger)
    facts = copy.deepcopy(dict(made.facts))
    for name in ("value", "shown"):
        facts["chart"][1][name].reverse()
    assert facts["chart"] != made.facts["chart"]
    assert problems(Card(facts), clinic.ledger)
    facts = copy.deepcopy(dict(made.facts))
    facts["chart"][0]["field"], facts["chart"][1]["field"] = second["field"], first["field"]
    assert problems(Card(facts), clinic.ledger)


def test_a_number_inside_a_sentence_of_another_version_is_compared(clinic) -> None:
    made = of_version(card(clinic.release()))
    lifetime = made.facts["protected"]["lifetime"]
    reworded = changed(made, ("protected", "lifetime"), lifetime.replace("for as long as it is used", "for good"))
    assert [f.what for f in check_card(reworded, clinic.ledger) if f.is_unverified] == ["sentences (protected)"]
    digits = [letter for letter in lifetime if letter.isdigit()]
    other = lifetime.replace(digits[-1], "7" if digits[-1] != "7" else "8")
    assert problems(changed(made, ("protected", "lifetime"), other), clinic.ledger)


def test_a_card_that_only_says_that_another_version_made_it_is_not_verified(clinic) -> None:
    """A forger changed sentences and intervals, and made the page again from them."""
    facts = copy.deepcopy(dict(of_version(card(clinic.release()), "9.9.9").facts))
    facts["protected"]["neighbours"] = "with and without all rows of one household"
    facts["chart"][0]["lower"] = list(facts["chart"][0]["value"])
    forged = Card(facts)
    findings = check_card(forged, clinic.ledger, page=forged.to_html())
    unverified = [finding.what for finding in findings if finding.is_unverified]
    assert unverified == ["intervals and predicted errors (chart)", "sentences (protected)"]
    assert not all(finding.holds for finding in findings)


def test_the_page_of_another_version_is_not_compared_and_that_is_said(clinic) -> None:
    made = of_version(card(clinic.release()))
    page = made.to_html()
    assert problems(made, clinic.ledger, page) == []
    findings = check_card(made, clinic.ledger, page=page.replace("</p>", " </p>", 1))
    told = [finding.what for finding in findings if "another version" in finding.not_checked]
    assert told == ["text of the page (HTML)"]
    assert [finding.what for finding in findings if not finding.holds] == told, "an unchecked page does not pass"
    assert problems(card(clinic.release()), clinic.ledger, page)  # the page of another card


def test_true_and_false_are_not_numbers_of_a_card(clinic) -> None:
    made = card(clinic.release())
    facts = json.loads(json.dumps(made.facts))
    amount = facts["chart"][0]["more"]
    assert amount == 0
    facts["chart"][0]["more"] = False
    assert problems(made, clinic.ledger) == []
    assert problems(Card(facts), clinic.ledger)


@pytest.mark.parametrize("software", [f"tallystick {ts.__version__}", "tallystick", "made up", "tallystick x\x1b[2J"])
def test_words_of_this_version_are_compared_to_the_letter(paid, software: str) -> None:
    facts = copy.deepcopy(dict(paid.card.facts))
    facts["accounting"] |= {"software": software, "theorem": "trust me"}
    assert problems(Card(facts), paid.ledger)


def test_the_table_of_another_version_is_compared_by_groups_and_values(clinic) -> None:
    release = clinic.release()
    made, text = of_version(card(release)), release.to_csv()
    header, first, *rest = text.splitlines()
    place = next(i for i, name in enumerate(header.split(",")) if name.endswith("_lower"))
    cells = first.split(",")
    wider = "\n".join([header, ",".join([*cells[:place], "-1e9", *cells[place + 1 :]]), *rest])
    findings = check_card(made, clinic.ledger, table=wider)
    assert not any(finding.problem for finding in findings)
    told = [finding.what for finding in findings if "another version" in finding.not_checked]
    assert told == ["intervals of the published table (CSV)"]
    assert [finding.what for finding in findings if not finding.holds] == told, "what was not checked does not pass"
    other = "\n".join([header, ",".join([*cells[: place - 1], "123456", *cells[place:]]), *rest])
    assert not all(finding.holds for finding in check_card(made, clinic.ledger, table=other))
    assert not all(finding.holds for finding in check_card(card(release), clinic.ledger, table=wider))


@pytest.mark.parametrize("separator", ["\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_a_table_whose_lines_no_csv_reader_would_see_is_another_one(paid, separator: str) -> None:
    joined = paid.release.to_csv().replace("\n", separator)
    for made in (paid.card, of_version(paid.card)):
        assert not all(finding.holds for finding in check_card(made, paid.ledger, table=joined))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_a_table_may_end_its_lines_with_lf_or_crlf(paid, ending: str) -> None:
    text = paid.release.to_csv().replace("\n", ending)
    for made in (paid.card, of_version(paid.card)):
        for table in (text, text.removesuffix(ending)):
            assert all(finding.holds for finding in check_card(made, paid.ledger, table=table))


def test_a_true_card_still_agrees_after_later_releases(clinic) -> None:
    made = card(clinic.release())
    clinic.release(key="t2")
    assert problems(made, clinic.ledger) == []


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_card_is_found(paid, change) -> None:
    assert problems(changed(paid.card, *CHANGES[change]), paid.ledger)


def test_a_changed_word_on_the_page_is_found(clinic) -> None:
    made = card(clinic.release())
    page = made.to_html().replace("of 100</b>", "of 10,000</b>")
    assert problems(made, clinic.ledger, page)


def test_a_card_of_another_ledger_is_found(clinic, tmp_path) -> None:
    made = card(clinic.release())
    with ts.Ledger(tmp_path / "other.db") as other:
        assert "another ledger" in problems(made, other)[0]


def test_a_limit_raised_later_is_said_apart_from_what_is_wrong(clinic) -> None:
    release = clinic.release()
    first = card(release)
    clinic.account.raise_limit(ts.zcdp(rho=0.9, delta=1e-6), why="more")
    second = card(release)
    clinic.account.raise_limit(ts.zcdp(rho=1, delta=1e-6), why="and more")
    for made, promised in ((first, "rho 0.5"), (second, "rho 0.9")):
        assert problems(made, clinic.ledger) == []
        (raised,) = [each for each in check_card(made, clinic.ledger) if not each.holds]
        assert raised.outdated.startswith(f"the limit was raised since, from {promised}, delta 1e-6 to rho 1")
    assert [each.outdated for each in check_card(card(release), clinic.ledger) if not each.holds] == []


def test_a_limit_that_the_account_never_had_or_had_before_the_charge_is_wrong(clinic) -> None:
    early = clinic.account.limit
    clinic.account.raise_limit(ts.zcdp(rho=0.9, delta=1e-6), why="more")
    made = card(clinic.release())
    for amount in ([early.a0, early.a1], [7 * 10**11, early.a1]):
        facts = json.loads(made.to_json())
        facts["promise"]["limit_amount"] = amount
        found = problems(Card(facts), clinic.ledger)
        assert any(each.startswith("the account's limit is now rho 0.9") for each in found)


def test_a_dataset_of_another_population_is_found(clinic) -> None:
    other = clinic.ledger.open("other", budget=ts.zcdp(rho=1), unit="patient")
    other.register("their-table")
    made = card(clinic.release(), dataset="their-table")
    assert problems(made, clinic.ledger) == ["the ledger has this dataset under other"]


def test_a_card_that_a_block_paid_for_agrees_with_the_ledger(clinic) -> None:
    population = clinic.account
    population.register("visits", source=str(clinic.file), fixed={"unit": "patient", "adjacency": "add_remove"})
    upper = clinic.ledger.open("year", budget=ts.zcdp(rho=0.3), unit="patient", parent=population.name)
    clinic.account = clinic.ledger.open("quarter", budget=ts.zcdp(rho=0.2), unit="patient", parent=upper.name)
    made = card(clinic.release(), dataset="visits")
    assert made.facts["released"]["population"] == "quarter"
    assert problems(made, clinic.ledger, made.to_html()) == []
    assert problems(changed(made, ("promise", "epsilon"), 0.1), clinic.ledger)


def test_a_card_that_a_block_of_another_population_paid_for_is_found(clinic) -> None:
    clinic.account.register("visits")
    other = clinic.ledger.open("other", budget=ts.zcdp(rho=1), unit="patient")
    clinic.account = clinic.ledger.open("block", budget=ts.zcdp(rho=0.5), unit="patient", parent=other.name)
    made = card(clinic.release(), dataset="visits")
    assert problems(made, clinic.ledger) == ["the ledger has this dataset under patients-2026"]


def test_an_older_card_without_the_flag_of_noisy_lines_agrees_and_a_changed_one_does_not(clinic) -> None:
    release = clinic.plan(rho=0.001).release(why="x")
    made = card(release)
    facts = copy.deepcopy(dict(made.facts))
    assert any(line["too_noisy"] for line in facts["left_out"])
    sentences = {each.what: each.with_numbers() for each in release.removed()}
    for line in facts["left_out"]:
        del line["too_noisy"]
        line["said"] = sentences[line["what"]]
    older = Card(facts)
    assert problems(older, clinic.ledger, older.to_html()) == []
    assert problems(changed(older, ("left_out", 0, "said"), "nothing was left out"), clinic.ledger)
    assert problems(changed(made, ("left_out", 0, "too_noisy"), None), clinic.ledger)


@pytest.mark.filterwarnings("ignore::tallystick.errors.ChargedAgain")
def test_a_card_marks_the_cells_that_are_too_noisy_to_use_as_the_terminal_does(clinic) -> None:
    releases = (clinic.plan(rho=0.01).release(why="x", key=f"k{i}") for i in range(20))
    release = next(each for each in releases if each.noisy)
    made = card(release)
    assert release.noisy.startswith("Too noisy to use: ")
    assert made.facts["too_noisy"] == release.noisy
    page = made.to_html()
    assert str(escape(release.noisy)) in page
    assert '<span class="badge">too noisy to use</span>' in page
    assert release.noisy in "\n".join(summary_lines(made.facts, "card.html"))
    assert problems(made, clinic.ledger, page) == []
    assert problems(changed(made, ("too_noisy",), ""), clinic.ledger)


def test_a_card_without_noisy_cells_has_no_mark(clinic) -> None:
    made = card(clinic.plan(rho=0.5).release(why="x"))
    assert made.facts["too_noisy"] == ""
    assert "too noisy to use" not in made.to_html()


def test_an_earlier_card_does_not_have_the_fact_and_one_of_this_version_must(clinic) -> None:
    made = card(clinic.plan(rho=0.001).release(why="x"))
    facts = copy.deepcopy(dict(made.facts))
    del facts["too_noisy"]
    assert problems(Card(copy.deepcopy(facts)), clinic.ledger)
    facts["accounting"]["software"] = "tallystick 0.1.0"
    assert problems(Card(facts), clinic.ledger) == []


ODD: list[Any] = [None, 10**400, "x", []]


@pytest.mark.parametrize("first", range(len(ODD)))
def test_no_value_however_odd_breaks_the_check(paid, first: int) -> None:
    """Each fact gets one of the odd values in ``make test``, and every one of them in a campaign."""
    facts = paid.card.facts
    places = [(section, name) for section, held in facts.items() if isinstance(held, dict) for name in held]
    for number, (section, name) in enumerate(places):
        value = ODD[first]
        is_its_turn = ALL or number % len(ODD) == first
        if is_its_turn and facts[section][name] != value and (section, name) not in SAID_BY_PEOPLE:
            assert problems(changed(paid.card, (section, name), value), paid.ledger), (section, name)


def test_a_delta_changed_from_small_to_tiny_is_found(clinic) -> None:
    """Found from outside: 1e-6 and 1e-30 differ by less than two millionths."""
    found_in_data = clinic.table().group_by("ward", keys=ts.private_keys(delta=1e-7))
    made = card(found_in_data.agg(n=ts.count()).plan(rho=0.05).release(why="report"))
    assert problems(made, clinic.ledger) == []
    for name in ("delta", "reached"):
        assert problems(changed(made, ("released", "groups", name), 1e-30), clinic.ledger), name


def test_a_card_with_a_key_twice_is_refused(clinic, tmp_path) -> None:
    made = card(clinic.release())
    path = made.save(tmp_path / "card.json")[0]
    path.write_text(path.read_text().replace('"version":', '"version": 9, "version":', 1))
    with pytest.raises(InvalidInput, match="twice"):
        read_card(path)


def test_a_dataset_that_protects_somebody_else_is_found(clinic) -> None:
    clinic.account.register("visits", fixed={"unit": "household_id", "adjacency": "add_remove"})
    made = card(clinic.release(), dataset="visits")
    assert any("household_id" in problem for problem in problems(made, clinic.ledger))


@pytest.mark.parametrize("note", ["", "by the night job", '{"by": "the night job"}', "[1]", '{"table": 7}'])
def test_a_program_may_register_data_in_its_own_words(clinic, note) -> None:
    fixed = {"unit": "patient", "adjacency": "add_remove"}
    clinic.account.register("visits", source=str(clinic.file), note=note, fixed=fixed)
    assert problems(card(clinic.release(), dataset="visits"), clinic.ledger) == []


def test_a_preview_is_no_evidence(clinic) -> None:
    made = preview(clinic.plan(), clinic.account, why="x")
    assert "preview" in problems(made, clinic.ledger)[0]


def test_a_card_carries_a_certificate_of_its_plan_and_of_no_other(clinic, tmp_path) -> None:
    pytest.importorskip("flint")
    release = clinic.release()
    proof = release.plan.privacy.certificate(delta=1e-6)
    made = card(release, certificate=proof)
    assert made.facts["evidence"]["certificate"]["hash"] == proof.hash
    assert proof.hash in made.to_html()
    findings = check_card(made, clinic.ledger, page=made.to_html())
    assert all(finding.holds for finding in findings), findings
    assert "certificate" in [finding.what for finding in findings]
    with pytest.raises(ts.errors.Refused, match="another loss"):
        card(release, certificate=ts.zcdp(rho=0.001, unit="patient").certificate(delta=1e-6))
    told = json.loads(made.to_json())
    told["evidence"]["certificate"]["text"] = proof.text.replace('"delta":1e-06', '"delta":1e-07')
    wrong = [finding.what for finding in check_card(Card(told), clinic.ledger) if not finding.holds]
    assert "certificate" in wrong
