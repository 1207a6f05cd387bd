"""The ASGI application: the routes of the door behind a guard for hosts, headers, defects and the access log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallystick.errors import TallystickError
from tallystick.service.defects import defect
from tallystick.web import problems
from tallystick.web.door import ROUTES, Door, Handler

HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""Headers of every answer. None of them allows another origin."""
OVER_TLS: Final[Mapping[str, str]] = {"Strict-Transport-Security": "max-age=31536000"}
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _Resource:
    """The methods of one path."""

    def __init__(self, door: Door, methods: Mapping[str, Handler]) -> None:
        self._door, self._methods = door, methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        handler = self._methods.get(request.method)
        headers: dict[str, str] = {}
        try:
            if handler is None:
                headers["Allow"] = allowed = ", ".join(self._methods)
                raise problems.malformed("method", "another method", allowed, code="wrong_method")
            answer = await handler(self._door, request)
        except TallystickError as problem:
            answer = problems.response(problem, headers)
        await answer(scope, receive, send)


class _Guard:
    """Refuse other hosts, add the headers, tell of defects by a number alone, and log the route and the status."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], over_tls: bool, log: Callable[[str], None]) -> None:
        self._app, self._hosts, self._log = app, frozenset(hosts), log
        added = {**HEADERS, **(OVER_TLS if over_tls else {})}
        self._headers = [(name.lower().encode(), value.encode()) for name, value in added.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await send(message)

        try:
            await self._answer(scope, receive, sending)
        except ClientDisconnect:
            pass  # the client left in the middle of its body
        except Exception as problem:
            found = problems.response(defect(problem))
            if not status:
                await found(scope, receive, sending)
        self._log(f"{_method_of(scope)} {_template_of(scope)} {status}")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _host_of(scope) in self._hosts:
            await self._app(scope, receive, send)
        else:
            problem = problems.malformed("Host", "another host", "a name of this service", code="wrong_host")
            await problems.response(problem)(scope, receive, send)


def _host_of(scope: Scope) -> str | None:
    """Return the header Host in small letters; None if it is missing or is there twice."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    return given[0].decode("latin-1").lower() if len(given) == 1 else None


def _method_of(scope: Scope) -> str:
    return scope["method"] if scope["method"] in _METHODS else "OTHER"


def _template_of(scope: Scope) -> str:
    route: Any = scope.get("route")
    return route.path if isinstance(route, Route) else "-"


async def _not_found(scope: Scope, receive: Receive, send: Send) -> None:
    await problems.response(problems.not_found())(scope, receive, send)


def _write(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def application(
    door: Door, hosts: Collection[str], *, over_tls: bool = False, log: Callable[[str], None] = _write
) -> ASGIApp:
    """Return the application. ``hosts`` are the values of the header Host that it answers to, with their ports."""
    routes = [Route(path, _Resource(door, methods)) for path, methods in ROUTES.items()]
    router = Router(routes, redirect_slashes=False, default=_not_found)
    return _Guard(router, [each.lower() for each in hosts], over_tls, log)
