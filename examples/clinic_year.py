"""Three unlike releases about the same patients, added up and explained."""

from __future__ import annotations

import tallystick as ts
from tallystick.cards import meaning

DELTA = 1e-6

weekly = 52 * ts.discrete_gaussian(sigma=20)
survey = ts.laplace(scale=10)
model = 2_000 * ts.gaussian(sigma=1.5).sampled(rate=0.01)
year = weekly + survey + model

for name, loss in {"weekly counts": weekly, "survey": survey, "model": model, "the year": year}.items():
    print(f"{name:<14} epsilon {loss.epsilon(delta=DELTA):.4f} at delta {DELTA:g}")
print(meaning(year, delta=DELTA).plain_sentence)
