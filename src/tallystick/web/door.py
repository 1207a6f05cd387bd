"""The resources of a service over HTTP: one method of ``Door`` for each, and the table ``ROUTES``."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tallystick.errors import TallystickError, Unavailable
from tallystick.service.protocol import LONGEST_STATEMENT, RUNNING, WAITING
from tallystick.web import problems, reading
from tallystick.web.calling import Callers

VERSION: Final = "v1"
QUICK: Final = 32
"""Requests that are with the keeper at once."""
SLOW: Final = 64
"""Requests that wait for a job at once. Those above it are answered without a wait."""
LOOK: Final = 1.0
"""Seconds between two looks at a job whose states are streamed."""
HEARTBEAT: Final = 15.0
LONGEST_STREAM: Final = 3600.0
MOST_STREAMS: Final = 8
"""Streams of one token at once."""
OPENAPI: Final = Path(__file__).with_name("openapi.json")

Handler = Callable[[Any, Request], Awaitable[Response]]


def answer(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return JSON data as an answer."""
    return Response(problems.as_json(data), status, headers, media_type="application/json")


class Door:
    """The handlers of all resources, which share the connections to the keeper."""

    def __init__(self, callers: Callers) -> None:
        self._callers = callers
        self._quick, self._slow = anyio.CapacityLimiter(QUICK), anyio.CapacityLimiter(SLOW)
        self._streams: Counter[str] = Counter()
        self._openapi = OPENAPI.read_bytes()
        self.is_stopping = False
        """True when streams have to end, because the front is stopped."""

    async def _ask(self, token: str, action: str, **fields: Any) -> Any:
        """Ask the keeper in a thread."""
        call = functools.partial(self._callers.ask, token, action, **fields)
        return await anyio.to_thread.run_sync(call, limiter=self._quick)

    async def _wait(self, token: str, found: dict[str, Any], seconds: int) -> dict[str, Any]:
        """Return a job when it has ended, or as it is after so many seconds."""
        if not seconds or not _continues(found) or self._slow.available_tokens < 1:
            return found
        call = functools.partial(self._callers.ask, token, "job", id=found["job"]["id"], wait=seconds)
        waited: dict[str, Any] = await anyio.to_thread.run_sync(call, limiter=self._slow)
        return waited

    # -- without a token

    async def healthz(self, request: Request) -> Response:
        """Say that the front runs."""
        reading.query(request)
        return answer({"status": "ok"})

    async def openapi(self, request: Request) -> Response:
        """Return the description of this interface."""
        reading.query(request)
        return Response(self._openapi, media_type="application/json")

    # -- looking

    async def service(self, request: Request) -> Response:
        """Return the version and the limits of the service."""
        reading.query(request)
        known = await self._ask(reading.token(request), "service")
        limits = {"body": reading.LONGEST_BODY, "statement": LONGEST_STATEMENT, "wait": reading.MOST_WAITED}
        return answer({"api": VERSION, "limits": limits, "service": known})

    async def me(self, request: Request) -> Response:
        """Return who asks, and the roles that the token may use."""
        reading.query(request)
        return answer(await self._ask(reading.token(request), "me"))

    async def populations(self, request: Request) -> Response:
        """Return the populations that who asks may see, with their budgets."""
        reading.query(request)
        return answer({"populations": await self._ask(reading.token(request), "populations")})

    async def datasets(self, request: Request) -> Response:
        """Return the datasets of a population."""
        return await self._of_population(request, "datasets")

    async def failures(self, request: Request) -> Response:
        """Return the log of failures of a population, for its owners."""
        return await self._of_population(request, "failures")

    async def suspensions(self, request: Request) -> Response:
        """Return who may not release on a population after a failure, for its owners."""
        return await self._of_population(request, "suspended", "suspensions")

    async def _of_population(self, request: Request, action: str, name: str | None = None) -> Response:
        reading.query(request)
        found = await self._ask(reading.token(request), action, population=request.path_params["population"])
        return answer({name or action: found})

    async def lift(self, request: Request) -> Response:
        """Let a principal release again on a population."""
        reading.query(request)
        fields = {name: request.path_params[name] for name in ("population", "principal")}
        return answer(await self._ask(reading.token(request), "lift", **fields))

    async def connections(self, request: Request) -> Response:
        """Return the connections, for operators."""
        reading.query(request)
        return answer({"connections": await self._ask(reading.token(request), "connections")})

    # -- asking

    async def offer(self, request: Request) -> Response:
        """Return what a request would cost. Nothing is charged."""
        reading.query(request)
        token = reading.token(request)
        fields = await reading.body(request, ("request",), ("sizes",))
        sizes = fields.get("sizes", [])
        population = request.path_params["population"]
        return answer(
            await self._ask(token, "offer", request=reading.asked(fields), sizes=sizes, population=population)
        )

    async def release(self, request: Request) -> Response:
        """Release the answer of a request, or return the stored one."""
        reading.query(request)
        token, key = reading.token(request), reading.key(request)
        asked = reading.asked(await reading.body(request, ("request",)))
        population = request.path_params["population"]
        found = await self._ask(token, "submit", request=asked, name=key, wait=0, population=population)
        return _job(await self._wait(token, found, reading.wait(request)), is_new=True)

    # -- jobs

    async def jobs(self, request: Request) -> Response:
        """Return the own jobs; with ``all=true`` those of every principal, for operators."""
        everyone = reading.flag(reading.query(request, "all"), "all")
        return answer({"jobs": await self._ask(reading.token(request), "jobs", all=everyone)})

    async def job(self, request: Request) -> Response:
        """Return a job, with its outcome if it is done."""
        reading.query(request)
        token = reading.token(request)
        found = await self._ask(token, "job", id=request.path_params["id"], wait=0)
        return _job(await self._wait(token, found, reading.wait(request)))

    async def cancel(self, request: Request) -> Response:
        """Drop a job that waits."""
        reading.query(request)
        return answer(await self._ask(reading.token(request), "cancel", id=request.path_params["id"]))

    async def events(self, request: Request) -> Response:
        """Stream the states of a job, until it has ended."""
        reading.query(request)
        token, number = reading.token(request), request.path_params["id"]
        found = await self._ask(token, "job", id=number, wait=0)
        if self._streams[token] >= MOST_STREAMS:
            raise Unavailable(f"at most {MOST_STREAMS} streams of a token at once", code="too_many_requests")
        return StreamingResponse(self._states(token, number, found), media_type="text/event-stream")

    async def _states(self, token: str, number: str, found: dict[str, Any]) -> AsyncIterator[bytes]:
        """Yield an event for each state, a comment now and then, and the problem that ends the stream."""
        self._streams[token] += 1
        try:
            async for each in self._looks(token, number, found):
                yield each
        except TallystickError as problem:
            yield _event("problem", problems.body_of(problem))
        finally:
            self._streams[token] -= 1
            self._streams += Counter()  # forget tokens without a stream

    async def _looks(self, token: str, number: str, found: dict[str, Any]) -> AsyncIterator[bytes]:
        began = said = asyncio.get_running_loop().time()
        state = None
        while True:
            now = asyncio.get_running_loop().time()
            if found["job"]["state"] != state:
                state, said = found["job"]["state"], now
                yield _event("state", found["job"])
            elif now - said >= HEARTBEAT:
                said = now
                yield b": still here\n\n"
            if not _continues(found) or self.is_stopping or now - began > LONGEST_STREAM:
                return
            await asyncio.sleep(LOOK)
            found = await self._ask(token, "job", id=number, wait=0)


