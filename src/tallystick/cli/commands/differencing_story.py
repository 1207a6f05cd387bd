"""``tallystick demo differencing``: two counts, one person more, and what noise leaves of the trick."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import Answer, deliver, working

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.audit.everyday import Differencing

OTHERS, ILL, REPEATS, SEED = 99, 29, 4000, 11
EPSILONS = (0.1, 0.3, 1.0, 3.0)


def differencing_story(folder: Path, *, as_json: bool) -> None:
    """The count before a person joined and after: exact, rounded to tens, and with our noise."""
    from tallystick.cli.commands.demo import drawn_into

    with working("differencing"):
        plain, noisy = _tell()
        place = drawn_into(folder, "differencing.svg", lambda: _picture(noisy))
    facts: dict[str, Any] = {
        "people": OTHERS + 1,
        "repeats": REPEATS,
        **{name: _facts(found) for name, found in plain.items()},
        "private": [{"epsilon": epsilon, **_facts(found)} for epsilon, found in noisy.items()],
        "picture": place and str(place),
    }
    deliver(
        Answer("demo", {"story": "differencing", "out": str(folder)}, facts, lambda out: _say(out, facts)),
        as_json=as_json,
    )


def _tell() -> tuple[dict[str, Differencing], dict[float, Differencing]]:
    import numpy as np

    import tallystick as ts
    from tallystick.audit.everyday import differencing

    rng = np.random.default_rng(SEED)
    others = [1] * ILL + [0] * (OTHERS - ILL)

    def attack(release: Any, claim: Any = None) -> Differencing:
        return differencing(release, others=others, repeats=REPEATS, claim=claim, rng=rng)

    noisy = {}
    for epsilon in EPSILONS:
        mechanism = ts.noise.add_discrete_laplace(epsilon=epsilon)
        noisy[epsilon] = attack(lambda bits, m=mechanism: m.release(sum(bits)), mechanism.privacy)
    plain = {"exact": attack(sum), "rounded": attack(lambda bits: sum(bits) // 10 * 10)}
    return plain, noisy


def _facts(found: Differencing) -> dict[str, float]:
    return {"rate": found.rate, "lower": found.lower, "upper": found.upper, "ceiling": found.ceiling}


def _picture(noisy: dict[float, Differencing]) -> Any:
    from tallystick import plots

    return plots.guesses(noisy)


def _say(out: Console, facts: dict[str, Any]) -> None:
    out.print(
        f"[bold]How many of {facts['people']} employees are ill?[/bold] Asked before and after one of them joined."
    )
    out.print(f"  exact counts: {facts['exact']['rate']:.0%} of {facts['repeats']} guesses about that person are right")
    out.print(f"  rounded down to tens, and {ILL} of the others are ill: {facts['rounded']['rate']:.0%}")
    for row in facts["private"]:
        shown = f"{row['rate']:.1%} right [{row['lower']:.1%}, {row['upper']:.1%}]"
        out.print(
            f"  our noise at epsilon {row['epsilon']:g}: {shown}; no attacker can exceed {row['ceiling']:.1%}",
            markup=False,
        )
    out.print("A coin gets 50%.")
    if facts["picture"]:
        out.print(f"The guesses under their ceiling: {facts['picture']}", markup=False, soft_wrap=True)
