"""No interval misses the truth of all rows without its column saying that limits per person touch it."""

from __future__ import annotations

import functools
import math
from typing import Any
from unittest import mock

import pytest

from sql import eighteen
from tallystick.tables.table import Query

RELEASES = 40
"""Of each question here; ``make campaign-tables`` makes 2,000."""


@functools.cache
def asked(world: str) -> dict[str, eighteen.Asked]:
    return eighteen.asked(world)


def unmarked(questions: dict[str, eighteen.Asked]) -> list[tuple[str, str]]:
    """Columns that do not say that limits touch them, whose value without noise is not that of all rows."""
    wrong = []
    for name, each in questions.items():
        released = each.statement.released
        for column in released.noisy - released.limited:
            is_true = each.own.keys() == each.truth.keys() and all(
                math.isclose(each.own[group][column], row[column]) for group, row in each.truth.items()
            )
            wrong += [] if is_true else [(name, column)]
    return wrong


@pytest.mark.parametrize("world", eighteen.WORLDS)
def test_what_is_not_marked_is_the_truth_of_all_rows(world: str) -> None:
    assert len(asked(world)) == 18
    assert unmarked(asked(world)) == []


def test_marks_are_needed_and_not_everywhere() -> None:
    """With a person of 100,000 rows most questions miss the truth by far; numbers of people in all do not."""
    questions = asked("limits in each group")
    marked = {name: each.statement.released.limited for name, each in questions.items()}
    assert sum(not columns for columns in marked.values()) == 2
    assert marked["guests and others"] == {"stars"}
    missed = set()
    for name, each in questions.items():
        for group, column, low, high in each.intervals(each.answer(1)):
            truth = each.truth.get(group, {}).get(column)
            missed |= {name} if truth is not None and not low <= truth <= high else set()
    assert len(missed) >= 12
    with mock.patch.object(Query, "is_limited", return_value=False):
        assert len(unmarked(eighteen.asked("limits in each group"))) >= 12


def test_every_number_of_the_eighteen_has_an_interval_or_no_value() -> None:
    for world in eighteen.WORLDS:
        for each in asked(world).values():
            answer = each.answer(2)
            with_ends = {(group, column) for group, column, _, _ in each.intervals(answer)}
            for group, row in answer.items():
                for column in each.statement.released.noisy:
                    assert row[column] is None or (group, column) in with_ends, (each.text, group, row)


def test_the_campaign_reads_the_same_intervals() -> None:
    for each in asked("limits in each group").values():
        assert sorted(each.ends(3), key=str) == sorted(each.intervals(each.answer(3)), key=str)


def shares(world: str) -> list[bool]:
    return [held for each in asked(world).values() for seed in range(RELEASES) for held in eighteen.held(each, seed)]


@pytest.mark.parametrize("world", eighteen.WORLDS)
def test_intervals_hold_the_value_after_limits_at_their_rate(world: str) -> None:
    """About 6,000 intervals in each world; 95 % less seven standard deviations is 93.0 %."""
    found = shares(world)
    assert len(found) > 5_000
    assert sum(found) / len(found) > 0.93


def test_intervals_of_half_the_noise_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def half(each: Any, seed: int) -> Any:
        for group, name, low, high in true(each, seed):
            quarter = (high - low) / 4
            yield group, name, low + quarter, high - quarter

    true = eighteen.Asked.ends
    monkeypatch.setattr(eighteen.Asked, "ends", half)
    found = shares("one row each")
    assert sum(found) / len(found) < 0.93
