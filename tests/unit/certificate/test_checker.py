"""The checker proves what the accountant writes, and rejects what is not proved, not meant or not affordable."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from pace import Clock
from sweeps import share
from tallystick.accounting import certificate as writer
from tallystick.accounting.certificate import Certificate
from tallystick.accounting.expression import read_loss
from tallystick.certificate import checker

flint = pytest.importorskip("flint")
FILE = Path(checker.__file__)
LOSSES = {
    "a Gaussian": (ts.gaussian(sigma=1), 1e-5),
    "W10": (50 * ts.gaussian(sigma=0.3), 1e-5),
    "W8": (1000 * ts.randomized_response(epsilon=0.1), 1e-6),
    "three choices": (20 * ts.randomized_response(epsilon=0.5, choices=3), 1e-4),
    "sampled Gaussian": (ts.gaussian(sigma=1).sampled(rate=0.01), 1e-6),
    "two sampled Gaussians": (2 * ts.gaussian(sigma=1).sampled(rate=0.1), 1e-5),
    "sampled answers": (100 * ts.pure_dp(epsilon=1).sampled(rate=0.1), 1e-5),
    "Laplace": (30 * ts.laplace(scale=3), 1e-6),
    "bounded range": (3 * ts.exponential(epsilon=1), 1e-4),
    "leaks": (5 * ts.approx_dp(epsilon=0.2, delta=1e-9), 1e-6),
    "different ones": (ts.laplace(scale=1) + 2 * ts.gaussian(sigma=2) + ts.pure_dp(epsilon=0.3), 1e-3),
    "a subset": (3 * ts.gaussian(sigma=1, adjacency="replace").subset(batch=5, population=100), 1e-5),
    "replaced in a sample": (3 * ts.gaussian(sigma=2).sampled(rate=0.1).as_replace(), 1e-5),
    "a cut batch": (2 * ts.gaussian(sigma=2).sampled(rate=0.01, largest=40, population=1000, cut="anyhow"), 1e-5),
    "integers": (4 * ts.discrete_gaussian(sigma=3, sensitivity=2), 1e-6),
    "two-sided geometric": (3 * ts.discrete_laplace(scale=4, sensitivity=3), 1e-4),
    "a loss of a third": (5 * ts.discrete_laplace(scale=3), 1e-5),
    "an odd sensitivity": (5 * ts.discrete_laplace(scale=5, sensitivity=3), 1e-5),
    "a finite pair": (2 * ts.discrete_pair([0.7, 0.2, 0.1], [0.2, 0.5, 0.3]), 1e-2),
    "a group": (ts.gdp(mu=0.5).for_groups(3), 1e-5),
    "the worst of two": (ts.worst(ts.laplace(scale=1), ts.gaussian(sigma=1)), 1e-4),
    "concentrated": (3 * ts.zcdp(rho=0.1) + ts.gaussian(sigma=3), 1e-6),
    "concentrated, with a leak": (ts.zcdp(rho=0.5, delta=1e-8), 1e-6),
    "a Renyi curve": (2 * ts.renyi_dp({2: 0.1, 8: 0.5, 32: 2.5}), 1e-5),
    "a last iterate": (ts.last_iterate(steps=1000, contraction=0.99, sigma=50), 1e-5),
    "a last iterate in a domain": (ts.last_iterate(steps=1000, contraction=1, sigma=50, diameter=3), 1e-5),
    "sampled batches": (2 * ts.shift_walk(tail=4, steps=10, contraction=0.9, sigma=2, diameter=3), 1e-5),
    "nothing": (ts.no_loss(), 1e-5),
}


@pytest.fixture(scope="module")
def proofs() -> Iterator[dict[str, Certificate]]:
    """On coarse lattices, to be quick; the campaign has the fine ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "MOST_SECONDS", 0.3)
        yield {name: loss.certificate(delta=delta) for name, (loss, delta) in LOSSES.items()}


def lowered(proof: Certificate, by: float) -> Certificate:
    body = json.loads(proof.text)
    body["claim"]["epsilon"] -= by
    return Certificate(json.dumps(body))


@pytest.mark.parametrize("name", share(LOSSES, 2))
def test_a_certificate_is_proved_and_a_millionth_less_is_not(proofs: dict[str, Certificate], name: str) -> None:
    proof, (loss, delta) = proofs[name], LOSSES[name]
    assert proof.verify().startswith(f"epsilon {proof.epsilon!r} at delta {delta!r}, {loss.adjacency}")
    if proof.epsilon > 0:
        with pytest.raises(ts.errors.Refused, match="does not prove its claim"):
            lowered(proof, 1e-6).verify()


