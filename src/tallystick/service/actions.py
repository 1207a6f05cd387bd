"""Actions of a service. Each checks the right of who asks. What is absent and what is not theirs look the same.

``view`` is the ledger for the principal and the token of the message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from tallystick.errors import InvalidInput, NotAuthorised, Refused, TallystickError, Unavailable
from tallystick.ledger.actions import ACTIONS
from tallystick.ledger.book import Ledger
from tallystick.place import Place, names_server
from tallystick.publish import datasets
from tallystick.publish.datasets import Dataset
from tallystick.publish.outcome import Offer, Outcome
from tallystick.publish.request import Request, answer
from tallystick.service import jobs, protocol
from tallystick.service.connections import Connections, Folder, Server
from tallystick.service.failures import Failures
from tallystick.service.jobs import Job, Jobs, unknown_job
from tallystick.service.opening import NeedsSlot
from tallystick.service.planner import Planners
from tallystick.service.rates import PLANS, RELEASES, REPLAYS, Buckets
from tallystick.service.replays import Replays
from tallystick.service.requests import check_served
from tallystick.service.running import Running
from tallystick.service.settings import Settings


class Desk:
    """Everything that an action may need."""

    def __init__(
        self,
        ledger: Ledger,
        queue: Jobs,
        connections: Connections,
        planners: Planners,
        replays: Replays,
        failures: Failures,
        running: Running,
        settings: Settings,
    ) -> None:
        self.ledger = ledger
        self.queue = queue
        self.connections = connections
        self.planners = planners
        self.replays = replays
        self.failures = failures
        self.running = running
        self.settings = settings
        self.plans, self.releases, self.again = Buckets(PLANS), Buckets(RELEASES), Buckets(REPLAYS)


# -- rights


def require(view: Ledger, action: str, population: str | None) -> None:
    """Raise unless who asks may do this. A population that they may not see looks like one that is not there."""
    if population is not None and not view.sees(population):
        raise InvalidInput("population", population, "a population that you may see", code="no_population")
    if not view.may(action, population):
        raise NotAuthorised(f"your roles do not allow this: to {ACTIONS[action].words}", code="not_authorised")


def _own(desk: Desk, view: Ledger, number: str) -> Job:
    job = desk.queue.get(number)
    if job.principal != view.actor:
        raise unknown_job(number)
    return job


# -- looking


def service(desk: Desk, view: Ledger) -> dict[str, Any]:
    """Return what everyone with a token may know of the service."""
    return {
        "version": protocol.VERSION,
        "ledger": desk.ledger.id,
        "slots": desk.settings.most_running,
        "longest_wait": protocol.LONGEST_WAIT,
        "states": [jobs.WAITING, jobs.RUNNING, *jobs.ENDED],
    }


def me(desk: Desk, view: Ledger) -> dict[str, Any]:
    """Return the id of who asks, and the roles that they may use here."""
    names = [account.name for account in view.seen_accounts() if account.parent is None]
    return {"principal": view.actor, "roles": {name: sorted(view.usable_roles(name)) for name in names}}


def populations(desk: Desk, view: Ledger) -> list[dict[str, Any]]:
    """Return the populations that who asks may see."""
    tops = [account for account in view.seen_accounts() if account.parent is None]
    return [
        {
            "name": account.name,
            "unit": account.unit,
            "limit": str(account.limit),
            "used": str(account.used),
            "left": account.remaining.text(upward=False),
        }
        for account in tops
        if view.may("see_budget", account.name)
    ]


def list_datasets(desk: Desk, view: Ledger, population: str) -> list[dict[str, Any]]:
    """Return the datasets of a population: columns, limits and costs, and no place."""
    require(view, "see_population", population)
    known = datasets.known(view).values()
    return [_dataset(each) for each in known if view.population_of(each.population) == population]


def _dataset(dataset: Dataset) -> dict[str, Any]:
    table = {name: value for name, value in dataset.table.items() if name != "source"}
    least = None if dataset.least_price is None else str(dataset.least_price)
    return {
        "name": dataset.name,
        "table": table,
        "about": dict(dataset.about),
        "asking": dict(dataset.asking),
        "least_price": least,
        "retired": dataset.retired is not None,
    }


# -- asking


def offer(desk: Desk, view: Ledger, request: dict[str, Any], sizes: list[int]) -> dict[str, Any]:
    """Return what a request would cost. No data are opened and nothing is charged."""
    made = _offered(desk, view, check_served(request, view), sizes)
    return made.to_data()


def submit(desk: Desk, view: Ledger, request: dict[str, Any], name: str | None, wait: float) -> dict[str, Any]:
    """Return the stored answer of a request, or the job that releases it.

    A second request with the name of a job is about that job.
    """
    known = None if name is None else desk.queue.named(view.actor, name)
    if known is None:
        found = desk.replays.find(view, text_of(request))
        if found is not None:
            desk.again.take(view.actor)
            return {"outcome": found}
    population = known.population if known is not None else None
    if known is None:
        served = check_served(request, view)
        made = _offered(desk, view, served, [])
        stored = _stored(desk, view, request) if made.again is not None else None
        if stored is not None:
            return {"outcome": stored}
        population = _admitted(desk, view, made)
    assert population is not None
    added = desk.queue.add(request, principal=view.actor, via=view.token, population=population, name=name)
    return job(desk, view, added.id, wait)


def _offered(desk: Desk, view: Ledger, served: Mapping[str, Any], sizes: list[int]) -> Offer:
    """Ask a planner for the cost of a request."""
    desk.plans.take(view.actor)
    made = desk.planners.offer({"principal": view.actor, "via": view.token, "request": dict(served), "sizes": sizes})
    require(view, "plan", view.population_of(made.population))
    return made


def _admitted(desk: Desk, view: Ledger, made: Offer) -> str:
    """Refuse, before there is a job, what the ledger would refuse before a charge; return the population."""
    population = view.population_of(made.population)
    require(view, "release", population)
    if any(each.principal == view.actor for each in desk.queue.suspensions(population)):
        raise Refused(
            "a release of yours failed on these data. You may release there again when the owner says so",
            code="suspended",
        )
    problem = made.refused or made.would_fit
    if problem is not None:
        raise TallystickError.from_data(dict(problem))
    desk.releases.take(view.actor)
    if desk.running.is_draining:
        raise Unavailable("the service is stopping. Nothing was charged. Ask again later")
    return population


def _stored(desk: Desk, view: Ledger, request: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the stored answer of a request; None if it is not stored. Outside a slot nothing can be opened."""
    try:
        outcome: Outcome = answer(Request.from_data(check_served(request, view)), view).outcome
    except NeedsSlot:
        return None
    if outcome.paid is not None:
        require(view, "replay", view.population_of(outcome.paid.population))
        desk.replays.add(view, text_of(request), outcome)
    return outcome.to_data()


