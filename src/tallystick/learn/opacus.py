"""Our accountant inside Opacus, for scripts that stay as they are.

    ts.learn.opacus.register()
    engine = PrivacyEngine(accountant="tallystick")        everything else unchanged
    engine.get_epsilon(delta=1e-5)                         a certified upper bound

Opacus tells its accountant noise and rate, and not how batches were drawn: the number is that of Poisson batches at
this rate, of the steps that were taken. With ``poisson_sampling=False`` it is not the price of the run, and where the
script stopped because of what it saw, it is not either. Both are said once, when the first epsilon is read.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tallystick.accounting.foreign import from_opacus
from tallystick.errors import Remedy, Unavailable

if TYPE_CHECKING:
    from tallystick.accounting.loss import PrivacyLoss

UNSEEN = (
    "epsilon is that of Poisson batches at this rate and of a number of steps fixed beforehand; Opacus does not tell "
    "whether batches were drawn so (said once)"
)


def register(name: str = "tallystick") -> None:
    """Make ``PrivacyEngine(accountant=name)`` use our accountant; again does nothing new."""
    try:
        from opacus.accountants import IAccountant
        from opacus.accountants.registry import register_accountant
    except ImportError:
        remedies = [Remedy("install", packages="'opacus>=1.6'")]
        raise Unavailable("there is no Opacus here that can be extended", remedies=remedies) from None

    def named(cls: type) -> str:
        return name

    kind = type("TallystickAccountant", (_Accountant, IAccountant), {"mechanism": classmethod(named)})
    register_accountant(name, kind, force=True)


class _Accountant:
    """What Opacus asks of an accountant: steps in, epsilon out; ``history`` is [(noise, rate, steps), ...]."""

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []
        self._told = False

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """One step was taken."""
        if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
            count = self.history.pop()[2] + 1
        else:
            count = 1
        self.history.append((noise_multiplier, sample_rate, count))

    @property
    def privacy(self) -> PrivacyLoss:
        """The steps so far as a loss."""
        return from_opacus([list(row) for row in self.history])

    def get_epsilon(self, delta: float, **options: Any) -> float:
        """The certified epsilon at ``delta``; options of other accountants are not needed."""
        if not self._told:
            self._told = True
            warnings.warn(UNSEEN, stacklevel=2)
        return float(self.privacy.epsilon(delta=delta)) if self.history else 0.0

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)