@pytest.mark.parametrize("name", share(LOSSES, 2))
def test_what_is_proved_is_valid_and_close(proofs: dict[str, Certificate], name: str) -> None:
    loss, delta = LOSSES[name]
    known = loss.epsilon_bounds(delta=delta)
    # Several steps of bounded range have a theorem of their own, and a Gaussian beside a curve more than its curve.
    loose = 1e-2 if name in ("bounded range", "concentrated") else 1e-4
    assert known.lower <= proofs[name].epsilon <= known.upper * (1 + loose) + 1e-9


@pytest.mark.parametrize("name", ["a Gaussian", "two sampled Gaussians", "Laplace", "W8"])
def test_a_delta_can_be_certified_at_an_epsilon(name: str) -> None:
    loss, _ = LOSSES[name]
    proof = loss.certificate(epsilon=1.5)
    known = loss.delta_bounds(epsilon=1.5)
    assert known.lower <= proof.delta <= known.upper * (1 + 1e-4)
    assert proof.epsilon == 1.5
    proof.verify()


# ---- what a stranger would try ----


def changed(proof: Certificate, *path: Any, to: Any) -> str:
    body = json.loads(proof.text)
    place = body
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = to
    return json.dumps(body)


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("loss", "terms", 0, 0, "rate"), 0.101),
        (("loss", "terms", 0, 0, "base", "sigma"), 0.99),
        (("loss", "terms", 0, 1), 3),
        (("claim", "delta"), 9e-6),
    ],
)
def test_another_loss_or_a_bolder_claim_is_not_proved(proofs: dict[str, Certificate], path: Any, to: Any) -> None:
    with pytest.raises(ts.errors.Refused):
        Certificate(changed(proofs["two sampled Gaussians"], *path, to=to)).verify()


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("format",), "tallystick.certificate/2"),
        (("claim", "adjacency"), "replace"),
        (("loss", "adjacency"), "replace"),
        (("claim", "unit"), "patient"),
        (("loss", "group"), 2),
        (("loss", "terms", 0, 0, "kind"), "zcdp"),
        (("route", "remove"), {"by": "order", "bits": 128, "order": 5.0}),
        (("loss", "terms", 0, 0, "comment"), "trust me"),
        (("loss", "terms", 0, 1), -1),
        (("loss", "terms", 0, 1), 2.0),
        (("loss", "terms", 0, 0, "rate"), 1.5),
        (("loss", "terms", 0, 0, "rate"), [0.1]),
        (("loss", "terms", 0, 0, "base", "sigma"), 0),
        (("claim", "epsilon"), -1.0),
        (("claim", "epsilon"), float("nan")),
        (("claim", "epsilon"), "1"),
        (("claim", "delta"), True),
        (("route",), {}),
        (("route", "sideways"), {"by": "formula", "bits": 128}),
        (("route", "remove"), {"by": "formula", "bits": 128}),
        (("route", "remove", "size"), 2**40),
        (("route", "remove", "size"), 1000),
        (("route", "remove", "bits"), 10**9),
        (("route", "remove", "tilt"), -1.0),
        (("route", "remove", "step"), 0.0),
        (("route", "remove", "terms"), []),
        (("route", "remove", "terms"), [[0.0, 0, 10**12, 0]]),
        (("route", "remove", "terms"), [[0.0, 2**19, 2**19, 2**19]] * 400),
        (("route", "remove", "hint"), 1),
    ],
)
def test_what_is_not_meant_or_not_affordable_is_refused_at_once(
    proofs: dict[str, Certificate], path: Any, to: Any
) -> None:
    clock = Clock()
    with pytest.raises(ts.errors.InvalidInput):
        Certificate(changed(proofs["two sampled Gaussians"], *path, to=to)).verify()
    assert clock.seconds < 1.0


def test_subsets_inside_each_other_cost_what_they_are_read() -> None:
    """Each reads its base twice: 1,658 characters kept the checker busy for minutes."""
    base = ts.gaussian(sigma=1, adjacency="replace").subset(batch=999, population=1000)
    body = json.loads((2 * base).certificate(delta=1e-5).text)
    knots = 20_000
    body["route"]["remove"]["terms"][0][2] = knots
    record = body["loss"]["terms"][0][0]
    for _ in range(17):
        record = {"kind": "subset", "base": record, "batch": 999, "population": 1000}
    body["loss"]["terms"][0][0] = record
    clock = Clock()
    with pytest.raises(ts.errors.InvalidInput, match="work of at most"):
        Certificate(json.dumps(body)).verify()
    assert clock.seconds < 1.0


