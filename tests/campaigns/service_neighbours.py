"""Jobs on neighbouring data look the same to everyone who polls the service, but for the answer.

Two services have the same people and statements. In one of them there are many more rows, so that a release takes
longer. Each job is polled every 50 ms. Afterwards the ledger says when each charge began and when its answer came: the
difference is a power of two of seconds in both, and no poll has shown an end before.

    python tests/campaigns/service_neighbours.py --jobs 1000

A broken twin (``--no-tick``) has a keeper whose outcomes leave when they are there; it has to be found.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import served
from served import Service, statement
from tallystick.errors import Unavailable
from tallystick.service.protocol import Caller

POLL = 0.05
SLACK = 0.5
"""Seconds that an entry may wait for its turn behind those of others on a busy machine."""


TWIN = """
import sys
from tallystick.service import keeper, opening
opening.wait_for_tick = lambda *_: None
keeper.main(sys.argv[1], keeper._say_ready)
"""
"""A keeper whose outcomes leave when they are there."""


def statements(draw: random.Random) -> Iterator[str]:
    """Statements about the visits, each another question."""
    while True:
        least = draw.random() * 90
        column = draw.choice(["COUNT(*)", "SUM(age)", "AVG(age)", "COUNT(DISTINCT who)"])
        where = f"WHERE ward IN ('north', 'east') AND age >= {least:.9f}"
        yield f"SELECT ward, {column} AS n FROM visits {where} GROUP BY ward"


def watch(service: Service, who: str, text: str) -> tuple[str, float]:
    """Submit a statement; return its last state, and the time at which polling showed the end."""
    with service.calling(who) as caller:
        job = submitted(caller, text)
        if "job" not in job:
            return "STORED", 0.0
        number = job["job"]["id"]
        while True:
            found = caller.ask("job", id=number, wait=0)["job"]
            if found["state"] not in ("WAITING", "RUNNING"):
                return found["state"], time.time()
            assert found["charge"] is None
            time.sleep(POLL)


def submitted(caller: Caller, text: str) -> Any:
    """Submit a statement as soon as the limits of its principal allow it."""
    while True:
        try:
            return caller.ask("submit", request=statement(text, rho=0.0002), name=None, wait=0, population=None)
        except Unavailable as problem:
            if problem.code != "too_many_requests":
                raise
            time.sleep(1)


def durations(service: Service) -> list[float]:
    """Seconds from the begin of each charge to its answer, as the chain has them."""
    begun: dict[int, int] = {}
    found = []
    with service.ledger() as ledger:
        for line in ledger.export(level="chain"):
            data = json.loads(line)
            entry = json.loads(data["body"]) if isinstance(data.get("body"), str) else data.get("body", data)
            if entry.get("kind") == "begin":
                begun[int(data["seq"])] = entry["at"]
            if entry.get("kind") in ("commit", "burn"):
                found.append((entry["at"] - begun[entry["charge"]]) / 1000)
    return found


def off_tick(seconds: float) -> float:
    """Seconds by which a duration is above the tick before it."""
    return seconds - 2 ** math.floor(math.log2(max(seconds, 1.0)))


def main() -> int:
    """Run the campaign; return 1 if the two services can be told apart by their ticks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-tick", action="store_true", help="run the broken twin")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    texts = statements(draw)
    found: dict[str, list[tuple[str, float]]] = {"few": [], "many": []}
    taken: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("few", 2_000), ("many", 60_000)):
            service = served.made(Path(folder) / name, slots=4)
            served.write_visits(service.data / "visits.csv", rows)
            if options.no_tick:
                service.program = ("-c", TWIN)
            service.start()
            asked = [next(texts) for _ in range(options.jobs)]
            with ThreadPoolExecutor(4) as pool:
                people = itertools.cycle(("ann", "bob"))
                found[name] = list(pool.map(partial(watch, service), people, asked))
            service.stop()
            taken[name] = durations(service)
    bad = 0
    for name, ends in found.items():
        states = sorted({state for state, _ in ends})
        off = [each for each in taken[name] if off_tick(each) > SLACK or each < 1]
        ticks = Counter(2 ** math.floor(math.log2(max(each, 1.0))) for each in taken[name])
        print(f"{name}: {len(ends)} jobs, states {states}, ticks {dict(ticks)}, {len(off)} away from a tick")
        bad += len(off) > 0 or states not in (["DONE"], ["DONE", "STORED"])
    print("the same" if not bad else "DIFFERENT")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
