"""Reconstruction: everybody's bit from answers about subsets (chapter 2 of the notes; Dinur and Nissim 2003).

An attacker asks how many ones there are in subsets of the people. Every answer may be noisy; if the noise is small
compared with the square root of the number of people, the answers together give nearly everybody away.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.errors import InvalidInput, NotComputable

Bits = NDArray[np.bool_]
Floats = NDArray[np.float64]
MOST_EXHAUSTIVE = 20
MOST_CANDIDATES = 20_000
METHODS = ("least_squares", "linear_programme")


@dataclass(slots=True)
class SubsetSums:
    """Answers "how many ones are in this subset?" about secret bits, through a mechanism of your choice.

    ``answer`` turns the true count into what is released; without one the counts are exact. ``asked`` counts.

    >>> exact = SubsetSums([1, 0, 1, 1])
    >>> exact.ask([[1, 1, 0, 0], [1, 1, 1, 1]]).tolist(), exact.asked
    ([1.0, 3.0], 2)
    """

    bits: Any
    answer: Callable[[float], float] | None = None
    asked: int = 0

    def __post_init__(self) -> None:
        self.bits = _bits("bits", self.bits)

    def ask(self, subsets: Any) -> Floats:
        """One answer for every row of ``subsets`` (1: in the subset; 0: not)."""
        rows = _subsets(subsets, self.bits.size)
        sums = rows @ self.bits.astype(np.float64)
        self.asked += len(sums)
        return sums if self.answer is None else np.array([float(self.answer(x)) for x in sums.tolist()])


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """What an attack recovered. ``baseline`` is what guessing the commoner bit for everybody gets right.

    ``blatant``: is the share of right bits at least ``fraction`` and above the baseline?
    """

    right: int
    people: int
    baseline: float
    fraction: float

    @property
    def share(self) -> float:
        """The share of the people whose bit was recovered."""
        return self.right / self.people

    @property
    def blatant(self) -> bool:
        """Blatantly non-private, at the stated fraction."""
        return self.share >= self.fraction and self.share > self.baseline

    def __str__(self) -> str:
        word = "blatantly non-private" if self.blatant else "not blatantly non-private"
        return (
            f"{self.right} of {self.people} bits recovered ({self.share:.1%}; guessing alone {self.baseline:.1%}): "
            f"{word} at {self.fraction:.0%}"
        )


def blatantly_non_private(guess: Any, truth: Any, *, fraction: float = 0.9) -> Reconstruction:
    """Definition 2.1 of the notes, made a number: how much of the truth a guess has.

    >>> print(blatantly_non_private([1, 0, 1, 1], [1, 0, 1, 0], fraction=0.7))
    3 of 4 bits recovered (75.0%; guessing alone 50.0%): blatantly non-private at 70%
    """
    secret, found = _bits("truth", truth), _bits("guess", guess)
    if secret.size != found.size:
        raise InvalidInput("guess", found.size, f"one bit per person ({secret.size})")
    ones = float(secret.mean())
    level = check.inside("fraction", fraction) if fraction != 1 else 1.0
    return Reconstruction(int((secret == found).sum()), int(secret.size), max(ones, 1.0 - ones), level)


def random_subsets(count: int, *, people: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Subsets drawn uniformly, one per row.

    >>> random_subsets(2, people=3, rng=np.random.default_rng(0)).shape
    (2, 3)
    """
    return rng.integers(0, 2, size=(check.count("count", count, least=1), check.count("people", people)))


def every_subset(people: int) -> NDArray[np.int8]:
    """All 2^n subsets of at most 20 people, in the order of their binary numbers.

    >>> every_subset(2).tolist()
    [[0, 0], [1, 0], [0, 1], [1, 1]]
    """
    count = check.count("people", people, least=1, most=MOST_EXHAUSTIVE)
    return ((np.arange(2**count)[:, None] >> np.arange(count)) & 1).astype(np.int8)


