"""Every test of the referee runs at its precision."""

from __future__ import annotations

import pytest

from referee.balls import with_full_precision


@pytest.fixture(autouse=True)
def full_precision() -> None:
    with_full_precision()
