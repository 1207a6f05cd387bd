"""Power cuts, simulated: only what was synced is left, and some of what was written after it."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from kills import said

from crash.power import cut
from crash.stores import Server


def run(scale: float, server: Server) -> list[str]:
    """Rows of the table."""
    cuts, draw, delivered, found = max(4, round(500 * scale)), random.Random(4), 0, []
    for _ in range(cuts):
        with tempfile.TemporaryDirectory() as folder:
            answers, complaints = cut(Path(folder), draw, workers=draw.randint(1, 8))
            delivered, found = delivered + answers, found + complaints
    size = f"{cuts:,} cuts under 1 to 8 writers, {delivered:,} answers delivered before them"
    return [f"| power cut, simulated (synced image, random later sectors), SQLite | {size} | {said(found)} |"]
