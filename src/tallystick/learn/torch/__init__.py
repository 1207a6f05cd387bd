"""Private training of torch models (extra ``torch``): clip every example, add noise, step, and pay before the first.

gradients       one example's gradient in three shapes: two factors, rows of a table, or written out
layers          which of them each kind of layer has
engine          clipped sums of a batch, checks of a model before it sees data, and what is refused
masks           secret dropout masks
noise           cryptographic Gaussian noise on a public lattice
batches         who is in the next batch, drawn by the rule that was priced
trainer         the run: charged first, then stepped
replacements    attention, recurrent cells and learned positions made of layers the engine knows
"""

from __future__ import annotations

from tallystick import lazy
from tallystick.errors import Remedy, Unavailable

try:
    import torch as _torch  # noqa: F401
except ImportError:
    remedies = [Remedy("install", packages="'.[torch]'")]
    raise Unavailable("private training needs torch", remedies=remedies) from None

_HOMES: dict[str, str] = {
    "Attention": "replacements",
    "Engine": "engine",
    "GRU": "replacements",
    "LSTM": "replacements",
    "Positions": "replacements",
    "Trainer": "trainer",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy.names(__name__, _HOMES)
