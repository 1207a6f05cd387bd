"""What a plain installation brings along."""

from __future__ import annotations

import re
from importlib import metadata


def core_packages() -> set[str]:
    """The closure of the requirements of tallystick without extras, in this environment."""
    seen: set[str] = set()
    waiting = ["tallystick"]
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


def test_the_package_is_typed_and_licensed() -> None:
    distribution = metadata.distribution("tallystick")
    assert distribution.metadata["License-Expression"] == "Apache-2.0"
    assert "tallystick" in {script.name for script in distribution.entry_points}
