"""Every ledger test gets its own config directory and, by parameter, both stores."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from crash.stores import clock, config, ledger, place, postgres, postgres_with_icu, server, tmp_path  # noqa: F401

VECTORS = Path(__file__).parents[2] / "vectors" / "ledger-3"


@pytest.fixture(scope="session")
def stranger() -> Any:
    """The checker that knows the format alone."""
    spec = importlib.util.spec_from_file_location("stranger", VECTORS / "stranger.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
