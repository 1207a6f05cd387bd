"""Long sweeps: ``make test`` runs a share of their cases, ``make campaign-sweeps`` all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")

ALL = os.environ.get("CASES") == "all"
"""True in a campaign, where every case of every sweep is run."""
campaign_only = pytest.mark.skipif(not ALL, reason="takes long: make campaign-sweeps runs it")


def share(cases: Iterable[Case], every: int, *, always: Iterable[Case] = ()) -> list[Case]:
    """Return each ``every``-th case and those named by ``always``, in order; all cases in a campaign.

    >>> share(range(10), 4, always=[9]) if not ALL else [0, 4, 8, 9]
    [0, 4, 8, 9]
    """
    listed, wanted = list(cases), list(always)
    if ALL:
        return listed
    return [case for place, case in enumerate(listed) if place % every == 0 or case in wanted]
