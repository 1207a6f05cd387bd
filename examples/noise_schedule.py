"""A training run whose noise shrinks: what each phase costs alone, and what they cost together."""

from __future__ import annotations

import tallystick as ts

DELTA = 1e-5
phases = [(1_000, 2.0), (1_000, 1.4), (1_000, 1.0)]

total = ts.no_loss()
for steps, sigma in phases:
    phase = steps * ts.gaussian(sigma=sigma).sampled(rate=0.01)
    total += phase
    alone, so_far = phase.epsilon(delta=DELTA), total.epsilon(delta=DELTA)
    print(f"{steps} steps at noise {sigma}: alone {alone:.4f}, so far {so_far:.4f}")
