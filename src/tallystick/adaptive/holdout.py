"""A holdout that can be asked often: Thresholdout (Dwork et al. 2015) for mean losses of one number per record.

A model's loss on the training data is confirmed for free as long as the holdout's is near it; where it is not, the
holdout's own loss is answered with noise, and one of ``answers`` units is used up. One unit is a run of the sparse
vector technique with a fresh threshold (Lap(2 sigma), each question Lap(4 sigma)), 1/(sigma n)-DP, and a Laplace answer
of scale sigma; all units are paid for when the holdout is opened (docs/theory/transfer.md).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.generalization import curve_deviation, laplace_mean_tail, loss_deviation
from tallystick.adaptive.answer_noise import LATTICE, ROUNDING, STEPS, AnswerNoise
from tallystick.adaptive.interaction import Interaction
from tallystick.adaptive.records import PUBLIC, TRIED, Records, tried
from tallystick.adaptive.values import total
from tallystick.digits import percent, typed, up
from tallystick.errors import InvalidInput, Refused
from tallystick.ledger.account import check_account
from tallystick.ledger.pay import pay
from tallystick.mechanisms.inputs import array_or_list
from tallystick.mechanisms.select.sparse_vector import AboveThreshold, Stream, above_threshold
from tallystick.rounding import double_above

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss
    from tallystick.ledger.account import Account
    from tallystick.ledger.pay import Receipt

NOT_PER_RECORD = (
    "a loss of one record with values in [0, 1], such as lambda y, prediction: y != prediction. AUC, F1, R2 and every "
    "other score of all records together is not a mean of such losses: one record can move it by more than 1/n, so "
    "neither the noise nor the certificate would hold"
)

MODEL = "a function of rows, or an object with predict, that gives one prediction per row"


@dataclass(frozen=True, slots=True)
class Score:
    """A mean loss: that of the training data, confirmed, or the holdout's own with noise (``from_holdout``)."""

    value: float
    from_holdout: bool

    def __float__(self) -> float:
        return self.value


@dataclass(frozen=True, slots=True)
class Thresholdout:
    """The public numbers of a holdout of ``samples`` records: what it costs and what it certifies."""

    samples: int
    queries: int
    answers: int
    threshold: float
    noise: float

    @property
    def gate(self) -> AboveThreshold:
        """Is the gap, in steps of the sum, above the threshold? One run until the first "yes"."""
        return above_threshold(
            threshold=self.threshold * self.samples * STEPS,
            epsilon=double_above(1 / (Fraction(self.noise) * self.samples)),
            hits=1,
            sensitivity=STEPS,
            threshold_share=0.5,
            adjacency=Adjacency.REPLACE,
        )

    @property
    def privacy(self) -> PrivacyLoss:
        """answers x (pure_dp(1/(sigma n)) + laplace(sigma n)): the threshold is drawn again after every answer."""
        return self.answers * self.gate.privacy + self.answers * self.answer.privacy

    @property
    def answer(self) -> AnswerNoise:
        """The noise of a score that comes from the holdout."""
        return AnswerNoise("laplace", self.noise, self.samples)

    def certified_error(self, *, beta: float) -> float:
        """Largest distance of every score from the population's loss, all at once except with probability ``beta``.

        Confirmed: threshold + E[threshold noise] + E[question noise]; answered: E[answer noise], all given the
        transcript; and what the transcript deviates. Parts of beta: a quarter each for thresholds and answers together
        and for questions, half for the transcript. At most 1.
        """
        confirmed = self.threshold + self.noise * comparison_tail(self.queries, self.answers, beta)
        answered = self.noise * laplace_mean_tail(failure=beta / 8 / (2 * self.answers)) * LATTICE
        epsilon = max(self.gate.epsilon, self.answer.privacy.epsilon(delta=0.0))
        shown = loss_deviation(_worst(self.answers, epsilon), failure=beta / 2)
        return min(1.0, max(confirmed, answered) + shown + ROUNDING)


def comparison_tail(queries: int, answers: int, beta: float) -> float:
    """Part of a gap that noise can hide, in units of sigma: 2 x(beta/8 per threshold) + 4 x(beta/4 per question)."""
    threshold = laplace_mean_tail(failure=beta / 8 / answers)
    return 2.0 * threshold + 4.0 * laplace_mean_tail(failure=beta / 4 / queries)


def _worst(answers: int, epsilon: float) -> PrivacyLoss:
    """2 units of the worst epsilon-DP per answer: Laplace answers lose no more, and this is quick to read."""
    return 2 * answers * losses.pure_dp(epsilon=epsilon, adjacency=Adjacency.REPLACE)


