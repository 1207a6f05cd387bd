"""Public names that are imported when they are first used, so that importing a package stays quick (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def names(
    package: str, homes: Mapping[str, str], rooms: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose names live in ``homes`` and whose ``rooms`` are modules."""

    def attribute(name: str) -> Any:
        if name in homes:
            value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        elif rooms is not None and name in rooms:
            value = importlib.import_module(f"{package}.{rooms[name]}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return attribute, lambda: sorted(sys.modules[package].__all__)
