"""A statistical-query oracle: adaptive questions about a private sample, answers that hold for the population.

    oracle = StatisticalQueries(records, queries=100, tau=0.1, beta=0.05, account=account, why="...")
    oracle.ask(lambda record: record["age"] > 40)

A query is the mean over the population of a function of one record with values in [0, 1]; numbers outside are clipped,
and the answer is about the mean of the clipped ones. Every answer is paid before the records are read. Refused are a
question that fails on made-up records, one whose answer could not be certified within ``tau`` and, where a number of
questions was planned, the one after it; all of that depends on public facts only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick.accounting import check
from tallystick.adaptive.answer_noise import STEPS, AnswerNoise, failure_of
from tallystick.adaptive.interaction import Interaction
from tallystick.adaptive.planning import best_noise
from tallystick.adaptive.records import Records, check_query, example_of
from tallystick.adaptive.values import total
from tallystick.digits import percent, typed, up
from tallystick.errors import BudgetExceeded, InvalidInput, NotCertified, Refused
from tallystick.ledger.account import check_account
from tallystick.ledger.pay import pay

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Receipt


@dataclass(frozen=True, slots=True)
class Answer:
    """A noisy mean, and how far it is at most from the population's, with the stated failure of **all** answers.

    The mean is that of the query's numbers clipped to [0, 1], where a record for which it fails counts as 0.
    """

    value: float
    error: float
    number: int
    beta: float
    receipt: Receipt | None = field(default=None, repr=False)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        sure = percent(1.0 - self.beta)
        return (
            f"{self.value:.4f}, within {up(self.error)} of the population's mean of numbers clipped to [0, 1] "
            f"(question {self.number}; all: {sure})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """One question as the ledger's payer sees it (``ledger.pay.Payable``)."""

    oracle: StatisticalQueries
    query: Callable[[Any], Any]
    privacy: PrivacyLoss
    request: str
    source: str = ""

    def preflight(self) -> None:
        """Do nothing: public facts were checked when the oracle was made."""

    def draw(self) -> float:
        """The noisy mean."""
        return self.oracle._noisy_mean(self.query)