def holdout_samples(*, queries: int, answers: int, tau: float, beta: float) -> Thresholdout:
    """A holdout that is certified within ``tau``: half of tau is the threshold, a quarter noise, a quarter deviation.

    >>> holdout_samples(queries=1000, answers=10, tau=0.1, beta=0.05).certified_error(beta=0.05) <= 0.1
    True
    """
    asked, units = check.count("queries", queries, least=1), check.count("answers", answers, least=1)
    far, chance = check.inside("tau", tau), check.inside("beta", beta)
    noise = far / 4.0 / comparison_tail(asked, units, chance) * (1.0 - 1e-9)
    room, product = far / 4.0 - 2.0 * ROUNDING, 1.0
    while curve_deviation(mu=math.sqrt(2 * units) / product, failure=chance / 2) > room:  # about what the units lose
        product *= 1.01
    while loss_deviation(_worst(units, 1.0 / product), failure=chance / 2) > room:
        product *= 1.002
    return Thresholdout(math.ceil(product / noise) + 1, asked, units, far / 2.0, noise)


@dataclass(frozen=True, slots=True, eq=False)
class Opening:
    """The opening of a holdout as the ledger's payer sees it: paid for its whole life, before anything is asked."""

    privacy: PrivacyLoss
    request: str
    source: str = ""

    def preflight(self) -> None:
        """Do nothing: public facts were checked when the holdout was made."""

    def draw(self) -> str:
        """Nothing is read yet."""
        return "opened"


class ReusableHoldout(Interaction):
    """Scores of many models on one private holdout, of which at most ``answers`` may differ from their training scores.

    ``loss(y, predictions)`` gives one number in [0, 1] per record. ``tau`` and ``beta`` are what should be certified:
    all of ``queries`` scores within tau of the population, except with probability beta. With enough records the noise
    is chosen for that; with fewer, threshold 2 tau/5 and noise tau/10 are used (or what you give), the scores resist
    overfitting in practice, and ``certified`` is False: print the holdout to see what can be said. ``X`` may be a data
    frame (models then get data frames); one record is one person's.

    >>> import warnings; warnings.simplefilter("ignore")
    >>> X, y = np.zeros((1000, 1)), np.arange(1000) % 2
    >>> holdout = ReusableHoldout(lambda y, predicted: y != predicted, X, y, tau=0.1, beta=0.05)
    >>> abs(float(holdout.score(lambda rows: rows[:, 0], train=0.5)) - 0.5) < 0.2, holdout.certified
    (True, False)
    """

    __slots__ = (
        "_X", "_asked", "_loss", "_made_up", "_mechanism", "_stream", "_used", "_y", "beta", "certified_error",
        "needed", "receipt", "setting", "tau",
    )  # fmt: skip

    def __init__(
        self,
        loss: Callable[[Any, Any], Any],
        X: Any,
        y: Any,
        *,
        tau: float,
        beta: float,
        queries: int = 1000,
        answers: int = 100,
        threshold: float | None = None,
        noise: float | None = None,
        account: Account | None = None,
        why: str | None = None,
        delta: float | None = None,
    ) -> None:
        super().__init__()
        self._loss = _per_record(loss)
        self._X, self._y = Records.of("X", X), Records.of("y", flat(array_or_list(y)))
        samples = self._X.size
        if self._y.size != samples:
            raise InvalidInput("y", f"{self._y.size} targets", f"one per record: {samples}")
        self._made_up = self._X.made_up(), self._y.made_up()
        self.tau, self.beta = check.inside("tau", tau), check.inside("beta", beta)
        self.needed = holdout_samples(queries=queries, answers=answers, tau=self.tau, beta=self.beta)
        enough = samples >= self.needed.samples
        by_default = (self.needed.threshold, self.needed.noise) if enough else (self.tau * 2 / 5, self.tau / 10)
        given = threshold if threshold is not None else by_default[0], noise if noise is not None else by_default[1]
        self.setting = Thresholdout(
            samples, self.needed.queries, self.needed.answers,
            check.positive("threshold", given[0]), check.positive("noise", given[1]),
        )  # fmt: skip
        self._mechanism = self.setting.answer.mechanism
        self.certified_error = self.setting.certified_error(beta=self.beta)
        self._asked, self._used = 0, 0
        self._stream: Stream | None = None
        self.receipt = self._open(account, why, delta)

    def _open(self, account: Account | None, why: str | None, delta: float | None) -> Receipt | None:
        if account is None:
            return None
        check_account(account)
        if why is None:
            raise InvalidInput("why", why, "a short reason, which the ledger keeps")
        opening = Opening(self.privacy, f"reusable holdout {self.setting}")
        return pay(opening, account, why=why, delta=delta).receipt

    @property
    def privacy(self) -> PrivacyLoss:
        """Privacy loss of the holdout about one record in its whole life."""
        return self.setting.privacy

    @property
    def certified(self) -> bool:
        """True if every score is certified within ``tau`` of the population."""
        return self.certified_error <= self.tau

    @property
    def asked(self) -> int:
        """Number of scores that were asked for."""
        return self._asked

    @property
    def answered(self) -> int:
        """Number of scores that came from the holdout, each for one unit."""
        return self._used

    def score(self, model: Any, *, train: float) -> Score:
        """The mean loss of ``model`` (it, or its ``predict``, maps rows to predictions), whose training loss is known.

        ``train`` must not have been computed with the holdout's records. A model predicts each row by itself, without a
        memory; a record for which it fails, or whose loss is not a number, counts as a loss of 1. A model that fails on
        made-up rows of the same shape is refused.
        """
        predict = getattr(model, "predict", model)
        if not callable(predict):
            raise InvalidInput("model", type(model).__name__, "a function of rows, or an object with predict")
        expected = check.probability("train", train)
        with self._turn():
            self._try(predict)
            if self._asked >= self.setting.queries:
                raise Refused(f"all {self.setting.queries} planned scores were asked for. Try: fresh records")
            if self._used >= self.setting.answers:
                raise Refused(f"all {self.setting.answers} answers of the holdout are used up. Try: fresh records")
            self._asked += 1
            steps = self._steps(predict)
            stream = self._stream = self._stream or self.setting.gate.start()
            gap = abs(round(Fraction(expected) * self.setting.samples * STEPS) - steps)
            if not stream.ask(gap):
                return Score(expected, from_holdout=False)
            self._used, self._stream = self._used + 1, None  # the threshold is drawn again
            noisy: Any = self._mechanism(steps) if self.receipt is None else self._mechanism.release(steps)
        return Score(float(np.clip(noisy / (self.setting.samples * STEPS), 0.0, 1.0)), from_holdout=True)

    def _try(self, predict: Callable[[Any], Any]) -> None:
        """Refuse what can never work, on made-up rows."""
        rows, targets = self._made_up
        if rows is None:
            return
        predicted = tried(
            "model", predict, rows.rows, allowed=MODEL, fatal=(Exception,) if rows.known else (*PUBLIC, KeyError)
        )
        if predicted is None:
            return
        if np.shape(flat(predicted))[:1] != (TRIED,):
            raise InvalidInput("model", f"{TRIED} rows have predictions of shape {np.shape(predicted)}", MODEL)
        if targets is None or not (rows.known and targets.known):
            return
        losses_of = tried(
            "model", lambda given: self._loss(targets.rows, flat(given)), predicted, allowed=MODEL, fatal=(Exception,)
        )
        if np.shape(losses_of) != (TRIED,):
            raise InvalidInput("model", f"{TRIED} rows have losses of shape {np.shape(losses_of)}", MODEL)

    def _steps(self, predict: Callable[[Any], Any]) -> int:
        X, y, loss = self._X, self._y, self._loss
        return total(lambda i, j: loss(y.rows(i, j), flat(predict(X.rows(i, j)))), X.size, together=True, failed=1)

    def __str__(self) -> str:
        setting, sure = self.setting, percent(1.0 - self.beta)
        seen = (
            f"{setting.samples:,} records, threshold {setting.threshold:.3g}, noise {setting.noise:.3g}; "
            f"{self._asked} of {setting.queries} scores asked for, {self._used} of {setting.answers} from the holdout"
        )
        within = up(self.certified_error)
        if self.certified:
            return f"{seen}\ncertified: every score within {within} of the population, all of them with {sure}"
        enough = f"{self.needed.samples:,} records would be certified within {typed(self.tau)}"
        if self.certified_error < 1.0:
            return f"{seen}\ncertified: within {within} only, with {sure}; {enough}"
        return f"{seen}\ncertificate: vacuous, nothing is proved; {enough}. What you see is the behaviour in practice"


