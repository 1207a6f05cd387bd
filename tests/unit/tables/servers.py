"""Roles, databases, schemas and TCP addresses of a PostgreSQL server that tests started."""

from __future__ import annotations

import contextlib
import socket
import threading
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg

from tallystick.tables.reader import open_engine
from tallystick.tables.sources import source_of


def run(url: str, *statements: str) -> None:
    """Run statements, each in a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        for statement in statements:
            connection.execute(statement)


def with_options(url: str, **parameters: str) -> str:
    """The URL with parameters of libpq; their values are percent-encoded."""
    mark = "&" if "?" in url else "?"
    return url + mark + "&".join(f"{name}={value}" for name, value in parameters.items())


@contextlib.contextmanager
def schema(url: str) -> Iterator[str]:
    """A new schema, which is dropped at the end."""
    name = f"s{uuid.uuid4().hex[:10]}"
    run(url, f"CREATE SCHEMA {name}")
    try:
        yield name
    finally:
        run(url, f"DROP SCHEMA {name} CASCADE")


@contextlib.contextmanager
def role(url: str, *grants: str) -> Iterator[tuple[str, str]]:
    """A new role without rights, then ``grants`` with {role} in them. Yields its name and its URL."""
    name = f"r{uuid.uuid4().hex[:10]}"
    run(url, f"CREATE ROLE {name} LOGIN", *[grant.format(role=name) for grant in grants])
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    try:
        yield name, parts._replace(netloc=f"{name}@{host}").geturl()
    finally:
        run(url, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}")


@contextlib.contextmanager
def database(url: str) -> Iterator[tuple[str, str]]:
    """A new database, which is dropped at the end. Yields its name and its URL."""
    name = f"d{uuid.uuid4().hex[:10]}"
    run(url, f"CREATE DATABASE {name}")
    try:
        yield name, urlsplit(url)._replace(path=f"/{name}").geturl()
    finally:
        run(url, f"DROP DATABASE {name} WITH (FORCE)")


@contextlib.contextmanager
def port_of(url: str) -> Iterator[int]:
    """A port of the loopback interface that leads to the Unix socket of a server."""
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    behind = f"{options['host'][0]}/.s.PGSQL.{options.get('port', ['5432'])[0]}"
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_accept, args=(listener, behind), daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def _accept(listener: socket.socket, behind: str) -> None:
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(behind)
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=_copy, args=(one, other), daemon=True).start()


def _copy(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := one.recv(1 << 16):
            other.sendall(block)
    for end in (one, other):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def asked(url: str, table: str, what: str = "marks") -> Any:
    """What an engine says about a table: its ``marks``, ``reads`` or ``kind``."""
    with open_engine(source_of(url)) as engine:
        return getattr(engine, what)(table)
