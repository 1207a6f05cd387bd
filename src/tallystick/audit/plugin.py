"""The pytest plugin: ``assert_private`` and ``assert_costs`` as fixtures, for projects that use nothing else of us."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(name="assert_private")
def _assert_private() -> Callable[..., Any]:
    """``assert_private(f, neighbours, claim, flake=1e-9, draws=20_000)``."""
    from tallystick.audit.assertions import assert_private

    return assert_private


@pytest.fixture(name="assert_costs")
def _assert_costs() -> Callable[..., None]:
    """``assert_costs(plan, at_most)``."""
    from tallystick.audit.assertions import assert_costs

    return assert_costs
