"""Draws of a table plan on tables made up for an audit: nothing is charged, so real data have no place here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from tallystick.tables.plan import Plan
    from tallystick.tables.run import Exact

MOST_BYTES = 1_000_000
SMALL = "a small table that was made up: in memory, or a CSV file of at most 1 MB"


class PlanDraws:
    """Releases a plan's answer about a table, without an account.

    The engine computes the integers of each table once (caps choose rows by the plan, not by chance); their noise is
    drawn anew every time.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._known: dict[int, tuple[Any, Plan, Exact]] = {}

    def prepare(self, table: Any) -> None:
        """The integers of a table. What fails here is a mistake of whoever asks, and no output of the plan."""
        from tallystick.tables import run

        if id(table) not in self._known:
            asked = self.plan.on(_small(table))
            self._known[id(table)] = (table, asked, run.integers(asked))  # kept, so that its id stays its own

    def __call__(self, table: Any) -> Any:
        from tallystick.mechanisms.exact.randomness import SYSTEM
        from tallystick.tables import run

        self.prepare(table)
        _, asked, exact = self._known[id(table)]
        answer = run.noisy(asked, exact, SYSTEM)
        return {"groups": answer["keys"], "numbers": answer["numbers"]}


def _small(table: Any) -> Any:
    """The source, if it may be asked without a charge."""
    from tallystick.tables.sources import source_of

    source = source_of(table)
    if source.kind == "memory":
        return source
    if source.kind != "csv":
        raise InvalidInput("neighbours", source.kind, SMALL)
    from pathlib import Path

    try:
        size = Path(source.place).stat().st_size
    except OSError as problem:
        raise InvalidInput("neighbours", source.place, f"{SMALL} ({problem.strerror})") from None
    if size > MOST_BYTES:
        raise InvalidInput("neighbours", f"a file of {size} bytes", SMALL)
    return source
