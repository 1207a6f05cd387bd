"""Every ledger test gets its own config directory and, by parameter, both stores."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crash.stores import clock, config, ledger, place, postgres, postgres_with_icu, server, tmp_path  # noqa: F401
from sweeps import ALL

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


ROOM = Path(__file__).parent
IN_FULL = ("test_charges.py", "test_first_write.py", "test_payments.py", "test_pay.py")
"""Files whose sweeps run in full on both stores: what is charged, and who writes first."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:  # noqa: F811
    """A sweep runs in full on SQLite; of every three cases on PostgreSQL one stays, as a new schema takes 40 ms."""
    seen: Counter[str] = Counter()
    left_out = [item for item in items if not ALL and _is_of_a_sweep_on_postgres(item) and _place_in(seen, item) % 3]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def _is_of_a_sweep_on_postgres(item: pytest.Item) -> bool:
    if item.path.parent != ROOM or item.path.name in IN_FULL:
        return False
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return given.get("place") == "postgres" and len(given) > 1


def _place_in(seen: Counter[str], item: pytest.Item) -> int:
    """The place of a case among those of its test on PostgreSQL."""
    name = item.nodeid.split("[")[0]
    seen[name] += 1
    return seen[name] - 1
