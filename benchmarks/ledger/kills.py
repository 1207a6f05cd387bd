"""kill -9 at every named point, and at random moments."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from crash import combined
from crash.killing import SCENARIOS, Traces, Worker, complaints, in_child, kill_at, points
from crash.stores import Server, fresh_schema

POSTGRES_SHARE = 0.1  # of the SQLite size


def at_every_point(place_for: Callable[[str], str], config: Path, each: int) -> tuple[int, int, list[str]]:
    """(points, kills, complaints); a ledger per scenario, because every point ends in a full verify."""
    number, named, found = 0, 0, []
    for scenario in SCENARIOS:
        place = place_for(scenario)
        names = points(place, config, scenario)
        named += len(names)
        for point in names:
            seen = Traces(set(), {})
            for _ in range(each):
                number += 1
                traces = kill_at(place, config, scenario, point, f"{scenario}-{number}")
                seen.touched |= traces.touched
                seen.delivered |= traces.delivered
            found += [f"{scenario}, {point}: {text}" for text in complaints(place, config, seen)]
    return named, number, found


def at_random(place: str, config: Path, kills: int) -> tuple[int, list[str]]:
    """(answers delivered before the kills, complaints)."""
    draw, found, delivered = random.Random(1), [], 0

    def until_killed(seen: int) -> None:
        worker = Worker(place, config, seen, lambda name: None)
        number = 0
        while True:
            worker.perform(SCENARIOS[number % 4], f"{os.getpid()}-{time.monotonic_ns()}")
            number += 1

    seen = Traces(set(), {})
    for number in range(kills):
        _, traces = in_child(until_killed, kill_after=draw.randint(1, 9), wait=0.004 * draw.random())
        seen.touched |= traces.touched
        seen.delivered |= traces.delivered
        delivered += len(traces.delivered)
        if number % 50 == 49 or number == kills - 1:
            found += list(complaints(place, config, seen))
            seen = Traces(set(), {})
    return delivered, found


def run(scale: float, server: Server) -> list[str]:
    """Rows of the table."""
    rows = []
    for store, share in (("SQLite", 1.0), ("PostgreSQL", POSTGRES_SHARE)):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "config"

            def place(name: str, store: str = store, folder: str = folder) -> str:
                return fresh_schema(server.url) if store == "PostgreSQL" else f"{folder}/{name}.db"

            each = max(1, round(100 * scale * share))
            named, kills, found = at_every_point(place, config, each)
            size = f"{named} points, {each} each ({kills:,} kills)"
            rows.append(f"| kill -9 at every named point, {store} | {size} | {said(found)} |")
            random_kills = max(10, round(2000 * scale * share))
            delivered, found = at_random(place("random"), config, random_kills)
            size = f"{random_kills:,} kills, {delivered:,} answers delivered before them"
            rows.append(f"| kill -9 at random times, {store} | {size} | {said(found)} |")
            threads = max(EACH, round(1000 * scale * share))
            delivered, found = of_threads(place, config, threads)
            size = f"{threads:,} kills, {delivered:,} answers delivered before them"
            rows.append(f"| kill -9 of 16 threads that share transactions, {store} | {size} | {said(found, SHARED)} |")
    return rows


EACH = 20
"""Kills of threads on one ledger. Each of them ends in a full verify, so the ledger must stay small."""
SHARED = "0 charged twice for one key, 0 newest entries without a seal, "


def of_threads(place_for: Callable[[str], str], config: Path, kills: int) -> tuple[int, list[str]]:
    """(answers delivered before the kills, complaints) of a process whose threads share transactions.

    Half of the kills are at named points, the others at random moments.
    """
    draw, found, delivered = random.Random(2), [], 0
    for number in range(0, kills, EACH):
        place = place_for(f"shared {number}")
        combined.govern(place, config)
        answers, wrong = combined.at_random(place, config, EACH // 2, draw)
        delivered += answers
        found += wrong + combined.at_points(place, config, draw, most=EACH // 2)[1]
    return delivered, found


def said(found: list[str], more: str = "") -> str:
    """The result cell."""
    if not found:
        return f"0 released but uncharged, {more}0 stuck accounts, verify clean"
    return f"**{len(found)} complaints**: {found[0]}"
