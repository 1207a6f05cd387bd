"""Events of dp_accounting as losses, and losses as its events; plain values, so that the package is not needed.

An event does not say who is protected, so the caller does, in the package's own three words:

    add_remove        a record is added or removed
    replace           a record is changed
    replace_special   a record is changed to one that contributes nothing; here: removed, and its place stays empty

Its fields are read by what the event's documentation defines. Where that leaves a choice, or where the package's own
accountants disagree, the reading is the one with less privacy; what has no reading is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from tallystick.accounting import check, losses
from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.leaves.selected import LARGEST_SHAPE, SMALLEST_GAMMA, mean_runs, selected
from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import InvalidInput
from tallystick.rounding import double_above, up

MAX_DEPTH = 50
MODULE = "dp_accounting.dp_event"
KNOTS, MOST_DRAWS = 240, 12
RELATIONS = ("add_remove", "replace", "replace_special")
EXAMPLE = '{"class_name": "GaussianDpEvent", "noise_multiplier": 1.0} and the like'


def from_dp_accounting(document: Any, *, adjacency: Any = "add_remove") -> PrivacyLoss:
    """The loss of an event: ``{"class_name": ..., field: value, ...}``, or what ``to_named_tuple()`` gives, nested.

    >>> event = {"class_name": "LaplaceDpEvent", "noise_multiplier": 2}
    >>> print(from_dp_accounting({"class_name": "SelfComposedDpEvent", "count": 3, "event": event}))
    3 * laplace(scale=2)
    >>> print(from_dp_accounting(["dp_accounting.dp_event", "GaussianDpEvent", 1.0], adjacency="replace"))
    gaussian(sigma=0.5, adjacency='replace')
    """
    said = adjacency.value if isinstance(adjacency, Adjacency) else adjacency
    if not isinstance(said, str) or said not in RELATIONS:
        raise InvalidInput("adjacency", adjacency, " or ".join(RELATIONS))
    return _Reading(said).event(document)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One event after another, for the neighbours the caller named."""

    relation: str
    depth: int = 0
    sampled: bool = False
    """Inside Poisson sampling under another relation than add/remove: only noise on a sum has a meaning there."""

    @property
    def about(self) -> dict[str, Any]:
        return {"adjacency": Adjacency.REPLACE if self.relation == "replace" else Adjacency.ADD_REMOVE}

    @property
    def moved(self) -> int:
        """How many times its own norm a record moves a sum: a changed record takes one part away and adds another."""
        return 2 if self.relation == "replace" else 1

    def event(self, value: Any) -> PrivacyLoss:
        if self.depth > MAX_DEPTH:
            raise InvalidInput("event", "deep nesting", f"at most {MAX_DEPTH} events inside one another")
        name, given = _named(value)
        kind = EVENTS[name]
        needed = {field for field in kind.fields if field not in kind.defaults}
        if not needed <= set(given) <= set(kind.fields):
            raise InvalidInput(name, sorted(given), "the fields " + (", ".join(kind.fields) or "(none)"))
        return kind.read(self, {**kind.defaults, **given})

    def inside(self, value: Any, **changes: Any) -> PrivacyLoss:
        return replace(self, depth=self.depth + 1, **changes).event(value)

    def everything_lost(self, why: str = "an event without noise") -> PrivacyLoss:
        return losses.not_private(why=why, **self.about)

    def as_stated(self, name: str) -> None:
        """Raise where a guarantee is about the caller's neighbours and the place of the event about others."""
        if self.sampled:
            works = (
                "noise on a sum inside Poisson sampling, or add_remove neighbours: what it promises there is unknown"
            )
            raise InvalidInput(name, f"inside Poisson sampling, {self.relation} neighbours", works)

    # ---- noise on a sum of bounded records ----

    def gaussian(self, event: Mapping[str, Any]) -> PrivacyLoss:
        noise = check.nonnegative("noise_multiplier", event["noise_multiplier"])
        return losses.gaussian(sigma=noise / self.moved, **self.about) if noise else self.everything_lost()

    def laplace(self, event: Mapping[str, Any]) -> PrivacyLoss:
        noise = check.nonnegative("noise_multiplier", event["noise_multiplier"])
        return losses.laplace(scale=noise / self.moved, **self.about) if noise else self.everything_lost()

    def discrete_laplace(self, event: Mapping[str, Any]) -> PrivacyLoss:
        rate = check.positive("noise_parameter", event["noise_parameter"])
        scale = 1.0 / max(rate, 1e-300)
        if Fraction(scale) * Fraction(rate) > 1:
            scale = math.nextafter(scale, 0.0)  # less noise, never more, than the record says
        moved = self.moved * check.count("sensitivity", event["sensitivity"])
        return losses.discrete_laplace(scale=scale, sensitivity=moved, **self.about)

    def discrete_gaussian(self, event: Mapping[str, Any]) -> PrivacyLoss:
        """One whole number: its lattice pair. A vector, or an unknown shape: concentrated, in any dimension.

        (Canonne, Kamath, Steinke 2020, Theorem 14: coordinates add up to rho = |shift|^2 / (2 sigma^2).)
        """
        sigma = check.nonnegative("sigma", event["sigma"])
        moved = self.moved * check.nonnegative("sensitivity", event["sensitivity"])
        size = event["dimension"]
        if size is not None:
            size = check.count("dimension", size, least=1)
        if moved == 0.0:
            return losses.no_loss(**self.about)
        if sigma == 0.0:
            return self.everything_lost()
        if size == 1:
            return losses.discrete_gaussian(sigma=sigma, sensitivity=math.ceil(moved), **self.about)
        return losses.zcdp(rho=double_above(Fraction(moved) ** 2 / (2 * Fraction(sigma) ** 2)), **self.about)

    def mixture(self, event: Mapping[str, Any]) -> PrivacyLoss:
        """The event's pair is the leaf's; a move to the other side is as bad as one to this."""
        self.not_replaced("MixtureOfGaussiansDpEvent")
        self.as_stated("MixtureOfGaussiansDpEvent")
        noise = check.nonnegative("standard_deviation", event["standard_deviation"])
        moves = [abs(check.finite("sensitivities", c)) for c in _listed("sensitivities", event["sensitivities"])]
        chances = _listed("sampling_probs", event["sampling_probs"])
        found = losses.gaussian_mixture(sigma=noise or 1.0, sensitivities=moves, probabilities=chances, **self.about)
        return found if noise or not found.terms else self.everything_lost()

    # ---- what is sampled ----

    def poisson(self, event: Mapping[str, Any]) -> PrivacyLoss:
        rate = check.probability("sampling_probability", event["sampling_probability"])
        if self.relation == "replace":
            # A changed record leaves, and another one comes: two neighbours by addition and removal.
            return self.inside(event["event"], relation="add_remove", sampled=True).sampled(rate=rate).as_replace()
        sampled = self.sampled or self.relation == "replace_special"
        return self.inside(event["event"], sampled=sampled).sampled(rate=rate)

    def truncated(self, event: Mapping[str, Any]) -> PrivacyLoss:
        rate = check.probability("sampling_probability", event["sampling_probability"])
        people, most = (check.count(name, event[name]) for name in ("dataset_size", "truncated_batch_size"))
        noise = check.nonnegative("noise_multiplier", event["noise_multiplier"])
        if rate == 0.0 or people == 0 or most == 0:
            return losses.no_loss(**self.about)
        if noise == 0.0:
            return self.everything_lost()
        if self.relation == "replace_special":
            # A special record that is drawn still takes the place of another one, which an absent record does not.
            raise InvalidInput(
                "adjacency", self.relation, "replace or add_remove for TruncatedSubsampledGaussianDpEvent"
            )
        found = losses.gaussian(sigma=noise).sampled(rate=rate, largest=most, population=people, cut="random")
        return found.as_replace() if self.relation == "replace" else found

    def subset(self, event: Mapping[str, Any]) -> PrivacyLoss:
        self.only_replaced("SampledWithoutReplacementDpEvent")
        people = check.count("source_dataset_size", event["source_dataset_size"], least=1)
        batch = check.count("sample_size", event["sample_size"], most=people)
        return self.inside(event["event"]).subset(batch=batch, population=people)

    def redrawn(self, event: Mapping[str, Any]) -> PrivacyLoss:
        self.only_replaced("SampledWithReplacementDpEvent")
        people = check.count("source_dataset_size", event["source_dataset_size"], least=1)
        return _redrawn(self.inside(event["event"]), check.count("sample_size", event["sample_size"]), people)

    # ---- what is promised ----

    def response(self, event: Mapping[str, Any]) -> PrivacyLoss:
        """With probability 1 - p the truth, otherwise a uniform bucket: epsilon = log(1 + k (1 - p) / p).

        A special record answers uniformly, as the package has it: only whether the answer is the truth tells.
        """
        if self.relation == "add_remove":
            raise InvalidInput("adjacency", self.relation, "replace: a person who answers is there either way")
        noise = check.probability("noise_parameter", event["noise_parameter"])
        buckets = check.count("num_buckets", event["num_buckets"], least=1)
        self.as_stated("RandomizedResponseDpEvent")
        if buckets == 1 or noise == 1.0:
            return losses.no_loss(**self.about)
        if noise == 0.0:
            return self.everything_lost()
        if self.relation == "replace_special":
            # In fractions: beside very many buckets the difference has no digits left.
            truth = double_above(1 - Fraction(noise) * (1 - Fraction(1, buckets)))
            blind = -double_above(-Fraction(1, buckets))
            return losses.discrete_pair([truth, 1.0 - truth], [blind, 1.0 - blind])
        strength = math.log1p(buckets * (1.0 - noise) / noise) * (1.0 + 1e-15)
        return losses.randomized_response(epsilon=strength, choices=buckets, **self.about)

    def approximate(self, event: Mapping[str, Any]) -> PrivacyLoss:
        self.as_stated("EpsilonDeltaDpEvent")
        return losses.approx_dp(epsilon=event["epsilon"], delta=event["delta"], **self.about)

    def exponential(self, event: Mapping[str, Any]) -> PrivacyLoss:
        self.as_stated("ExponentialMechanismDpEvent")
        return losses.exponential(epsilon=event["epsilon"], **self.about)

    def permuted(self, event: Mapping[str, Any]) -> PrivacyLoss:
        """Pure: that its losses are those of Laplace noise is the package's word, and no theorem we know."""
        self.as_stated("PermuteAndFlipDpEvent")
        return losses.pure_dp(epsilon=event["epsilon"], **self.about)

    def concentrated(self, event: Mapping[str, Any]) -> PrivacyLoss:
        self.as_stated("ZCDpEvent")
        return losses.zcdp(rho=event["rho"], offset=event["xi"], **self.about)

    def tree(self, event: Mapping[str, Any]) -> PrivacyLoss:
        """A record is in one leaf of one tree, so in one node of each of its levels."""
        self.as_stated("SingleEpochTreeAggregationDpEvent")
        if self.relation == "add_remove":
            works = "replace_special, if the place of a removed record stays empty; or replace"
            raise InvalidInput("adjacency", self.relation, works)
        given = event["step_counts"]
        counts = [
            check.count("step_counts", n)
            for n in ([given] if isinstance(given, int) else _listed("step_counts", given))
        ]
        if not counts or max(counts) == 0:
            raise InvalidInput("step_counts", given, "at least one step")
        return max(counts).bit_length() * self.gaussian(event)

    def selected(self, event: Mapping[str, Any]) -> PrivacyLoss:
        base = self.inside(event["event"])
        shape = (
            math.inf
            if event["shape"] in (math.inf, "inf")
            else check.between("shape", event["shape"], 0.0, LARGEST_SHAPE)
        )
        mean = check.positive("mean", event["mean"])
        if math.isinf(shape):
            return selected(base, poisson=mean)
        gamma = _halting(shape, mean)
        return base if gamma == 1.0 else selected(base, eta=shape, gamma=gamma)

    # ---- what is put together ----

    def composed(self, event: Mapping[str, Any]) -> PrivacyLoss:
        parts = [self.inside(inner) for inner in _listed("events", event["events"])]
        return sum(parts, losses.no_loss(**self.about))

    def repeated(self, event: Mapping[str, Any]) -> PrivacyLoss:
        return check.count("count", event["count"]) * self.inside(event["event"])

    def only_replaced(self, name: str) -> None:
        if self.relation != "replace":
            raise InvalidInput("adjacency", self.relation, f"replace: {name} has a fixed number of records")

    def not_replaced(self, name: str) -> None:
        if self.relation == "replace":
            raise InvalidInput(
                "adjacency", self.relation, f"add_remove or replace_special: {name} has a side without the record"
            )


