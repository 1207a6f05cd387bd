"""A card as the record that the public registry of deployments asks for.

The registry is OpenDP's (``opendp/deployments-registry-data``); ``SCHEMA`` says which version of its schema is written.
Its fields are theirs; what goes into their free texts is ours, and nothing is stated that the card does not say.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from tallystick.cards.contents import CHOICES, FIELDS, NOT_STATED
from tallystick.errors import InvalidInput, Remedy
from tallystick.ledger.filters import Amount, Filter
from tallystick.printing import json_text

SCHEMA = "opendp/deployments-registry-data, schemas/deployments-schema.yaml at 3e9c812 (2026-07-15)"
NEEDED = ("curators", "region", "product_type")
_VARIANTS = {"zcdp": "Zero-concentrated DP", "gdp": "Zero-concentrated DP", "rdp": "Renyi DP"}


def registry_record(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a card's facts; refused while a field that only a person can fill is not stated."""
    said = facts["decisions"]
    missing = [name for name in NEEDED if said.get(name, NOT_STATED) == NOT_STATED]
    if not facts["evidence"].get("receipt"):
        raise InvalidInput("card", "a preview", "the card of something that was released")
    if missing:
        examples = {name: CHOICES.get(name, ("...",))[0] for name in missing}
        raise InvalidInput(
            "card",
            f"{', '.join(missing)} not stated",
            "a card made again once the dataset has these answers: the same release with the same key is free",
            code="not_stated",
            remedies=[Remedy("state_decisions", answers=examples, dataset=facts["released"]["dataset"])],
        )
    return {
        "url_slug": _slug(facts),
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": _basic(facts),
            "dp_variant": _variant(facts),
            "privacy_loss": _loss(facts),
            "deployment_model": _model(facts),
            "accounting": _accounting(facts),
            "implementation": _implementation(facts),
            "administrative": _administrative(facts),
        },
    }


def registry_text(facts: Mapping[str, Any]) -> str:
    """The record as the YAML file that the registry keeps, with the version of its schema in a comment."""
    return f"# schema: {SCHEMA}\n" + _yaml(registry_record(facts))


def _answer(facts: Mapping[str, Any], name: str) -> str:
    """Return the answer of a person, or that there is no answer."""
    text = str(facts["decisions"].get(name, NOT_STATED))
    return text.rstrip(".") + "." if text != NOT_STATED else f"Not stated ({FIELDS[name]})."


def _name(facts: Mapping[str, Any]) -> str:
    released = facts["released"]
    title = facts["decisions"].get("title", NOT_STATED)
    by = f" by {', '.join(released['group_by'])}" if released["group_by"] else ""
    return str(title) if title != NOT_STATED else f"{released['dataset']}{by}"


def _slug(facts: Mapping[str, Any]) -> str:
    return re.sub(r"[^a-z0-9]+", "_", f"{_name(facts)} {facts['released']['at'][:4]}".lower()).strip("_")


def _basic(facts: Mapping[str, Any]) -> dict[str, Any]:
    said, released = facts["decisions"], facts["released"]
    columns = ", ".join(measure["name"] for measure in released["measures"])
    if "model" in facts:
        columns = facts["model"]["title"]
    groups = released["groups"]
    how_many = f"{groups['count']:,} public groups" if groups["kind"] == "public" else "groups found privately"
    of = {"total": "one total", "model": "a fitted model"}.get(groups["kind"], how_many)
    return {
        "name": _name(facts),
        "data_curators": [name.strip() for name in said["curators"].split(";") if name.strip()],
        "intended_use": said["purpose"],
        "data_product_type": _chosen(said, "product_type"),
        "data_product_region": said["region"],
        "description": f"{_name(facts)}: {columns} ({of}), of the population {released['population']}.",
        "publication_date": released["at"][:10],
    }


def _chosen(said: Mapping[str, str], name: str) -> str:
    if said[name] not in CHOICES[name]:  # a card made in Python may say anything
        raise InvalidInput(f"card: {name}", said[name], f"one of: {', '.join(CHOICES[name])}")
    return said[name]


def _amounts(facts: Mapping[str, Any]) -> tuple[Amount, Amount]:
    """Return the limit, and what this release was charged."""
    currency = Filter.named(facts["accounting"]["filter_name"])
    limit, price = facts["promise"]["limit_amount"], facts["promise"]["price_amount"]
    return Amount(currency, *limit), Amount(currency, *price)


def _variant(facts: Mapping[str, Any]) -> dict[str, str]:
    limit, _ = _amounts(facts)
    usual = "Approximate DP" if limit.a1 else "Pure DP"
    table = facts["again"]["plan"].get("query", {}).get("table", {})
    columns = ", ".join(f"{name} ({kind})" for name, kind in table.get("columns", ()))
    return {
        "variant_name": _VARIANTS.get(limit.filter.kind, usual),
        "data_domain": f"Every table with the columns {columns}." if columns else "Every table with these columns.",
        "unprotected_quantities": " ".join([_answer(facts, "invariants"), *facts["not_protected"]]),
    }


def _at_least(exact: Fraction) -> float:
    """A number whose decimal text, which is what a reader sees, is not below an exact one."""
    near = float(exact)
    return near if Fraction(repr(near)) >= exact else math.nextafter(near, math.inf)


