"""Writes the digests of layouts again, on every PostgreSQL server of this machine: the packages' and the wheel's.

PYTHONPATH=src:tests python -m unit.ledger.make_layouts
"""

from __future__ import annotations

import contextlib

from crash.stores import programs, server_of
from tallystick.ledger import layout


def main() -> None:
    with contextlib.ExitStack() as stack:
        layout.main([stack.enter_context(server_of(program)) for program in programs()])


if __name__ == "__main__":
    main()