def _redrawn(loss: PrivacyLoss, batch: int, people: int) -> PrivacyLoss:
    """``batch`` draws with replacement: the record is drawn K times, K binomial, and with probability eta at all.

    With epsilon' = log(1 + eta (e^epsilon - 1)) delta'(epsilon') is at most the sum over k >= 1 of P(K = k) delta_k(
    epsilon), delta_k for groups of k (Balle, Barthe, Gaboardi 2018). Advanced joint convexity leaves eta times the
    divergence of "drawn" from a mixture of "not drawn" and "drawn from the other data set"; both differ in K draws.
    """
    if batch == 0 or not loss.terms:
        return PrivacyLoss((), loss.protects)
    stays = math.log1p(-1.0 / people) if people > 1 else -math.inf  # log of the chance that one draw is another record
    eta = min(1.0, up(-math.expm1(batch * stays)))
    chances: list[float] = []
    while len(chances) < min(batch, MOST_DRAWS) and (not chances or chances[-1] > 1e-20):
        k = len(chances) + 1
        others = math.exp((batch - k) * stays) if k < batch else 1.0
        chances.append(up(double_above(Fraction(math.comb(batch, k), people**k)) * others))
    # P(K > k) <= comb(batch, k + 1) / people^(k + 1): some k + 1 draws are all of the record.
    rest = double_above(Fraction(math.comb(batch, len(chances) + 1), people ** (len(chances) + 1)))
    groups = [loss.for_groups(k + 1) for k in range(len(chances))]
    top = min(
        600.0, float(groups[min(2, len(groups) - 1)].epsilon(delta=1e-12)), float(loss.epsilon(delta=1e-30)) * 9.0
    )
    knots = []
    for step in range(KNOTS + 1):
        epsilon = top * (step / KNOTS) ** 1.5
        delta = math.fsum(p * group.delta(epsilon=epsilon) for p, group in zip(chances, groups, strict=True))
        knots.append((up(math.log1p(eta * math.expm1(epsilon))), min(1.0, up(delta + rest))))
    return losses.from_profile(knots, adjacency=loss.adjacency, unit=loss.unit)


