"""Versioned JSON of losses. The meaning of a written text never changes; new leaves get new kinds."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from tallystick.accounting import check
from tallystick.accounting.leaf import Leaf
from tallystick.accounting.leaves.allocated import Allocated
from tallystick.accounting.leaves.discrete import DiscreteGaussian, DiscreteLaplace
from tallystick.accounting.leaves.exponential import Exponential
from tallystick.accounting.leaves.gaussian import Gaussian, Gdp
from tallystick.accounting.leaves.laplace import Laplace
from tallystick.accounting.leaves.nested import Composed, Replaced, Worst
from tallystick.accounting.leaves.pure import ApproxDp, PureDp
from tallystick.accounting.leaves.renyi import RenyiDp, Zcdp
from tallystick.accounting.leaves.response import RandomizedResponse
from tallystick.accounting.leaves.sampled import Sampled, Subset
from tallystick.accounting.leaves.substituted import SampledReplaced
from tallystick.accounting.leaves.tabulated import DiscretePair, Profile, Tradeoff
from tallystick.accounting.leaves.truncated import Truncated
from tallystick.accounting.loss import PrivacyLoss, merged
from tallystick.errors import InvalidInput

FORMAT = "tallystick.loss/1"
MAX_TEXT = 10_000_000
MAX_DEPTH = 20
LEAVES: dict[str, type[Leaf]] = {
    leaf.kind: leaf
    for leaf in (
        Gaussian, Gdp, Laplace, PureDp, ApproxDp, RandomizedResponse, Exponential, DiscreteGaussian, DiscreteLaplace,
        Zcdp, RenyiDp, DiscretePair, Tradeoff, Profile, Sampled, Subset, Composed, Replaced, Worst,
        Allocated, Truncated, SampledReplaced,
    )
}  # fmt: skip


def to_json(loss: PrivacyLoss) -> str:
    """Canonical text: sorted keys, no spaces, shortest floats that read back exactly.

    >>> import tallystick as ts
    >>> ts.PrivacyLoss.from_json(to_json(ts.laplace(scale=2))) == ts.laplace(scale=2)
    True
    """
    body = {
        "format": FORMAT,
        "adjacency": loss.adjacency.value,
        "unit": loss.unit,
        "group": loss.group,
        "terms": _encode(loss.terms),
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def _encode(value: Any) -> Any:
    if isinstance(value, Leaf):
        return {"kind": value.kind, **{f.name: _encode(getattr(value, f.name)) for f in fields(value)}}  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return [_encode(v) for v in value]
    return value


def from_json(text: str) -> PrivacyLoss:
    """Read a loss; anything malformed is refused with the field named."""
    if not isinstance(text, str) or len(text) > MAX_TEXT:
        raise InvalidInput("text", type(text).__name__, f"a JSON text of at most {MAX_TEXT} characters")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidInput("text", text, f"JSON written by to_json ({FORMAT})") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise InvalidInput("format", body.get("format") if isinstance(body, dict) else body, FORMAT)
    return PrivacyLoss(
        merged(_decode_terms(body.get("terms"), 0)),
        check.adjacency(body.get("adjacency")),
        check.unit(body.get("unit")),
        check.count("group", body.get("group", 1), least=1),
    )


def _decode_terms(value: Any, depth: int) -> tuple[tuple[Leaf, int], ...]:
    if not isinstance(value, list) or depth > MAX_DEPTH:
        raise InvalidInput("terms", value, "a list of [leaf, count], not nested too deeply")
    terms = []
    for item in value:
        if not isinstance(item, list) or len(item) != 2:
            raise InvalidInput("terms", item, "[leaf, count]")
        terms.append((_decode_leaf(item[0], depth + 1), check.count("count", item[1], least=1)))
    return tuple(terms)


def _decode_leaf(value: Any, depth: int) -> Leaf:
    if not isinstance(value, dict) or value.get("kind") not in LEAVES or depth > MAX_DEPTH:
        kind = value.get("kind") if isinstance(value, dict) else value
        raise InvalidInput("kind", kind, "one of " + ", ".join(sorted(LEAVES)))
    cls = LEAVES[value["kind"]]
    wanted = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]
    if set(value) - {"kind"} != set(wanted):
        raise InvalidInput(cls.kind, sorted(set(value) - {"kind"}), "the fields " + ", ".join(wanted))
    return cls(**{name: _decode_field(cls, name, value[name], depth) for name in wanted})


def _decode_field(cls: type[Leaf], name: str, value: Any, depth: int) -> Any:
    if name == "base":
        return _decode_leaf(value, depth + 1)
    if name == "terms":
        return _decode_terms(value, depth + 1)
    if name == "members":
        if not isinstance(value, list):
            raise InvalidInput(name, value, "a list of term lists")
        return tuple(_decode_terms(v, depth + 1) for v in value)
    if isinstance(value, list):
        return tuple(check.finite(f"{cls.kind}.{name}", v) for v in value)
    if name in ("steps", "largest"):
        return check.count(f"{cls.kind}.{name}", value, least=1)
    if name in ("choices", "batch", "population", "sensitivity"):
        return check.count(f"{cls.kind}.{name}", value, most=10**15)
    number = check.nonnegative(f"{cls.kind}.{name}", value)
    if name in ("sigma", "scale") and number == 0.0:
        raise InvalidInput(f"{cls.kind}.{name}", value, "a finite number > 0")
    if name in ("rate", "delta") and number > 1.0:
        raise InvalidInput(f"{cls.kind}.{name}", value, "a number between 0 and 1")
    if cls in (Sampled, SampledReplaced) and name == "rate" and not 0.0 < number < 1.0:
        raise InvalidInput(f"{cls.kind}.{name}", value, "a number strictly between 0 and 1")
    return number
