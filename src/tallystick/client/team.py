"""``ts.connect``: a service, its populations and datasets, and what they answer."""

from __future__ import annotations

import datetime
import math
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tallystick.client.connection import Connection
from tallystick.errors import InvalidInput, TallystickError, Unavailable
from tallystick.printing import csv_cell
from tallystick.regular_file import write_whole

FORMAT: Final = "tallystick/request/1"
WAIT: Final = 10
"""Seconds that the service is asked to wait before it says how a job stands."""
_CONTINUES: Final = ("WAITING", "RUNNING")
_RELEASING: Final = ("analyst", "owner")
"""Roles that may ask."""


def connect(url: str, token: str | None = None) -> Team:
    """Connect to a service. The token is ``TALLYSTICK_TOKEN``, or in ``TALLYSTICK_TOKEN_FILE``, if it is not passed.

    >>> import tallystick as ts
    >>> ts.connect("https://budget.example", token="tsk_0123456789abcdef")
    <Team https://budget.example>
    """
    return Team(Connection(url, token))


class Team:
    """A service, as the principal of one token sees it.

    >>> team = connect("http://127.0.0.1:8080", token="tsk_0123456789abcdef")
    >>> team.url
    'http://127.0.0.1:8080'
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def __repr__(self) -> str:
        return f"<Team {self.url}>"

    @property
    def url(self) -> str:
        """The address of the service."""
        return self._connection.url

    @property
    def me(self) -> dict[str, Any]:
        """The id of the principal, and the roles that the token may use, by population."""
        return self._get("/v1/me")

    def populations(self) -> list[dict[str, Any]]:
        """Return the populations that may be seen, each with its limit, what is used and what is left."""
        return list(self._get("/v1/populations")["populations"])

    def datasets(self, population: str | None = None) -> list[dict[str, Any]]:
        """Return the datasets of a population, each with its columns, limits and least cost."""
        return list(self._get(f"{self._path(population)}/datasets")["datasets"])

    def jobs(self) -> list[dict[str, Any]]:
        """Return the own jobs of the last day."""
        return list(self._get("/v1/jobs")["jobs"])

    def offer(
        self,
        text: str,
        *,
        rho: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        error: float | None = None,
        pure: bool = False,
        population: str | None = None,
        account: str | None = None,
    ) -> dict[str, Any]:
        """Return cost and error of a statement, and if it fits. No data are opened and nothing is charged."""
        request = _request(text, _cost(rho, epsilon, delta, error, pure), None, account)
        found: dict[str, Any] = self._connection.ask("POST", f"{self._path(population)}/offers", {"request": request})
        return found

    def sql(
        self,
        text: str,
        *,
        rho: float | None = None,
        epsilon: float | None = None,
        delta: float | None = None,
        error: float | None = None,
        pure: bool = False,
        why: str | None = None,
        population: str | None = None,
        account: str | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Release:
        """Ask in SQL and wait for the answer. A statement that was asked before is answered without a charge.

        ``population`` may be left out if the token may ask only one. ``progress`` gets each state of the job; without
        it a terminal shows the states. A caller who stops waiting finds the job in ``jobs()``; asking again returns its
        answer.
        """
        request = _request(text, _cost(rho, epsilon, delta, error, pure), why, account)
        say = progress or _shown_at_terminal
        headers = {"Idempotency-Key": uuid.uuid4().hex}
        path = f"{self._path(population)}/releases"
        found = self._connection.ask("POST", path, {"request": request}, headers=headers)
        return Release(self._ended(found, say))

    def _ended(self, found: dict[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
        """Wait until a job has ended; return the answer, or raise the problem of the job."""
        said = None
        while "job" in found and found["job"]["state"] in _CONTINUES:
            if found["job"]["state"] != said:
                said = found["job"]["state"]
                say(said)
            began = time.monotonic()
            path = f"/v1/jobs/{quote(found['job']['id'], safe='')}"
            found = self._connection.ask("GET", path, headers={"Prefer": f"wait={WAIT}"})
            if time.monotonic() - began < 1:
                time.sleep(1)  # a busy service does not wait
        if "outcome" not in found:
            raise _ended_without_answer(found["job"])
        return found

    def _path(self, population: str | None) -> str:
        """Return the path of a population: the one that is named, or the only one that the token may ask."""
        if population is None:
            names = [name for name, roles in self.me["roles"].items() if set(roles) & set(_RELEASING)]
            if len(names) != 1:
                allowed = f"one of: {', '.join(names)}" if names else "the name of a population"
                raise InvalidInput("population", None, allowed)
            population = names[0]
        return f"/v1/populations/{quote(population, safe='')}"

    def _get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = self._connection.ask("GET", path)
        return found


class Release:
    """A released table: ``columns``, ``rows``, ``paid`` and the notes beside it.

    >>> table = {"columns": ["ward", "n"], "rows": [["north", 4]], "dates": [], "about": ""}
    >>> release = Release({"outcome": {"table": table, "paid": {"charge": 7}, "notes": []}})
    >>> release.columns, release.rows, release.paid["charge"]
    (('ward', 'n'), [{'ward': 'north', 'n': 4}], 7)
    """

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.outcome: Mapping[str, Any] = found["outcome"]
        """The outcome as the service sent it."""
        if self.outcome.get("table") is None:
            raise InvalidInput("outcome", "no table", "the answer of a statement")
        self.is_stored = "job" not in found
        """True if the record had the answer, so that nothing was charged."""

    def __repr__(self) -> str:
        return f"<Release of {len(self.rows)} rows: {', '.join(self.columns)}>"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns as files have them: ``n_limited`` if limits can leave rows out of ``n``."""
        return tuple(self.outcome["table"]["columns"])

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts; days are dates."""
        dates = set(self.outcome["table"]["dates"])
        rows = []
        for values in self.outcome["table"]["rows"]:
            row = dict(zip(self.columns, values, strict=True))
            for name in dates & {each for each, value in row.items() if value is not None}:
                row[name] = datetime.date.fromisoformat(row[name])
            rows.append(row)
        return rows

    @property
    def paid(self) -> Mapping[str, Any]:
        """The charge: its number, its cost, who pays, and what is left."""
        return dict(self.outcome["paid"] or {})

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences to read beside the table."""
        return tuple(self.outcome["notes"])

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the table as CSV text; with a path, write it, and beside it the file about its columns."""
        lines = [list(self.columns), *self.outcome["table"]["rows"]]
        text = "".join(",".join(map(_cell, line)) + "\n" for line in lines)
        if path is not None:
            write_whole(path, text)
            write_whole(Path(path).with_suffix(".about.csv"), self.outcome["table"]["about"])
        return text


def _cell(value: Any) -> str:
    """Return a value as a cell of a CSV file that no spreadsheet runs."""
    if value is None:
        return ""
    if isinstance(value, float):
        return format(value, ".10g")
    text = csv_cell(value) if isinstance(value, str) else str(value)
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if any(mark in text for mark in ',;\t"\r\n') else text


def _cost(
    rho: float | None, epsilon: float | None, delta: float | None, error: float | None, pure: bool
) -> dict[str, Any]:
    """Return the fields of a cost that are given."""
    named = {"rho": rho, "epsilon": epsilon, "delta": delta, "error": error}
    given: dict[str, Any] = {name: float(value) for name, value in named.items() if value is not None}
    for name, value in given.items():
        if not math.isfinite(value):
            raise InvalidInput(name, value, "a finite number")
    return {**given, **({"pure": True} if pure else {})}


def _request(text: str, cost: Mapping[str, Any], why: str | None, account: str | None) -> dict[str, Any]:
    what: dict[str, Any] = {"kind": "statement", "text": text}
    if account is not None:
        what["account"] = account
    return {"format": FORMAT, "what": what, "cost": dict(cost), "key": None, "why": why}


def _ended_without_answer(job: Mapping[str, Any]) -> TallystickError:
    """Return the error of a job that has ended without an answer."""
    if job.get("problem") is not None:
        return TallystickError.from_data(job["problem"])
    return Unavailable(f"the job has ended without an answer: its state is {job['state']}", code="no_answer")


def _shown_at_terminal(state: str) -> None:
    """Show the state of a job, if a person is looking."""
    if sys.stderr.isatty():
        print({"WAITING": "waiting for a slot ...", "RUNNING": "running ..."}.get(state, state), file=sys.stderr)
