"""Attacks on privacy claims: what they find is evidence at a stated confidence, never a guarantee.

    ts.audit.mechanism(f, neighbours=(a, b), claim=ts.pure_dp(epsilon=1))      is this mechanism what it says?

    drawn = ts.audit.coins(10_000)                    fair coins, committed to before the training
    found = ts.audit.one_run(scores, drawn, claim=plan.privacy)
    print(found)                                      FALSIFIED, or NOT FALSIFIED and what could have been caught

Nothing in this room is trusted by the rest of the package.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES: dict[str, str] = {
    "Coins": "inclusion",
    "Estimate": "evidence",
    "Evidence": "evidence",
    "coins": "inclusion",
    "epsilon_of_mu": "evidence",
    "mechanism": "two_sample",
    "one_run": "guesses",
    "plan_one_run": "guesses",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tallystick.audit' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"tallystick.audit.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
