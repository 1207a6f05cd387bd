"""The graph guide's claim about node sensitivity, on every graph with five people."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

PEOPLE = 5
PAIRS = list(itertools.combinations(range(PEOPLE), 2))


def kept(edges, most: int) -> tuple[int, Counter]:
    degree: Counter = Counter()
    count = 0
    for a, b in sorted(edges):
        if degree[a] < most and degree[b] < most:
            degree[a] += 1
            degree[b] += 1
            count += 1
    return count, degree


@pytest.mark.parametrize("most", [1, 2])
def test_bounded_degrees_bound_what_one_person_changes_and_the_bound_is_attained(most: int) -> None:
    edges_worst = histogram_worst = 0
    for mask in range(1 << len(PAIRS)):
        edges = [pair for i, pair in enumerate(PAIRS) if mask >> i & 1]
        count, degree = kept(edges, most)
        with_all = Counter(degree[person] for person in range(PEOPLE))
        gone = PEOPLE - 1 if mask % 2 else 0
        fewer, rest = kept([pair for pair in edges if gone not in pair], most)
        without = Counter(rest[person] for person in range(PEOPLE) if person != gone)
        edges_worst = max(edges_worst, abs(count - fewer))
        histogram_worst = max(histogram_worst, sum(abs(with_all[d] - without[d]) for d in range(most + 1)))
    assert edges_worst == most
    assert histogram_worst == 2 * most + 1
