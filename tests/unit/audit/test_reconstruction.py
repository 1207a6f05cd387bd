"""Reconstruction against its theorems: the bounds hold for the worst answers, and noise above sqrt(n) stops it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from pace import Clock
from tallystick.audit import reconstruction as r
from tallystick.audit.everyday import differencing, linkage, swapped, uniqueness
from tallystick.errors import InvalidInput, NotComputable


@pytest.mark.parametrize("people", [5, 9, 14])
@pytest.mark.parametrize("error", [0.0, 1.0, 2.0])
def test_exhaustive_reconstruction_is_wrong_in_at_most_four_errors(people: int, error: float) -> None:
    rng = np.random.default_rng(people)
    subsets = r.every_subset(people)
    for kind in ("uniform", "towards another"):
        bits = rng.random(people) < 0.5
        truth = r.SubsetSums(bits).ask(subsets)
        if kind == "uniform":
            answers = truth + rng.uniform(-error, error, size=truth.size)
        else:  # the worst: answers in the middle between two databases, where they are that near
            other = bits.copy()
            other[: int(2 * error)] ^= True
            answers = (truth + r.SubsetSums(other).ask(subsets)) / 2
            answers = np.clip(answers, truth - error, truth + error)
        found = r.exhaustive(answers, error=error + 1e-9)
        assert np.abs(r.SubsetSums(found).ask(subsets) - answers).max() <= error + 1e-6
        assert int((found != bits).sum()) <= r.wrong_entries_exhaustive(error=error)


def test_exhaustive_finds_what_listing_all_databases_finds() -> None:
    rng = np.random.default_rng(1)
    subsets = r.every_subset(6)
    for _ in range(20):
        bits = rng.random(6) < 0.5
        answers = r.SubsetSums(bits).ask(subsets) + rng.uniform(-1.4, 1.4, size=64)
        fits = [c for c in itertools.product([0, 1], repeat=6) if np.abs(subsets @ np.array(c) - answers).max() <= 1.4]
        assert tuple(r.exhaustive(answers, error=1.4).astype(int).tolist()) in fits


def test_exhaustive_refuses_answers_that_no_database_fits() -> None:
    answers = r.SubsetSums([1, 0, 1]).ask(r.every_subset(3))
    answers[7] += 5
    with pytest.raises(InvalidInput, match="error"):
        r.exhaustive(answers, error=0.5)
    with pytest.raises(InvalidInput, match="answers"):
        r.exhaustive(np.zeros(7), error=1)


@pytest.mark.parametrize(("noise", "share"), [(0.1, 1.00), (0.3, 0.93), (0.5, 0.83), (1.0, 0.67)])
def test_least_squares_matches_the_oracle(noise: float, share: float) -> None:
    # n = 512, 2,048 subsets, Gaussian noise of c sqrt(n)
    found = r.success_by_noise(512, noises=[noise * math.sqrt(512)], queries=2048, rng=np.random.default_rng(3))
    assert found[0] == pytest.approx(share, abs=0.06)


def test_linear_programming_withstands_a_few_lies_that_least_squares_does_not() -> None:
    rng = np.random.default_rng(4)
    bits = rng.random(64) < 0.5
    subsets = r.random_subsets(320, people=64, rng=rng)
    answers = r.SubsetSums(bits).ask(subsets) + rng.normal(scale=0.3, size=320)
    lies = rng.random(320) < 0.15
    answers[lies] += rng.choice([-200.0, 200.0], size=int(lies.sum()))
    assert (r.reconstruct(subsets, answers, method="linear_programme") == bits).mean() > 0.95
    assert (r.reconstruct(subsets, answers) == bits).mean() < 0.9


def test_hadamard_queries_are_wrong_in_at_most_four_times_the_squared_error() -> None:
    rng = np.random.default_rng(5)
    queries = r.hadamard_queries(256).astype(float)
    for error in (0.5, 2.0, 4.0):
        bits = rng.random(256) < 0.5
        for _ in range(20):
            noise = rng.choice([-error, error], size=256)
            found = r.hadamard_reconstruct(queries @ bits + noise)
            assert int((found != bits).sum()) <= r.wrong_entries_hadamard(error=error)
        # adversarial: all of the error spent on a few people
        shift = np.zeros(256)
        shift[: int(error**2)] = np.where(bits[: int(error**2)], -1.0, 1.0)
        worst = np.clip(queries @ shift, -error, error)
        found = r.hadamard_reconstruct(queries @ bits + worst)
        assert int((found != bits).sum()) <= r.wrong_entries_hadamard(error=error)


def test_our_noise_stops_the_attack_that_exact_answers_do_not() -> None:
    rng = np.random.default_rng(6)
    bits = rng.random(128) < 0.5
    subsets = r.random_subsets(512, people=128, rng=rng)
    exact = r.blatantly_non_private(r.reconstruct(subsets, r.SubsetSums(bits).ask(subsets)), bits)
    assert exact.blatant
    each = ts.noise.add_discrete_gaussian(sigma=math.sqrt(512))  # 512 answers of 1-GDP in all
    noisy = r.SubsetSums(bits, lambda x: float(each.release(int(x)))).ask(subsets)
    found = r.blatantly_non_private(r.reconstruct(subsets, noisy), bits)
    assert not found.blatant
    assert found.share < 0.75


def test_theorem_2_2_and_the_frontier() -> None:
    assert r.wrong_entries_polynomial(error=3, advantage=0.25) == (2 * 3 / 0.25) ** 2
    assert r.wrong_entries_hadamard(error=3, differences=True) == 144
    edge = r.queries_at_frontier(people=400, epsilon=2, mu=0.5)
    assert math.sqrt(2) * edge.pure / 2 == pytest.approx(math.sqrt(400))
    assert math.sqrt(edge.gaussian) / 0.5 == pytest.approx(math.sqrt(400))


def test_a_share_is_blatant_only_above_the_baseline() -> None:
    found = r.blatantly_non_private([0] * 95 + [1] * 5, [0] * 100, fraction=0.9)
    assert found.baseline == 1.0
    assert not found.blatant


def test_differencing_finds_a_person_without_noise_and_not_beyond_the_ceiling_with_it() -> None:
    rng = np.random.default_rng(7)
    assert differencing(sum, others=[0, 1, 1], repeats=100, rng=rng).rate == 1.0
    for epsilon in (0.5, 2.0):
        counts = ts.noise.add_discrete_laplace(epsilon=epsilon)
        found = differencing(
            lambda data, counts=counts: counts.release(sum(data)),
            others=[1] * 20,
            repeats=1500,
            claim=ts.pure_dp(epsilon=epsilon),
            rng=rng,
        )
        assert found.ceiling == pytest.approx(math.exp(epsilon) / (1 + math.exp(epsilon)), rel=1e-6)
        assert found.lower <= found.ceiling
        assert found.rate > 0.5


def test_linkage_needs_agreement_with_exactly_one_person() -> None:
    released = [{"a": 1, "b": 5.0}, {"a": 1, "b": 5.0}, {"a": 2, "b": None}, {"a": 9, "b": 1.0}]
    public = [{"a": 1, "b": 5.1}, {"a": 2, "b": 3.0}, {"a": 3, "b": 1.0}]
    found = linkage(released, public, on=["a", "b"], tolerance={"b": 0.5}, same=lambda i, j: i == 2 and j == 1)
    assert found.matches == ((2, 1),)
    assert (found.share, found.precision) == (0.25, 1.0)
    with pytest.raises(InvalidInput, match="on"):
        linkage(released, public, on=[])


def test_few_features_single_people_out() -> None:
    rows = [{"zip": i % 50, "day": i % 73, "sex": i % 2} for i in range(400)]
    assert uniqueness(rows, ["sex"]).unique == 0.0
    assert uniqueness(rows, ["zip", "day", "sex"]).unique > 0.9


def test_swapping_keeps_totals_and_is_falsified_at_any_epsilon() -> None:
    towns = [{"town": t, "ill": i % 2} for i, t in enumerate("aabbccdd")]
    again = swapped(towns, column="town", share=0.5, rng=np.random.default_rng(8))
    assert sorted(row["town"] for row in again) == sorted(row["town"] for row in towns)
    rng = np.random.default_rng(9)

    def release(rows: list[dict[str, object]]) -> int:
        return sum(row["town"] == "a" for row in swapped(rows, column="town", share=0.5, rng=rng))

    found = ts.audit.mechanism(
        release, neighbours=(towns, [*towns, {"town": "a", "ill": 1}]), claim=ts.pure_dp(epsilon=3), draws=1000
    )
    assert found.falsified


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: r.SubsetSums([0, 2]), "bits"),
        (lambda: r.SubsetSums([0, 1]).ask([[1, 0, 1]]), "subsets"),
        (lambda: r.every_subset(21), "people"),
        (lambda: r.reconstruct([[1, 0]], [1.0, 2.0]), "answers"),
        (lambda: r.reconstruct([[1, 0]], [math.nan]), "answers"),
        (lambda: r.reconstruct([[1, 0]], [10**400]), "answers"),
        (lambda: r.reconstruct([[1, 0]], [1.0], method="guess"), "method"),
        (lambda: r.hadamard_queries(12), "people"),
        (lambda: r.blatantly_non_private([1], [1, 0]), "guess"),
        (lambda: r.wrong_entries_polynomial(error=1, advantage=0), "advantage"),
    ],
)
def test_bad_input_is_named(call: object, argument: str) -> None:
    with pytest.raises((InvalidInput, NotComputable)) as refused:
        call()  # type: ignore[operator]
    assert refused.value.argument == argument


def test_linking_large_tables_is_quick_and_the_same() -> None:
    """Found from outside: every row was compared with every person."""
    rng = np.random.default_rng(0)
    drawn = zip(rng.integers(300, size=3000).tolist(), rng.integers(90, size=3000).tolist(), strict=True)
    people: list[dict[str, Any]] = [{"zip": place, "age": float(age)} for place, age in drawn]
    rows: list[dict[str, Any]] = [{**person, "age": person["age"] + float(rng.integers(-2, 3))} for person in people]
    rows[5]["age"] = None
    clock = Clock()
    found = linkage(rows, people, on=["zip", "age"], tolerance={"age": 2})
    assert clock.seconds < 2.0

    def near(row: dict[str, Any], person: dict[str, Any]) -> bool:
        return row["zip"] == person["zip"] and (row["age"] is None or abs(row["age"] - person["age"]) <= 2)

    alone = []
    for i in range(60):
        who = [person for person in people if near(rows[i], person)]
        if len(who) == 1 and sum(near(row, who[0]) for row in rows) == 1:
            alone.append(i)
    assert [i for i, _ in found.matches if i < 60] == alone


def test_columns_that_nobody_has_are_refused() -> None:
    with pytest.raises(InvalidInput, match="'b'"):
        uniqueness([{"a": 1}, {"a": 2}], ["b"])
    with pytest.raises(InvalidInput, match="'a'"):
        linkage([{"b": 1}], [{"a": 1}], on=["a"])
    with pytest.raises(InvalidInput, match="tolerance"):
        linkage([{"a": 1}], [{"a": 1}], on=["a"], tolerance={"a": -1})
    with pytest.raises(InvalidInput, match="numbers"):
        linkage([{"a": "x"}], [{"a": "y"}], on=["a"], tolerance={"a": 1})


def test_queries_of_bits_do_not_wrap() -> None:
    bits = np.random.default_rng(0).random(256) < 0.9
    answers = r.hadamard_queries(256) @ bits
    assert (r.hadamard_reconstruct(answers) == bits).all()
