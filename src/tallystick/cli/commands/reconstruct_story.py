"""``tallystick demo reconstruct``: everybody's secret bit from counts that are too accurate, and where it stops."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import Answer, deliver, working

if TYPE_CHECKING:
    from rich.console import Console

PEOPLE, SEED = 128, 7
SIZES = (64, 128, 256)
NOISES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0)
REPEATS = 3


def reconstruct_story(folder: Path, *, as_json: bool) -> None:
    """Ask four counts per person: with little noise all is lost, with ours nothing is; then the frontier between."""
    from tallystick.cli.commands.demo import drawn_into

    with working("reconstructing"):
        facts = _tell()
        place = drawn_into(folder, "reconstruct.svg", lambda: _picture(facts["shares"]))
        facts["picture"] = place and str(place)
    deliver(
        Answer("demo", {"story": "reconstruct", "out": str(folder)}, facts, lambda out: _say(out, facts)),
        as_json=as_json,
    )


def _tell() -> dict[str, Any]:
    import numpy as np

    import tallystick as ts
    from tallystick.audit.reconstruction import SubsetSums, random_subsets, success_by_noise

    rng = np.random.default_rng(SEED)
    bits, queries = rng.random(PEOPLE) < 0.5, 4 * PEOPLE
    subsets = random_subsets(queries, people=PEOPLE, rng=rng)
    careless = 0.1 * math.sqrt(PEOPLE)
    ours = ts.noise.add_discrete_gaussian(mu=1 / math.sqrt(queries))
    answers: dict[str, Any] = {
        "exact": None,
        "careless": lambda count: count + careless * rng.normal(),
        "private": lambda count: ours.release(round(count)),
    }
    found = {}
    for name, answer in answers.items():
        told = SubsetSums(bits, answer).ask(subsets)
        found[name] = ts.audit.blatantly_non_private(ts.audit.reconstruct(subsets, told), bits)
    shares = {
        n: np.mean(
            [success_by_noise(n, noises=[c * math.sqrt(n) for c in NOISES], rng=rng) for _ in range(REPEATS)], axis=0
        ).tolist()
        for n in SIZES
    }
    return {
        "people": PEOPLE,
        "queries": queries,
        "deviation_careless": careless,
        "deviation_private": math.sqrt(ours.variance),
        **{
            name: {"share": each.share, "blatant": each.blatant, "baseline": each.baseline}
            for name, each in found.items()
        },
        "frontier": str(ts.audit.queries_at_frontier(people=PEOPLE)),
        "noises": list(NOISES),
        "shares": shares,
    }


def _picture(shares: dict[int, list[float]]) -> Any:
    from tallystick import plots

    return plots.recovery(shares, noises=NOISES)


def _say(out: Console, facts: dict[str, Any]) -> None:
    out.print(f"[bold]{facts['people']} people, one secret bit each[/bold], and {facts['queries']} harmless questions:")
    out.print("how many ones are there in this random half of the people?")
    for name, words in (
        ("exact", "exact answers"),
        ("careless", f"noise of {facts['deviation_careless']:.1f}, a tenth of √n"),
        ("private", f"our noise, 1-GDP for all answers together ({facts['deviation_private']:.1f})"),
    ):
        seen = facts[name]
        word = "blatantly non-private" if seen["blatant"] else "the attack fails"
        out.print(f"  {words}: {seen['share']:.0%} of the bits recovered, {word}", markup=False, soft_wrap=True)
    out.print(
        f"A coin gets 50%, guessing the commoner bit {facts['exact']['baseline']:.0%}. {facts['frontier']}",
        markup=False,
        soft_wrap=True,
    )
    if facts["picture"]:
        out.print(f"The frontier, on one curve for all n: {facts['picture']}", markup=False, soft_wrap=True)