def _continues(found: Mapping[str, Any]) -> bool:
    return "job" in found and found["job"]["state"] in (WAITING, RUNNING)


def _job(found: dict[str, Any], *, is_new: bool = False) -> Response:
    """Return the answer about a job: 202 if it was submitted and has not ended, else 200."""
    headers = {"Location": f"/{VERSION}/jobs/{found['job']['id']}"} if is_new and "job" in found else {}
    return answer(found, 202 if is_new and _continues(found) else 200, headers)


def _event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: ".encode() + problems.as_json(data) + b"\n\n"


_POPULATION: Final = f"/{VERSION}/populations/{{population}}"
ROUTES: Final[Mapping[str, Mapping[str, Handler]]] = {
    "/healthz": {"GET": Door.healthz},
    f"/{VERSION}": {"GET": Door.service},
    f"/{VERSION}/openapi.json": {"GET": Door.openapi},
    f"/{VERSION}/me": {"GET": Door.me},
    f"/{VERSION}/populations": {"GET": Door.populations},
    f"{_POPULATION}/datasets": {"GET": Door.datasets},
    f"{_POPULATION}/offers": {"POST": Door.offer},
    f"{_POPULATION}/releases": {"POST": Door.release},
    f"{_POPULATION}/failures": {"GET": Door.failures},
    f"{_POPULATION}/suspensions": {"GET": Door.suspensions},
    f"{_POPULATION}/suspensions/{{principal}}": {"DELETE": Door.lift},
    f"/{VERSION}/jobs": {"GET": Door.jobs},
    f"/{VERSION}/jobs/{{id}}": {"GET": Door.job, "DELETE": Door.cancel},
    f"/{VERSION}/jobs/{{id}}/events": {"GET": Door.events},
    f"/{VERSION}/connections": {"GET": Door.connections},
}
"""The methods of every path."""
