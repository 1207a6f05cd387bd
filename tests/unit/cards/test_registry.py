"""A card as a record of the public registry: its fields and answers, and nothing that the card does not say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tallystick as ts
from tallystick.cards import card
from tallystick.cards.contents import CHOICES, FIELDS, check_answers
from tallystick.cards.registry import SCHEMA, registry_record, registry_text
from tallystick.cli.app import run
from tallystick.errors import InvalidInput

ABOUT = {
    "title": "Visits to the clinic",
    "curators": "Clinic of the town; County office",
    "region": "Spain",
    "product_type": "Summary statistics",
    "invariants": "none",
    "release_type": "Many releases",
    "refresh": "every year, with a new budget",
    "looked_before": "nobody looked",
    "timing": "results are published by hand",
    "adversarial_tests": "tallystick audit table on made-up neighbours",
    "re_evaluation": "2027-01-31",
    "window": "2026",
    "decided_by": "the board",
}

# The registry's own fields and answers, as its schema lists them at the version that is written.
SECTIONS = {
    "basic": {"name", "data_curators", "intended_use", "data_product_type", "data_product_region", "description",
              "publication_date", "data_product_sector"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"},
    "deployment_model": {"model_name", "model_name_details", "actors", "release_type", "release_type_details",
                         "data_source_type", "data_source_type_details", "access_type", "access_type_details"},
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "notes", "registry_authors"},
}  # fmt: skip
NEEDED = SECTIONS["basic"] - {"data_product_sector"}


@pytest.fixture
def made(clinic):
    return card(clinic.release(), about=ABOUT)


def test_the_record_has_the_registrys_fields_and_answers(made):
    record = registry_record(made.facts)
    assert set(record) == {"url_slug", "status", "tier", "deployment"}
    assert (record["status"], record["tier"]) == ("Draft", 3)
    deployment = record["deployment"]
    assert set(deployment) == set(SECTIONS)
    for name, fields in SECTIONS.items():
        assert set(deployment[name]) <= fields, name
    assert set(deployment["basic"]) >= NEEDED
    assert deployment["basic"]["data_curators"] == ["Clinic of the town", "County office"]
    assert deployment["basic"]["publication_date"] == made.facts["released"]["at"][:10]
    assert deployment["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"rho": 0.5, "delta": 1e-6}
    assert "with and without all rows of one patient" in deployment["privacy_loss"]["privacy_unit_details"]
    assert record["url_slug"].startswith("visits_to_the_clinic_20")


def test_composition_states_this_release_and_the_lifetime(made):
    composition = registry_record(made.facts)["deployment"]["accounting"]["composition"]
    assert "This release: rho 0.05 (period of the data: 2026)" in composition
    assert "Lifetime: the account patients-2026" in composition
    assert "rho 0.5, delta 1e-6" in composition
    assert "filter" in composition


@pytest.mark.parametrize(
    ("budget", "variant", "numbers"),
    [
        (ts.gdp(mu=1), "Zero-concentrated DP", {"rho": 0.5}),
        (ts.approx_dp(epsilon=1, delta=1e-6), "Approximate DP", {"epsilon": 1.0, "delta": 1e-6}),
        (ts.pure_dp(epsilon=1), "Pure DP", {"epsilon": 1.0}),
    ],
)
def test_every_currency_has_a_variant_and_a_curve_where_the_registry_has_none(clinic, budget, variant, numbers):
    clinic.account = clinic.ledger.open("others", budget=budget, unit="patient")
    price = {"rho": 0.001} if variant.startswith("Zero") else {"epsilon": 0.5}
    asked = clinic.table().group_by("ward", keys=["north"]).agg(n=ts.count())
    record = registry_record(card(asked.plan(**price).release(why="report"), about=ABOUT).facts)["deployment"]
    assert record["dp_variant"]["variant_name"] == variant
    assert record["privacy_loss"]["privacy_parameters"] == pytest.approx(numbers)
    assert ("Trade-off curve" in record["privacy_loss"]["privacy_parameters_details"]) == (budget == ts.gdp(mu=1))


def test_the_text_is_yaml_with_its_schema_and_json_inside(made):
    text = registry_text(made.facts)
    assert text.startswith(f"# schema: {SCHEMA}\n")
    for line in text.splitlines()[1:]:
        _name, colon, value = line.strip().removeprefix("- ").partition(": ")
        assert not colon or line.strip().startswith("- ") or isinstance(json.loads(value), str | int | float), line


def test_a_field_that_only_a_person_can_fill_is_asked_for_and_kept(clinic):
    without = card(clinic.release(), about={name: text for name, text in ABOUT.items() if name != "region"})
    with pytest.raises(InvalidInput, match=r"about=\{"):
        registry_record(without.facts)
    check_answers(ABOUT)
    with pytest.raises(InvalidInput, match="Summary statistics"):
        check_answers({"product_type": "Summary"})
    with pytest.raises(InvalidInput, match=r"region \(did you mean this\?\)"):
        check_answers({"regoin": "Spain"})
    assert set(CHOICES) <= set(FIELDS)


def test_the_card_shows_the_same_fields(made, clinic):
    from tallystick.cards import check_card

    page = made.to_html()
    assert "<h1>Visits to the clinic</h1>" in page
    for name in ("curators", "region", "refresh", "looked_before", "timing", "re_evaluation"):
        assert ABOUT[name].split(";")[0] in page
    assert "<b>Not stated:</b> reason for the limit, contact." in page
    assert all(finding.holds for finding in check_card(made, clinic.ledger, page=page))


def test_the_shell_writes_it_once(made, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    made.save("card.html")
    assert run(["card", "export", "card.html", "--to", "registry", "--out", "record.yaml"]) == 0
    assert SCHEMA in capsys.readouterr().out
    assert Path("record.yaml").read_text() == registry_text(made.facts)
    assert run(["card", "export", "card.html", "--out", "record.yaml"]) == 2
    assert run(["card", "export", "card.html", "--to", "nobody", "--out", "other.yaml"]) == 2