def _named(value: Any) -> tuple[str, dict[str, Any]]:
    """The class and the fields of an event, from either way of writing it."""
    if isinstance(value, Mapping):
        name, module = value.get("class_name"), value.get("module_name", MODULE)
        given = {field: item for field, item in value.items() if field not in ("class_name", "module_name")}
    elif isinstance(value, list | tuple) and len(value) >= 2:
        (module, name), rest = value[:2], value[2:]
        wanted = EVENTS[name].fields if isinstance(name, str) and name in EVENTS else ()
        given = dict(zip(wanted, rest, strict=False)) if len(rest) <= len(wanted) else {"more fields": rest}
    else:
        raise InvalidInput("event", value, EXAMPLE)
    if not isinstance(name, str) or name not in EVENTS:
        raise InvalidInput("class_name", name, "one of " + ", ".join(sorted(EVENTS)))
    if module != MODULE:
        raise InvalidInput("module_name", module, f"{MODULE}: other modules may mean something else by the same name")
    return name, given


def _listed(name: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(name, value, "a list")
    return value


def _halting(shape: float, mean: float) -> float:
    """The largest gamma that is certain to mean at least this many runs on average: a smaller gamma means more."""
    low, high = math.log(SMALLEST_GAMMA), 0.0
    if not 1.0 <= mean <= mean_runs(shape, SMALLEST_GAMMA):
        raise InvalidInput("mean", mean, f"between 1 and {mean_runs(shape, SMALLEST_GAMMA):g} runs for this shape")
    if mean == 1.0:
        return 1.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mean_runs(shape, math.exp(middle)) >= mean else (low, middle)
    return max(SMALLEST_GAMMA, math.exp(low) * (1.0 - 1e-9))


@dataclass(frozen=True, slots=True)
class _Kind:
    read: Callable[[_Reading, Mapping[str, Any]], PrivacyLoss]
    fields: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)


