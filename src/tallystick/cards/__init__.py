"""What a privacy loss means to a person: odds, hit rates and beliefs instead of Greek letters.

meaning(loss)             the numbers and the sentences, read from the trade-off curve
"""

from __future__ import annotations

from tallystick.cards.meaning import Meaning, meaning

__all__ = ["Meaning", "meaning"]
