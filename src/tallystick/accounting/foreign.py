"""Records of other libraries as losses: dp_accounting events and Opacus histories, from plain JSON only.

A pickle can run code when it is read, so it is refused before it is opened as anything; the guide
``docs/guides/check-another-accountant.md`` has the three lines that export a record safely.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from tallystick import strict_json
from tallystick.accounting import check, losses
from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import InvalidInput

MAX_DEPTH = 50
BINARY_NAMES = (".pkl", ".pickle", ".pt", ".pth", ".ckpt", ".bin", ".joblib", ".npy", ".npz")
SAFE = "JSON; export with json.dump (docs/guides/check-another-accountant.md), never with pickle or torch.save"


def read_record(source: str, name: str, content: bytes) -> PrivacyLoss:
    """The loss in a file of another library; ``source`` is ``dp-accounting`` or ``opacus``.

    >>> print(read_record("opacus", "run.json", b'{"history": [[1.0, 0.01, 1000]]}'))
    1000 * gaussian(sigma=1).sampled(rate=0.01)
    >>> read_record("opacus", "run.pkl", b"")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: file = 'run.pkl' is not allowed; give JSON; export with json.dump ...
    """
    readers: dict[str, Callable[[Any], PrivacyLoss]] = {"dp-accounting": from_dp_accounting, "opacus": from_opacus}
    if not isinstance(source, str) or source not in readers:
        raise InvalidInput("source", source, "one of " + ", ".join(readers))
    if not isinstance(name, str) or not isinstance(content, bytes):
        raise InvalidInput("file", name, "the name of a file and its bytes")
    # Pickles of protocol 2 and later start with 0x80, torch.save writes a zip archive.
    if name.lower().endswith(BINARY_NAMES) or content[:1] == b"\x80" or content[:2] == b"PK":
        raise InvalidInput("file", name, SAFE)
    return readers[source](strict_json.read(content, name="file", allowed=SAFE))


# ---- Opacus ----


def from_opacus(document: Any) -> PrivacyLoss:
    """A history ``[[noise_multiplier, sample_rate, steps], ...]``, or the dictionary of ``state_dict()`` with one.

    >>> print(from_opacus([[1.1, 1, 5]]))
    5 * gaussian(sigma=1.1)
    """
    history = document.get("history") if isinstance(document, Mapping) else document
    if not isinstance(history, list) or not history:
        raise InvalidInput("history", history, "a list of [noise_multiplier, sample_rate, steps] with an entry")
    total = losses.no_loss()
    for row in history:
        if not isinstance(row, list) or len(row) != 3:
            raise InvalidInput("history", row, "entries [noise_multiplier, sample_rate, steps]")
        sigma = check.positive("noise_multiplier", row[0], "a finite number > 0 (0 is no privacy at all)")
        total = total + check.count("steps", row[2], least=0) * losses.gaussian(sigma=sigma).sampled(
            rate=check.probability("sample_rate", row[1])
        )
    return total


# ---- dp_accounting ----


def from_dp_accounting(document: Any) -> PrivacyLoss:
    """A ``DpEvent`` written as ``{"class_name": "GaussianDpEvent", "noise_multiplier": 1.0}``, nested as it is.

    >>> event = {"class_name": "LaplaceDpEvent", "noise_multiplier": 2}
    >>> print(from_dp_accounting({"class_name": "SelfComposedDpEvent", "count": 3, "event": event}))
    3 * laplace(scale=2)
    """
    return _event(document, 0)


def _event(value: Any, depth: int) -> PrivacyLoss:
    if depth > MAX_DEPTH:
        raise InvalidInput("event", "deep nesting", f"at most {MAX_DEPTH} events inside one another")
    if not isinstance(value, Mapping):
        raise InvalidInput("event", value, '{"class_name": "GaussianDpEvent", "noise_multiplier": 1.0} and the like')
    name = value.get("class_name")
    if not isinstance(name, str) or name not in EVENTS:
        raise InvalidInput("class_name", name, "one of " + ", ".join(sorted(EVENTS)))
    wanted, build = EVENTS[name]
    given = set(value) - {"class_name", "module_name"}
    if not given <= set(wanted) or not given >= {field for field in wanted if field not in OPTIONAL}:
        raise InvalidInput(name, sorted(given), "the fields " + (", ".join(wanted) or "(none)"))
    return build(value, depth)


def _response(event: Mapping[str, Any], depth: int) -> PrivacyLoss:
    """With probability 1 - p the truth, otherwise a uniform bucket: epsilon = log(1 + k (1 - p) / p)."""
    noise = check.probability("noise_parameter", event["noise_parameter"])
    buckets = check.count("num_buckets", event["num_buckets"], least=2)
    if noise == 0.0:
        raise InvalidInput("noise_parameter", noise, "a number in (0, 1] (0 tells the truth always)")
    if noise == 1.0:
        return losses.no_loss(adjacency="replace")
    strength = math.log1p(buckets * (1.0 - noise) / noise) * (1.0 + 1e-15)
    return losses.randomized_response(epsilon=strength, choices=buckets)


def _discrete_gaussian(event: Mapping[str, Any], depth: int) -> PrivacyLoss:
    if event.get("dimension") != 1:
        raise InvalidInput("dimension", event.get("dimension"), "1: in more dimensions the lattice pair is another one")
    return losses.discrete_gaussian(sigma=event["sigma"], sensitivity=event.get("sensitivity", 1))


def _composed(event: Mapping[str, Any], depth: int) -> PrivacyLoss:
    if not isinstance(event["events"], list):
        raise InvalidInput("events", event["events"], "a list of events")
    return sum((_event(inner, depth + 1) for inner in event["events"]), losses.no_loss())


def _self_composed(event: Mapping[str, Any], depth: int) -> PrivacyLoss:
    return check.count("count", event["count"]) * _event(event["event"], depth + 1)


def _poisson(event: Mapping[str, Any], depth: int) -> PrivacyLoss:
    rate = check.probability("sampling_probability", event["sampling_probability"])
    return _event(event["event"], depth + 1).sampled(rate=rate)


def _discrete_laplace(event: Mapping[str, Any], depth: int) -> PrivacyLoss:
    rate = check.positive("noise_parameter", event["noise_parameter"])
    scale = 1.0 / max(rate, 1e-300)
    if Fraction(scale) * Fraction(rate) > 1:
        scale = math.nextafter(scale, 0.0)  # less noise, never more, than the record says
    return losses.discrete_laplace(scale=scale, sensitivity=event["sensitivity"])


OPTIONAL = ("dimension", "sensitivity", "xi")
Builder = Callable[[Mapping[str, Any], int], PrivacyLoss]
EVENTS: dict[str, tuple[tuple[str, ...], Builder]] = {
    "NoOpDpEvent": ((), lambda event, depth: losses.no_loss()),
    "GaussianDpEvent": (("noise_multiplier",), lambda event, depth: losses.gaussian(sigma=event["noise_multiplier"])),
    "LaplaceDpEvent": (("noise_multiplier",), lambda event, depth: losses.laplace(scale=event["noise_multiplier"])),
    "DiscreteLaplaceDpEvent": (("noise_parameter", "sensitivity"), _discrete_laplace),
    "DiscreteGaussianDpEvent": (("sigma", "sensitivity", "dimension"), _discrete_gaussian),
    "RandomizedResponseDpEvent": (("noise_parameter", "num_buckets"), _response),
    "EpsilonDeltaDpEvent": (
        ("epsilon", "delta"),
        lambda event, depth: losses.approx_dp(epsilon=event["epsilon"], delta=event["delta"]),
    ),
    "ZCDpEvent": (
        ("rho", "xi"),
        lambda event, depth: _zcdp(event),
    ),
    "PoissonSampledDpEvent": (("sampling_probability", "event"), _poisson),
    "SelfComposedDpEvent": (("event", "count"), _self_composed),
    "ComposedDpEvent": (("events",), _composed),
}


def _zcdp(event: Mapping[str, Any]) -> PrivacyLoss:
    if event.get("xi", 0) != 0:
        raise InvalidInput("xi", event["xi"], "0: only (0, rho)-zCDP is accounted")
    return losses.zcdp(rho=event["rho"])
