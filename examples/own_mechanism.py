"""Your own mechanism: write down what it answers with and without the person, and it composes with everything else."""

from __future__ import annotations

import tallystick as ts

# A survey device answers yes, no or "ask again"; the rows are its probabilities with and without the person's data.
with_person = [0.5, 0.3, 0.2]
without = [0.3, 0.5, 0.2]
device = ts.discrete_pair(with_person, without)

print(f"one answer: epsilon {device.epsilon(delta=0):.4f} at delta 0")
for times in (10, 100, 1_000):
    print(f"{times:>5} answers: epsilon {(times * device).epsilon(delta=1e-6):.4f} at delta 1e-06")
print(f"asked with probability 1/10, 1,000 times: {(1_000 * device.sampled(rate=0.1)).epsilon(delta=1e-6):.4f}")