def text_of(request: Mapping[str, Any]) -> str:
    """Return a request as the text by which it is found again."""
    return json.dumps(request, sort_keys=True, separators=(",", ":"))


# -- jobs


def job(desk: Desk, view: Ledger, id: str, wait: float) -> dict[str, Any]:
    """Return a job, with its outcome if it is done; wait for its end for so many seconds."""
    found = _own(desk, view, id)
    if wait and found.state not in jobs.ENDED:
        found = desk.queue.wait(found.id, wait)
        view.require_present()
    data: dict[str, Any] = {"job": found.to_data()}
    return data | {"outcome": result(desk, view, id)} if found.state == jobs.DONE else data


def result(desk: Desk, view: Ledger, id: str) -> dict[str, Any]:
    """Return the outcome of a job that is done, from the ledger."""
    found = _own(desk, view, id)
    if found.state != jobs.DONE:
        raise Unavailable(f"this job has no answer: its state is {found.state}", code="no_answer")
    require(view, "replay", found.population)
    known = desk.replays.find(view, found.request)
    stored = known or _stored(desk, view, json.loads(found.request))
    if stored is None:
        raise Refused("the answer of this job is no longer stored. Asked again, it is charged again")
    return stored


def list_jobs(desk: Desk, view: Ledger, all: bool) -> list[dict[str, Any]]:
    """Return the own jobs; with ``all`` those of every principal, for operators, without what they ask."""
    if all:
        require(view, "stop_jobs", None)
    found = desk.queue.of(None if all else view.actor)
    return [each.to_data() | ({"principal": each.principal} if all else {}) for each in found]


def cancel(desk: Desk, view: Ledger, id: str) -> dict[str, Any]:
    """Drop a job that waits. A running job continues: it is paid, and its answer is stored."""
    found = desk.queue.get(id)
    if found.principal != view.actor and not view.may("stop_jobs", None):
        raise unknown_job(id)
    if not desk.queue.drop(id):
        raise Refused("this job no longer waits, so it cannot be cancelled. Its answer will be stored", code="begun")
    return {"job": desk.queue.get(id).to_data()}


# -- operating


def list_connections(desk: Desk, view: Ledger) -> list[dict[str, Any]]:
    """Return the connections, for operators."""
    require(view, "connections", None)
    return [each.to_data() for each in desk.connections.list()]


def connect(desk: Desk, view: Ledger, name: str, place: str, populations: list[str], local: bool) -> dict[str, Any]:
    """Make a connection and give it to populations."""
    require(view, "connections", None)
    for population in populations:
        desk.ledger.open(population)
    server = Server(name, Place.of(place, "place"), allow_local=local) if names_server(place) else None
    desk.connections.add(server or Folder(name, Path(place)), populations)
    return {"name": name}


def disconnect(desk: Desk, view: Ledger, name: str) -> dict[str, Any]:
    """End a connection."""
    require(view, "connections", None)
    desk.connections.remove(name)
    return {"name": name}


def list_failures(desk: Desk, view: Ledger, population: str) -> list[dict[str, Any]]:
    """Return the log of failures of a population, for its owners. It has classes of errors, and no values."""
    require(view, "read_failures", population)
    return desk.failures.of(set(desk.ledger.charges_on(population)))


def suspended(desk: Desk, view: Ledger, population: str) -> list[dict[str, Any]]:
    """Return who may not release on a population after a failure, for its owners."""
    require(view, "read_failures", population)
    return [each._asdict() for each in desk.queue.suspensions(population)]


def lift(desk: Desk, view: Ledger, population: str, principal: str) -> dict[str, Any]:
    """Let a principal release again on a population."""
    require(view, "end_running", population)
    if not desk.queue.lift(principal, population):
        raise InvalidInput("principal", principal, "a principal who is suspended on this population")
    return {"principal": principal}


def stop(desk: Desk, view: Ledger) -> dict[str, Any]:
    """Stop the service: running jobs get their time, and no job begins."""
    require(view, "stop_jobs", None)
    desk.running.drain()
    return {"draining": True}


HANDLERS: Final[Mapping[str, Callable[..., Any]]] = {
    "service": service,
    "me": me,
    "populations": populations,
    "datasets": list_datasets,
    "offer": offer,
    "submit": submit,
    "job": job,
    "jobs": list_jobs,
    "result": result,
    "cancel": cancel,
    "connections": list_connections,
    "connect": connect,
    "disconnect": disconnect,
    "failures": list_failures,
    "suspended": suspended,
    "lift": lift,
    "stop": stop,
}
"""The function of every action of ``protocol.ACTIONS``."""
