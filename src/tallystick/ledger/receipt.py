"""Receipts: the other half of the tally stick, kept by whoever got the answer."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Final

from tallystick import strict_json
from tallystick.errors import InvalidInput
from tallystick.ledger.filters import LARGEST

FORMAT: Final = "tallystick/receipt/1"


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a charge was recorded: it names one entry of one chain by its hash.

    The hash commits to every earlier entry, so a ledger that was cut, restored or rewritten no longer matches.

    >>> receipt = Receipt("0" * 32, 2, ((1, "clinic", "zcdp", 5, 0),), "a" * 64, "b" * 64, "c" * 64, 3, "d" * 64, 0)
    >>> Receipt.from_json(receipt.to_json()) == receipt
    True
    """

    ledger: str
    charge: int
    lines: tuple[tuple[int, str, str, int, int], ...]  # account id, account name, filter, a0, a1
    plan_hash: str
    request: str
    answer_hash: str
    seq: int
    head: str
    at: int

    def _plausible(self) -> bool:
        """Whether every field has its type and range; whether it is true only a ledger can say."""
        numbers = [self.charge, self.seq, self.at, *(n for i, _, _, a0, a1 in self.lines for n in (i, a0, a1))]
        texts = [self.ledger, self.plan_hash, self.request, self.answer_hash, self.head]
        texts += [text for _, name, currency, _, _ in self.lines for text in (name, currency)]
        return (
            all(type(number) is int and 0 <= number <= LARGEST for number in numbers)
            and all(type(text) is str for text in texts)
            and len(self.lines) > 0
        )

    @property
    def how_to_verify(self) -> str:
        """What to type to check this receipt."""
        return "tallystick ledger verify --ledger <ledger> --receipt <this file>"

    def to_json(self) -> str:
        """The receipt as JSON text."""
        return json.dumps({"format": FORMAT, **asdict(self), "how_to_verify": self.how_to_verify}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """Read a receipt back; anything that is not one is refused."""
        try:
            told: dict[str, Any] = strict_json.read(text, longest=1_000_000)
            held = {name: value for name, value in told.items() if name not in ("format", "how_to_verify")}
            held["lines"] = tuple((i, name, currency, a0, a1) for i, name, currency, a0, a1 in held["lines"])
            found = cls(**held)
            if not found._plausible() or not strict_json.same(told, json.loads(found.to_json())):
                raise ValueError
            return found
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InvalidInput("receipt", "this text", f"a JSON receipt of format {FORMAT}") from None
