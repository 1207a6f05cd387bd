"""``python -m tallystick``: the same as the command ``tallystick``."""

import sys

from tallystick.cli import main

if __name__ == "__main__":
    sys.exit(main())
