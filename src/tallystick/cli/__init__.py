"""The command ``tallystick``: it listens, calls the library and answers. No privacy is computed in this room.

Nothing heavy is imported before a command runs, so that ``tallystick --help`` stays quick.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code (the table is in docs/reference/cli.md).

    >>> main(["epsilon", "pure_dp(epsilon=1)", "--delta", "0"])  # doctest: +ELLIPSIS
    epsilon 1...
    0
    """
    from tallystick.cli.app import run

    return run(arguments)
