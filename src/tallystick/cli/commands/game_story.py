"""``tallystick demo game``: the adaptive adversary's game (Algorithm 5), played turn by turn in the terminal.

A secret bit decides which experiment runs. You choose the next mechanism, see its output, and choose again.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import Answer, console, deliver

if TYPE_CHECKING:
    from rich.console import Console

    from tallystick.theorems.game import FinitePair, Number, View

ROUNDS, RATIO = 4, Fraction(2)
LEAK = Fraction(1, 20)


def game_story(_folder: Path, *, as_json: bool) -> None:
    """In a terminal you are the adversary; elsewhere an adaptive one plays, and every view is enumerated."""
    if sys.stdin.isatty() and not as_json:
        _played(console())
        return
    facts = _enumerated()
    deliver(Answer("demo", {"story": "game"}, facts, lambda out: _say(out, facts)), as_json=as_json)


def _mechanisms() -> dict[str, tuple[str, FinitePair]]:
    from tallystick.theorems.game import FinitePair

    coin = FinitePair.randomized_response(ratio=RATIO)
    leak = FinitePair.leak(probability=LEAK)
    return {
        "1": (f"a coin: the bit, or with probability {1 / (1 + RATIO)} the other one (epsilon = log {RATIO})", coin),
        "2": (f"a leak: the bit with probability {LEAK}, else nothing (delta = {float(LEAK):g})", leak),
    }


def _enumerated() -> dict[str, Any]:
    from tallystick.theorems.game import play, worst_delta

    coin, leak = (pair for _, pair in _mechanisms().values())

    def adversary(view: View) -> FinitePair:
        """Coins until one output leads by two, then leaks."""
        return leak if abs(view.count(1) - view.count(0)) >= 2 else coin

    outcome = play(adversary, rounds=ROUNDS)
    ratios = [RATIO**power for power in range(ROUNDS + 1)]
    return {
        "rounds": ROUNDS,
        "views": len(outcome.views),
        "factor": [str(ratio) for ratio in ratios],
        "adaptive": [str(outcome.delta(ratio=ratio)) for ratio in ratios],
        "fixed": [str(play(lambda view: coin, rounds=ROUNDS).delta(ratio=ratio)) for ratio in ratios],
        "worst": [str(worst_delta([coin, leak], rounds=ROUNDS, ratio=ratio)) for ratio in ratios],
    }


def _say(out: Console, facts: dict[str, Any]) -> None:
    out.print(
        f"[bold]The adversary's game[/bold], {facts['rounds']} rounds; every one of {facts['views']} views, exact."
    )
    for key, (words, _) in _mechanisms().items():
        out.print(f"  {key}  {words}", markup=False)
    out.print("Delta of the whole view at e^epsilon, for an adversary who looks before choosing, one who always takes")
    out.print("the coin, and the worst of all adversaries:")
    out.print(f"  {'e^epsilon':>9} {'adaptive':>12} {'coins only':>12} {'the worst':>12}")
    for row in zip(*(facts[name] for name in ("factor", "adaptive", "fixed", "worst")), strict=True):
        shown = [row[0], *(f"{float(Fraction(each)):.5f}" for each in row[1:])]
        out.print("  " + "{:>9} {:>12} {:>12} {:>12}".format(*shown), markup=False)
    out.print("In a terminal, `tallystick demo game` lets you be the adversary.", markup=False)


def _played(out: Console) -> None:
    """You choose; the bit and the outputs are drawn by the machine. An empty line or the end of input stops."""
    from secrets import SystemRandom

    rng = SystemRandom()
    bit = rng.randrange(2)
    view: list[int] = []
    zero: Number = Fraction(1)
    one: Number = Fraction(1)
    mechanisms = _mechanisms()
    out.print(f"[bold]A bit is hidden.[/bold] You have {ROUNDS} turns; choose a mechanism, or Enter to stop:")
    for key, (words, _) in mechanisms.items():
        out.print(f"  {key}  {words}", markup=False)
    while len(view) < ROUNDS:
        choice = _asked(f"turn {len(view) + 1}, mechanism: ", (*mechanisms, ""))
        if choice == "":
            break
        pair = mechanisms[choice][1]
        output = _output(pair.one if bit else pair.zero, rng)
        zero, one = zero * pair.zero[output], one * pair.one[output]
        view.append(output)
        sure = one / (zero + one)
        said = ("0", "1", "nothing")[output]
        out.print(
            f"  it says {said}. This view: {float(zero):.4g} if the bit is 0, {float(one):.4g} if it is 1; "
            f"belief in 1: {float(sure):.1%}",
            markup=False,
        )
    guess = _asked("your guess of the bit: ", ("0", "1", ""))
    if guess:
        out.print("  right" if int(guess) == bit else "  wrong", f"(it was {bit})", markup=False)
    facts = _enumerated()
    worst = float(Fraction(facts["worst"][0]))
    out.print(
        f"The best adversary with {ROUNDS} turns is right {(1 + worst) / 2:.1%} of the time. No adversary does better."
    )


def _output(masses: tuple[Any, ...], rng: Any) -> int:
    """An output drawn exactly: the probabilities are fractions."""
    common = 1
    for mass in masses:
        common *= Fraction(mass).denominator
    place = rng.randrange(common)
    for output, mass in enumerate(masses):
        place -= int(Fraction(mass) * common)
        if place < 0:
            return output
    raise AssertionError("masses sum to one")


def _asked(question: str, allowed: tuple[str, ...]) -> str:
    while True:
        try:
            said = input(question).strip()
        except EOFError:
            return ""
        if said in allowed:
            return said
        print(f"  Type one of: {', '.join(each or 'Enter' for each in allowed)}")