class StatisticalQueries(Interaction):
    """The interaction of an analyst with a private sample of public size; one object, which cannot be copied.

    ``queries`` answers are certified together; without it the certificates of all answers, however many, hold together
    (``noise`` is then needed, and the error grows with every question). ``noise`` is the standard deviation of an
    answer, or the scale where ``law="laplace"``; by default the best one. With ``vectorized`` a query gets all records
    at once, and you answer for it that each of its numbers depends on its own record only; in both cases that it has no
    memory of records or of earlier questions. A record of a data frame has its columns by name (with ``vectorized`` the
    query gets data frames). A query is first tried on made-up records of the same shape, and refused where it fails;
    what is in a list is not known, so there give an ``example``, a made-up record.

    The records are independent draws from the population, **one per person**, and nothing else that was computed from
    them may decide what is asked: what another release says about them is not in the certificate. Several rows of one
    person have to be made one record first, such as the list of them.

    >>> coins = [i % 2 for i in range(20_000)]
    >>> oracle = StatisticalQueries(coins, queries=10, tau=0.1, beta=0.05)
    >>> import warnings; warnings.simplefilter("ignore")
    >>> abs(float(oracle.ask(lambda coin: coin)) - 0.5) < 0.1
    True
    """

    __slots__ = (
        "_account", "_answers", "_asked", "_delta", "_first", "_made_up", "_mechanism", "_records", "_vectorized",
        "_why", "beta", "noise", "queries", "samples", "tau",
    )  # fmt: skip

    def __init__(
        self,
        records: Any,
        *,
        tau: float,
        beta: float,
        queries: int | None = None,
        noise: float | None = None,
        law: str = "gaussian",
        vectorized: bool = False,
        account: Account | None = None,
        why: str | None = None,
        delta: float | None = None,
        example: Any = None,
    ) -> None:
        super().__init__()
        self._records = Records.of("records", records)
        self._made_up = self._records.made_up() if example is None else example_of(example)
        self.samples = self._records.size
        self.tau, self.beta = check.inside("tau", tau), check.inside("beta", beta)
        self.queries = None if queries is None else check.count("queries", queries, least=1)
        if noise is None and (self.queries is None or law != "gaussian"):
            raise InvalidInput("noise", None, "the noise of an answer; only of a planned number of Gaussian answers "
                                              "is the best one known")  # fmt: skip
        if account is not None:
            check_account(account)
            if why is None:
                raise InvalidInput("why", why, "a short reason, which the ledger keeps")
        scale = best_noise(self.samples, self.queries or 1, self.beta) if noise is None else noise
        self.noise = AnswerNoise(law, scale, self.samples)
        self._mechanism = self.noise.mechanism
        if account is not None:
            account.price(self.privacy, delta=delta)  # refused here where an answer has no price in this account
        self._vectorized, self._account, self._why, self._delta, self._asked = vectorized, account, why, delta, 0
        self._answers: list[Answer] = []
        self._first = self._error_of(1)
        self._require(1, self._first)

    @property
    def error(self) -> float:
        """Largest distance of every answer so far from the population; before the first, that of the first."""
        return max((answer.error for answer in self._answers), default=self._first)

    @property
    def asked(self) -> int:
        """Number of questions that were answered, or failed after they were paid."""
        return self._asked

    @property
    def answers(self) -> tuple[Answer, ...]:
        """The transcript so far."""
        return tuple(self._answers)

    @property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of one answer about one record."""
        return self._mechanism.privacy

    def ask(self, query: Callable[[Any], Any]) -> Answer:
        """The noisy mean of ``query``, a function of one record (of all records, if ``vectorized``).

        Charged before the records are read; numbers are clipped to [0, 1], and a record for which the query is NaN, no
        number or fails counts as 0. Where it fails on made-up records already it is refused, and nothing is charged.
        """
        with self._turn():
            check_query(query, self._made_up, vectorized=self._vectorized)
            number = self._asked + 1
            if self.queries is not None and number > self.queries:
                raise Refused(f"all {self.queries} planned questions were asked; the certificate covers no more. "
                              "Try: fresh records, or a plan for more questions before the first")  # fmt: skip
            error = self._first if self.queries is not None else self._error_of(number)
            self._require(number, error)
            self._asked = number
            value, receipt = self._pay(query, number)
            answer = Answer(value, error, number, self.beta, receipt)
            self._answers.append(answer)
        return answer

    def _pay(self, query: Callable[[Any], Any], number: int) -> tuple[float, Receipt | None]:
        if self._account is None or self._why is None:
            return self._noisy_mean(query), None
        asked = Asked(self, query, self.privacy, f"statistical query {number} of {self.samples} records: {self.noise}")
        try:
            paid = pay(asked, self._account, why=self._why, delta=self._delta)
        except BudgetExceeded:  # before anything was charged or read
            self._asked -= 1
            raise
        return float(paid.answer), paid.receipt

    def _noisy_mean(self, query: Callable[[Any], Any]) -> float:
        records = self._records
        if self._vectorized:
            steps = total(lambda i, j: query(records.rows(i, j)), self.samples, together=True)
        else:
            steps = total(lambda i, j: query(records.one(i)), self.samples)
        release = self._mechanism if self._account is None else self._mechanism.release  # the first warns: nobody pays
        noisy: Any = release(steps)
        return float(np.clip(noisy / (self.samples * STEPS), 0.0, 1.0))

    def _error_of(self, number: int) -> float:
        if self.queries is not None:
            return self.noise.error(answers=self.queries, covered=self.queries, failure=self.beta)
        return self.noise.error(answers=number, covered=1, failure=failure_of(number, self.beta))

    def _require(self, number: int, error: float) -> None:
        if error <= self.tau:
            return
        about = f"question {number}" if self.queries is None else f"{self.queries} questions"
        raise NotCertified(
            f"{about} on {self.samples} records with noise {self.noise.scale:.3g}: the certified population error is "
            f"{up(min(error, 1.0))}, above tau = {typed(self.tau)}. Try: "
            f"ts.adaptive.plan(queries={self.queries or number}, tau={typed(self.tau)}, beta={typed(self.beta)})"
            ".bounds['gaussian curve'] says how many records, with which noise",
            error=min(error, 1.0),
        )

    def __str__(self) -> str:
        left = "as many as tau allows" if self.queries is None else f"{self.queries - self._asked} left"
        within = f"each answer within {up(self.error)} of the population"
        if self.queries is None:
            so_far = f"answers so far within {up(self.error)} of the population, " if self._answers else ""
            within = f"{so_far}the next within {up(min(1.0, self._error_of(self._asked + 1)), 3)}"
        return (
            f"{self.samples} records, {self._asked} questions asked, {left}; {self.noise.law} noise "
            f"{self.noise.scale:.4g}; {within}, all with {percent(1.0 - self.beta)}"
        )
