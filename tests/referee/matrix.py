"""The matrix leaf x transformation x read-out, listed from the code, and what the referee has for each entry."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import tallystick as ts
from referee.asking import READOUTS
from referee.draws import MAKERS, TRANSFORMATIONS
from referee.leaves import LEAVES
from tallystick.cards.meaning import Meaning
from tallystick.ledger.filters import RULES

RETURNS_LOSS = ("PrivacyLoss", ts.PrivacyLoss)


def _makes_loss(function: Any) -> bool:
    return inspect.signature(function).return_annotation in RETURNS_LOSS


def leaves_in_code() -> dict[str, set[str]]:
    """Public constructors and the names of their parameters."""
    found = {}
    for name in ts.__all__:
        value = getattr(ts, name)
        if inspect.isfunction(value) and _makes_loss(value) and not _takes_losses(value):
            found[name] = set(inspect.signature(value).parameters) - {"adjacency", "unit"}
    return found


def _takes_losses(function: Any) -> bool:
    return any(p.annotation in RETURNS_LOSS for p in inspect.signature(function).parameters.values())


def transformations_in_code() -> dict[str, set[str]]:
    """Public ways from losses to a loss, with their parameters; the operators by their names."""
    found = {
        name: set(inspect.signature(method).parameters) - {"self"}
        for name, method in inspect.getmembers(ts.PrivacyLoss, inspect.isfunction)
        if _makes_loss(method)
        and (not name.startswith("_") or name in ("__add__", "__mul__"))
        and name not in ("from_json", "split")  # a share of a budget says nothing about a mechanism
    }
    for name in ts.__all__:
        value = getattr(ts, name)
        if inspect.isfunction(value) and _makes_loss(value) and _takes_losses(value):
            found[name] = set(inspect.signature(value).parameters)
    return found


def readouts_in_code() -> set[str]:
    """Public attributes of a loss and of its variable, the numbers of a card, and the currencies."""
    loss = {name for name in dir(ts.PrivacyLoss) if not name.startswith("_")} - set(transformations_in_code())
    variable = type(ts.no_loss().privacy_loss())
    of_variable = {f"privacy_loss.{name}" for name in dir(variable) if not name.startswith("_")}
    card = {f"meaning.{f.name}" for f in dataclasses.fields(Meaning)} | {
        f"meaning.{name}" for name, value in vars(Meaning).items() if isinstance(value, property)
    }
    return loss | of_variable | card | {f"price.{kind}" for kind in RULES} | {"<=", "calibrate"}


NOT_NUMBERS = {
    "split", "adjacency", "unit", "group", "terms", "to_json", "from_json", "explain_computation", "privacy_loss",
    "protects", "privacy_loss.loss", "privacy_loss.direction", "meaning.plain_sentence", "meaning.to_dict",
    "meaning.delta",
}  # fmt: skip
"""What a loss is about, its text forms, and numbers that were put in rather than computed."""

JUDGED_TOGETHER = {
    "epsilon_bounds": (
        "epsilon_bounds.lower",
        "epsilon_bounds.upper",
        "epsilon_bounds_rigorous.lower",
        "epsilon_bounds_rigorous.upper",
    ),
    "delta_bounds": (
        "delta_bounds.lower",
        "delta_bounds.upper",
        "delta_bounds_rigorous.lower",
        "delta_bounds_rigorous.upper",
    ),
    "delta": ("delta", "delta.directed"),
    "meaning.hit": ("meaning.false_alarm",),
    "meaning.exceptions": ("meaning.beliefs",),
}
"""Read-outs that several judges share, or that one judge covers."""

CELLS = (
    "epsilon", "delta", "epsilon_bounds.lower", "epsilon_bounds.upper", "delta_bounds.lower", "delta_bounds.upper",
    "epsilon_bounds_rigorous.lower", "epsilon_bounds_rigorous.upper", "delta_bounds_rigorous.lower",
    "delta_bounds_rigorous.upper", "certificate", "tradeoff", "power", "renyi", "kl", "total_variation", "posterior",
    "gdp_bound", "privacy_loss.cdf", "privacy_loss.quantile", "privacy_loss.mean", "privacy_loss.variance",
    "privacy_loss.characteristic_function", "<=", "calibrate", "price.zcdp", "price.approx", "price.gdp", "price.rdp",
    "meaning.epsilon", "meaning.false_alarm", "meaning.guess_accuracy", "meaning.hit_rates", "meaning.beliefs",
    "meaning.odds_factor", "delta.directed", "bayes_risk",
)  # fmt: skip

DRAWN_AS = {
    "__add__": ("plus", "nested"),
    "__mul__": ("times",),
    "sampled": ("sampled", "truncated"),
    "subset": ("subset", "replacement"),
    "propose_test_release": ("tested",),
    "allocated": ("allocated",),
    "for_groups": ("for_groups",),
    "as_replace": ("as_replace",),
    "worst": ("worst",),
    "selected": ("selected",),
}
"""Which draws stand for which transformation of the code."""

PARAMETERS = {
    "__add__": {"other"},
    "__mul__": {"times"},
    "sampled": {"rate", "largest", "population", "cut"},
    "subset": {"batch", "population", "replacement"},
    "propose_test_release": {"release", "scale", "delta"},
    "allocated": {"steps"},
    "for_groups": {"k"},
    "as_replace": set(),
    "worst": {"losses"},
    "selected": {"loss", "eta", "gamma", "poisson"},
}

REFUSABLE = {
    "delta.directed": "InvalidInput: groups and replaced units have no direction",
    "price.zcdp": "Refused: no finite rho",
    "price.approx": "Refused: no finite epsilon",
    "price.gdp": "Refused: no Gaussian curve dominates",
    "price.rdp": "Refused: infinite divergence",
    "calibrate": "Refused or InvalidInput: no parameter meets the goal",
    "epsilon_bounds_rigorous.lower": "NotComputable: no rigorous route",
    "epsilon_bounds_rigorous.upper": "NotComputable: no rigorous route",
    "delta_bounds_rigorous.lower": "NotComputable: no rigorous route",
    "delta_bounds_rigorous.upper": "NotComputable: no rigorous route",
    "certificate": "NotComputable: not covered by the checker",
}
"""Read-outs for which a typed refusal is an answer: it counts towards the thirty."""

LAW_UNKNOWN = "the law of L is not defined: only a Renyi curve is known"
GROUP_LAW = "the law of L is not defined for groups"
REPLACED_HULL = "the law of L is not defined: two orders, one hull"


def impossible(leaf: str, transformation: str, readout: str) -> str | None:
    """Why a cell is empty, or None.  An empty cell must refuse, or its answer is a bound and is judged elsewhere."""
    if readout.startswith("privacy_loss."):
        if transformation == "for_groups":
            return GROUP_LAW
        if leaf in ("zcdp", "renyi_dp"):
            return LAW_UNKNOWN
        if transformation in (
            "subset",
            "worst",
            "allocated",
            "nested",
            "as_replace",
            "truncated",
            "selected",
            "replacement",
            "tested",
        ):
            return REPLACED_HULL
        if leaf in (
            "exponential",
            "from_tradeoff",
            "from_profile",
            "objective_perturbation",
            "sparse_vector",
            "last_iterate",
            "shift_walk",
            "correlated",
        ):
            return REPLACED_HULL
        if readout == "privacy_loss.characteristic_function" and leaf in ("discrete_gaussian",):
            return "estimated by moments and cdf"
    return None


def cells() -> Iterator[tuple[str, str, str]]:
    for leaf in MAKERS:
        for transformation in TRANSFORMATIONS:
            for readout in CELLS:
                yield leaf, transformation, readout


__all__ = ["LEAVES", "READOUTS", "cells", "impossible"]
