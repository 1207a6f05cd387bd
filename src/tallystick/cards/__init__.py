"""Privacy losses in words for people, as odds and beliefs instead of Greek letters; and the privacy card.

meaning(loss)             the numbers and the sentences, read from the trade-off curve
card(release)             the privacy card of a release; ``preview(plan, account)`` before there is one
fit_card(model, account)  the card of a fitted estimator of ``ts.learn``
training_card(trainer)    the card of a private training run
read_card(path)           a card from its file; ``check_card(card, ledger)`` compares it with the record
"""

from __future__ import annotations

from tallystick.cards.card import Card, card, fit_card, preview, read_card
from tallystick.cards.check import Finding, check_card
from tallystick.cards.meaning import Meaning, meaning
from tallystick.cards.training import TrainingCard, training_card

__all__ = [
    "Card",
    "Finding",
    "Meaning",
    "TrainingCard",
    "card",
    "check_card",
    "fit_card",
    "meaning",
    "preview",
    "read_card",
    "training_card",
]
