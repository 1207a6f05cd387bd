"""``tallystick demo iterate``: the noise of later steps hides early records, if nothing but the last iterate leaves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import Answer, deliver, working
from tallystick.digits import typed

if TYPE_CHECKING:
    from rich.console import Console

BATCHES, SIGMA, DELTA = 50, 5.0, 1e-5
SHOWN = (1, 10, 25, 40, 50)
STEPS, CONTRACTIONS, LONG_SIGMA = (10, 100, 1000, 10_000), (1.0, 0.99, 0.9), 50.0


def iterate_story(folder: Path, *, as_json: bool) -> None:
    """One pass in batches, record by record; then many full steps, and what a contraction does."""
    import tallystick as ts
    from tallystick import plots
    from tallystick.accounting.leaves.last_iterate import iteration_of
    from tallystick.cli.commands.demo import drawn_into

    with working("last iterate"):
        found = iteration_of(
            ts.last_iterate(steps=BATCHES, contraction=1, sigma=SIGMA, batches=ts.cyclic(batches=BATCHES))
        )
        assert found is not None
        epsilons = [float(each.epsilon(delta=DELTA)) for each in found.positions()]
        every = float(found.every(found.passes).epsilon(delta=DELTA))
        long: dict[str, list[float]] = {
            "every iterate": [float((n * ts.gaussian(sigma=LONG_SIGMA)).epsilon(delta=DELTA)) for n in STEPS]
        }
        for contraction in CONTRACTIONS:
            losses = (ts.last_iterate(steps=n, contraction=contraction, sigma=LONG_SIGMA) for n in STEPS)
            long[f"the last, contraction {typed(contraction)}"] = [float(loss.epsilon(delta=DELTA)) for loss in losses]
        place = drawn_into(folder, "iterate.svg", lambda: plots.positions(epsilons, every=every, delta=DELTA))
    facts: dict[str, Any] = {
        "batches": BATCHES,
        "delta": DELTA,
        "every_iterate": every,
        "last_iterate_by_batch": epsilons,
        "steps": list(STEPS),
        "full_batches": long,
        "picture": place and str(place),
    }
    deliver(
        Answer("demo", {"story": "iterate", "out": str(folder)}, facts, lambda out: _say(out, facts)), as_json=as_json
    )


def _say(out: Console, facts: dict[str, Any]) -> None:
    from tallystick.digits import up

    out.print(
        f"[bold]One pass over {BATCHES} batches[/bold], noise {typed(SIGMA)} at every step, "
        f"epsilon at delta {typed(DELTA)}:"
    )
    out.print(f"  if every iterate is published: {up(facts['every_iterate'])} for every record", markup=False)
    for batch in SHOWN:
        epsilon = up(facts["last_iterate_by_batch"][batch - 1])
        out.print(f"  last iterate only, a record of batch {batch:>2}: {epsilon}", markup=False)
    out.print("Early records are hidden by the noise of all later steps. The last batch has only its own.")
    out.print(
        f"[bold]Full batches, noise {typed(LONG_SIGMA)}[/bold]: a contraction forgets, so that epsilon stops growing."
    )
    out.print(f"  {'steps':<26}" + "".join(f"{n:>9,}" for n in facts["steps"]), markup=False)
    for name, row in facts["full_batches"].items():
        out.print(f"  {name:<26}" + "".join(f"{up(e):>9}" for e in row), markup=False)
    out.print(
        "It needs discipline: no checkpoint, no loss curve, nothing before the end (docs/theory/notes-last-iterate.md)."
    )
    if facts["picture"]:
        out.print(f"Epsilon against the record's place: {facts['picture']}", markup=False, soft_wrap=True)
