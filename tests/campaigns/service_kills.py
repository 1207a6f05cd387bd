"""Kill -9 of keeper, workers, planners and template at random moments: nothing is lost, nothing is paid twice.

    python tests/campaigns/service_kills.py --kills 1000

After each kill of the keeper the ledger is verified and the service starts again. At the end every answer that a client
got is in the ledger with its charge, each request was charged at most once, and the newest entry has a seal.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import served
from served import Service, statement
from tallystick.errors import TallystickError


def processes(service: Service) -> dict[str, list[int]]:
    """The processes of a running service by kind: a child of the template is a worker or a planner."""
    assert service.process is not None
    keeper = service.process.pid
    children = _children()
    templates = children.get(keeper, [])
    leaves = [each for template in templates for each in children.get(template, [])]
    return {"keeper": [keeper], "template": templates, "child": leaves}


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found.setdefault(parent, []).append(int(entry.name))
    return found


TWIN = """
import sys, uuid
from tallystick.service import jobs, keeper, running
ending = running.Running._ending
def twice(self, job):
    import dataclasses, json
    ending(self, job)
    request = json.loads(job.request)
    request["key"] = "again-" + uuid.uuid4().hex
    return ending(self, dataclasses.replace(job, request=json.dumps(request)))
running.Running._ending = twice
keeper.main(sys.argv[1], keeper._say_ready)
"""
"""A broken twin: what a client gets was charged before under another key."""


class Clients:
    """People who ask all the time, and note what they got."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.over = threading.Event()
        self.got: list[tuple[str, Any]] = []
        self.threads = [threading.Thread(target=self._ask, args=(who,), daemon=True) for who in ("ann", "bob", "sam")]
        for thread in self.threads:
            thread.start()

    def _ask(self, who: str) -> None:
        number = 0
        table = "pupils" if who == "sam" else "visits"
        while not self.over.is_set():
            number += 1
            rho = 0.0001 * (1 + number / 10_000)  # another cost is another question, and another name is not
            text = f"{who} {rho}"
            with contextlib.suppress(TallystickError, OSError):
                asked = statement(f"SELECT COUNT(*) AS n FROM {table}", rho=rho, why=text)
                reply = self.service.submit(who, asked, wait=5)
                if "outcome" in reply:
                    self.got.append((text, reply["outcome"]["receipt"]))
            time.sleep(0.02)


def clear(service: Service) -> None:
    """Open data again that a kill has closed, as their owners would, and lift suspensions."""
    people = {"clinic": ("root", ("cat", "dan"), ("ann", "bob")), "school": ("sue", (), ("sam",))}
    with service.ledger() as ledger:
        for name, (owner, approvers, _) in people.items():
            view = ledger.acting_for(service.ids[owner])
            with contextlib.suppress(TallystickError):
                view.open(name).end_running()
            with contextlib.suppress(TallystickError):
                _clear(view, ledger, service, name, approvers)
    for name, (owner, _, analysts) in people.items():
        for who in analysts:
            with contextlib.suppress(TallystickError):
                service.ask(owner, "lift", population=name, principal=service.ids[who])


def _clear(view: Any, ledger: Any, service: Service, name: str, approvers: tuple[str, ...]) -> None:
    """Open the data of a population again: at once, or by a request that is approved."""
    if not approvers:
        view.open(name).clear(why="looked at")
        return
    number = view.team.request(lambda book: book.open(name).clear(why="looked at"), why="looked at")
    for approver in approvers:
        with contextlib.suppress(TallystickError):
            ledger.acting_for(service.ids[approver]).team.approve(number, why="looked at")


def main() -> int:
    """Run the campaign; return 1 if something was lost, paid twice or left without a seal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--twin", action="store_true", help="run a keeper that charges each answer twice")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    killed = {"keeper": 0, "template": 0, "child": 0}
    with tempfile.TemporaryDirectory() as folder:
        service = served.made(Path(folder) / "s", slots=4, grace=5.0)
        if options.twin:
            service.program = ("-c", TWIN)
        service.start()
        clients = Clients(service)
        for _ in range(options.kills):
            time.sleep(draw.uniform(0.05, 1.5))
            kind = draw.choice(["keeper", "template", "child", "child"])
            found = processes(service)[kind]
            if not found:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(draw.choice(found), signal.SIGKILL)
                killed[kind] += 1
            if kind == "keeper":
                assert service.process is not None
                service.process.wait()
                with service.ledger() as ledger:
                    assert ledger.verify().intact, "the ledger is not intact after a kill"
                service.start()
            clear(service)
        clients.over.set()
        for thread in clients.threads:
            thread.join(60)
        service.stop()
        problems = check(service, clients)
    print(f"killed {killed}; {len(clients.got)} answers; problems: {problems or 'none'}")
    return int(bool(problems))


def check(service: Service, clients: Clients) -> list[str]:
    """Compare what clients got with the ledger."""
    problems = []
    with service.ledger() as ledger:
        report = ledger.verify()
        if not report.intact:
            problems.append("the ledger is not intact")
        charges: dict[str, set[int]] = {}
        for text, receipt in clients.got:
            charges.setdefault(text, set()).add(receipt["charge"])
            row, _ = ledger.charge_row(receipt["charge"])
            if row.state not in ("COMMITTED", "CLOSED"):
                problems.append(f"an answer was given of charge {row.id}, which is {row.state}")
        problems += [f"{text} was charged {sorted(each)}" for text, each in charges.items() if len(each) > 1]
        problems += charged_twice(ledger)
        given = {receipt["charge"] for _, receipt in clients.got}
        print(f"{len(given)} charges have an answer that a client got")
        if len(given) < len(clients.got):
            problems.append("two questions had one charge, so the campaign asked too little")
    return problems


def charged_twice(ledger: Any) -> list[str]:
    """Compare all charges. Each question is asked once and is its own reason, so a reason and a key have one charge."""
    found: dict[str, set[int]] = {}
    for name in ("anns", "bobs", "sams"):
        for number in {event.charge for event in ledger.open(name).history() if event.charge}:
            row, body = ledger.charge_row(number)
            for mark in (f"{name} key {row.key}", body["why"]):
                found.setdefault(mark, set()).add(number)
    return [f"{mark} was charged {sorted(each)}" for mark, each in found.items() if len(each) > 1]


if __name__ == "__main__":
    sys.exit(main())