@pytest.mark.parametrize(
    "leaf",
    [
        {"kind": "renyi_dp", "orders": [2.0, 4.0], "epsilons": [0.5]},
        {"kind": "from_tradeoff", "alpha": [0.0, 0.5, 1.0], "beta": [1.0, 0.0]},
        {"kind": "from_profile", "epsilon": [0.5], "delta": [0.1, 0.01]},
        {"kind": "discrete_pair", "p": [0.5, 0.5], "q": [1.0], "both": False},
    ],
)
def test_lists_of_unequal_length_are_refused(leaf: dict[str, Any]) -> None:
    body = json.loads(ts.laplace(scale=1).certificate(delta=1e-5).text)
    body["loss"]["terms"] = [[leaf, 1]]
    with pytest.raises(ts.errors.InvalidInput, match="unequal length"):
        Certificate(json.dumps(body)).verify()


@pytest.mark.parametrize("deltas", [[0.01, 0.1], [0.1, 0.02, 0.02000001]])
def test_a_profile_whose_deltas_increase_with_epsilon_is_refused(deltas: list[float]) -> None:
    """No mechanism has such a profile: a larger epsilon never needs a larger delta."""
    body = json.loads(ts.laplace(scale=1).certificate(delta=1e-5).text)
    epsilons = [0.5 + i for i in range(len(deltas))]
    body["loss"]["terms"] = [[{"kind": "from_profile", "epsilon": epsilons, "delta": deltas}, 1]]
    body["claim"] = {**body["claim"], "epsilon": epsilons[-1], "delta": 0.5}
    body["route"] = {"remove": {"by": "formula", "bits": 128}}
    falling = json.loads(json.dumps(body))
    falling["loss"]["terms"][0][0]["delta"] = sorted(deltas, reverse=True)
    Certificate(json.dumps(falling)).verify()
    with pytest.raises(ts.errors.InvalidInput, match="deltas that increase with epsilon"):
        Certificate(json.dumps(body)).verify()


@pytest.mark.parametrize(
    ("p", "q"), [([0.5, 0.5], [0, 0]), ([0, 0], [0.5, 0.5]), ([1.0, 1.0], [1.0, 1.0]), ([1e-300, 0], [0, 1e-300])]
)
def test_masses_that_are_no_probabilities_prove_nothing(p: list[float], q: list[float]) -> None:
    """A mass of nothing over nothing was neither given away nor counted, and epsilon 0 at delta 0 was proved."""
    with pytest.raises(checker.Malformed, match="sum one"):
        checker.check(_claimed([[{"kind": "discrete_pair", "p": p, "q": q, "both": False}, 1]], both=True))


def test_mechanisms_that_take_long_to_build_are_refused_before_they_are() -> None:
    noise = [[[{"kind": "discrete_gaussian", "sigma": 100.0 + i / 1000, "sensitivity": 1}, 1]] for i in range(1000)]
    walk = {
        "kind": "last_iterate",
        "steps": 10**9,
        "contraction": 0.999,
        "sigma": 1.0,
        "diameter": None,
        "batches": None,
    }
    for terms in ([[{"kind": "worst", "members": noise}, 1]], [[walk, 1]] * 400):
        clock = Clock()
        with pytest.raises(checker.Malformed, match="work of at most"):
            checker.check(_claimed(terms, bits=1024))
        assert clock.seconds < 1.0


def test_the_worst_of_truncated_samples_is_truncated() -> None:
    cut = {"kind": "truncated", "base": {"kind": "gaussian", "sigma": 1.0}, "rate": 0.5, "largest": 1, "population": 10}
    worst = {"kind": "worst", "members": [[[cut, 1]]]}
    with pytest.raises(checker.Malformed, match="truncated sample inside another"):
        checker.check(_claimed([[{"kind": "sampled", "base": worst, "rate": 0.5}, 1]], both=True))


def _claimed(terms: Any, *, bits: int = 128, both: bool = False) -> str:
    """A certificate of epsilon 0 at delta 0, by formula."""
    ways = ["remove", "add"] if both else ["remove"]
    loss = {"format": checker.LOSS, "adjacency": "add_remove", "unit": None, "group": 1, "terms": terms}
    claim = {"epsilon": 0, "delta": 0, "adjacency": "add_remove", "unit": None}
    route = {way: {"by": "formula", "bits": bits} for way in ways}
    return json.dumps({"format": checker.FORMAT, "loss": loss, "claim": claim, "route": route})


