"""How the shell runs a request, and how it says what the request costs and what it came to."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeVar

from tallystick.cli.streams import to_stdout
from tallystick.cli.wording import in_shell, offers_in_shell, running_command
from tallystick.digits import percent_up, up
from tallystick.errors import BudgetExceeded, ChargedAgain, NotDelivered, Remedy, TallystickError
from tallystick.printing import visible
from tallystick.publish.outcome import not_delivered
from tallystick.publish.request import answer, rehearse

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.ledger.book import Ledger
    from tallystick.publish.export import Files
    from tallystick.publish.outcome import Answer, Outcome
    from tallystick.publish.request import Request

Done = TypeVar("Done")
Facts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Performed:
    """A request that was run, whose files are not written yet."""

    facts: dict[str, Any]
    """The outcome as --json shows it, with the names of the files."""
    answer: Answer | None = None
    """None after a dry run."""
    files: Files | None = None

    def recorded(self, argument: str) -> NotDelivered | None:
        """The error to raise if the answer cannot be written; None if nothing was paid for."""
        return None if self.answer is None else not_delivered(self.answer.outcome, argument)

    def write(self, console: Console | None = None) -> dict[str, str]:
        """Write the files and return their paths; a table whose file fails is shown on the console."""
        if self.answer is None or self.files is None:
            return {}
        try:
            return self.files.write(self.answer)
        except NotDelivered as problem:
            outcome = self.answer.outcome
            shown = outcome.table if outcome.model is None else None  # a model was printed
            if console is not None and shown is not None and problem.argument == "out":
                with to_stdout(problem):
                    shown_facts = {
                        "columns": shown.columns,
                        "rows": shown.rows,
                        "groups": shown.groups,
                        "counts": shown.counts,
                    }
                    for line in table_lines(shown_facts):
                        console.print(line, soft_wrap=True, markup=False, highlight=False)
            raise


def perform(request: Request, book: Ledger, files: Files, tell: Callable[[str], None], *, dry_run: bool) -> Performed:
    """Run a request, or with ``dry_run`` say what it would do. Its files are written by ``deliver``."""
    if dry_run:
        return Performed(facts_of(interruptible(lambda: rehearse(request, book))))
    made = interruptible(lambda: answer(request, book, progress=tell))
    return Performed({**facts_of(made.outcome), **files.paths(made.outcome)}, made, files)


def facts_of(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as --json shows it: one flat object."""
    facts: dict[str, Any] = {"dry_run": outcome.dry_run, "key": outcome.key, "again": False}
    if outcome.offer is not None:
        facts["plan"] = outcome.offer.to_data()
    if outcome.paid is not None:
        facts |= outcome.paid.to_data()
    if outcome.table is not None:
        table = outcome.table
        facts |= {"columns": table.columns, "groups": table.groups, "counts": table.counts, "rows": table.rows}
    if outcome.model is not None:
        facts["model"] = outcome.model
    return {**facts, "notes": outcome.notes, **outcome.facts}


def interruptible(work: Callable[[], Done]) -> Done:
    """Work that is paid for; interrupted, it says whether it was."""
    try:
        return work()
    except KeyboardInterrupt as stopped:
        # The argument parser keeps the exit code of Ctrl-C but drops its words, and these say whether it was paid for.
        said = str(stopped) or "interrupted before the charge had started; nothing was charged"
        print(visible(said), file=sys.stderr)
        raise


def plan_lines(offer: Facts) -> list[str]:
    """An offer for people: price and error first, how it is made after that. No data was opened."""
    warnings = offer["warnings"]
    lines = [
        f"price    {offer['price']}{beside(offer)}   (left {offer['left']}, population {offer['population']})",
        *(f"error    {name} {words} in 95 of 100 cases" for name, words in offer["error_words"].items()),
        *(f"warning  {warning}" for warning in warnings),
        "no data was opened",
    ]
    if offer["paid_before"]:
        lines.insert(1, f"before   {_told_before(offer['paid_before'])}")
    if offer["again"] is not None:
        lines.insert(1, f"before   charge {offer['again']} has the answer already: nothing would be charged")
    if offer["refused"]:
        lines[1:1] = _problem_lines(offer["refused"], "works")
    if offer["would_fit"]:
        lines[1:1] = _problem_lines(offer["would_fit"], "fits")
    explained = [line for line in offer["explained"].splitlines() if line.removeprefix("  WARNING  ") not in warnings]
    return [*lines, "", *explained]


