"""From the oracle's plain data to a ``PrivacyLoss``."""

from __future__ import annotations

from typing import Any

import tallystick as ts

NAMES = {"epsilon", "delta", "mu", "sigma", "scale", "sensitivity", "choices", "flip_prob"}


def loss_of(terms: list[dict[str, Any]]) -> ts.PrivacyLoss:
    """The tallystick expression that the oracle's terms stand for (REPLACE when any term is subset sampled)."""
    replace = any("subset" in term for term in terms)
    adjacency = ts.Adjacency.REPLACE if replace else ts.Adjacency.ADD_REMOVE
    total = ts.no_loss()
    for term in terms:
        given = {k: v for k, v in term.items() if k in NAMES}
        make = getattr(ts, term["leaf"])
        pair = (term["p"], term["q"]) if term["leaf"] == "discrete_pair" else ()
        step = make(*pair, **given, adjacency=adjacency)
        if "rate" in term:
            step = step.sampled(rate=term["rate"])
        if "subset" in term:
            step = step.subset(batch=term["subset"][0], population=term["subset"][1])
        total = total + int(term.get("count", 1)) * step
    return total
