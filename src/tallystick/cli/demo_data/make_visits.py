"""Makes ``visits.csv.gz``: one synthetic year of visits by 10,000 people who do not exist.

    python -m tallystick.cli.demo_data.make_visits

The same file comes out every time. No real data was used: the shapes are written down below.
"""

from __future__ import annotations

import gzip
import io
import random
from pathlib import Path

PEOPLE = 10_000
REGIONS = {"north": 0.34, "east": 0.27, "south": 0.24, "west": 0.15}
HEADER = "patient_id,region,sex,age,days,cost\n"
HERE = Path(__file__).with_name("visits.csv.gz")


def visits() -> str:
    """The table as CSV text: one line per visit.

    >>> len({line.split(",")[0] for line in visits().splitlines()[1:]})
    10000
    """
    chance = random.Random("tallystick demo, one year of visits")
    lines = [HEADER]
    for number in range(1, PEOPLE + 1):
        home = chance.choices(list(REGIONS), weights=list(REGIONS.values()))[0]
        sex = "f" if chance.random() < 0.53 else "m"
        age = min(104, max(0, round(chance.gauss(47, 22))))
        count = 1 + int(chance.expovariate(1.0 - age / 220))
        for _ in range(min(count, 40)):
            region = home if chance.random() < 0.94 else chance.choice(list(REGIONS))
            days = min(60, int(chance.expovariate(1 / (1.5 + age / 25))))
            cost = min(20_000, round(180 + 310 * days + chance.expovariate(1 / 220)))
            lines.append(f"p{number:05d},{region},{sex},{age},{days},{cost}\n")
    return "".join(lines)


def packed(text: str) -> bytes:
    """The text compressed, without a time stamp."""
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=0, filename="") as file:
        file.write(text.encode("ascii"))
    return out.getvalue()


def bundled() -> bytes:
    """The CSV bytes of the file that comes with the package."""
    return gzip.decompress(HERE.read_bytes())


if __name__ == "__main__":
    HERE.write_bytes(packed(visits()))