def test_a_curve_above_that_of_guessing_is_refused_and_that_of_guessing_is_not() -> None:
    """No test does worse than guessing, so no mechanism has such a curve, and nothing is to be said about it."""
    body = json.loads(ts.from_tradeoff([(0, 1), (0.1, 0.9), (1, 0)]).certificate(delta=0.01).text)
    assert Certificate(json.dumps(body)).verify()
    body["loss"]["terms"] = [[{"kind": "from_tradeoff", "alpha": [0, 0.5, 1], "beta": [1, 0.9, 0]}, 1]]
    with pytest.raises(ts.errors.InvalidInput, match="guessing"):
        Certificate(json.dumps(body)).verify()


def test_a_direction_cannot_be_left_out(proofs: dict[str, Certificate]) -> None:
    body = json.loads(proofs["two sampled Gaussians"].text)
    del body["route"]["add"]
    with pytest.raises(ts.errors.InvalidInput, match="each direction"):
        Certificate(json.dumps(body)).verify()


@pytest.mark.parametrize("text", ["", "[]", "{", "null", '{"format": 1, "format": 1}', "[" * 100_000, " " * 2_000_000])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(ts.errors.InvalidInput):
        Certificate(text).verify()


@pytest.mark.parametrize(("origin", "before", "dense", "after"), [(0.0, 0, 40, 0), (-0.5, 3, 4, 2), (-3.0, 0, 2, 0)])
@pytest.mark.parametrize(("step", "tilt", "size"), [(0.05, 1.0, 64), (0.3, 8.0, 16), (0.01, 0.2, 1024)])
def test_no_parameters_of_a_route_prove_too_much(
    origin: float, before: int, dense: int, after: int, step: float, tilt: float, size: int
) -> None:
    """Truncated anywhere, folded into a period that is far too short, tilted the wrong way: always an upper bound."""
    loss = 3 * ts.laplace(scale=2)
    route = {"step": step, "tilt": tilt, "size": size, "terms": [[origin, before, dense, after]]}
    with flint.ctx.workprec(128):
        law = checker.lattice(checker.terms_of(json.loads(loss.to_json())), "remove", route)
        for epsilon in (0.0, 0.2, 0.7, 1.3):
            assert law.delta(Fraction(epsilon)).upper() >= loss.delta_bounds(epsilon=epsilon).lower * (1 - 1e-12)


# ---- the definitions, against integrals of densities ----


Z = np.linspace(-60.0, 60.0, 1_200_001)


def normal(mean: float, sigma: float) -> Any:
    return np.exp(-0.5 * ((Z - mean) / sigma) ** 2) / (sigma * np.sqrt(2.0 * np.pi))


DENSITIES = {
    "gaussian": (checker.gaussian(flint.arb(2)), normal(1, 2), normal(0, 2)),
    "laplace": (checker.laplace(flint.arb(2)), np.exp(-np.abs(Z - 1) / 2) / 4, np.exp(-np.abs(Z) / 2) / 4),
    "sampled": (
        checker.sampled(checker.gaussian(flint.arb(1)), flint.arb(0.2)),
        0.8 * normal(0, 1) + 0.2 * normal(1, 1),
        normal(0, 1),
    ),
    "replaced in a sample": (
        checker.sampled_replaced(flint.arb(1), flint.arb(0.3)),
        0.7 * normal(0, 1) + 0.3 * normal(1, 1),
        0.7 * normal(0, 1) + 0.3 * normal(-1, 1),
    ),
}


def integrated(p: Any, q: Any, x: float) -> float:
    return float(np.sum(np.maximum(0.0, p - np.exp(x) * q))) * float(Z[1] - Z[0])


@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("x", [-0.7, -0.1, 0.0, 0.15, 0.4])
def test_heights_are_integrals_of_densities(name: str, x: float) -> None:
    mechanism, p, q = DENSITIES[name]
    assert float(mechanism.remove(flint.arb(x))) == pytest.approx(integrated(p, q, x), rel=1e-6, abs=1e-9)
    assert float(mechanism.add(flint.arb(x))) == pytest.approx(integrated(q, p, x), rel=1e-6, abs=1e-9)


# ---- independence ----


def test_the_checker_is_short_and_imports_nothing_of_tallystick() -> None:
    text = FILE.read_text(encoding="utf-8")
    assert sum(bool(line.strip()) for line in text.splitlines()) <= 420
    modules = {
        name.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in node.names
    }
    assert not {str(name) for name in modules if "tallystick" in str(name) or "numpy" in str(name)}


