"""A loss as an event of dp_accounting, where its language has the words.

Rounding only ever overstates the loss, and an accountant that follows the event's documentation finds at least
this loss. Under replace the package's accountants disagree whether the noise of a plain Gaussian or Laplace event is
counted against the norm of one record or against what a changed record moves (twice that); it is written so that both
are right, and the first of them finds more than there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.dp_events import MODULE
from tallystick.accounting.leaf import Leaf, Terms
from tallystick.accounting.leaves.discrete import DiscreteGaussian, DiscreteLaplace
from tallystick.accounting.leaves.exponential import Exponential
from tallystick.accounting.leaves.gaussian import Gaussian, Gdp
from tallystick.accounting.leaves.laplace import Laplace, reciprocal_above
from tallystick.accounting.leaves.mixture import GaussianMixture
from tallystick.accounting.leaves.nested import Composed
from tallystick.accounting.leaves.not_private import NotPrivate
from tallystick.accounting.leaves.pure import ApproxDp, PureDp
from tallystick.accounting.leaves.renyi import Zcdp, ZcdpOffset
from tallystick.accounting.leaves.response import RandomizedResponse
from tallystick.accounting.leaves.sampled import Sampled, Subset
from tallystick.accounting.leaves.selected import Selected, SelectedPoisson
from tallystick.accounting.leaves.substituted import SampledReplaced
from tallystick.accounting.leaves.truncated import Cut
from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import InvalidInput
from tallystick.rounding import double_above, down

Event = dict[str, Any]
WORKS = "what its events can say; or one promise of it: ts.approx_dp(epsilon=loss.epsilon(delta=d), delta=d)"


def to_dp_accounting(loss: PrivacyLoss) -> Event:
    """The event of a loss, as a dictionary with ``class_name`` and fields.

    Neither neighbours (``loss.adjacency`` has them) nor the name of a unit are part of an event.

    >>> import tallystick as ts
    >>> to_dp_accounting(3 * ts.laplace(scale=2))["count"]
    3
    >>> to_dp_accounting(ts.from_profile([(1.0, 1e-6)]))
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: loss = 'from_profile([(1, 1e-06)])' is not allowed; give what its events can ...
    """
    if not isinstance(loss, PrivacyLoss):
        raise InvalidInput("loss", loss, "a PrivacyLoss")
    if loss.group != 1:
        raise InvalidInput("loss", str(loss), "a loss for single units; " + WORKS)
    return _together(loss.terms, loss)


def _together(terms: Terms, loss: PrivacyLoss) -> Event:
    events = [
        _event("SelfComposedDpEvent", event=_one(leaf, loss), count=count) if count > 1 else _one(leaf, loss)
        for leaf, count in terms
    ]
    if len(events) == 1:
        return events[0]
    return _event("ComposedDpEvent", events=events) if events else _event("NoOpDpEvent")


def _one(leaf: Leaf, loss: PrivacyLoss) -> Event:
    write = WRITERS.get(type(leaf))
    event = None if write is None else write(leaf, loss)
    if event is None:
        raise InvalidInput("loss", leaf.text(loss.protects), WORKS)
    return event


def _event(name: str, **fields: Any) -> Event:
    return {"module_name": MODULE, "class_name": name, **fields}


def _gaussian(sigma: float) -> Event:
    return _event("GaussianDpEvent", noise_multiplier=sigma)


def _response(leaf: RandomizedResponse, loss: PrivacyLoss) -> Event | None:
    """p = k / (k - 1 + e^epsilon), rounded down: more often the truth."""
    if loss.adjacency is not Adjacency.REPLACE or leaf.epsilon > 700.0:
        return None
    noise = down(min(1.0, leaf.choices / (leaf.choices - 1.0 + math.exp(leaf.epsilon))))
    return _event("RandomizedResponseDpEvent", noise_parameter=noise, num_buckets=leaf.choices)


def _sampled(leaf: Sampled, loss: PrivacyLoss) -> Event:
    if isinstance(leaf.base, GaussianMixture):
        return _mixture(leaf.base, leaf.rate)
    return _event("PoissonSampledDpEvent", sampling_probability=leaf.rate, event=_one(leaf.base, loss))


def _mixture(leaf: GaussianMixture, rate: float) -> Event:
    """With the probability of no move at all in it, as the package's accountants want it; the others rounded up."""
    chances = [double_above(Fraction(rate) * Fraction(share)) for share in leaf.probabilities]
    idle = max(0.0, 1.0 - math.fsum(chances))
    return _event(
        "MixtureOfGaussiansDpEvent",
        standard_deviation=leaf.sigma,
        sensitivities=[*([0.0] if idle else []), *leaf.sensitivities],
        sampling_probs=[*([idle] if idle else []), *chances],
    )


