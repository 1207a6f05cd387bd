"""``check_card`` finds every change, and finds nothing where nothing was changed."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

import tallystick as ts
from tallystick.cards import Card, card, check_card, preview
from tallystick.cards.card import read_card
from tallystick.errors import InvalidInput

CHANGES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "a smaller price": (("promise", "price"), "rho 0.0010"),
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
    return [finding.problem for finding in check_card(made, ledger, page=page) if not finding.holds]


def changed(made: Card, path: tuple[Any, ...], value: Any) -> Card:
    facts = copy.deepcopy(dict(made.facts))
    place: Any = facts
    for name in path[:-1]:
        place = place[name]
    assert place[path[-1]] != value
    place[path[-1]] = value
    return Card(facts)


def test_a_true_card_agrees_with_the_ledger_and_its_page_with_its_data(clinic) -> None:
    made = card(clinic.release(), about={"window": "2026"})
    assert problems(made, clinic.ledger, made.to_html()) == []
    assert len(check_card(made, clinic.ledger, page=made.to_html())) == 7


def test_a_true_card_still_agrees_after_later_releases(clinic) -> None:
    made = card(clinic.release())
    clinic.release(key="t2")
    assert problems(made, clinic.ledger) == []


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_card_is_found(clinic, change) -> None:
    forged = changed(card(clinic.release()), *CHANGES[change])
    assert problems(forged, clinic.ledger)


def test_a_changed_word_on_the_page_is_found(clinic) -> None:
    made = card(clinic.release())
    page = made.to_html().replace("of 100</b>", "of 10,000</b>")
    assert problems(made, clinic.ledger, page)


def test_a_card_of_another_ledger_is_found(clinic, tmp_path) -> None:
    made = card(clinic.release())
    with ts.Ledger(tmp_path / "other.db") as other:
        assert "another ledger" in problems(made, other)[0]


def test_a_limit_raised_later_no_longer_matches_the_promise(clinic) -> None:
    made = card(clinic.release())
    clinic.account.raise_limit(ts.zcdp(rho=0.9, delta=1e-6), why="more")
    assert problems(made, clinic.ledger) == [
        "the account's limit is now rho 0.9000, delta 1e-06, the card promises rho 0.5000, delta 1e-06"
    ]


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


@pytest.mark.parametrize("value", [None, 10**400, "x", []])
def test_no_value_however_odd_breaks_the_check(clinic, value) -> None:
    made = card(clinic.release())
    for section, held in made.facts.items():
        for name in held if isinstance(held, dict) else ():
            if held[name] != value and (section, name) not in SAID_BY_PEOPLE:
                assert problems(changed(made, (section, name), value), clinic.ledger), (section, name)


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
    assert "the certificate is proved, and about this plan" in [finding.what for finding in findings]
    with pytest.raises(ts.errors.Refused, match="another loss"):
        card(release, certificate=ts.zcdp(rho=0.001, unit="patient").certificate(delta=1e-6))
    told = json.loads(made.to_json())
    told["evidence"]["certificate"]["text"] = proof.text.replace('"delta":1e-06', '"delta":1e-07')
    wrong = [finding.what for finding in check_card(Card(told), clinic.ledger) if not finding.holds]
    assert "the certificate is proved, and about this plan" in wrong
