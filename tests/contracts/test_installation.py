"""What a plain installation brings along."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from sweeps import share

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("default_install.py")


def core_packages(*names: str) -> set[str]:
    """The closure of the requirements of packages (tallystick) without extras, in this environment."""
    seen: set[str] = set()
    waiting = [*(names or ("tallystick",))]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        for requirement in metadata.requires(name) or []:
            package, _, marker = requirement.partition(";")
            if "extra" in marker or _is_for_another_system(marker):
                continue
            waiting.append(re.match(r"[\w.-]+", package.strip())[0])  # type: ignore[index]
    return seen


def _is_for_another_system(marker: str) -> bool:
    # pip is always there and brings the evaluator of environment markers.
    from pip._vendor.packaging.markers import Marker

    return bool(marker.strip()) and not Marker(marker.strip()).evaluate()


def test_the_core_is_at_most_eighteen_packages() -> None:
    packages = core_packages()
    assert {"numpy", "scipy", "rich"} <= packages  # the closure was really walked
    assert len(packages) <= 18, sorted(packages)


def test_http_brings_at_most_eight_packages() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    packages = core_packages(*(re.match(r"[\w.-]+", each)[0] for each in extra["serve"]))  # type: ignore[index]
    assert {"starlette", "uvicorn", "h11"} <= packages  # the closure was really walked
    assert len(packages) <= 8, sorted(packages)


def test_the_package_is_typed_and_licensed() -> None:
    distribution = metadata.distribution("tallystick")
    assert distribution.metadata["License-Expression"] == "Apache-2.0"
    assert "tallystick" in {script.name for script in distribution.entry_points}


def pages() -> list[str]:
    """The README and the guides with commands."""
    from contracts import snippets

    found = [snippets.ROOT / "README.md", *sorted(snippets.ROOT.glob("docs/guides/*.md"))]
    with_commands = [page for page in found if any(block.language == "console" for block in snippets.blocks(page))]
    return [page.relative_to(snippets.ROOT).as_posix() for page in with_commands]


PARTS = ["commands", "help", "names", *share(pages(), 3)]
"""A command needs the same packages on every page: ``make test`` runs a share of the pages."""


def test_every_documented_command_runs_or_names_its_extra_in_the_default_installation(tmp_path: Path) -> None:
    settings = {**os.environ, "TALLYSTICK_CONFIG_DIR": str(tmp_path / "config"), "OMP_NUM_THREADS": "1"}
    settings.pop("TALLYSTICK_LEDGER", None)
    words = [sys.executable, str(SCRIPT), *PARTS]
    ran = subprocess.run(words, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stderr[-6000:]
    assert ran.stdout.splitlines()[-1] == f"{len(PARTS)} parts"