EVENTS: dict[str, _Kind] = {
    "NoOpDpEvent": _Kind(lambda reading, event: losses.no_loss(**reading.about)),
    "NonPrivateDpEvent": _Kind(lambda reading, event: reading.everything_lost("NonPrivateDpEvent")),
    "GaussianDpEvent": _Kind(_Reading.gaussian, ("noise_multiplier",)),
    "LaplaceDpEvent": _Kind(_Reading.laplace, ("noise_multiplier",)),
    "DiscreteLaplaceDpEvent": _Kind(_Reading.discrete_laplace, ("noise_parameter", "sensitivity")),
    "DiscreteGaussianDpEvent": _Kind(
        _Reading.discrete_gaussian, ("sigma", "sensitivity", "dimension"), {"sensitivity": 1.0, "dimension": None}
    ),
    "MixtureOfGaussiansDpEvent": _Kind(_Reading.mixture, ("standard_deviation", "sensitivities", "sampling_probs")),
    "PoissonSampledDpEvent": _Kind(_Reading.poisson, ("sampling_probability", "event")),
    "TruncatedSubsampledGaussianDpEvent": _Kind(
        _Reading.truncated, ("dataset_size", "sampling_probability", "truncated_batch_size", "noise_multiplier")
    ),
    "SampledWithoutReplacementDpEvent": _Kind(_Reading.subset, ("source_dataset_size", "sample_size", "event")),
    "SampledWithReplacementDpEvent": _Kind(_Reading.redrawn, ("source_dataset_size", "sample_size", "event")),
    "RandomizedResponseDpEvent": _Kind(_Reading.response, ("noise_parameter", "num_buckets")),
    "EpsilonDeltaDpEvent": _Kind(_Reading.approximate, ("epsilon", "delta")),
    "ExponentialMechanismDpEvent": _Kind(_Reading.exponential, ("epsilon",)),
    "PermuteAndFlipDpEvent": _Kind(_Reading.permuted, ("epsilon",)),
    "ZCDpEvent": _Kind(_Reading.concentrated, ("rho", "xi"), {"xi": 0.0}),
    "SingleEpochTreeAggregationDpEvent": _Kind(_Reading.tree, ("noise_multiplier", "step_counts")),
    "RepeatAndSelectDpEvent": _Kind(_Reading.selected, ("event", "mean", "shape")),
    "SelfComposedDpEvent": _Kind(_Reading.repeated, ("event", "count")),
    "ComposedDpEvent": _Kind(_Reading.composed, ("events",)),
}
"""Each kind of event with its fields, in the order in which ``to_named_tuple()`` has them.

Not there: UnsupportedDpEvent, which says itself that it means nothing.
"""
