"""``tallystick demo --accounting``: a year at a clinic, accounted for in seconds, offline and without any data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.commands.explain import say as say_meaning
from tallystick.cli.output import Answer, deliver, working
from tallystick.digits import ACCOUNTANT, down, percent_up, typed, up
from tallystick.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick import Bounds, PrivacyLoss
    from tallystick.cards import Meaning
    from tallystick.theorems.compare import Comparison

DELTA = 1e-6
WEEKLY = "52 * discrete_gaussian(sigma=20)"
SURVEY = "laplace(scale=10)"
TRAINING = "2000 * gaussian(sigma=1.5).sampled(rate=0.01)"
STEPS = (
    ("52 weekly counts of admissions, each with noise of standard deviation 20", WEEKLY),
    ("one survey table with Laplace noise of scale 10", SURVEY),
    ("a model trained for 2,000 steps on batches of one patient in a hundred", TRAINING),
)
NEXT = (
    'tallystick explain "52 * gaussian(sigma=10)"',
    "tallystick calibrate dpsgd --epsilon 8 --delta 1e-5 --examples 50000 --batch 1024 --epochs 30",
    "tallystick theorem 13.5",
)


@dataclass(frozen=True, slots=True)
class Story:
    """Everything the demo found out, before a word is printed."""

    parts: tuple[float, ...]
    total: Bounds
    methods: Comparison
    meaning: Meaning
    sigma: float
    pictures: tuple[Path, ...]


def accounting_story(out: Path, *, as_json: bool) -> None:
    """A year at a clinic: compose, compare, explain, draw. Takes a few seconds; needs no data and no network."""
    with working("a year at a clinic"):
        story = _tell(out)
    facts: dict[str, Any] = {
        "parts": [
            {"what": what, "expression": text, "epsilon": epsilon}
            for (what, text), epsilon in zip(STEPS, story.parts, strict=True)
        ],
        "lower": story.total.lower,
        "upper": story.total.upper,
        "methods": story.methods.to_dict()["rows"],
        "meaning": story.meaning.to_dict(),
        "weekly_sigma_for_epsilon_1": story.sigma,
        "pictures": [str(path) for path in story.pictures],
        "next": list(NEXT),
    }
    deliver(
        Answer("demo", {"delta": DELTA, "accounting": True}, facts, lambda console: _say(console, story)),
        as_json=as_json,
    )


def _tell(folder: Path) -> Story:
    import tallystick as ts
    from tallystick.accounting.expression import read_loss
    from tallystick.cards import meaning

    losses = [read_loss(text) for _, text in STEPS]
    year: PrivacyLoss = sum(losses, ts.no_loss())
    training = losses[-1]
    goal = ts.approx_dp(epsilon=1, delta=DELTA)
    return Story(
        parts=tuple(float(loss.epsilon(delta=DELTA)) for loss in losses),
        total=year.epsilon_bounds(delta=DELTA),
        methods=ts.compare(training, delta=DELTA),
        meaning=meaning(year, delta=DELTA, unit="patient"),
        sigma=float(ts.calibrate(lambda sigma: 52 * ts.gaussian(sigma=sigma), goal)),
        pictures=_draw(year, training, folder),
    )


def _draw(year: PrivacyLoss, training: PrivacyLoss, folder: Path) -> tuple[Path, ...]:
    """Draw the pictures of the story into its folder; none without matplotlib, because the story needs no picture."""
    from tallystick import plots
    from tallystick.plots.steps import curves_of

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("out", str(folder), f"a folder that can be created ({error.strerror})") from error
    try:
        attacker = plots.tradeoff(year)
    except Unavailable:
        return ()
    price = plots.steps(curves_of(training, delta=DELTA, points=5), delta=DELTA)
    return plots.save(attacker, folder / "tradeoff.svg"), plots.save(price, folder / "steps.svg")


def _say(out: Console, story: Story) -> None:
    from tallystick.accounting.adjacency import Protects
    from tallystick.cards.explanation import Explanation
    from tallystick.cards.meaning import Whom

    def heading(text: str) -> None:
        out.print(f"\n[bold]{text}[/bold]")

    out.print("[bold]A year at a clinic[/bold]: three things were published about the same patients.")
    for (what, text), epsilon in zip(STEPS, story.parts, strict=True):
        out.print(f"  {what}\n      {text}   epsilon {up(epsilon)}", markup=False)
    heading("1. Compose: losses add, and are read once")
    out.print(f"  adding the three epsilons would say {up(sum(story.parts))} (at three times the delta)")
    enclosure = f"{down(story.total.lower, ACCOUNTANT)} and {up(story.total.upper, ACCOUNTANT)}"
    out.print(f"  the year as one loss: epsilon is certified between {enclosure} at delta {typed(DELTA)}")
    heading("2. Compare: what other accountants say about the training run")
    for line in story.methods.lines():
        out.print(line, markup=False, soft_wrap=True, highlight=False)
    heading("3. Explain: what the year means to one patient")
    say_meaning(out, Explanation(story.meaning, Whom(Protects(unit="patient"))))
    heading("4. Calibrate: before publishing, not after")
    goal = f"epsilon 1 at delta {typed(DELTA)}"
    out.print(f"  52 weekly counts fit {goal} with noise of standard deviation {up(story.sigma, 5)}")
    heading("5. Pictures")
    if not story.pictures:
        out.print("  none: they need matplotlib. Run: pip install '.[plots]'", markup=False)
    for path in story.pictures:
        out.print(f"  {path}", soft_wrap=True, markup=False)
    at_one_percent = percent_up(story.meaning.hit_rates[0.01])
    out.print(f"\nWith 1 % false accusations the best attacker finds at most {at_one_percent} of the patients.")
    out.print("Try next:")
    for command in NEXT:
        out.print(f"  {command}", soft_wrap=True, markup=False)
