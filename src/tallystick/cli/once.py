"""An option that takes one value is given once: the parser would take the last and be silent about the others."""

from __future__ import annotations

from collections import Counter
from typing import Any

import typer
from typer.core import TyperCommand

from tallystick.errors import InvalidInput


class OnceEach(TyperCommand):
    """A command that refuses a second value for an option that has room for one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words of a command line."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for option, times in Counter(each for each in given if each.param_type_name == "option").items():
            if times > 1 and not (option.multiple or option.is_flag or option.count):  # type: ignore[attr-defined]
                raise InvalidInput(option.name or option.opts[0], f"given {times} times", "one value, given once")
        return super().parse_args(ctx, args)


def once_each(app: typer.Typer) -> typer.Typer:
    """Return the commands, each as an object of this class."""
    for command in app.registered_commands:
        command.cls = OnceEach
    return app
