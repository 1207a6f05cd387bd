"""``%load_ext tallystick``, then cells in SQL that begin with ``%%tallystick --why "weekly report" --rho 0.01``."""

from __future__ import annotations

import argparse
import shlex
from typing import Any, NoReturn

from tallystick.errors import InvalidInput


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidInput("%%tallystick", message, self.format_usage().strip())


def _parser() -> _Options:
    parser = _Options(prog="%%tallystick", add_help=False)
    for name in ("--ledger", "--why", "--key"):
        parser.add_argument(name)
    for name in ("--rho", "--epsilon", "--delta", "--error"):
        parser.add_argument(name, type=float)
    parser.add_argument("--explain", action="store_true")
    parser.add_argument("variable", nargs="?", help="where to keep the answer")
    return parser


def cell(line: str, text: str, names: dict[str, Any]) -> Any:
    """Answer a cell: the table, its price and what is left. A dict named ``public`` holds tables it may join."""
    from tallystick.publish.sql import sql

    options = vars(_parser().parse_args(shlex.split(line)))
    variable = options.pop("variable")
    public = names.get("public")
    answer = sql(text, public=public if isinstance(public, dict) else None, **options)
    if variable is not None:
        names[variable] = answer
    return answer


def load(shell: Any) -> None:
    """Register ``%%tallystick`` with a notebook."""
    shell.register_magic_function(
        lambda line, text: cell(line, text, shell.user_ns), magic_kind="cell", magic_name="tallystick"
    )
