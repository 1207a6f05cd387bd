"""The environment of the other accountants, and of Opacus: .bench-venv, made on first use, never part of the package."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PEERS = Path(__file__).resolve().parents[1] / ".bench-venv"
PACKAGES = ("dp-accounting", "prv-accountant", "opacus", "autodp")


def environment() -> Path:
    """Its python (torch first and pinned, so that opacus brings no other)."""
    python = PEERS / "bin" / "python"
    ready = PEERS / ".installed"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=True)
        for wanted in (["torch==2.13.0"], list(PACKAGES)):
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
        ready.touch()
    return python


def versions() -> str:
    """What is installed there."""
    if not (PEERS / ".installed").exists():
        return "peers not installed"
    listed = subprocess.run([str(PEERS / "bin" / "python"), "-m", "pip", "list", "--format=json"],
                            capture_output=True, text=True, check=True)  # fmt: skip
    known = {p["name"].lower().replace("_", "-"): p["version"] for p in json.loads(listed.stdout)}
    return ", ".join(f"{name} {known.get(name, '?')}" for name in (*PACKAGES, "torch", "numpy"))
