"""Many processes that act at the same moment for different people of one ledger."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crash.stores import Clock, spend
from crash.teams import Team
from tallystick.accounting.losses import zcdp
from tallystick.ledger import Budget, Filter, Ledger
from tallystick.ledger.offline import verify_export

Work = Callable[[Ledger], Any]


def at_once(place: str, config: Path, works: list[tuple[str, list[Work]]]) -> Counter[str]:
    """One process for each pair of a principal and its work; all begin together. Returns what came out, by name."""
    go_reader, go_writer = os.pipe()
    reader, writer = os.pipe()
    children = []
    for principal, work in works:
        child = os.fork()
        if child == 0:
            try:
                os.close(go_writer)
                os.close(reader)
                with Ledger(place, config=config) as ledger:
                    book = ledger.acting_for(principal)
                    os.read(go_reader, 1)
                    for each in work:
                        os.write(writer, f"{outcome(each, book)}\n".encode())
                os._exit(0)
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
                os._exit(70)
        children.append(child)
    for end in (go_reader, go_writer, writer):
        os.close(end)
    with os.fdopen(reader) as pipe:
        found = Counter(pipe.read().split())
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(works)
    return found


def outcome(work: Work, book: Ledger) -> str:
    try:
        result = work(book)
    except Exception as error:
        return type(error).__name__
    return str(getattr(result, "state", "ok"))


def race_of_allowances(place: str, config: Path, *, processes: int, each: int, cost: int = 3) -> None:
    """Two analysts, whose allowances are together more than the population has, spend at once."""
    amount = processes * each * cost  # all that they want
    limit, allowance = amount * 2 // 3 // cost * cost, amount * 5 // 12 // cost * cost
    with Ledger(place, config=config) as ledger:
        ledger.open("people", budget=Budget(Filter("zcdp"), limit, 0), unit="person")
        ledger.govern(why="a team")
        ledger.team.begin(why="a team")
        ids = [ledger.team.add(name) for name in ("ann", "amy")]
        for number, principal in enumerate(ids):
            ledger.team.grant(principal, "analyst", "people", why="x")
            ledger.team.allow(principal, "people", zcdp(rho=allowance / 10**12), called=f"own {number}", why="x")

    def paying(number: int, process: int) -> list[Work]:
        return [
            lambda book, key=f"{process}-{attempt}": paid(book, f"own {number}", cost, key) for attempt in range(each)
        ]

    found = at_once(place, config, [(ids[each % 2], paying(each % 2, each)) for each in range(processes)])
    assert set(found) == {"ok", "BudgetExceeded"}, found
    with Ledger(place, config=config) as ledger:
        own = [ledger.open(f"own {number}").used.a0 for number in (0, 1)]
        assert max(own) <= allowance
        assert sum(own) == ledger.open("people").used.a0 == found["ok"] * cost == limit
        assert ledger.verify().problems == ()
        assert verify_export(ledger.export(level="chain")).problems == ()


def paid(book: Ledger, account: str, amount: int, key: str) -> None:
    with spend(book.open(account), amount, key=key):
        pass


def race_of_approvals(place: str, config: Path, *, processes: int) -> None:
    """Two approvers approve one request at once, and another one for the same limit."""
    team = Team(place, Clock(), config=config)
    numbers = [team.raise_to("root", 2), team.raise_to("root", 3)]
    team.ledger.close()

    def approving(number: int) -> Work:
        return lambda book: book.team.approve(number, why="ok")

    works = [
        (team.ids["bob" if each % 2 else "cat"], [approving(numbers[(each // 2 + turn) % 2]) for turn in (0, 1)])
        for each in range(processes)
    ]
    found = at_once(place, config, works)
    assert (found["EXECUTED"], found["VOID"], found["Refused"]) == (1, 1, 2 * processes - 2), found
    with Ledger(place, config=config) as ledger:
        states = sorted(each.state for each in ledger.team.requests())
        assert states == ["EXECUTED", "VOID"]
        [(winner, limit)] = [
            (each.number, each.effect["limit"]) for each in ledger.team.requests() if each.state != "VOID"
        ]
        assert [ledger.open("clinic").limit.a0, 0] == limit
        assert winner in numbers
        assert ledger.verify().problems == ()
        assert verify_export(ledger.export(level="chain")).problems == ()
