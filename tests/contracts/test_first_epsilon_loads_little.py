"""A first epsilon loads what it needs: the whole of a short script is dominated by imports, and people write those."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import tallystick as ts
(1000 * ts.gaussian(sigma=1).sampled(rate=0.01)).epsilon(delta=1e-5)
print(*sorted(name for name in sys.modules if name.startswith("tallystick.accounting.leaves.") or name == "scipy"))
"""


def test_a_first_epsilon_of_a_sampled_gaussian_loads_few_leaves_and_no_scipy() -> None:
    run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    leaves = {name.rpartition(".")[2] for name in run.stdout.split()}
    assert leaves <= {"gaussian", "sampled", "renyi", "substituted"}