def flat(predictions: Any) -> Any:
    """One number per row; a single column of them is one number per row too (and would make a square of losses)."""
    if not hasattr(predictions, "__array__"):
        return predictions
    numbers = np.asarray(predictions)
    return numbers[:, 0] if numbers.ndim == 2 and numbers.shape[1] == 1 else predictions


_PAIRS: tuple[tuple[list[float], list[float]], ...] = (
    ([0, 1, 1, 0], [0, 1, 0, 1]),
    ([0, 1, 1, 0, 1], [0.1, 0.9, 0.3, 0.5, 0.0]),
    ([0, 1, 2, 3, 100], [0.5, 3, 2, 2.5, -100]),
)


def _per_record(loss: Any) -> Callable[[Any, Any], Any]:
    """The loss, tried on made-up records: one number each, and the same whether alone or among others."""
    named = getattr(loss, "__name__", type(loss).__name__)
    if not callable(loss):
        raise InvalidInput("loss", loss, NOT_PER_RECORD)
    for place, (y, predictions) in enumerate(_PAIRS):
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = np.array(y), np.array(predictions)
                together = np.asarray(loss(*given))
                alone = [np.asarray(loss(given[0][i : i + 1], given[1][i : i + 1])) for i in range(len(y))]
        except Exception:
            if place == 0:  # every loss knows 0 and 1; other targets may be none of its own
                raise InvalidInput("loss", named, NOT_PER_RECORD) from None
            continue
        if together.shape != (len(y),) or any(one.shape != (1,) for one in alone):
            raise InvalidInput("loss", named, NOT_PER_RECORD)
        if not np.allclose(together.astype(float), np.concatenate(alone).astype(float), rtol=1e-6, equal_nan=True):
            raise InvalidInput("loss", f"{named}, which is another one among other records", NOT_PER_RECORD)
    return cast("Callable[[Any, Any], Any]", loss)
