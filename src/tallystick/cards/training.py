"""The card of a training run: what was trained on whom, how, what it promises, what an attacker can reach, and not.

    training_card(trainer).save("model.html")     one page for the screen and for paper, and the same as JSON beside it

Everything on it is public: the plan, the account, the receipts. No number comes from the data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallystick.cards.card import Card, template, tradeoff_svg
from tallystick.cards.contents import GROUPS, TIMING
from tallystick.cards.meaning import Whom, meaning
from tallystick.digits import up
from tallystick.drawing import css_variables
from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from tallystick.learn.torch.trainer import Trainer

SCHEMA, VERSION = "tallystick/training-card", 1
ALPHAS = tuple(np.linspace(0.0, 1.0, 41).tolist())

NOT_PROTECTED = (
    "What is true of many. What goes together in the data holds for you too, whether or not you took part.",
    "What was chosen by looking at the data outside this run. Architecture, clip, steps, runs that nobody paid for.",
    "Scores of this model on private data. Each one is a release of its own.",
    "Whatever was or will be told elsewhere. The promise counts what the account paid for.",
    GROUPS,
    TIMING,
)


class TrainingCard(Card):
    """A training run's card as data, with its own page."""

    __slots__ = ()

    def to_html(self) -> str:
        """One file that loads nothing and runs nothing."""
        from markupsafe import Markup

        facts, curve = self.facts, self.facts["attacker"]["tradeoff"]
        replaced = facts["attacker"]["about"]["adjacency"] == "replace"
        drawn = tradeoff_svg(curve["alpha"], curve["run"], None, replaced=replaced)
        return template("training.html.j2").render(look=Markup(css_variables()), card=facts, curve=Markup(drawn))


def training_card(trainer: Trainer, *, delta: float | None = None) -> TrainingCard:
    """The card of a run; ``delta`` chooses which epsilon is quoted (default: the plan's)."""
    plan, run, loss = trainer.plan, trainer.run, trainer.privacy
    quoted = plan.delta if delta is None else delta
    if quoted is None:
        raise InvalidInput("delta", None, "a number: the plan does not name one")
    if not trainer.taken:
        raise InvalidInput(
            "trainer", f"no step of {plan.steps} taken", "one that has trained: this model has not learned"
        )
    unit = "example" if run is None or not trainer.units_named else run.account.unit
    words = meaning(loss, delta=quoted, unit=unit)
    payments = [] if run is None else run.receipts[:1] if run.whole else run.receipts  # others take blocks, and pay 0
    misses = np.asarray(loss.tradeoff(alpha=np.array(ALPHAS)), dtype=float)
    return TrainingCard({
        "schema": SCHEMA,
        "version": VERSION,
        "title": "unrecorded run" if run is None else run.why,
        "rows": [list(row) for row in (*trainer.facts(), *_paid(trainer))],
        "promise": {
            "epsilon": words.epsilon,
            "epsilon_text": up(words.epsilon),
            "delta": quoted,
            "expression": str(loss),
            "accountant": "tallystick, an upper bound that is certified",
        },
        "attacker": {
            "sentence": words.plain_sentence,
            "about": Whom.of(loss, unit=unit).to_dict(),
            "hit_rates": {f"{alpha:g}": rate for alpha, rate in words.hit_rates.items()},
            "sees": "every noisy gradient, the model after every step, and everything public",
            "tradeoff": {"alpha": list(ALPHAS), "run": misses.tolist()},
        },
        "not_protected": list(NOT_PROTECTED),
        "receipts": [f"{r.ledger} entry {r.seq} {r.head}" for r in payments],
    })  # fmt: skip


def _paid(trainer: Trainer) -> list[tuple[str, str]]:
    if trainer.run is None:
        return [("paid by", "nobody: this run is recorded nowhere, and runs add up")]
    account = trainer.run.account
    how = "before the first step" if trainer.run.whole else "in blocks of steps, each before it ran"
    return [
        ("paid by", f"{account.name}, per {account.unit}, {how}"),
        ("the account promises", f"{account.limit} ({account.currency.title}), of which {account.used} is used"),
        ("neighbours", account.adjacency),
    ]