def exhaustive(answers: Any, *, error: float) -> Bits:
    """A database that fits the answers to **all** subsets within ``error``: wrong in at most 4 error entries.

    Theorem 2.1 of the notes. ``answers`` are those of ``every_subset(n)``, n <= 20. People are decided one by one, and
    every choice is checked against all subsets of those decided so far: few candidates are ever looked at.

    >>> bits = [1, 0, 1, 1, 0]
    >>> exhaustive(SubsetSums(bits).ask(every_subset(5)), error=0.4).astype(int).tolist()
    [1, 0, 1, 1, 0]
    """
    values = _finite("answers", answers)
    people = values.size.bit_length() - 1
    if values.size != 2**people or not 1 <= people <= MOST_EXHAUSTIVE:
        raise InvalidInput("answers", values.size, "2^n answers, one for each of every_subset(n), n from 1 to 20")
    allowed = check.nonnegative("error", error)
    stack: list[tuple[list[bool], Floats]] = [([], np.zeros(1))]
    for _ in range(MOST_CANDIDATES):
        if not stack:
            break
        chosen, sums = stack.pop()
        if len(chosen) == people:
            return np.array(chosen, dtype=np.bool_)
        size = 2 ** len(chosen)
        if float(np.abs(sums - values[:size]).max()) > allowed:
            continue
        here = values[size : 2 * size]
        # the likelier bit is tried first: it is pushed last
        likelier = float(np.mean(here - values[:size])) >= 0.5
        for bit in (not likelier, likelier):
            added = sums + bit
            if float(np.abs(added - here).max()) <= allowed:
                stack.append(([*chosen, bit], np.concatenate([sums, added])))
    if stack:
        raise NotComputable(f"no candidate among the first {MOST_CANDIDATES}: the error is large for so many people")
    raise InvalidInput("error", error, "the largest error of the answers: no database fits all of them")


def reconstruct(subsets: Any, answers: Any, *, method: str = "least_squares") -> Bits:
    """Everybody's bit from noisy sums over subsets, by least squares or by least absolute errors (linear programming).

    Theorem 2.2 of the notes: a number of subsets proportional to the number of people is enough.

    >>> rng = np.random.default_rng(1)
    >>> bits = rng.random(64) < 0.5
    >>> subsets = random_subsets(256, people=64, rng=rng)
    >>> noisy = SubsetSums(bits, lambda x: x + rng.normal()).ask(subsets)
    >>> bool((reconstruct(subsets, noisy) == bits).mean() > 0.95)
    True
    """
    values = _finite("answers", answers)
    rows = _subsets(subsets, None)
    if len(rows) != values.size:
        raise InvalidInput("answers", values.size, f"one answer for each of {len(rows)} subsets")
    if method not in METHODS:
        raise InvalidInput("method", method, "one of " + ", ".join(METHODS))
    if method == "least_squares":
        found = np.linalg.lstsq(rows, values, rcond=None)[0]
        return np.asarray(found > 0.5)
    return _least_absolute(rows, values) > 0.5


def _least_absolute(rows: Floats, values: Floats) -> Floats:
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    queries, people = rows.shape
    sums, slack = csr_array(rows), eye_array(queries)
    found = linprog(
        np.concatenate([np.zeros(people), np.ones(queries)]),
        A_ub=vstack([hstack([sums, -slack]), hstack([-sums, -slack])], format="csr"),
        b_ub=np.concatenate([values, -values]),
        bounds=[(0.0, 1.0)] * people + [(0.0, None)] * queries,
        method="highs",
    )
    if found.x is None:
        raise NotComputable(f"the linear programme was not solved: {found.message}")
    return np.asarray(found.x[:people], dtype=np.float64)


def hadamard_queries(people: int) -> NDArray[np.int64]:
    """n queries with signs: the rows of a Hadamard matrix, n a power of two. Each is a difference of two subsets.

    >>> hadamard_queries(4).tolist()
    [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]
    """
    count = check.count("people", people, least=1, most=2**14)
    if count & (count - 1):
        raise InvalidInput("people", people, "a power of two")
    from scipy.linalg import hadamard

    return np.asarray(hadamard(count), dtype=np.int64)  # whole counts of bits: nothing may wrap


def hadamard_reconstruct(answers: Any) -> Bits:
    """Bits from the answers to ``hadamard_queries``: with errors of at most a, at most 4 a^2 of them are wrong.

    >>> bits = np.array([1, 0, 0, 1, 1, 1, 0, 1])
    >>> hadamard_reconstruct(hadamard_queries(8) @ bits + 0.9).astype(int).tolist()
    [1, 0, 0, 1, 1, 1, 0, 1]
    """
    values = _finite("answers", answers)
    signs = hadamard_queries(int(values.size))
    return np.asarray(signs.T.astype(np.float64) @ values / values.size > 0.5)


def wrong_entries_exhaustive(*, error: float) -> float:
    """Theorem 2.1: at most 4 error entries are wrong when every subset is answered within ``error``.

    >>> wrong_entries_exhaustive(error=2)
    8.0
    """
    return 4.0 * check.nonnegative("error", error)