def _loss(facts: Mapping[str, Any]) -> dict[str, Any]:
    limit, _ = _amounts(facts)
    protected, promise = facts["protected"], facts["promise"]
    kind = limit.filter.kind
    first = {"approx": "epsilon", "rdp": "epsilon", "zcdp": "rho", "gdp": "rho"}[kind]
    # mu-GDP is (mu^2 / 2)-zCDP: the registry has no Gaussian variant
    number = {first: _at_least(limit.first / 2 if kind == "gdp" else limit.first)}
    details = f"{facts['accounting']['filter']}, limit {promise['limit']} for everything ever released (lifetime); "
    details += f"this release was charged {promise['price']}. At delta {promise['delta']} the limit is epsilon "
    details += f"{promise['epsilon']}."
    if kind in ("gdp", "rdp"):
        alpha, curve = promise["tradeoff"]["alpha"][::8], promise["tradeoff"]["limit"][::8]
        points = ", ".join(f"({a:.4g}, {b:.4g})" for a, b in zip(alpha, curve, strict=True))
        details += f" Trade-off curve of the limit, (false accusations, least misses): {points}."
    return {
        "privacy_unit": protected["unit"],
        "privacy_unit_details": (
            f"Adjacent datasets: the data {protected['neighbours']} ({protected['adjacency']}; column "
            f"{protected['unit_column']}). Limits: {protected['counts']}."
        ),
        "privacy_parameters": number | ({"delta": _at_least(limit.delta)} if limit.a1 else {}),
        "privacy_parameters_details": details,
    }


def _model(facts: Mapping[str, Any]) -> dict[str, str]:
    said = facts["decisions"]
    chosen = said.get("release_type", NOT_STATED) != NOT_STATED
    return {
        "model_name": "Central",
        "model_name_details": facts["trust"][0],
        "actors": " ".join(facts["trust"]),
        **({"release_type": _chosen(said, "release_type")} if chosen else {}),
        "release_type_details": (
            f"{_answer(facts, 'refresh')} The account's limit is fixed: what would exceed it is denied before data is "
            f"read. Period of the data: {facts['protected']['window']}."
        ),
        "access_type": "Non-interactive",
        "access_type_details": "The table is published as it is; other tables are paid from the same account.",
    }


def _accounting(facts: Mapping[str, Any]) -> dict[str, str]:
    promise, accounting = facts["promise"], facts["accounting"]
    return {
        "post_processing": "Values and intervals are computed from noisy integers; nothing else is done to them.",
        "composition": (
            f"This release: {promise['price']} (period of the data: {facts['protected']['window']}). Lifetime: "
            f"{facts['protected']['lifetime']}. Releases from the account add up under a {accounting['filter']}: "
            f"{accounting['theorem']}. Within this release: {accounting['plan_privacy']}; split by "
            f"{accounting['split']}."
        ),
    }


def _implementation(facts: Mapping[str, Any]) -> dict[str, str]:
    made = facts["mechanisms"]
    parts = "; ".join(
        f"{part['part']}: {part['noise']} of scale {part['scale']:.6g}, {part['norm']} sensitivity "
        f"{part['sensitivity']:.6g}"
        for part in made["parts"]
    )
    return {
        "preprocessing_and_hyperparameter_tuning": (
            f"{_answer(facts, 'looked_before')} Bounds came from: {made['bounds_from']}. "
            f"Rules: {'; '.join(made['rules'])}."
        ),
        "mechanisms": (
            f"{parts}. Randomness: {made['randomness']}; sums are integers, so no floating-point noise. Timing: "
            f"{_answer(facts, 'timing')} Software: {facts['accounting']['software']}."
        ),
        "justification": (
            f"Why this limit: {_answer(facts, 'limit_reason')} Decided by: {_answer(facts, 'decided_by')} "
            f"Attacks tried: {_answer(facts, 'adversarial_tests')} Looked at again: {_answer(facts, 're_evaluation')}"
        ),
    }


def _administrative(facts: Mapping[str, Any]) -> dict[str, Any]:
    evidence, said = facts["evidence"], facts["decisions"]
    return {
        "sources": f"Privacy card of plan {facts['accounting']['plan_hash']}; contact: {said['contact']}.",
        "notes": (
            f"Ledger {evidence['ledger']}, ledger entry {evidence['charge']}, head {evidence['head']}; to check: "
            f"{evidence['verify']}. Written for {SCHEMA}."
        ),
        "registry_authors": [name.strip() for name in said["curators"].split(";") if name.strip()],
    }


def _yaml(value: Mapping[str, Any] | Sequence[Any], indent: str = "") -> str:
    """Maps, lists of texts, texts and numbers; texts as JSON writes them, which YAML reads too.

    >>> print(_yaml({"a": {"b": ["c"], "d": 1}}), end="")
    a:
      b:
        - "c"
      d: 1
    """
    lines = ""
    for name, each in value.items() if isinstance(value, Mapping) else enumerate(value):
        head = f"{indent}{name}:" if isinstance(value, Mapping) else f"{indent}-"
        nested = isinstance(each, Mapping | list)
        text = f"\n{_yaml(each, indent + '  ')}" if nested else f" {_scalar(each)}\n"
        lines += head + text
    return lines


def _scalar(value: Any) -> str:
    """A text or a number; a number has a point, without which YAML 1.1 takes 1e-6 for a text."""
    text = json_text(json.dumps(value, ensure_ascii=False))
    return re.sub(r"^(-?\d+)e", r"\1.0e", text) if isinstance(value, float) else text
