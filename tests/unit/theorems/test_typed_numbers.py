"""No number in a record is only typed: a live text computes it, or this file recomputes it in the digits shown."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist

import pytest
from scipy.integrate import quad

import tallystick as ts
from tallystick.theorems import Statement, all_statements

NUMBER = re.compile(r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3})+\.\d+|\d+\.\d+|\.\d+|\d+(?:\.\d+)?e-?\d+)(?![\w]|\.\d)")
NAMED = re.compile(
    r"(?:theorem|theorems|proposition|propositions|remark|remarks|lemma|section|example|corollary|definition|question)"
    r" \d+\.\d+(?:\.\d+)?(?: (?:and|against theorem) \d+\.\d+)?",
    re.IGNORECASE,
)
PHI = NormalDist().cdf
E = math.e

CONSTANTS: dict[str, set[str]] = {
    "example 7.1": {"4.01"},  # a price in the story
    "remark 8.4": {"-0.5", "0.4", "0.49"},  # exponents of the numbers of blocks
    "theorem 9.3": {"1.32", "1.25"},  # constants of the two theorems
    "theorem 13.5": {".56"},  # the constant of Berry and Esseen
    "example 13.7": {".2"},
    "remark 14.4": {".5"},
}
"""Numbers of a record that are given and not computed: arguments and constants of a formula."""


def gaussian_delta(epsilon: float) -> float:
    """delta of N(1, 1) against N(0, 1)."""
    return PHI(0.5 - epsilon) - math.exp(epsilon) * PHI(-0.5 - epsilon)


def third_moment(centre: float) -> float:
    """E |mu Z - mu^2/2 + centre|^3 for mu = 1/2: centre is kl, or -kl as printed."""
    mu = 0.5

    def density(z: float) -> float:
        return abs(mu * z - mu * mu / 2 + centre) ** 3 * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

    return quad(density, -12, 12, limit=200)[0]


def proof_line(sign: float) -> float:
    """The second line of the proof of Proposition 12.2, order 2 and mu = 1, with either sign."""

    def density(x: float) -> float:
        return math.exp(-x * x - sign * (x - 1) ** 2 / 2) / math.sqrt(2 * math.pi)

    return math.log(quad(density, -30, 30)[0])


def subset_delta(hull: bool) -> float:
    """100 steps, rate 0.1, sigma 0.8, epsilon 2: the hull in each step, or the maximum after composition."""
    if hull:
        return (100 * ts.gaussian(sigma=0.8, adjacency="replace").subset(batch=1, population=10)).delta(epsilon=2)
    return (100 * ts.gaussian(sigma=0.8).sampled(rate=0.1)).delta(epsilon=2)


ABSOLUTE_THIRD = 2 * math.sqrt(2 / math.pi)
EXPONENT = 0.4 * (1 / 3 + 0.1 - 1) - 0.3  # k = n^0.4 blocks, eta = 0.1: k^(1/3 + eta - 1) (k/n)^(1/2)
COMPUTED: dict[str, dict[str, Callable[[], float]]] = {
    "remark 1.3": {"-0.527": lambda: EXPONENT},
    "definition 8.1": {"1.6e-4": lambda: ABSOLUTE_THIRD / 10**4, "1.60": lambda: ABSOLUTE_THIRD},
    "remark 8.4": {"-0.5267": lambda: EXPONENT, "-0.57": lambda: 0.4 * (-1 - 1 / 3 - 0.1)},
    "proposition 12.2": {"-.883": lambda: proof_line(1), "1.000": lambda: proof_line(-1)},
    "section 13.1": {
        ".7028": lambda: math.exp(-0.5) * (0.5 - 1 + 0.01) + 1,
        ".8197": lambda: math.exp(-1) * (0.5 - 1 + 0.01) + 1,
    },
    "example 13.7": {
        ".10": lambda: 0.2 / 2,
        ".20": lambda: max(1 - a / 10 - max(0.0, 0.8 - a / 10) for a in range(11)),
    },
    "proposition 13.9": {"1.607": lambda: 1 + math.exp(-0.5), ".2384": lambda: gaussian_delta(0.5)},
    "section 13.9": {".2758": lambda: third_moment(-1 / 8), ".1995": lambda: third_moment(1 / 8)},
    "lemma 14": {"2.718": lambda: E},
    "lemma 15": {".500": lambda: PHI(0.0), ".159": lambda: 1 - PHI(1.0)},
    "remark 14.4": {
        ".1756": lambda: 1 - math.exp(0.5) + math.exp(0.5) * PHI(0.0),
        ".2384": lambda: gaussian_delta(0.5),
    },
    "section 14.5": {".206": lambda: subset_delta(hull=False), ".340": lambda: subset_delta(hull=True)},
    "theorem 14.3": {".05": lambda: 0.1 * 0.5},
    "003 gaussian": {
        ".0564": lambda: 1 / math.sqrt(2 * math.pi * 50),
        ".0080": lambda: 1 / (math.sqrt(2 * math.pi) * 50),
    },
    "003 tv": {".81": lambda: 100 * 0.09**2, ".413": lambda: 0.09 * math.sqrt(2 * 100 * math.log(1 / 0.9))},
}


def numbers(text: str) -> list[str]:
    return NUMBER.findall(NAMED.sub("", text))


def typed_and_given(live: str) -> tuple[list[str], set[float]]:
    """The numbers beside the braces of a live text, and every number inside of them."""
    tree = ast.parse(f"f{live!r}", mode="eval").body
    pieces = tree.values if isinstance(tree, ast.JoinedStr) else [tree]
    beside = [piece.value for piece in pieces if isinstance(piece, ast.Constant)]
    inside = [node for piece in pieces if isinstance(piece, ast.FormattedValue) for node in ast.walk(piece.value)]
    given = {float(node.value) for node in inside if isinstance(node, ast.Constant) and _is_number(node.value)}
    typed = [number for text in beside for number in numbers(text)]
    return typed, given


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def untied(record: Statement) -> list[str]:
    """Numbers of a record that are neither given, nor computed in its live text, nor recomputed here."""
    typed, given = typed_and_given(record.text) if record.text else ([], set())
    left = [number for number in typed if not any(math.isclose(abs(float(number)), abs(each)) for each in given)]
    written = " ".join(filter(None, (record.title, record.statement, record.asks_nothing, record.erratum)))
    known = CONSTANTS.get(record.number, set()) | set(COMPUTED.get(record.number, {}))
    return [number for number in [*left, *numbers(written)] if number not in known]


@pytest.mark.parametrize("record", all_statements(), ids=lambda record: record.number)
def test_every_number_of_a_record_is_given_or_computed(record: Statement) -> None:
    assert untied(record) == []


@pytest.mark.parametrize(("number", "shown"), [(n, shown) for n, each in COMPUTED.items() for shown in each])
def test_a_number_that_a_record_shows_is_what_is_computed_in_these_digits(number: str, shown: str) -> None:
    record = next(one for one in all_statements() if one.number == number)
    text = " ".join(filter(None, (record.statement, record.asks_nothing, record.erratum)))
    assert shown in numbers(text)
    mantissa, _, exponent = shown.partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    assert abs(COMPUTED[number][shown]() - float(shown)) <= 0.5 * 10.0**-digits * (1 + 1e-9)


def test_a_number_that_is_only_typed_is_found() -> None:
    """The record of the central limit theorem had 2.3817 typed; the enclosure is [2.38159692135, 2.38159692150]."""
    record = next(one for one in all_statements() if one.number == "theorem 13.6")
    typed = record.text.split("truth ")[0] + "truth 2.3817"
    assert untied(Statement("theorem 13.6", "", "", "", "", text=typed)) == ["2.3817"]
    assert record.live().endswith("truth 2.3816")
    steps = 14062 * ts.gaussian(sigma=1.1).sampled(rate=256 / 60000)
    bounds = steps.epsilon_bounds(delta=1e-5)
    assert 2.3815969213 < bounds.lower <= bounds.upper < 2.3815969216


@pytest.mark.parametrize("page", ["docs/theory/clt.md", "src/tallystick/theorems/clt.py"])
def test_pages_show_the_truth_of_the_sampled_steps_as_it_is_computed(page: str) -> None:
    text = (Path(__file__).resolve().parents[3] / page).read_text(encoding="utf-8")
    assert set(re.findall(r"truth is (\d\.\d+)", text)) == {"2.3816"}