def test_the_one_file_can_be_copied_and_run_alone(tmp_path: Path, proofs: dict[str, Certificate]) -> None:
    alone = tmp_path / "checker.py"
    alone.write_text(FILE.read_text(encoding="utf-8"), encoding="utf-8")
    good, bad = proofs["W8"].write(tmp_path / "good.json"), lowered(proofs["W8"], 1e-6).write(tmp_path / "bad.json")
    said = subprocess.run([sys.executable, "-I", alone, good], capture_output=True, text=True)
    assert (said.returncode, said.stdout[:8]) == (0, "proved: ")
    said = subprocess.run([sys.executable, "-I", alone, bad], capture_output=True, text=True)
    assert said.returncode == 1
    assert said.stderr.startswith("Unproved: remove: delta is only shown to be at most 1.0000017")


def test_a_file_that_is_missing_or_no_text_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "noise.json").write_bytes(b"\xff\xfe\x80")
    for name in ("noise.json", "missing.json"):
        said = subprocess.run([sys.executable, "-I", FILE, tmp_path / name], capture_output=True, text=True)
        assert (said.returncode, said.stderr.count("\n")) == (1, 1)
        assert "Error: " in said.stderr


@pytest.mark.parametrize(
    "loss",
    [
        ts.zcdp(rho=1) + ts.laplace(scale=1),
        ts.zcdp(rho=1).sampled(rate=0.1),
        ts.gaussian(sigma=1).allocated(steps=3),
        (ts.laplace(scale=1) + ts.pure_dp(epsilon=1)).sampled(rate=0.1),
        ts.laplace(scale=1).for_groups(2),
        ts.last_iterate(steps=20, contraction=0.9, sigma=5, batches=ts.cyclic(batches=5)),
        ts.correlated(sigma=3, steps=8, coefficients=[1.0, 0.5]),
        ts.selected(ts.pure_dp(epsilon=1), gamma=0.5),
    ],
)
def test_a_loss_that_the_checker_does_not_know_has_no_certificate(loss: ts.PrivacyLoss) -> None:
    with pytest.raises(ts.errors.NotComputable, match="no certificate"):
        loss.certificate(delta=1e-3)


@pytest.mark.parametrize("asked", [{}, {"delta": 0.1, "epsilon": 1.0}, {"delta": 2.0}, {"epsilon": -1.0}])
def test_one_of_the_two_must_be_given(asked: dict[str, float]) -> None:
    with pytest.raises(ts.errors.InvalidInput):
        ts.gaussian(sigma=1).certificate(**asked)


def test_where_no_epsilon_is_enough_there_is_nothing_to_certify() -> None:
    with pytest.raises(ts.errors.NotComputable, match="no epsilon is enough"):
        ts.gaussian(sigma=1).certificate(delta=0.0)


def test_an_epsilon_that_the_checker_does_not_read_is_not_written() -> None:
    """Found by the referee: 5e9 was certified, and the checker called it malformed."""
    with pytest.raises(ts.errors.NotComputable):
        ts.gaussian(sigma=1e-5).certificate(delta=1e-5)
    with pytest.raises(ts.errors.NotComputable, match="step"):
        (4 * ts.pure_dp(epsilon=561538.77)).certificate(delta=1e-9)


@pytest.mark.parametrize("text", ["pure_dp(epsilon=1)", "3 * laplace(scale=1)", "5 * randomized_response(epsilon=1)"])
@pytest.mark.parametrize("delta", [0.0, 1e-280])
def test_pure_losses_have_certificates_at_deltas_beyond_any_precision(text: str, delta: float) -> None:
    loss = read_loss(text)
    proof = loss.certificate(delta=delta)
    proof.verify()
    assert loss.epsilon(delta=0.0) * (1 - 1e-9) <= proof.epsilon <= loss.epsilon(delta=0.0) * (1 + 1e-9)


def test_delta_one_is_refused_by_name() -> None:
    for loss in (ts.gaussian(sigma=1), 2 * ts.gaussian(sigma=1e-4).sampled(rate=0.01)):
        with pytest.raises(ts.errors.InvalidInput, match="below 1"):
            loss.certificate(delta=1.0)


def test_a_walk_that_asks_for_more_is_not_proved() -> None:
    body = json.loads(ts.last_iterate(steps=1000, contraction=0.99, sigma=50).certificate(delta=1e-5).text)
    for name, to in (("contraction", 0.991), ("sigma", 49.9)):
        changed = json.loads(json.dumps(body))
        changed["loss"]["terms"][0][0][name] = to
        with pytest.raises(ts.errors.Refused):
            Certificate(json.dumps(changed)).verify()
    for name, to in (("contraction", 1.5), ("steps", 0), ("diameter", "wide"), ("batches", {"order": "cyclic"})):
        changed = json.loads(json.dumps(body))
        changed["loss"]["terms"][0][0][name] = to
        with pytest.raises(ts.errors.InvalidInput):
            Certificate(json.dumps(changed)).verify()
