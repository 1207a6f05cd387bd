"""Our accountants inside the real Opacus and dp_accounting, in the peers' environment; writes benchmarks/results/adapters.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))

from accountants import PEERS, environment, versions

PAGE = """# Adapters: our accountants in other people's packages

{versions}. Events of dp_accounting, read by our accountant (`ts.learn.dp_accounting.accountant()`) and by the package's own two. Written by `benchmarks/adapters/run.py` on {date}, after its {checks} checks passed: unchanged scripts of Opacus and of dp_accounting, calibration with our accountant, every kind of event as an object and as the JSON of `to_named_tuple()`.

{table}

The repository of dp_accounting at b5b0286 has four kinds of events more than its release; what the same script said there on 16 November 2026, and this run did not repeat:

| event, delta 1e-05 | tallystick | by loss distributions | by Renyi divergences |
|---|---|---|---|
| epsilon and delta, 3 times | 1.49996 | 1.49996 | 1.50214 |
| discrete Gaussian | 2.01134 | - | 2.16572 |
| discrete Gaussian, some dimension | 2.16572 | - | 2.16572 |
| exponential mechanism, 10 times | 1.22796 | 1.99603 | 0.203501 |
| permute and flip | 0.999986 | 0.99998 | 1.00282 |

Where a column is **below** ours it is not a tighter bound:

- *Gaussian, replace*: the event counts noise against the norm of one record, and a changed record moves the sum by twice that. Loss distributions count so too; the Renyi accountant does not ask for the relation.
- *batch of 10 of 1000*: the same, in the Renyi accountant. Read as it counts (noise against what a changed record moves) ours is 0.0847.
- *exponential mechanism, 10 times* (the repository): its Renyi accountant adds one of the ten.
- *permute and flip* (the repository, by 6e-6): the package takes its losses for those of Laplace noise; ours is any pure mechanism, because we know no theorem that says so.
- *exponential mechanism* is tighter in ours than by loss distributions, which take it for any pure mechanism; so are *often cut batches*.
"""


def main() -> int:
    python = str(environment())
    ready = PEERS / ".installed-tallystick"
    if not ready.exists():
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--editable", str(ROOT), "pytest"], check=True)
        ready.touch()
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    checks = [python, "-m", "pytest", "--quiet", "-p", "no:cacheprovider", str(HERE / "checks.py")]
    done = subprocess.run(checks, env=settings, cwd=HERE, check=False, capture_output=True, text=True)
    print(done.stdout, done.stderr)
    passed = re.search(r"(\d+) passed in", done.stdout)  # nothing skipped: that would be said between the two
    if done.returncode or passed is None:
        return done.returncode or 1
    table = subprocess.run(
        [python, "-W", "ignore", str(HERE / "values.py")], env=settings, capture_output=True, text=True, check=True
    ).stdout
    page = PAGE.format(versions=versions(), date=time.strftime("%Y-%m-%d"), checks=passed[1], table=table.strip())
    (HERE.parent / "results" / "adapters.md").write_text(page, encoding="utf-8")
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
