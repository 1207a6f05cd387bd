"""Long random walks of the ledger beside its reference model, on both stores."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from crash.stores import Server, fresh_schema
from crash.twin import Twin, random_step

LENGTH = 200


def run(scale: float, server: Server) -> list[str]:
    """Rows of the table."""
    rows = []
    for store, full in (("SQLite", 160_000), ("PostgreSQL", 40_000)):
        target, steps, walks, draw = round(full * scale), 0, 0, random.Random(9)
        trouble = ""
        with tempfile.TemporaryDirectory() as folder:
            while steps < target and not trouble:
                place = fresh_schema(server.url) if store == "PostgreSQL" else f"{folder}/{walks}.db"
                twin = Twin(place, Path(folder) / "config")
                try:
                    for _ in range(LENGTH):
                        random_step(twin, draw)
                    twin.finish()
                except AssertionError as error:
                    trouble = str(error)
                steps, walks = steps + twin.steps, walks + 1
        found = "equal to the model at every step" if not trouble else f"**differs**: {trouble}"
        rows.append(
            f"| random steps beside the reference model, {store} | {steps:,} steps in {walks:,} walks | {found} |"
        )
    return rows
