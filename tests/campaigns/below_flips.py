"""Links that flip at each component of a relative name while a connection opens it: no foreign file is opened.

A second process exchanges one component with a link to a foreign tree as fast as it can. At each position, the folder
of the connection among them, ``--tries`` openings count what they read. A twin that looks first and opens by path
afterwards reads the foreign file: the exit code is 1 if it does not, or if ``open_below`` does.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from flips import FOREIGN, OWN, RELATIVE, Tree, counted, flipping, tree
from tallystick.service.connections import open_below


def looked_first(made: Tree) -> int:
    """The twin: the name is looked at, and resolved a second time when it is opened."""
    path = made.folder / RELATIVE
    if os.path.realpath(path) != str(path):
        raise PermissionError
    return os.open(path, os.O_RDONLY)


OPENERS: dict[str, Callable[[Tree], int]] = {
    "open_below": lambda made: open_below(made.folder, RELATIVE),
    "twin": looked_first,
}


def main() -> int:
    """Print a line per opener and position."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=10_000)
    tries = parser.parse_args().tries
    foreign = dict.fromkeys(OPENERS, 0)
    is_idle = False
    with tempfile.TemporaryDirectory() as place:
        made = tree(Path(os.path.realpath(place)))
        for name, opener in OPENERS.items():
            for position in made.positions:
                with flipping(made, position):
                    found = counted(lambda opener=opener: opener(made), tries)
                foreign[name] += found[FOREIGN]
                is_idle |= not found[OWN] or not found[b""]
                counts = f"{found[OWN]:7,} own {found[FOREIGN]:7,} foreign {found[b'']:7,} refused"
                print(f"{name:12} {position or 'the folder':18} {counts}", flush=True)
    return 1 if foreign["open_below"] or not foreign["twin"] or is_idle else 0


if __name__ == "__main__":
    sys.exit(main())
