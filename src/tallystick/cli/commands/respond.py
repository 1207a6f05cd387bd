"""``tallystick respond``: randomize answers on the machine of the person who gives them, and estimate from reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Json, deliver
from tallystick.cli.question import listed
from tallystick.digits import nearest, up
from tallystick.errors import InvalidInput
from tallystick.publish import columns

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.mechanisms.response.choices import RandomizedResponse
    from tallystick.mechanisms.response.numbers import LocalLaplace


def respond(
    answers: Annotated[
        list[str] | None, typer.Argument(metavar="[ANSWER]...", help="Answers, or reports with --estimate.")
    ] = None,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Local epsilon of each person's report.")] = 1.0,
    choices: Annotated[
        list[str] | None, typer.Option("--choices", metavar="ANSWER,...", help="The possible answers: yes,no.")
    ] = None,
    lower: Annotated[float | None, typer.Option("--lower", help="Numbers instead: their public lower bound.")] = None,
    upper: Annotated[float | None, typer.Option("--upper", help="Numbers instead: their public upper bound.")] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Answers or reports, one per line.")] = None,
    estimate: Annotated[bool, typer.Option("--estimate", help="Estimate shares or the mean from reports.")] = False,
    confidence: Annotated[float, typer.Option("--confidence", help="Confidence of the intervals.")] = 0.95,
    as_json: Json = False,
) -> None:
    """Randomize answers so that the collector never learns them, or estimate from what was collected."""
    given = [*(answers or ()), *(columns.lines(file) if file is not None else ())]
    if not given:
        raise InvalidInput("answers", "none", "answers as arguments, or --file with one per line")
    labels = listed(choices) if choices else None
    mechanism, values = _mechanism(epsilon, labels, lower, upper, given)
    asked = {
        "epsilon": epsilon,
        "choices": labels,
        "estimate": estimate,
        "answers": len(given),
    }
    if estimate:
        _estimate(mechanism, values, confidence, asked, as_json=as_json)
        return
    mechanism.prepare(values, strict=True)
    released: Any = mechanism.release(values)
    reports = [report if isinstance(report, str) else float(report) for report in released]
    cost = float(mechanism.privacy.epsilon(delta=0.0))
    facts = {"reports": reports, "epsilon": cost}
    deliver(Answer("respond", asked, facts, lambda out: out.print(*reports, sep="\n", markup=False)), as_json=as_json)


def _mechanism(
    epsilon: float, choices: list[str] | None, lower: float | None, upper: float | None, given: list[str]
) -> tuple[RandomizedResponse | LocalLaplace, list[Any]]:
    from tallystick.mechanisms import response

    if choices is not None and lower is None and upper is None:
        return response.randomize(epsilon=epsilon, choices=choices), list(given)
    if choices is None and lower is not None and upper is not None:
        try:
            numbers = [float(text) for text in given]
        except ValueError:
            raise InvalidInput("answers", "text that is not a number", "numbers, with --lower and --upper") from None
        return response.laplace(epsilon=epsilon, bounds=(lower, upper)), numbers
    raise InvalidInput("choices", choices, "either --choices, or both --lower and --upper")


def _estimate(
    mechanism: RandomizedResponse | LocalLaplace,
    reports: list[Any],
    confidence: float,
    asked: dict[str, Any],
    *,
    as_json: bool,
) -> None:
    result = mechanism.estimate(reports, confidence=confidence)
    names = getattr(mechanism, "choices", ("mean",))
    rows: list[dict[str, Any]] = [
        {"of": str(name), "value": float(v), "standard_error": float(s), "lower": float(a), "upper": float(b)}
        for name, v, s, a, b in zip(
            names, result.values, result.standard_errors, result.lower, result.upper, strict=True
        )
    ]
    cost = float(mechanism.privacy.epsilon(delta=0.0))
    facts = {"estimates": rows, "reports": result.reports, "confidence": confidence, "epsilon": cost}

    def say(out: Console) -> None:
        for row in rows:
            spread = f"between {nearest(row['lower'])} and {nearest(row['upper'])}"
            out.print(f"{row['of']}: {nearest(row['value'])}, {spread}", soft_wrap=True, markup=False, highlight=False)
        out.print(
            f"from {result.reports} reports of epsilon {up(cost)} each; intervals hold {confidence:g} of the time"
        )

    deliver(Answer("respond", asked, facts, say), as_json=as_json)
