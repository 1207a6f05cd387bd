"""Jobs on neighbouring data look the same to everyone who polls the service, but for the answer.

Two services have the same ledger and the same statements. In one of them a person has many more rows, so that a release
takes longer. Each job's states are polled every 50 ms, with the charges that are shown, and compared by tick: the second
at which a job leaves RUNNING, counted from its charge, is a power of two in both.

    python tests/campaigns/service_neighbours.py --jobs 1000

A broken twin (``--no-tick``) has a keeper whose outcomes leave when they are there; it has to be found.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import served
from served import Service, statement

POLL = 0.05
SLACK = 0.35
"""Seconds by which a busy machine may notice a tick late."""


def statements(draw: random.Random) -> Iterator[str]:
    """Statements about the visits, each another question."""
    while True:
        bound = draw.randrange(1, 10**6)
        column = draw.choice(["COUNT(*)", "SUM(age)", "AVG(age)", "COUNT(DISTINCT who)"])
        yield f"SELECT ward, {column} AS n{bound} FROM visits WHERE ward IN ('north', 'east') GROUP BY ward"


def watch(service: Service, who: str, text: str) -> tuple[str, float]:
    """Submit a statement; return its last state and the seconds from its charge to its end, as polling shows them."""
    with service.calling(who) as caller:
        job = caller.ask("submit", request=statement(text, rho=0.0002), name=None, wait=0)
        if "job" not in job:
            return "STORED", 0.0
        number = job["job"]["id"]
        running = math.nan
        while True:
            state = caller.ask("job", id=number, wait=0)["job"]["state"]
            now = time.monotonic()
            if state == "RUNNING" and math.isnan(running):
                running = now
            if state not in ("WAITING", "RUNNING"):
                return state, now - running
            time.sleep(POLL)


def off_tick(seconds: float) -> float:
    """Seconds by which a duration is above the tick before it. What comes before the charge makes it a little longer."""
    tick = 2 ** math.floor(math.log2(max(seconds, 1.0)))
    return seconds - tick


def main() -> int:
    """Run the campaign; return 1 if the two services can be told apart by their ticks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    texts = statements(draw)
    found: dict[str, list[tuple[str, float]]] = {"few": [], "many": []}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("few", 2_000), ("many", 60_000)):
            service = served.made(Path(folder) / name, slots=4)
            served.write_visits(service.data / "visits.csv", rows)
            service.start()
            asked = [next(texts) for _ in range(options.jobs)]
            lock = threading.Lock()

            def work(who: str, service: Service = service, asked: list[str] = asked, name: str = name) -> None:
                while True:
                    with lock:
                        if not asked:
                            return
                        text = asked.pop()
                    found[name].append(watch(service, who, text))

            threads = [threading.Thread(target=work, args=(who,)) for who in ("ann", "ann", "bob", "bob")]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            service.stop()
    bad = 0
    for name, ends in found.items():
        states = sorted({state for state, _ in ends})
        late = [off_tick(seconds) for state, seconds in ends if state == "DONE" and not math.isnan(seconds)]
        off = [each for each in late if each > SLACK]
        print(f"{name}: {len(ends)} jobs, states {states}, {len(off)} of {len(late)} ended away from a tick")
        bad += len(off) > len(late) // 50 or states not in (["DONE"], ["DONE", "STORED"])
    print("the same" if not bad else "DIFFERENT")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