def wrong_entries_polynomial(*, error: float, advantage: float) -> float:
    """Theorem 2.2: at most (2 error/advantage)^2 wrong where more than 1/2 + advantage of the answers are that close.

    The form is Dwork and Yekhanin's (2008; erratum 39).

    >>> wrong_entries_polynomial(error=1, advantage=0.5)
    16.0
    """
    eta = check.between("advantage", advantage, 1e-9, 0.5)
    return (2.0 * check.nonnegative("error", error) / eta) ** 2


def wrong_entries_hadamard(*, error: float, differences: bool = False) -> float:
    """At most 4 error^2 wrong entries; 16 error^2 where each query is a difference of two answers that close.

    >>> wrong_entries_hadamard(error=2), wrong_entries_hadamard(error=2, differences=True)
    (16.0, 64.0)
    """
    return (16.0 if differences else 4.0) * check.nonnegative("error", error) ** 2


@dataclass(frozen=True, slots=True)
class Frontier:
    """How many answers before their noise must reach sqrt(n): Remark 2.2 of the notes.

    ``pure`` and ``gaussian`` are the numbers of queries whose noise (standard deviation, split evenly) is sqrt(n)
    under epsilon-DP with Laplace noise and under mu-GDP with Gaussian noise. With fewer, less noise is enough for
    privacy; with more, answers are noisier than the sample itself, and reconstruction fails.
    """

    people: int
    epsilon: float
    mu: float
    pure: float
    gaussian: float

    def __str__(self) -> str:
        return (
            f"{self.people} people, noise at the frontier sqrt(n) = {math.sqrt(self.people):.1f}: "
            f"{self.pure:.0f} answers of epsilon {self.epsilon:g} in all, {self.gaussian:.0f} of {self.mu:g}-GDP in all"
        )


def queries_at_frontier(*, people: int, epsilon: float = 1.0, mu: float = 1.0) -> Frontier:
    """With how many counts, split evenly, does the noise of each reach sqrt(people)?

    Laplace noise for q counts has standard deviation sqrt(2) q/epsilon, Gaussian noise sqrt(q)/mu.

    >>> print(queries_at_frontier(people=10_000))
    10000 people, noise at the frontier sqrt(n) = 100.0: 71 answers of epsilon 1 in all, 10000 of 1-GDP in all
    """
    count = check.count("people", people, least=1)
    price, slope = check.positive("epsilon", epsilon), check.positive("mu", mu)
    return Frontier(count, price, slope, math.sqrt(count / 2.0) * price, count * slope * slope)


def _bits(name: str, values: Any) -> Bits:
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or not bool(np.isin(array, (0, 1)).all()):
        raise InvalidInput(name, f"shape {array.shape}", "a list of zeros and ones, one per person")
    return array.astype(np.bool_)


def _finite(name: str, values: Any) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(name, type(values).__name__, "finite numbers") from None
    if array.ndim != 1 or array.size == 0 or not bool(np.isfinite(array).all()):
        raise InvalidInput(name, f"shape {array.shape}", "finite numbers, at least one")
    return array


def _subsets(subsets: Any, people: int | None) -> Floats:
    array = np.asarray(subsets)
    fits = array.ndim == 2 and array.size > 0 and (people is None or array.shape[1] == people)
    if not fits or not bool(np.isin(array, (-1, 0, 1)).all()):
        who = "person" if people is None else f"of {people} people"
        raise InvalidInput("subsets", f"shape {array.shape}", f"rows of zeros and ones, a column for each {who}")
    return array.astype(np.float64)


def success_by_noise(
    people: int, *, noises: Sequence[float], queries: int | None = None, rng: np.random.Generator
) -> list[float]:
    """The share of bits that least squares recovers, for noise of each standard deviation: the curve of the picture.

    >>> shares = success_by_noise(64, noises=[0.5, 30.0], rng=np.random.default_rng(2))
    >>> shares[0] > 0.95, shares[1] < 0.75
    (True, True)
    """
    count = check.count("people", people, least=2)
    shares = []
    for noise in noises:
        bits = rng.random(count) < 0.5
        subsets = random_subsets(queries or 4 * count, people=count, rng=rng)
        answers = SubsetSums(bits).ask(subsets) + check.nonnegative("noises", noise) * rng.normal(size=len(subsets))
        shares.append(float((reconstruct(subsets, answers) == bits).mean()))
    return shares
