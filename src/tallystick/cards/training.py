"""The card of a training run: what was trained on whom, how, what it promises, what an attacker can reach, and not.

    training_card(trainer).save("model.html")     one page for the screen and for paper, and the same as JSON beside it

Everything on it is public: the plan, the account, the receipts. No number comes from the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallystick import strict_json
from tallystick.cards.card import LONGEST, TRAINING, Card
from tallystick.cards.charts import Curve, tradeoff
from tallystick.cards.contents import GROUPS, TIMING, one_each
from tallystick.cards.meaning import Whom, is_somebody, meaning
from tallystick.cards.page import People, attacker, labelled, odds_of, sentence, strength, style, template
from tallystick.digits import typed, up
from tallystick.errors import InvalidInput
from tallystick.printing import visible
from tallystick.regular_file import read_text

if TYPE_CHECKING:
    from tallystick.learn.torch.trainer import Trainer

SCHEMA, VERSION = TRAINING, 1
ALPHAS = tuple(np.linspace(0.0, 1.0, 41).tolist())

NOT_PROTECTED = (
    "Facts about everyone. What goes together in the data is known about you too, whether or not you took part.",
    (
        "Choices made by looking at the data outside this run. Examples are the architecture, the clipping norm and "
        "trial runs that were not charged."
    ),
    "Scores of this model on private data. Each score is one more publication.",
    "Other publications. Only releases charged to the account are counted.",
    GROUPS,
    TIMING,
)


class TrainingCard(Card):
    """A training run's card as data, with its own page."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the title and the epsilon in one line."""
        title = visible(str(self.facts["title"]))[:60]
        return f"<Training card of {title}: epsilon {self.facts['promise']['epsilon_text']}>"

    def to_html(self) -> str:
        """Return one file that loads nothing and runs nothing."""
        return str(template("training.html.j2").render(style=style(), card=self.facts, view=_view(self.facts)))


def _view(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page of a training card shows, in words."""
    from markupsafe import Markup

    about, rows = facts["attacker"]["about"], dict(facts["rows"])
    unit = about["unit"] or "example"
    people = People(unit, unit, is_somebody(unit), about["adjacency"] == "replace", is_row_level=False)
    words = facts["attacker"]["words"]
    curve = facts["attacker"]["tradeoff"]
    name = f"epsilon {facts['promise']['epsilon_text']}"
    drawn = tradeoff(
        curve["alpha"],
        [Curve(name, curve["run"], is_limit=True)],
        about="Trade-off between false accusations and misses of an attacker on this run.",
    )
    return {
        "title": f"{facts['title'][:1].upper()}{facts['title'][1:]}",
        "about": f"Model: {rows['model']}.",
        "who": f"Each {unit}, by itself" if unit == "example" else f"Each {unit}, with one example",
        "neighbours": sentence(rows["examples"]),
        "strength": Markup(strength(facts["promise"])),
        "accountant": f"For this run, by {facts['promise']['accountant']}.",
        "charged": f"{len(facts['receipts'])} charge{'s' * (len(facts['receipts']) != 1)}",
        "paid": f"Paid by {rows['paid by']}.",
        "odds": odds_of(words, people, covers=_covers(rows)),
        "attacker": attacker([words], people),
        "not_protected": [labelled(sentence) for sentence in facts["not_protected"]],
        "axes": people.axes,
        "curve": Markup(drawn),
    }


def training_lines(path: str | Path) -> tuple[Mapping[str, Any], list[str]] | None:
    """Return the facts of a training card's JSON file and its lines for the terminal; None for another file."""
    if Path(path).suffix.lower() != ".json":
        return None
    try:
        facts = strict_json.read(read_text(path), name="card", allowed="a training card", longest=LONGEST)
        if (facts["schema"], facts["version"]) != (SCHEMA, VERSION):
            return None
        promise = facts["promise"]
        lines = [
            f"Training card: {facts['title']}",
            f"guarantee: epsilon {promise['epsilon_text']} at delta {typed(promise['delta'])}, for this run",
            *(f"{name}: {text}" for name, text in facts["rows"]),
            "",
            str(facts["attacker"]["sentence"]),
            *(f"receipt: {receipt}" for receipt in facts["receipts"]),
        ]
    except (OSError, LookupError, TypeError, ValueError):
        return None
    return facts, lines


def _covers(rows: Mapping[str, str]) -> str:
    """Return which guarantee the odds are about; a privacy card says the same about the limit."""
    limit = rows.get("limit of the account")
    more = f". The limit of the account, {limit}, allows more" if limit else ""
    return f"this run alone. They use the noise of its steps{more}"


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
        "rows": [list(row) for row in (*_trained(trainer), *_paid(trainer))],
        "promise": {
            "epsilon": words.epsilon,
            "epsilon_text": up(words.epsilon),
            "delta": quoted,
            "expression": str(loss),
            "accountant": "tallystick, an upper bound that is certified",
        },
        "attacker": {
            "sentence": words.plain_sentence,
            "words": words.to_dict(),
            "about": Whom.of(loss, unit=unit).to_dict(),
            "hit_rates": {f"{alpha:g}": rate for alpha, rate in words.hit_rates.items()},
            "sees": "every noisy gradient, the model after every step, and everything public",
            "tradeoff": {"alpha": list(ALPHAS), "run": misses.tolist()},
        },
        "not_protected": list(NOT_PROTECTED),
        "receipts": [f"{r.ledger} entry {r.seq} {r.head}" for r in payments],
    })  # fmt: skip


def _trained(trainer: Trainer) -> list[tuple[str, str]]:
    """Return what the trainer says about the run; whose examples they are is said as on the card of a fit."""
    rows = dict(trainer.facts())
    if trainer.run is not None and not trainer.units_named:
        rows["examples"] = one_each("example", trainer.run.account.unit)
    return list(rows.items())


def _paid(trainer: Trainer) -> list[tuple[str, str]]:
    if trainer.run is None:
        return [("paid by", "no account: this run was not recorded, and privacy losses add up")]
    account = trainer.run.account
    how = "before the first step" if trainer.run.whole else "in blocks of steps, each before it ran"
    change = "replaced" if account.adjacency == "replace" else "added or removed"
    return [
        ("paid by", f"{account.name}, {how}"),
        ("limit of the account", str(account.limit)),
        ("used of the limit", f"{account.used}, when this card was made ({account.currency.title})"),
        ("neighbouring datasets of the account", f"one {account.unit} {change}"),
    ]
