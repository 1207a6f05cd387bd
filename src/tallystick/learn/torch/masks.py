"""Secret dropout masks: the model draws them from torch's own generator, which scripts seed with a known number.

Masks of a known generator are a function of the place in a batch and of how much was drawn before: one example more
would give all other examples other masks, and move the clipped sum by many clips. With secret masks, the same
law holds with and without that example, each other example keeping its masks (``docs/theory/private-training.md``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from tallystick.mechanisms.exact.randomness import SYSTEM, Source

_WORDS = slice(3, 3 + 624)  # of 8 bytes each: where the state of a CPU generator keeps its 32-bit words
_STATE = 5056  # bytes of such a state; one of another layout is left as the seed made it


@contextmanager
def secret_masks(source: Source = SYSTEM) -> Iterator[None]:
    """Seed torch from secret bits, and put its generator back afterwards: how far it moved tells the size of a batch.

    Generators of other devices are not put back but seeded afresh, from secret bits too.
    """
    before = torch.get_rng_state()
    _seed_others(source)
    _seed(source)
    try:
        yield
    finally:
        _seed_others(source)
        torch.set_rng_state(before)


def _seed_others(source: Source) -> None:
    """64 bits for every other device, where there is one: for one that is not torch takes time to note who asked."""
    if torch.accelerator.is_available():
        torch.manual_seed(source.bits(63))


def _seed(source: Source) -> None:
    """On the CPU, where torch uses only 32 bits of a seed, the whole state of its generator."""
    torch.default_generator.manual_seed(source.bits(63))
    state = torch.get_rng_state()
    if state.numel() != _STATE:
        return
    words = state.view(torch.int64)[_WORDS]
    words.copy_(torch.from_numpy(source.array(len(words), np.uint32).astype(np.int64)))
    torch.set_rng_state(state)
