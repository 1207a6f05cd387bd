"""Whom the words of a loss are about: which unit, whether it comes and goes or is replaced, and how many of them.

A unit that is somebody, or that is not named, is spoken to ("you"); anything else is named. Where units are replaced
nobody is in the data or not: an attacker then wonders which of two versions of their data was used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallystick.accounting.adjacency import ANY_UNIT, Adjacency, Protects
from tallystick.ledger.denial import plural

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

SOMEBODY = frozenset(
    "person people individual human patient client customer user member student pupil employee worker resident citizen "
    "respondent participant subject voter subscriber visitor passenger driver donor inmate child adult".split()
)


def is_somebody(unit: str) -> bool:
    """Whether a unit's name is a word for somebody, who can be spoken to.

    >>> is_somebody("patient_id"), is_somebody("aircraft")
    (True, False)
    """
    return unit.lower().removesuffix("_id").removesuffix("s") in SOMEBODY


@dataclass(frozen=True, slots=True)
class Whom:
    """The unit, the neighbours and the size of the group that a loss is about, as parts of sentences."""

    protects: Protects = ANY_UNIT
    group: int = 1

    @classmethod
    def of(cls, loss: PrivacyLoss, *, unit: str | None = None) -> Whom:
        """Whom a loss is about; ``unit`` is known from elsewhere where the loss names none."""
        return cls(Protects(loss.adjacency, loss.unit or unit), loss.group)

    @property
    def replaced(self) -> bool:
        """Whether neighbours differ in the data of a unit that is in both."""
        return self.protects.adjacency is Adjacency.REPLACE

    def sentence(self, without: str, within: str, out_of: str) -> str:
        """How many of so many results make an attacker think it is so: where it is not, and where it is.

        >>> print(Whom(Protects("replace", "aircraft")).sentence("27", "73", "100"))
        If the data of one aircraft say one thing, about 27 of 100 possible results would make an attacker think they
        say another. If they say the other, about 73 of 100 would.
        """
        results = f"about {without} of {out_of} possible results would make an attacker think"
        if self.replaced:
            says = f"If {self._data} say one thing, {results} they say another. If they say the other"
        else:
            it, verb = ("you", "are") if self._spoken_to else ("it", "is")
            all_of = " all" if self._spoken_to and self.group > 1 else ""
            says = f"If {self._who} {verb} not in the data, {results} {it}{all_of} {verb}. If {it}{all_of} {verb}"
        return f"{says}, about {within} of {out_of} would."

    @property
    def found(self) -> str:
        """Those of whom a hit rate is a share."""
        those = "those" if self.group == 1 else f"the groups of {self.group:,}"
        return f"{those} with the other data" if self.replaced else f"{those} in the data"

    @property
    def crowd(self) -> str:
        """Those of whom shares are drawn: people, or whatever the unit is, or groups of them."""
        units = "people" if self._spoken_to else plural(str(self.protects.unit))
        return units if self.group == 1 else f"groups of {self.group:,} {units}"

    @property
    def errors(self) -> tuple[str, str]:
        """What a false alarm is a share of, and a miss.

        >>> Whom().errors
        ('share of people not in the data who are accused', 'share of people in the data who go unnoticed')
        """
        who = "who" if self._spoken_to and self.group == 1 else "that"
        if self.replaced:
            accused = f"with the one data {who} are taken for the other"
            return f"share of {self.crowd} {accused}", f"share of {self.crowd} with the other data {who} go unnoticed"
        return (
            f"share of {self.crowd} not in the data {who} are accused",
            f"share of {self.crowd} in the data {who} go unnoticed",
        )

    @property
    def guess(self) -> str:
        """What a coin would decide."""
        return "one or the other" if self.replaced else "in or out"

    @property
    def likelier(self) -> str:
        """What results are so many times as likely with, and without."""
        if self.replaced:
            return f"if {self._data} say one thing as if they say another"
        return f"with {self._who} as without{'' if self._spoken_to else ' it'}"

    @property
    def neighbours(self) -> str:
        """Which two data sets are compared."""
        unit = self.protects.unit or "unit"
        units = f"one {unit}" if self.group == 1 else f"up to {self.group:,} {plural(unit)}"
        differ = "that differ in the data of" if self.replaced else "with and without"
        return f"data sets {differ} {units}{'' if self.protects.unit else '; the loss names no unit'}"

    def to_dict(self) -> dict[str, Any]:
        """The same for machines."""
        return {"unit": self.protects.unit, "adjacency": self.protects.adjacency.value, "group": self.group}

    @property
    def _spoken_to(self) -> bool:
        return self.protects.unit is None or is_somebody(self.protects.unit)

    @property
    def _who(self) -> str:
        others = self.group - 1
        if self._spoken_to:
            return f"you and {others:,} other{'s' * (others > 1)}" if others else "you"
        return f"a group of {self.group:,} {plural(str(self.protects.unit))}" if others else f"one {self.protects.unit}"

    @property
    def _data(self) -> str:
        return "your data" if self._spoken_to and self.group == 1 else f"the data of {self._who}"
