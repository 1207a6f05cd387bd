"""Sixteen processes of two analysts, and of two approvers, on both stores.   (make campaign-ledger)

python tests/campaigns/roles_races.py [--rounds 20] [--each 60]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from crash.stores import fresh_schema, postgres_server
from crash.team_racing import race_of_allowances, race_of_approvals
from ramdisk import quick_folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--each", type=int, default=60)
    given = parser.parse_args()
    with postgres_server() as server, tempfile.TemporaryDirectory(dir=quick_folder()) as folder:
        for number in range(2 * given.rounds):
            config = Path(folder) / str(number)
            config.mkdir()
            places = [fresh_schema(server.url) if number % 2 else str(config / f"{each}.db") for each in range(2)]
            race_of_allowances(places[0], config, processes=16, each=given.each)
            race_of_approvals(places[1], config, processes=16)
            print(f"round {number + 1}: no limit was passed, and one request was carried out", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
