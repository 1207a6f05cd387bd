"""``%load_ext tallystick``, then cells in SQL that begin with ``%%tallystick --why "weekly report" --rho 0.01``."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from typing import Any, NoReturn

from tallystick.errors import InvalidInput
from tallystick.rounding import read_amount

HELP = """Ask registered datasets in SQL; the cell is the statement.

    %%tallystick [variable] --why "weekly report" [--rho 0.01] [--epsilon 1] [--delta 1e-6] [--pure] [--error 50]
                 [--ledger PATH] [--key NAME] [--explain]

``variable`` keeps the answer under that name: ``.to_pandas()``, ``.rows``, ``tallystick.cards.card(answer)``. Public
tables that the statement may join are those of a dict named ``public``: ``public = {"regions": "regions.csv"}``, or a
data frame in place of the file. A query that was answered before is answered again without a charge. ``--explain``
shows the cost.
"""


class _Options(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise InvalidInput("%%tallystick", message, self.format_usage().strip())


def _parser() -> _Options:
    parser = _Options(prog="%%tallystick", add_help=False)
    for name in ("--ledger", "--why", "--key"):
        parser.add_argument(name)
    for name in ("--rho", "--epsilon", "--delta"):
        parser.add_argument(name, type=partial(read_amount, name))
    parser.add_argument("--error", type=float)
    for name in ("--explain", "--pure"):
        parser.add_argument(name, action="store_true")
    parser.add_argument("variable", nargs="?", help="where to keep the answer")
    return parser


def cell(line: str, text: str, names: dict[str, Any]) -> Any:
    """Answer a cell: the table, its cost and what is left. A dict named ``public`` holds tables it may join."""
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

    def tallystick(line: str, text: str) -> Any:
        return cell(line, text, shell.user_ns)

    tallystick.__doc__ = HELP  # what %%tallystick? shows
    shell.register_magic_function(tallystick, magic_kind="cell", magic_name="tallystick")
