"""Limits with the least total error, against counting by hand; and a twin for every claim that it rejects."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tallystick as ts
from tallystick.mechanisms.exact.randomness import SeededSource
from tallystick.mechanisms.noise.gaussian import DiscreteGaussian
from tallystick.publish.least_error import (
    CANDIDATES,
    Choice,
    Crowd,
    Limits,
    Question,
    Sizes,
    TradeOff,
    all_choices,
    trade_off,
)
from tallystick.tables import run
from tallystick.tables.estimates import Noisy
from tallystick.tables.release import Release

Person = Sequence[int]
"""Rows of a person in each of their groups."""


def counted_by_hand(person: Person, choice: Choice) -> Fraction:
    """Rows of a person that count: the mean over all sets of groups that may be kept."""
    groups, in_each, in_all = choice
    sets = list(itertools.combinations(person, min(groups, len(person))))
    totals = [sum(min(rows, in_each) for rows in kept) for kept in sets]
    return Fraction(sum(min(total, math.inf if in_all is None else in_all) for total in totals), len(sets))


def one_person(groups: int, most: int, cells: Any) -> Crowd:
    return Crowd(np.ones(1), np.array([float(groups)]), np.array([float(most)]), cells)


def steep(groups: int, most: int) -> Person:
    return [most] + [1] * (groups - 1)


def flat(groups: int, most: int) -> Person:
    return [most] * groups


SMALL = [Choice(*limits) for limits in itertools.product((1, 2, 4), (1, 2, 3, 6), (None, 4, 6, 9))]
"""Limits on groups, on rows in each and in all; the last may change nothing."""


@pytest.mark.parametrize(("cells", "made"), [("steep", steep), ("flat", flat)])
def test_rows_that_count_are_those_that_are_counted_by_hand(cells: Any, made: Callable[..., Person]) -> None:
    for groups, most, choice in itertools.product((1, 2, 3, 4), (1, 2, 5, 7), SMALL):
        by_hand = counted_by_hand(made(groups, most), choice)
        (found,) = one_person(groups, most, cells).counted(Limits.of([choice]))
        if choice.max_groups >= groups or cells == "flat":
            assert found == pytest.approx(float(by_hand)), (groups, most, choice)
        else:  # the mean of the groups before the limit in all, which is no less than the mean after it
            assert found >= float(by_hand) - 1e-9


def test_even_rows_in_groups_are_the_mean_of_many_groups() -> None:
    for most, limit in itertools.product((1, 2, 5, 40), (1, 2, 3, 10, 100)):
        cells = 1 + (most - 1) * (np.arange(100_000) + 0.5) / 100_000
        (found,) = one_person(3, most, "even").counted(Limits.of([Choice(3, limit, None)]))
        by_hand = min(most, limit) + 2 * np.minimum(cells, limit).mean()
        assert found == pytest.approx(by_hand, rel=1e-4)


def test_no_person_loses_less_than_steep_or_more_than_flat() -> None:
    for groups, most in itertools.product((1, 2, 3), (1, 2, 4)):
        people = [[most, *rest] for rest in itertools.product(range(1, most + 1), repeat=groups - 1)]
        for choice in (choice for choice in SMALL if choice.max_groups >= groups):
            lost = [sum(person) - counted_by_hand(person, choice) for person in people]
            least, highest = (
                float(one_person(groups, most, cells).left_out(Limits.of([choice]))[0]) for cells in ("steep", "flat")
            )
            assert min(lost) == pytest.approx(least)
            assert max(lost) == pytest.approx(highest)


def test_pairing_by_rank_gives_the_most_rows_and_the_most_rows_left_out() -> None:
    """Against all pairings of five people. A twin that pairs the most groups with the fewest rows is not the most."""
    groups, most = [1, 1, 2, 3, 5], [1, 2, 2, 6, 8]
    for choice in (Choice(5, 8, None), Choice(2, 4, None), Choice(5, 6, 12), Choice(3, 8, 8)):
        lost = []
        for order in itertools.permutations(most):
            people = [flat(g, m) for g, m in zip(groups, order, strict=True)]
            lost.append(sum(sum(person) - counted_by_hand(person, choice) for person in people))
        ranked = sum(sum(flat(g, m)) - counted_by_hand(flat(g, m), choice) for g, m in zip(groups, most, strict=True))
        assert ranked == max(lost)
        assert ranked > lost[-1] or choice == Choice(5, 8, None)
    crowd = Crowd.of(sizes_of(groups), sizes_of(most), "flat")
    assert crowd.rows == pytest.approx(sum(g * m for g, m in zip(groups, [1, 2, 2, 6, 7.5], strict=True)))


def test_the_norm_is_that_of_the_caps() -> None:
    choices = all_choices(14)
    for order in (1, 2):
        norms = Limits.of(choices).norms(order)
        for choice, norm in list(zip(choices, norms, strict=True))[::37]:
            assert norm**order == pytest.approx(choice.caps.most_added(order))
    assert {choice.max_groups for choice in choices} == {1, 2, 3, 4, 5, 6, 8, 10, 12, 14}


def sizes_of(values: Sequence[int]) -> Sizes:
    return Sizes.of(histogram(values, 1e-3))


def histogram(values: Sequence[int], sigma: float, seed: int = 0) -> Noisy:
    """The noisy histogram of sizes, as a suggestion releases it."""
    edges = [0.5, *(candidate + 0.5 for candidate in CANDIDATES), 1e18]
    counts = np.histogram(values, edges)[0].astype(np.int64)
    law = DiscreteGaussian(max(sigma, 1e-3))
    noise = law.draw(len(counts), SeededSource(seed)) if sigma > 0.01 else np.zeros(len(counts), dtype=np.int64)
    return Noisy((counts + noise)[None, :], law, 1.0)


def test_without_noise_sizes_are_the_people() -> None:
    sizes = sizes_of([1, 1, 2, 3, 3, 3, 7, 90])
    assert sizes.over[:8].tolist() == [8, 6, 5, 2, 2, 2, 2, 1]
    assert (sizes.people, sizes.largest, sizes.hidden) == (8, 100, pytest.approx(0, abs=0.1))
    assert sizes_of([5_000]).largest == 1_000


def test_people_that_only_noise_shows_are_not_seen() -> None:
    """With 2,000 people of 1 to 4 rows; the twin looks for a sum of bins above zero, and sees people with hundreds."""
    values = np.random.default_rng(1).integers(1, 5, 2_000).tolist()
    drawn = [histogram(values, 10.0, seed) for seed in range(300)]
    seen = [Sizes.of(noisy).largest for noisy in drawn]
    assert np.mean([size > 4 for size in seen]) <= 0.03
    assert np.mean([size < 4 for size in seen]) == 0
    twin = [_seen_above_zero(noisy.table[0]) for noisy in drawn]
    assert np.mean([size > 4 for size in twin]) > 0.3


def _seen_above_zero(counts: Any) -> int:
    over = np.cumsum(counts[::-1])[::-1]
    return CANDIDATES[next((k for k in range(1, len(over)) if over[k] <= 0), len(CANDIDATES)) - 1]


def test_people_whom_the_noise_hides_are_at_most_as_many_as_said() -> None:
    values = [1] * 1_500 + [2] * 300 + [12] * 25
    drawn = [Sizes.of(histogram(values, 12.0, seed)) for seed in range(400)]
    beyond = [sum(value > sizes.largest for value in values) for sizes in drawn]
    held = np.mean([most <= sizes.hidden for sizes, most in zip(drawn, beyond, strict=True)])
    assert max(beyond) >= 25
    assert held >= 0.95
    assert all(sizes.hidden < 400 for sizes in drawn)  # otherwise any number would do


# -- the least error, against a search by hand


def question(half: float = 10.0, groups: int | None = 5, order: int = 2) -> Question:
    return Question("a count", ("ward",), half, order, groups)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("half", [0.5, 10.0, 80.0])
def test_the_best_limits_are_those_of_a_search_by_hand(half: float, order: int) -> None:
    """People have sizes in the middle of bins. The twin leaves out the noise, and finds limits with a larger error."""
    rng = np.random.default_rng(3)
    groups = np.minimum(rng.geometric(0.4, 800), 5).tolist()
    most = rng.choice([1, 2, 3, 4, 5, 6, 14, 18, 23, 28], 800, p=[0.3, 0.2] + [0.1] * 3 + [0.05] * 3 + [0.03, 0.02])
    asked = question(half, order=order)
    found = trade_off(histogram(groups, 0), histogram(most.tolist(), 0), asked)
    people = Counter(zip(sorted(groups), sorted(most.tolist()), strict=True))
    largest = [None, *(size for size in CANDIDATES if size <= 150)]
    grid = itertools.product((1, 2, 3, 4, 5), [size for size in CANDIDATES if size <= 30], largest)
    choices = [Choice(*limits) for limits in grid if limits[2] is None or limits[2] >= max(limits[:2])]
    by_hand = {choice: _error_by_hand(people, choice, asked) for choice in choices}
    least = min(by_hand.values())
    assert found.best.total == pytest.approx(least, rel=1e-4)
    assert by_hand[found.best.limits] == pytest.approx(least, rel=1e-4)
    if half >= 10:
        assert by_hand[Choice(5, 30, None)] > least * 1.05


def _error_by_hand(people: Counter[tuple[int, int]], choice: Choice, asked: Question) -> float:
    """Noise of a count and rows left out of a middle group; half of the people have even groups, half have not."""
    lost = 0.0
    for (groups, most), number in people.items():
        even = 1 + (most - 1) * (np.arange(1_000) + 0.5) / 1_000
        for others in (even, np.ones(1)):
            in_all = math.inf if choice.max_rows is None else choice.max_rows
            counts = min(most, choice.max_rows_per_group)
            counts += (groups - 1) * np.minimum(others, choice.max_rows_per_group).mean()
            kept = min(groups, choice.max_groups) / groups
            lost += number * (most + (groups - 1) * others.mean() - min(kept * counts, in_all)) / 2
    room = choice.max_groups * choice.max_rows_per_group if choice.max_rows is None else choice.max_rows
    rows: list[int] = []
    while len(rows) < choice.max_groups and sum(rows) < room:
        rows.append(min(choice.max_rows_per_group, room - sum(rows)))
    norm = sum(each**asked.order for each in rows) ** (1 / asked.order)
    assert asked.groups is not None
    return float(asked.half * norm + lost / asked.groups)


def test_the_lines_go_from_little_noise_to_few_rows_left_out() -> None:
    rng = np.random.default_rng(4)
    groups, most = rng.integers(1, 6, 2_000).tolist(), rng.geometric(0.1, 2_000).tolist()
    found = trade_off(histogram(groups, 5.0), histogram(most, 5.0), question())
    noise, lost = [line.noise for line in found.lines], [line.left_out for line in found.lines]
    assert noise == sorted(noise)
    assert lost == sorted(lost, reverse=True)
    assert len(found.lines) >= 4
    assert found.best in found.lines
    assert all(found.best.total <= line.total for line in found.lines)
    assert found.left_out[0] <= found.best.left_out <= found.left_out[1]


# -- whole worlds, whose true error is counted row by row


def world(kind: str, rng: np.random.Generator) -> tuple[list[Any], int]:
    """Rows of each person in each group, and the number of groups."""
    if kind == "students":
        likes = rng.dirichlet(np.ones(14) * 4)
        people = [rng.multinomial(n, likes) for n in rng.geometric(1 / 23, 3_000)]
        return [*people, rng.multinomial(100_000, likes)], 14
    if kind == "visits":
        return [rng.multinomial(n, [0.35, 0.25, 0.22, 0.18]) for n in rng.geometric(0.4, 6_000)], 4
    homes = rng.integers(0, 30, 3_000)  # mostly one group
    sizes = np.ceil(rng.lognormal(2, 1, 3_000)).astype(int)
    people = [rng.multinomial(n, 0.85 * np.eye(30)[home] + 0.15 / 30) for n, home in zip(sizes, homes, strict=True)]
    return people, 30


def true_errors(people: list[Any], number: int, choices: Sequence[Choice], half: float) -> Any:
    """Noise and rows left out of a middle group, without the rows that no proposed limits count."""
    cells = np.array(people)
    groups = (cells > 0).sum(axis=1)
    counted = []
    for most_groups, in_each, in_all in choices:
        kept = np.minimum(cells, in_each).sum(axis=1) * np.minimum(1.0, most_groups / np.maximum(groups, 1))
        counted.append(np.minimum(kept, math.inf if in_all is None else in_all).sum())
    noise = half * Limits.of(choices).norms(2)
    return noise + (max(counted) - np.array(counted)) / number


@pytest.mark.parametrize("kind", ["students", "visits", "homes"])
def test_the_error_is_near_the_least_in_worlds_with_heavy_people(kind: str) -> None:
    """At most 2.2 times the least possible error; the limits of 95 % of the people have more than that somewhere."""
    people, number = world(kind, np.random.default_rng(7))
    sigma, half = 7.0, 10.0
    groups, most = [(np.array(people) > 0).sum(axis=1), np.array(people).max(axis=1)]
    choices = all_choices(number)[::3]
    ratios, ratios_95 = [], []
    for seed in range(6):
        noisy = histogram(groups, sigma, seed), histogram(most, sigma, 100 + seed)
        found = trade_off(*noisy, question(half, number))
        share = [CANDIDATES[_within_95(each.table[0])] for each in noisy]
        errors = true_errors(people, number, [*choices, found.best.limits, Choice(share[0], share[1], None)], half)
        ratios.append(errors[-2] / errors[:-2].min())
        ratios_95.append(errors[-1] / errors[:-2].min())
    assert max(ratios) <= 2.2, ratios
    assert np.median(ratios) < np.median(ratios_95), ratios_95
    if kind != "students":  # the twin
        assert np.median(ratios_95) > 1.4 * np.median(ratios)


def _within_95(counts: Any) -> int:
    below = np.cumsum(counts) >= 0.95 * counts.sum()
    return int(min(below.argmax(), len(CANDIDATES) - 1))


# -- through a suggestion


def visits(people: int = 2_000, seed: int = 5) -> Any:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rng.geometric(0.1, people))
    rows = pa.table({"who": who, "ward": rng.integers(0, 8, len(who)), "cost": rng.uniform(0, 100, len(who))})
    return ts.Private(rows).table(unit="who")


BUDGETS: list[dict[str, Any]] = [
    {"rho": 0.02},
    {"rho": 2e-4},
    {"epsilon": 0.5, "delta": 1e-6},
    {"epsilon": 0.5, "pure": True},
]


def drawn(asked: Any, seed: int = 0) -> Any:
    return asked.read(Release(asked.plan, run.noisy(asked.plan, run.integers(asked.plan), SeededSource(seed))))


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda words: ", ".join(words))
def test_the_noise_of_each_line_is_that_of_a_plan_with_its_limits(budget: dict[str, Any]) -> None:
    table = visits(300)
    found = drawn(ts.suggest_caps(table, by=["ward"], ranges={"cost": (0, 100)}, **budget)).trade_off
    for line in found.lines:
        measures = {"n": ts.count(), "m": ts.mean("cost", 0, 100)}
        grouped = table.per_unit(**line.limits._asdict()).group_by("ward", keys=list(range(2_000)))
        noise = grouped.agg(**measures).plan(**budget).error()["n"]
        assert noise == pytest.approx(line.noise, rel=0.1 if "delta" in budget else 0.02)
        assert noise <= line.noise * 1.02


def test_another_reading_of_what_was_paid_for_changes_no_plan() -> None:
    table = visits(100)
    plans = {
        ts.suggest_caps(table, by=["ward"], rho=0.1, **words).plan.hash
        for words in ({}, {"within": 0.9}, {"groups": 8}, {"per_query": {"rho": 0.5}})
    }
    assert len(plans) == 1


def test_a_suggestion_is_a_function_of_released_numbers_and_public_ones() -> None:
    """On two tables of other people, with the noisy numbers of one of them: every word and number is the same."""
    one, other = visits(2_000, 5), visits(40, 6)
    words: dict[str, Any] = {"by": ["ward"], "ranges": {"cost": (0, 100)}, "groups": 8, "rho": 0.05}
    asked = [ts.suggest_caps(table, **words) for table in (one, other)]
    answer = run.noisy(asked[0].plan, run.integers(asked[0].plan), SeededSource(1))
    found = [each.read(Release(each.plan, answer)) for each in asked]
    assert found[0].to_data() == found[1].to_data()
    assert str(found[0]) == str(found[1])
    assert str(drawn(asked[1], 1)) != str(found[0])


def test_more_budget_for_a_table_allows_larger_limits() -> None:
    best: list[TradeOff] = []
    for rho in (1e-4, 1e-2, 1.0):
        asked = ts.suggest_caps(visits(), by=["ward"], groups=8, per_query={"rho": rho}, rho=0.5)
        found = drawn(asked).trade_off
        assert f"rho {rho:g}" in found.question.words.replace("1e-04", "0.0001") or rho == 1e-4
        best.append(found)
    norms = [Limits.of([each.best.limits]).norms(2)[0] for each in best]
    assert norms == sorted(norms)
    assert norms[0] < norms[-1] / 2


def test_limits_are_applied_with_the_one_on_rows_in_all() -> None:
    found = drawn(ts.suggest_caps(visits(), by=["ward"], groups=8, rho=0.1))
    applied = found.applied(visits().per_unit(max_groups=3, max_rows_per_group=3, max_rows=3))
    best = found.trade_off.best.limits
    assert (applied.max_groups, applied.max_rows, applied.max_rows_in_all) == tuple(best)
    total = drawn(ts.suggest_caps(visits(), rho=0.1))
    assert list(total.limits) == ["max_rows_per_group"]
    assert "groups" not in str(total).splitlines()[0]


def test_too_few_people_are_not_certain_and_not_applied() -> None:
    found = drawn(ts.suggest_caps(visits(30), by=["ward"], groups=8, rho=1e-3))
    assert "Not certain: because of the noise" in str(found)
    assert "Try: a higher cost" in str(found)
    with pytest.raises(ts.errors.Refused, match="too noisy to rely on"):
        found.applied(visits(30))
    plenty = drawn(ts.suggest_caps(visits(), by=["ward"], groups=8, rho=0.5))
    assert "Not certain" not in str(plenty)
    assert plenty.says_nothing == ""


def test_a_picture_shows_the_errors(tmp_path: Any) -> None:
    pytest.importorskip("matplotlib")
    found = drawn(ts.suggest_caps(visits(), by=["ward"], groups=8, rho=0.1))
    assert found.save_plot(tmp_path / "errors.svg").read_text().count("in all") >= 2
    with pytest.raises(ts.errors.Refused, match="no errors to draw"):
        drawn(ts.suggest_caps(visits(), by=["ward"], within=0.95, rho=0.1)).save_plot(tmp_path / "no.svg")


def test_the_first_question_of_a_new_user_is_useful() -> None:
    """70,000 ratings by 3,000 students, one of whom has 10^5 more; the limits of 95 % of them have more noise."""
    rng = np.random.default_rng(38)
    rows = np.array(world("students", rng)[0])
    who, subject = np.nonzero(rows)
    times = rows[who, subject]
    data = pa.table({"student": np.repeat(who, times), "subject": np.repeat(subject, times)})
    ratings = ts.Private(data).table(unit="student")
    middle = float(np.median(rows[:-1].sum(axis=0)))
    plans = {}
    for within in (None, 0.95):
        asked = ts.suggest_caps(ratings, by=["subject"], groups=14, within=within, rho=0.02)
        found = drawn(asked, 3)
        assert found.says_nothing == ""
        grouped = found.applied(ratings).group_by("subject", keys=list(range(14)))
        plans[within] = grouped.agg(n=ts.count()).plan(rho=0.02)
    errors = {within: plan.error()["n"] for within, plan in plans.items()}
    (counted,) = [values for part, values in run.integers(plans[None]).numbers.items() if part.kind == "rows"]
    lost = middle - float(np.median(counted))
    assert errors[None] + max(0.0, lost) < middle / 4
    assert errors[None] < errors[0.95] * 0.8
