"""Versioned JSON of losses. The meaning of a written text never changes; new leaves get new kinds."""

from __future__ import annotations

import json

from tallystick import strict_json
from tallystick.accounting import check, losses, sampling
from tallystick.accounting.adjacency import Protects
from tallystick.accounting.leaf import merged, read_leaf
from tallystick.accounting.loss import PrivacyLoss
from tallystick.errors import InvalidInput

FORMAT = "tallystick.loss/1"
FIELDS = {"format", "adjacency", "unit", "group", "terms"}
LEAVES_ARE_DEFINED_BY = (losses, sampling)


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
        "terms": [[leaf.to_record(), count] for leaf, count in loss.terms],
    }
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=True)


def from_json(text: str) -> PrivacyLoss:
    """Read a loss; what no constructor makes is refused with the field named."""
    body = strict_json.read(text, allowed=f"JSON written by to_json ({FORMAT})")
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise InvalidInput("format", body.get("format") if isinstance(body, dict) else body, FORMAT)
    if set(body) != FIELDS:
        raise InvalidInput("text", sorted(body), "the fields " + ", ".join(sorted(FIELDS)))
    if not isinstance(body["terms"], list):
        raise InvalidInput("terms", body["terms"], "a list of [leaf, count]")
    terms = []
    for item in body["terms"]:
        if not isinstance(item, list) or len(item) != 2:
            raise InvalidInput("terms", item, "[leaf, count]")
        terms.append((read_leaf(item[0]), check.count("count", item[1], least=1)))
    return PrivacyLoss(merged(terms), Protects(body["adjacency"], body["unit"]), body["group"])
