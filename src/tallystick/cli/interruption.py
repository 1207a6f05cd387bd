"""A command that was stopped: what was charged, and how to get the answer without a new charge."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tallystick.cli.failure import INTERRUPTED, Failure, from_error
from tallystick.cli.wording import Command, way_in_shell
from tallystick.errors import NotDelivered, Remedy

if TYPE_CHECKING:
    from tallystick.ledger.journal import ChargeRow
    from tallystick.ledger.pay import Charge, Receipt

STOPPED = "stopped at your request."
WITHHELD = "CLOSED"
"""The state that the ledger shows of a charge whose data were closed while it ran."""


@contextmanager
def stopped_alike() -> Iterator[None]:
    """Let SIGTERM stop a command as Ctrl-C does. A handler of the program that called it is left alone."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def from_interrupt(charges: Sequence[Charge], command: Command) -> Failure:
    """Return the failure of a command that its caller stopped; ``charges`` are those that it began to take.

    The ledger says what became of them: a charge is not known to be missing until the ledger does not have it.
    """
    try:
        for charge in reversed(charges):
            found = charge.look_up()
            if found is not None:
                return _charged(charge, *found, command)
    except (Exception, KeyboardInterrupt):  # the ledger is away, or its answer took too long for the caller
        return _not_known(charges[-1], command)
    lines = (STOPPED, "Nothing was charged.") if "ledger" in command.options else (STOPPED,)
    return _interrupted(lines)


def _charged(charge: Charge, row: ChargeRow, receipt: Receipt | None, command: Command) -> Failure:
    """Return the failure of a command whose charge is in the ledger."""
    if receipt is None:
        return _lost(charge, row, command)
    data = json.loads(receipt.to_json())
    problem = NotDelivered(STOPPED, argument="stdout", value=None, charge=row.id, key=row.key, receipt=data)
    if "key" in command.options:
        return from_error(problem, command)
    lines = tuple(problem.message.splitlines())  # a story, whose charges have no other use
    return _interrupted(lines, charge=row.id, key=row.key, receipt=data)


def _lost(charge: Charge, row: ChargeRow, command: Command) -> Failure:
    """Return the failure of a command whose charge is paid and has no answer."""
    is_over = row.state in ("BURNED", WITHHELD)
    has_answer = "Whether it has an answer is withheld." if row.state == WITHHELD else "It has no answer."
    begun = f"The charge in ledger entry {row.id} had started, under the key {row.key!r}."
    lines = [STOPPED, f"{begun} It stays paid. {has_answer}"]
    remedies = []
    if not is_over:
        lines.append("Unless another process finishes it, it is lost when its lease has run out.")
    if charge.has_source:
        when = "are" if is_over else "are then"
        lines.append(f"The data {when} closed to further queries until their owner opens them again.")
        remedy, name = Remedy("clear_failure", charge=row.id), charge.dataset()
        remedies.append(remedy if name is None else remedy.about(name))
    return _interrupted(lines, remedies, command, charge=row.id, key=row.key)


def _not_known(charge: Charge, command: Command) -> Failure:
    """Return the failure of a command whose charge could not be looked up."""
    lines = [STOPPED, f"It may be charged, under the key {charge.key!r}. The ledger could not be asked."]
    remedies = [Remedy("write_again", key=charge.key, argument="stdout")] if "key" in command.options else []
    return _interrupted(lines, remedies, command, key=charge.key)


def _interrupted(
    lines: Sequence[str], remedies: Sequence[Remedy] = (), command: Command | None = None, **facts: Any
) -> Failure:
    """Return a failure with the exit code of an interruption and the facts about its charge."""
    ways = [] if command is None else [way_in_shell(remedy, command) for remedy in remedies]
    offered = [remedy.to_data() for remedy in remedies]
    known = {"charge": None, "key": None, "receipt": None, **facts}
    details = {"code": "interrupted", "remedies": offered, **known}
    shown = tuple(way for way in ways if way is not None)
    return Failure("Interrupted", INTERRUPTED, tuple(lines), details, ways=shown)
