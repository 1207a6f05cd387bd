"""``tallystick explore``: the page on which a promise of privacy can be played with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tallystick.cli.output import Answer, Json, deliver
from tallystick.errors import InvalidInput
from tallystick.regular_file import regular, write_whole


def explore(
    out: Annotated[Path, typer.Option("--out", help="The file to write.")] = Path("tallystick-explorer.html"),
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    as_json: Json = False,
) -> None:
    """Write a page with sliders for epsilon, delta, rho, mu and DP-SGD. One file; it loads and sends nothing."""
    from tallystick.cli.explorer import page

    if out.suffix.lower() not in (".html", ".htm"):
        raise InvalidInput("out", str(out), "a file that ends in .html")
    text = page()
    if out.exists() and "<title>What epsilon means: tallystick's explorer</title>" not in _opening(out):
        raise InvalidInput("out", str(out), "a new file, or an earlier explorer")
    try:
        write_whole(out, text)
    except OSError as error:
        raise InvalidInput("out", str(out), f"a file that can be written ({error.strerror})") from error
    opened = show and _open(out)
    facts = {"file": str(out), "bytes": len(text.encode()), "opened": opened}
    deliver(
        Answer(
            "explore",
            {"out": str(out), "open": show},
            facts,
            lambda screen: screen.print(
                f"{out}\n{'It is open in your browser.' if opened else 'Open it in a browser.'} It needs no network.",
                soft_wrap=True,
                markup=False,
            ),
        ),
        as_json=as_json,
    )


def _opening(path: Path) -> str:
    """The head of what is there already, so that no other file is written over."""
    try:
        with open(path, encoding="utf-8", errors="replace", opener=regular) as file:
            return file.read(2000)
    except OSError as error:
        raise InvalidInput("out", str(path), f"a file that can be written ({error.strerror})") from error


def _open(path: Path) -> bool:
    import webbrowser

    return webbrowser.open(path.resolve().as_uri())