def _told_before(data: Facts) -> str:
    """The warning that a question was paid for, in words of the shell."""
    warning = ChargedAgain(data["message"], remedies=map(Remedy.from_data, data["remedies"]))
    return visible(warning.text(lambda remedy: in_shell(remedy, running_command())))


def _problem_lines(data: Facts, works: str) -> list[str]:
    """The lines about a request that would not be answered now."""
    problem = TallystickError.from_data(data)
    first = "does not fit" if isinstance(problem, BudgetExceeded) else problem.message
    offers = [f"{works}: {offer}" for offer in offers_in_shell(problem, running_command())]
    return [f"         {line}" for line in (first, *offers)]


def beside(facts: Facts) -> str:
    """The price as epsilon, where it is none."""
    return f" ({facts['price_epsilon']})" if facts.get("price_epsilon") else ""


def suggestion_lines(facts: Sequence[Facts]) -> list[str]:
    """Three plans as a small table."""
    names = list(facts[0]["error"])
    widths = (13, 28, 18, *(max(12, len(name) + 2) for name in names))
    lines = [_row(("", "price", "of what is left", *names), widths)]
    for word, each in zip(("cheaper", "as asked", "more exact"), facts, strict=True):
        share = _share_of_left(each) if each["fits"] else "does not fit"
        errors = (f"±{up(each['error'][name])}" for name in names)
        lines.append(_row((word, each["price"], share, *errors), widths).rstrip())
    sized = ", ".join(facts[0]["error_by_size"])
    assumed = f", of {sized} for a group of {facts[0]['group_size']:,} rows (--group-size)" if sized else ""
    return [*lines, f"errors hold in 95 of 100 cases{assumed}; no data was opened"]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return cells beside each other."""
    return "".join(f"{text:<{width}}" for text, width in zip(cells, widths, strict=True))


def _share_of_left(offer: Facts) -> str:
    """Return which share of what is left the price is."""
    left = offer["left_amount"]["a0"]
    return percent_up(Fraction(offer["price_amount"]["a0"], left)) if left > 0 else "-"


def say_release(console: Console, facts: Facts, *, same: str = "same key, same bytes") -> None:
    """A release for people: the table is shown where it went into no file."""

    def say_table() -> None:
        if "out" not in facts:
            for line in table_lines(facts):
                console.print(line, soft_wrap=True, markup=False)
        for line in facts["notes"]:
            console.print(line, soft_wrap=True, markup=False)

    say_done(console, facts, say_table, same=same)


def say_done(console: Console, facts: Facts, say_result: Callable[[], None], *, same: str) -> None:
    """What a job did, for people: its result, then what was paid. ``deliver`` prints the paths of files.

    ``same`` is what is the same as before, and why, where the record had the answer.
    """
    if facts["dry_run"] and facts.get("again"):
        console.print(f"{same}: charge {facts['charge']} has the answer already; nothing would be charged")
        return
    if facts["dry_run"]:
        plan = facts["plan"]
        console.print(
            f"would charge {plan['price']}{beside(plan)} to {plan['population']} (left {plan['left']})", markup=False
        )
        for line in plan["notes"]:
            console.print(line, soft_wrap=True, markup=False)
        console.print("nothing was charged and no data was read")
        return
    say_result()
    if facts["again"]:
        console.print(f"{same}: charge {facts['charge']} answered it and nothing was charged now")
    else:
        paid = f"charged {facts['price']} to {facts['population']} (charge {facts['charge']}); left {facts['left']}"
        paid += f"; this release alone: {facts['price_epsilon']}" if facts["price_epsilon"] else ""
        console.print(paid, soft_wrap=True, markup=False)


def table_lines(facts: Facts, most: int = 40) -> list[str]:
    """Return the lines of a released table for people, the first ``most`` groups."""
    from tallystick.tables.layout import layout, lines

    rows = facts["rows"]
    columns = list(zip(*rows[:most], strict=True)) or [()] * len(facts["columns"])
    data = dict(zip(facts["columns"], columns, strict=True))
    more = len(rows) - most
    return [*lines(layout(data, facts["groups"], facts["counts"])), *([f"... {more:,} more"] if more > 0 else [])]
