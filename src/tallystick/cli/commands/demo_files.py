"""``tallystick demo files``: write the files that the guides use, without running the demo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tallystick.cli.demo_data import flights, make_visits
from tallystick.cli.output import Answer, deliver
from tallystick.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console

SEXES = ("f", "m")


def regions() -> bytes:
    """The public list of the groups of the visits, as CSV.

    >>> regions().splitlines()[:3]
    [b'region,sex', b'north,f', b'north,m']
    """
    groups = [f"{region},{sex}" for region in make_visits.REGIONS for sex in SEXES]
    return _lines("region,sex", *groups)


def origins() -> bytes:
    """The public list of the airports of the flights, as CSV.

    >>> origins().splitlines()
    [b'origin', b'EWR', b'JFK', b'LGA']
    """
    return _lines("origin", "EWR", "JFK", "LGA")


def _lines(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("ascii")


FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "visits.csv": (make_visits.bundled, "visits of 10,000 made-up patients"),
    "billing.csv": (make_visits.bundled, "the same visits, as a second table about the same patients"),
    "regions.csv": (regions, "a public list of the groups of the visits"),
    "flights.csv": (flights.bundled, "8,832 real flights of January 2013, which are public"),
    "origins.csv": (origins, "a public list of the airports of the flights"),
}


def write_files(folder: Path, *, as_json: bool) -> None:
    """Write every file into a folder, and print what each one is."""
    contents = {name: make() for name, (make, _) in FILES.items()}
    for name, content in contents.items():
        _check_free(folder / name, content)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            (folder / name).write_bytes(content)
    except OSError as error:
        raise InvalidInput("folder", str(folder), f"a folder that can be written ({error.strerror})") from error

    def say(out: Console) -> None:
        for name, (_, words) in FILES.items():
            out.print(f"{name:<12} {words}", soft_wrap=True, markup=False)

    paths = [str(folder / name) for name in FILES]
    deliver(Answer("demo.files", {"folder": str(folder)}, {"files": paths}, say), as_json=as_json)


def _check_free(path: Path, content: bytes) -> None:
    """Refuse to replace a file that the user has written."""
    try:
        is_free = not path.exists() or path.read_bytes() == content
    except OSError:
        is_free = False
    if not is_free:
        raise InvalidInput("folder", str(path.parent), f"a folder without another {path.name}")
