"""A table that is stopped between its charge and its answer is paid for, tells nothing, and closes its data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def test_a_table_stopped_after_its_charge_is_paid_for_and_closed():
    script = Path(__file__).with_name("table_stops.py")
    done = subprocess.run([sys.executable, script, "--few"], capture_output=True, text=True, timeout=300, check=True)
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["stops"] == 10
    assert {"stage cells", "stage totals", "commit: before answer_insert"} <= set(found["window"])
    assert found["done"] == {
        "kill: EXECUTING": 2,
        "kill: COMMITTED": 1,
        "interrupt: CLOSED": 1,
        "interrupt: COMMITTED": 1,  # between the storing and the handing out
        "vanish: COMMITTED": 1,
        "change: COMMITTED": 1,  # other columns in the file: there is nothing to answer from
        "reorder: COMMITTED": 1,  # columns go by name, and all stages read one copy
        "lock: COMMITTED": 1,
        "full disk: EXECUTING": 1,  # not even the burning can be written; the lease will
    }
