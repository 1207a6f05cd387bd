"""Jobs on neighbouring data look the same to everyone who polls the service, but for the answer.

Two services have the same ledger and the same statements. In one of them a person has many more rows, so that a release
takes longer. Each job's state is polled every 50 ms. The moments at which it leaves RUNNING and of the entry of its
answer are a power of two in seconds after its charge, in both.

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
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import served
from served import Service, statement
from tallystick.errors import Unavailable
from tallystick.ledger.journal import entry_body
from tallystick.service.protocol import Caller

POLL = 0.05
SLACK = 0.35
"""Seconds by which a busy machine may notice a tick late."""


TWIN = """
import sys
from tallystick.service import keeper, opening
opening.wait_for_tick = lambda begun, stopping: None
keeper.main(sys.argv[1], keeper._say_ready)
"""
"""A keeper whose outcomes leave when they are there."""


def statements(draw: random.Random) -> Iterator[str]:
    """Statements about the visits, each another question."""
    while True:
        bound = draw.randrange(1, 10**6)
        column = draw.choice(["COUNT(*)", "SUM(age)", "AVG(age)", "COUNT(DISTINCT who)"])
        where = f"WHERE ward IN ('north', 'east') AND age <> {bound}"
        yield f"SELECT ward, {column} AS n FROM visits {where} GROUP BY ward"


def watch(service: Service, who: str, text: str) -> tuple[str, int | None, float]:
    """Submit a statement; return the last state of its job, its charge, and the time at which polling saw the end."""
    with service.calling(who) as caller:
        number = submitted(caller, text)
        while True:
            job = caller.ask("job", id=number, wait=0)["job"]
            if job["state"] not in ("WAITING", "RUNNING"):
                return job["state"], job["charge"], time.time()
            time.sleep(POLL)


def submitted(caller: Caller, text: str) -> str:
    """Submit a statement as soon as the rate of its principal allows it; return the id of the job."""
    while True:
        try:
            return str(caller.ask("submit", request=statement(text, rho=0.0002), name=None, wait=0)["job"]["id"])
        except Unavailable as problem:
            if problem.code != "too_many_requests":
                raise
            time.sleep(1)


def off_tick(seconds: float) -> float:
    """Seconds by which a duration is above the tick before it."""
    tick = 2 ** math.floor(math.log2(max(seconds, 1.0)))
    return seconds - tick if seconds >= 1 else math.inf


def durations(service: Service, ends: list[tuple[str, int | None, float]]) -> list[float]:
    """Seconds from each charge to the end that polling saw, and to the answer in the ledger."""
    found = []
    with service.ledger() as ledger:
        for _, charge, seen in ends:
            if charge is not None:
                begun = ledger.charge_row(charge)[1]["at"]
                found += [seen - begun / 1000, (committed(ledger, charge) - begun) / 1000]
    return found


def committed(ledger: Any, charge: int) -> int:
    """The time of the entry that ended a charge."""
    row, _ = ledger.charge_row(charge)
    with ledger.store.read() as transaction:
        return int(entry_body(transaction, row.last_seq)["at"])


def main() -> int:
    """Run the campaign; return 1 if the two services can be told apart by their ticks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-tick", action="store_true", help="run the broken twin")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    texts = statements(draw)
    found: dict[str, list[tuple[str, int | None, float]]] = {"few": [], "many": []}
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("few", 2_000), ("many", 60_000)):
            service = served.made(Path(folder) / name, slots=4)
            served.write_visits(service.data / "visits.csv", rows)
            if options.no_tick:
                service.program = ("-c", TWIN)
            service.start()
            asked = [next(texts) for _ in range(options.jobs)]
            lock = threading.Lock()

            def work(
                who: str,
                service: Service = service,
                asked: list[str] = asked,
                name: str = name,
                lock: threading.Lock = lock,
            ) -> None:
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
            times[name] = durations(service, found[name])
    bad = 0
    for name, ends in found.items():
        states = sorted({state for state, _, _ in ends})
        late = [off_tick(seconds) for seconds in times[name]]
        off = [each for each in late if each > SLACK]
        print(f"{name}: {len(ends)} jobs, states {states}, {len(off)} of {len(late)} times are away from a tick")
        bad += len(off) > len(late) // 5 or states != ["DONE"] or len(ends) != options.jobs
    print("the same" if not bad else "DIFFERENT")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
