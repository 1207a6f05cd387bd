"""``tallystick compare``: one composition under every accounting method, bounds and approximations told apart."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallystick.cli.output import Answer, Expression, Json, deliver, round_up, working

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tallystick import PrivacyLoss
    from tallystick.plots import Curve
