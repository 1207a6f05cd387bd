"""``tallystick doctor``: what is installed, what is missing, and whether a known number comes out right."""

from __future__ import annotations

import importlib.util
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.cli.output import Answer, Json, deliver
from tallystick.digits import up
from tallystick.errors import Remedy, Unavailable
from tallystick.ledger.chain import config_directory
from tallystick.place import shown

if TYPE_CHECKING:
    from rich.console import Console

CORE = ("numpy", "scipy", "typer", "rich", "jinja2", "cryptography", "duckdb", "sqlglot")
# module to look for, distribution that provides it, extra to install, what it is for
OPTIONAL = (
    ("matplotlib", "matplotlib", "plots", "pictures"),
    ("psycopg", "psycopg", "team", "a ledger on PostgreSQL"),
    ("flint", "python-flint", "rigorous", "ball-arithmetic enclosures"),
    ("pyspark", "pyspark", "spark", "tables on Spark"),
    ("sklearn", "scikit-learn", "learn", "private estimators"),
    ("torch", "torch", "torch", "private training"),
)
# 100 Gaussians of sigma 10 are one of sigma 1; Balle and Wang's formula gives this epsilon at delta 1e-5 to ten digits.
KNOWN_EPSILON = 4.377178096


def doctor(as_json: Json = False) -> None:
    """Versions, optional parts, and a self-check against a number known in closed form."""
    import tallystick

    optional = {name: _optional_part(module, package, extra) for module, package, extra, name in OPTIONAL}
    epsilon = (100 * tallystick.gaussian(sigma=10)).epsilon(delta=1e-5)
    facts: dict[str, Any] = {
        "tallystick": tallystick.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "core": {name: _version(name) for name in CORE},
        "optional": optional,
        "config_directory": _config_directory(),
        "self_check": {"epsilon": epsilon, "expected": KNOWN_EPSILON, "passed": abs(epsilon - KNOWN_EPSILON) < 1e-8},
    }
    if not facts["self_check"]["passed"]:
        raise Unavailable(
            f"the self-check gave epsilon {epsilon!r} where {KNOWN_EPSILON} is right: numpy or scipy is damaged",
            remedies=[Remedy("install", packages="--force-reinstall numpy scipy")],
        )
    deliver(Answer("doctor", {}, facts, lambda out: _say(out, facts)), as_json=as_json)


def _say(out: Console, facts: dict[str, Any]) -> None:
    out.print(f"tallystick {facts['tallystick']}   Python {facts['python']}   {facts['platform']}")
    out.print("core       " + "   ".join(f"{name} {version}" for name, version in facts["core"].items()))
    for purpose, part in facts["optional"].items():
        state = f"present ({part['package']} {part['version']})" if part["present"] else f"absent: {part['install']}"
        out.print(f"optional   {purpose}: {state}", markup=False)
    if not all(part["present"] for part in facts["optional"].values()):
        out.print("           (type 'pip install' in the folder of tallystick's source)", markup=False)
    config = facts["config_directory"]
    told = f"{config['path']} ({config['state']}; set by {config['set_by']})"
    out.print(f"config     {told}", soft_wrap=True, markup=False)
    out.print(
        f"self-check passed: 100 * gaussian(sigma=10) has epsilon {up(facts['self_check']['epsilon'], 9)} at delta 1e-5"
    )


def _config_directory() -> dict[str, Any]:
    """Return the place of anchors and signing key, who chose it, and whether this user can write there."""
    path = config_directory()
    names = (name for name in ("TALLYSTICK_CONFIG_DIR", "XDG_CONFIG_HOME") if os.environ.get(name))
    return {"path": shown(path), "set_by": next(names, "the home directory"), "state": _writable(path)}


def _writable(path: Path) -> str:
    if path.is_dir():
        return "writable" if os.access(path, os.W_OK | os.X_OK) else "not writable: ledgers cannot be written"
    above = next(folder for folder in path.absolute().parents if folder.exists())
    can_make = above.is_dir() and os.access(above, os.W_OK | os.X_OK) and not path.exists()
    return "made at the first write" if can_make else "cannot be made: ledgers cannot be written"


def _optional_part(module: str, package: str, extra: str) -> dict[str, Any]:
    present = importlib.util.find_spec(module) is not None
    install = f"pip install '.[{extra}]'"
    return {"package": package, "present": present, "version": _version(package), "install": install}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
