"""Requests in the shell: run one, and print its cost and its outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tallystick.cli.streams import to_stdout
from tallystick.cli.wording import in_shell, offers_in_shell, running_command
from tallystick.digits import percent_up, up
from tallystick.errors import BudgetExceeded, ChargedAgain, NotDelivered, Remedy, TallystickError
from tallystick.printing import visible
from tallystick.publish.outcome import not_delivered
from tallystick.publish.request import answer, rehearse
from tallystick.tables.layout import Column, layout
from tallystick.tables.layout import lines as lines_of
from tallystick.tables.reporting.plan import labelled
from tallystick.tables.reporting.words import asked_before, charged

if TYPE_CHECKING:
    from tallystick.cli.output import Screen
    from tallystick.ledger.book import Ledger
    from tallystick.ledger.filters import Amount
    from tallystick.publish.export import Files
    from tallystick.publish.outcome import Answer, Outcome
    from tallystick.publish.request import Request

Facts = Mapping[str, Any]
MANY, FIRST = 30, 20
"""Groups that are printed: all of them up to ``MANY``, else the first ``FIRST``."""


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

    def write(self, screen: Screen | None = None) -> dict[str, str]:
        """Write the files and return their paths; a table whose file fails is shown on the screen."""
        if self.answer is None or self.files is None:
            return {}
        try:
            return self.files.write(self.answer)
        except NotDelivered as problem:
            if screen is not None and problem.argument == "out" and self._is_partly_shown(screen):
                with to_stdout(problem):
                    screen.result(table_lines({**self.facts, "out": None}))
            raise

    def _is_partly_shown(self, screen: Screen) -> bool:
        """True if a table was not printed, or not all of its groups; a model always is."""
        if self.answer is None or self.answer.outcome.model is not None or "rows" not in self.facts:
            return False
        return screen.quiet or len(self.facts["rows"]) > MANY


def perform(request: Request, book: Ledger, files: Files, tell: Callable[[str], None], *, dry_run: bool) -> Performed:
    """Run a request, or with ``dry_run`` say what it would do. Its files are written by ``deliver``."""
    if dry_run:
        return Performed(facts_of(rehearse(request, book)))
    made = answer(request, book, progress=tell)
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
    return {**facts, "notes": outcome.notes, "details": outcome.details, **outcome.facts}


def plan_lines(offer: Facts) -> list[str]:
    """Return an offer for people: what is asked, cost, error, limits and bounds. No data was read."""
    lines = [f"Plan: {offer['title']}", "", *labelled("Cost", [offer["cost"]])]
    for problem in (offer["would_fit"], offer["refused"]):
        lines += _problem_lines(problem) if problem else []
    if offer["again"] is not None:
        lines += labelled("", [f"Ledger entry {offer['again']} has the answer already. Nothing would be charged."])
    if offer["paid_before"]:
        lines += labelled("", [_warned_before(offer["paid_before"])])
    return [*lines, *offer["summary"]]


def _warned_before(data: Facts) -> str:
    """Return the warning that a question was paid for, in words of the shell."""
    warning = ChargedAgain(data["message"], remedies=map(Remedy.from_data, data["remedies"]))
    return visible(warning.text(lambda remedy: in_shell(remedy, running_command())))


def _problem_lines(data: Facts) -> list[str]:
    """Return the lines about a request that would not be answered now, and what works instead."""
    problem = TallystickError.from_data(data)
    is_denied = isinstance(problem, BudgetExceeded)
    first = "This does not fit what is left." if is_denied else problem.message
    offers = [f"Try: {offer}" for offer in offers_in_shell(problem, running_command())]
    return [line for text in (first, *offers) for line in labelled("", [text])]


def schedule_of(together: Amount, left: Amount, times: int | None) -> Facts:
    """Return what a number of equal releases cost together, and whether that is left now."""
    fits = together.fits(left)
    ends = "" if fits else ", which is more than that"
    said = f"Schedule: {times:,} releases of this plan, each with another --key, cost {together.of_left(left)}{ends}."
    return {"times": times, "together": together.to_dict(), "fits": fits, "said": said}


def suggestion_lines(facts: Sequence[Facts]) -> list[str]:
    """Return three plans as a small table."""
    shares = [_share_of_left(each) if each["fits"] else "does not fit" for each in facts]
    columns = [
        Column("", ("cheaper", "as asked", "more exact"), is_text=True),
        Column("cost", tuple(each["price"] for each in facts), is_text=True),
        Column("of what is left", tuple(shares)),
    ]
    for name in facts[0]["error"]:
        columns.append(Column(f"{visible(name)} ±", tuple(up(each["error"][name]) for each in facts)))
    return lines_of(columns)


def suggestion_notes(facts: Sequence[Facts]) -> list[str]:
    """Return what the errors of three plans are about."""
    sized = ", ".join(map(visible, facts[0]["error_by_size"]))
    size = f"{facts[0]['group_size']:,}"
    assumed = f"{sized}: in a group of {size} rows; choose other sizes with --group-size. " if sized else ""
    return ["", f"{assumed}Errors hold 95 times in 100."]


def _share_of_left(offer: Facts) -> str:
    """Return the cost as a share of what is left."""
    left = offer["left_amount"]["a0"]
    return percent_up(Fraction(offer["price_amount"]["a0"], left)) if left > 0 else "-"


def say_release(facts: Facts, screen: Screen, *, details: bool, more: Sequence[str] = ()) -> None:
    """Print a released table, its notes, the cost and the files; under a known key the files have the table.

    ``more`` are lines that only details have.
    """
    known = f"Already published as {facts['key']} (ledger entry {facts.get('charge')})."
    if facts["dry_run"]:
        say_dry_run(facts, screen, known)
        return
    if facts["again"] and not details and _files(facts):
        say_cost(facts, screen, f"{known} Nothing was charged.", is_first=True)
        return
    say_table(facts, screen, details=details, more=more)
    say_cost(facts, screen, f"{known} Nothing was charged." if facts["again"] else "")


def say_answer(facts: Facts, screen: Screen, say_result: Callable[[], None]) -> None:
    """Print a result, also if the record has it, then the cost and the files."""
    if facts["dry_run"]:
        say_dry_run(facts, screen, f"Asked before: ledger entry {facts.get('charge')} has the answer.")
        return
    if not (screen.quiet and _files(facts)):
        say_result()
    say_cost(facts, screen, asked_before(facts["charge"]) if facts["again"] else "")


def say_table(facts: Facts, screen: Screen, *, details: bool, more: Sequence[str] = ()) -> None:
    """Print the table to stdout and its notes to stderr."""
    if screen.quiet and _files(facts):
        return
    screen.result(table_lines(facts))
    screen.note(["", *(note if details else _hinted(note, facts) for note in facts["notes"])])
    if details:
        screen.note(["", *facts["details"], *more])


def _hinted(note: str, facts: Facts) -> str:
    """Return a note; one on the effect of limits names the option that prints the numbers."""
    is_measured = note == facts["effect"] and facts["removed"]
    return f"{note.removesuffix('.')} (--details)." if is_measured else note


def say_dry_run(facts: Facts, screen: Screen, known: str) -> None:
    """Print what a request would charge; ``known`` is printed if the record has the answer."""
    if facts.get("again"):
        screen.result([f"{known} Nothing would be charged."])
        return
    plan = facts["plan"]
    alone = f" ({plan['price_epsilon']})" if plan["price_epsilon"] else ""
    would = f"Would charge {plan['price']}{alone} to {plan['population']}. Left now: {plan['left_of_limit']}."
    screen.result([would, *plan["notes"], "Nothing was charged and no data was read."])


def say_cost(facts: Facts, screen: Screen, known: str = "", *, is_first: bool = False) -> None:
    """Print what was charged and what is left; ``known`` is printed if nothing was charged.

    ``is_first`` is True if nothing was printed before.
    """
    if screen.quiet:
        return
    words = charged(facts["price"], facts["price_epsilon"], facts["charge"], facts["left_of_limit"])
    lines = [known] if known else labelled("Charged", [words])
    screen.note([*([] if is_first else [""]), *lines])


def _files(facts: Facts) -> list[str]:
    return [facts[name] for name in ("out", "about", "card") if name in facts]


def table_lines(facts: Facts) -> list[str]:
    """Return the lines of a released table: all groups, or the first ones if there are many.

    A pipe or a file gets all groups, unless another file has them.
    """
    rows, out = facts["rows"], facts.get("out")
    is_cut = len(rows) > MANY and (out is not None or sys.stdout.isatty())
    shown = rows[:FIRST] if is_cut else rows
    columns = list(zip(*shown, strict=True)) or [()] * len(facts["columns"])
    data = dict(zip(facts["columns"], columns, strict=True))
    lines = lines_of(layout(data, facts["groups"], facts["counts"]))
    if is_cut:
        where = f"in {out}" if out is not None else "(--out FILE writes all)"
        lines.append(f"... {len(rows) - FIRST:,} more {where}")
    return lines