def _cut(leaf: Cut, loss: PrivacyLoss) -> Event | None:
    if not leaf.random or not isinstance(leaf.base, Gaussian):
        return None  # the event cuts at random: another rule can cost more
    return _event(
        "TruncatedSubsampledGaussianDpEvent",
        dataset_size=leaf.population,
        sampling_probability=leaf.rate,
        truncated_batch_size=leaf.largest,
        noise_multiplier=leaf.base.sigma,
    )


def _best(leaf: Selected | SelectedPoisson, loss: PrivacyLoss) -> Event | None:
    shape = math.inf if isinstance(leaf, SelectedPoisson) else leaf.eta
    if shape < 0.0:
        return None  # its shapes start at 0
    return _event("RepeatAndSelectDpEvent", event=_together(leaf.terms, loss), mean=leaf.mean, shape=shape)


def _approximate(epsilon: float, delta: float) -> Event:
    return _event("EpsilonDeltaDpEvent", epsilon=epsilon, delta=delta)


WRITERS: dict[type[Leaf], Callable[[Any, PrivacyLoss], Event | None]] = {
    Gaussian: lambda leaf, loss: _gaussian(leaf.sigma),
    Gdp: lambda leaf, loss: _gaussian(-double_above(-1 / Fraction(leaf.mu))),
    Laplace: lambda leaf, loss: _event("LaplaceDpEvent", noise_multiplier=leaf.scale),
    DiscreteLaplace: lambda leaf, loss: _event(
        "DiscreteLaplaceDpEvent", noise_parameter=reciprocal_above(leaf.scale), sensitivity=leaf.sensitivity
    ),
    DiscreteGaussian: lambda leaf, loss: _event(
        "DiscreteGaussianDpEvent", sigma=leaf.sigma, sensitivity=float(leaf.sensitivity), dimension=1
    ),
    RandomizedResponse: _response,
    PureDp: lambda leaf, loss: _approximate(leaf.epsilon, 0.0),
    ApproxDp: lambda leaf, loss: _approximate(leaf.epsilon, leaf.delta),
    Exponential: lambda leaf, loss: _event("ExponentialMechanismDpEvent", epsilon=leaf.epsilon),
    Zcdp: lambda leaf, loss: None if leaf.delta else _event("ZCDpEvent", rho=leaf.rho, xi=0.0),
    ZcdpOffset: lambda leaf, loss: None if leaf.delta else _event("ZCDpEvent", rho=leaf.rho, xi=leaf.offset),
    NotPrivate: lambda leaf, loss: _event("NonPrivateDpEvent"),
    Sampled: _sampled,
    GaussianMixture: lambda leaf, loss: _mixture(leaf, 1.0),
    SampledReplaced: lambda leaf, loss: _event(
        "PoissonSampledDpEvent", sampling_probability=leaf.rate, event=_gaussian(leaf.sigma)
    ),
    Subset: lambda leaf, loss: _event(
        "SampledWithoutReplacementDpEvent",
        source_dataset_size=leaf.population,
        sample_size=leaf.batch,
        event=_one(leaf.base, loss),
    ),
    Cut: _cut,
    Selected: _best,
    SelectedPoisson: _best,
    Composed: lambda leaf, loss: _together(leaf.terms, loss),
}
