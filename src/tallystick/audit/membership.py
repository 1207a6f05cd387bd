"""Membership inference: who was in the training data? Hits at realised false alarms, beside what the claim allows.

Two attacks turn outputs of models into one score per person, larger where membership is likelier: the loss threshold
(Yeom et al. 2018) and the likelihood ratio with Gaussian fits to outputs of other models (LiRA, Carlini et al. 2022),
online (models with and without the person) or offline (without only).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tallystick.accounting import check
from tallystick.accounting.loss import PrivacyLoss
from tallystick.audit.curves import ceiling, tangents
from tallystick.audit.two_sample import upper_limit
from tallystick.errors import InvalidInput

Floats = NDArray[np.float64]
LEAST_DEVIATION = 1e-6


@dataclass(frozen=True, slots=True)
class HitRate:
    """How many members were found at a threshold, and how many others were accused; exact 95 % limits of the hits.

    ``allowed`` is the largest power that the claim allows at the upper limit of the false alarms; None without a claim.
    """

    threshold: float
    hits: int
    members: int
    alarms: int
    others: int
    lower: float
    upper: float
    allowed: float | None

    @property
    def power(self) -> float:
        """The share of members that were found."""
        return self.hits / self.members

    @property
    def alarm(self) -> float:
        """The share of others that were accused: the realised rate of false alarms."""
        return self.alarms / self.others

    def __str__(self) -> str:
        allowed = (
            ""
            if self.allowed is None
            else f"; the claim allows {self.allowed:.1%} at the upper limit of the accusations"
        )
        return (
            f"{self.power:.1%} of {self.members} members found [{self.lower:.1%}, {self.upper:.1%}] "
            f"at {self.alarm:.2%} false accusations ({self.alarms} of {self.others}){allowed}"
        )


def hit_rate(scores: Any, member: Any, *, alarm: float, claim: PrivacyLoss | None = None) -> HitRate:
    """Members found by the scores at the threshold whose realised false accusations are at most ``alarm``.

    Ties are never split: a threshold that would accuse more is not used. One number of one model is an observation, not
    evidence about a mechanism: :func:`tallystick.audit.one_run` is the test.

    >>> found = hit_rate([3, 2, 1, 0, -1, -2], [True, True, False, True, False, False], alarm=0.34)
    >>> found.hits, found.alarms
    (3, 1)
    """
    values, inside = _scores("scores", scores), np.asarray(member)
    if inside.dtype != np.bool_ or inside.shape != values.shape:
        raise InvalidInput("member", f"{inside.dtype} of shape {inside.shape}", f"{values.size} bools, one per score")
    members, others = int(inside.sum()), int((~inside).sum())
    if not members or not others:
        raise InvalidInput("member", f"{members} members", "at least one member and one other")
    share = check.probability("alarm", alarm)
    accused = np.sort(values[~inside])[::-1]
    most = math.floor(share * others + 1e-9)
    # the lowest threshold that accuses no more than so many others, ties included
    candidates = values if most >= others else values[values > accused[most]]
    threshold = float(candidates.min()) if candidates.size else math.inf
    hits, alarms = int((values[inside] >= threshold).sum()), int((values[~inside] >= threshold).sum())
    limit = upper_limit(alarms, others, 0.05)
    return HitRate(
        threshold=threshold,
        hits=hits,
        members=members,
        alarms=alarms,
        others=others,
        lower=1.0 - upper_limit(members - hits, members, 0.025),
        upper=upper_limit(hits, members, 0.025),
        allowed=None if claim is None else ceiling(tangents(claim), limit),
    )


def loss_scores(losses: Any) -> Floats:
    """The loss threshold attack: small losses look like members.

    >>> loss_scores([0.1, 2.0]).tolist()
    [-0.1, -2.0]
    """
    return -_scores("losses", losses)


def confidence(probabilities: Any) -> Floats:
    """log(p/(1 - p)) of the probability of the right label: nearly Gaussian over models, as LiRA needs.

    >>> confidence([0.5]).tolist()
    [0.0]
    """
    p = np.clip(_scores("probabilities", probabilities), 1e-12, 1.0 - 1e-12)
    return np.asarray(np.log(p) - np.log1p(-p))


def likelihood_ratio(scores: Any, *, without: Any, having: Any = None) -> Floats:
    """LiRA: log of the likelihood of each score under models with and without the person.

    ``without`` (and for the online attack ``having``) are tables of the same score from other models: a row per model,
    a column per person. Offline the score is how far beyond the models without the person it lies. Deviations are per
    person from 20 models on, else shared by all.

    >>> rng = np.random.default_rng(1)
    >>> out = rng.normal(size=(50, 2))
    >>> bool(likelihood_ratio([0.0, 3.0], without=out)[1] > 2)
    True
    """
    values = _scores("scores", scores)
    outside = _table("without", without, values.size)
    far = (values - outside.mean(axis=0)) / _deviation(outside)
    if having is None:
        return np.asarray(far)
    inside = _table("having", having, values.size)
    near = (values - inside.mean(axis=0)) / _deviation(inside)
    return np.asarray(0.5 * far**2 - 0.5 * near**2 + np.log(_deviation(outside) / _deviation(inside)))


def _deviation(table: Floats) -> Floats:
    own = table.std(axis=0, ddof=1) if table.shape[0] >= 20 else np.full(table.shape[1], _pooled(table))
    return np.asarray(np.maximum(own, LEAST_DEVIATION))


def _pooled(table: Floats) -> float:
    return float(np.sqrt(np.mean(table.var(axis=0, ddof=1)))) if table.shape[0] > 1 else 1.0


def _scores(name: str, values: Any) -> Floats:
    array = _floats(name, values, "one finite number per person")
    if array.ndim != 1 or array.size == 0 or not bool(np.isfinite(array).all()):
        raise InvalidInput(name, f"shape {array.shape}", "one finite number per person")
    return array


def _table(name: str, values: Any, people: int) -> Floats:
    allowed = f"a row of {people} finite numbers for every model"
    array = _floats(name, values, allowed)
    if array.ndim != 2 or array.shape[1] != people or array.shape[0] == 0 or not bool(np.isfinite(array).all()):
        raise InvalidInput(name, f"shape {array.shape}", allowed)
    return array


def _floats(name: str, values: Any, allowed: str) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(name, type(values).__name__, allowed) from None
