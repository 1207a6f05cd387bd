"""Who takes part when, listed: the sensitivity of a strategy matrix over all patterns and signs, in fractions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

Matrix = list[list[Fraction]]


def toeplitz(column: Sequence[float], steps: int) -> Matrix:
    whole = [Fraction(c) for c in column] + [Fraction(0)] * steps
    return [[whole[row - step] if row >= step else Fraction(0) for step in range(steps)] for row in range(steps)]


def tree(steps: int) -> Matrix:
    """One row for every node of a complete binary tree over at least so many leaves."""
    rows, size = [], 1
    while True:
        nodes = range(0, steps, size)
        rows += [[Fraction(start <= step < start + size) for step in range(steps)] for start in nodes]
        if size >= steps:
            return rows
        size *= 2


def patterns(steps: int, uses: int, separation: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, uses + 1):
        for chosen in itertools.combinations(range(steps), size):
            if all(b - a >= separation for a, b in itertools.pairwise(chosen)):
                yield chosen


def products(matrix: Matrix) -> Matrix:
    columns = list(zip(*matrix, strict=True))
    return [[sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0)) for b in columns] for a in columns]


def attained(matrix: Matrix, uses: int, separation: int) -> Fraction:
    """The largest squared move of a unit whose contributions are numbers of size one."""
    inner, most = products(matrix), Fraction(0)
    for chosen in patterns(len(inner), uses, separation):
        for signs in itertools.product((1, -1), repeat=len(chosen) - 1):
            signed = list(zip(chosen, (1, *signs), strict=True))
            most = max(most, sum((s * t * inner[i][j] for i, s in signed for j, t in signed), Fraction(0)))
    return most


def stated(matrix: Matrix, uses: int, separation: int) -> Fraction:
    """The worst partners of every step, then the worst pattern of such steps."""
    inner = products(matrix)
    steps = len(inner)
    worst = []
    for i in range(steps):
        rest = [
            sum((abs(inner[i][j]) for j in chosen if abs(i - j) >= separation), Fraction(0))
            for chosen in patterns(steps, uses - 1, separation)
        ]
        worst.append(inner[i][i] + max(rest, default=Fraction(0)))
    return max(sum((worst[i] for i in chosen), Fraction(0)) for chosen in patterns(steps, uses, separation))


def decreasing(column: Sequence[float]) -> list[float]:
    return [max(abs(c) for c in column[k:]) for k in range(len(column))]
