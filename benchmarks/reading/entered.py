"""List the functions that documented use enters: README, guides, examples and the demo.

    python benchmarks/reading/entered.py --rev HEAD --out entered.json

The revision is unpacked into a temporary folder. Each page, example and the demo runs there in a process of its own,
with a profile hook that a ``sitecustomize`` module sets before anything is imported. The environment that runs this
script must have what ``make test`` needs. A page that fails counts with what it entered before, and is listed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from sources import PACKAGE, commit_of, unpacked

HOOK = """
import atexit, json, os, sys, threading

CODES = set()

def note(frame, event, argument):
    if event == "call":
        CODES.add(frame.f_code)

def write():
    sys.setprofile(None)
    root = os.environ["ENTERED_PACKAGE"] + os.sep
    pairs = {(code.co_filename[len(root):], code.co_qualname) for code in CODES if code.co_filename.startswith(root)}
    with open(os.path.join(os.environ["ENTERED_NOTES"], f"{os.getpid()}.json"), "w") as file:
        json.dump(sorted(pairs), file)

atexit.register(write)
threading.setprofile(note)
sys.setprofile(note)
"""
RUN_PAGE = "import sys; from pathlib import Path; from contracts import snippets; snippets.run_page(Path(sys.argv[1]))"
RUN_EXAMPLE = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')"
RUN_DEMO = "import sys; from tallystick.cli import main; sys.exit(main(['demo']))"
SECONDS = 3600


def commands(tree: Path) -> dict[str, list[str]]:
    """Return the program and its arguments for each documented use."""
    pages = [tree / "README.md", *sorted((tree / "docs" / "guides").glob("*.md"))]
    uses = {page.relative_to(tree).as_posix(): [RUN_PAGE, str(page)] for page in pages}
    for example in sorted((tree / "examples").glob("*.py")):
        uses[example.relative_to(tree).as_posix()] = [RUN_EXAMPLE, str(example)]
    uses["tallystick demo"] = [RUN_DEMO]
    return uses


def environment(tree: Path, folder: Path) -> dict[str, str]:
    """Return the variables of a process that notes what it enters."""
    path = [folder / "hook", tree / "src", tree / "tests"]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "ENTERED_PACKAGE": str(tree / PACKAGE),
        "ENTERED_NOTES": str(folder / "notes"),
        "TALLYSTICK_CONFIG_DIR": str(folder / "config"),
        "NO_COLOR": "1",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def run(tree: Path, folder: Path) -> list[str]:
    """Run every documented use; return the names of those that failed."""
    variables = environment(tree, folder)
    failed = []
    for name, words in commands(tree).items():
        with tempfile.TemporaryDirectory(dir=folder) as place:
            command = [sys.executable, "-c", *words]
            done = subprocess.run(command, cwd=place, env=variables, capture_output=True, text=True, timeout=SECONDS)
        if done.returncode:
            failed.append(name)
            print(f"{name} failed:\n{done.stderr[-2000:]}", file=sys.stderr)
        else:
            print(name, file=sys.stderr)
    return failed


def collect(notes: Path) -> list[tuple[str, str]]:
    """Return the functions that any process entered, as pairs of file and qualified name."""
    pairs: set[tuple[str, str]] = set()
    for path in notes.glob("*.json"):
        pairs.update((file, name) for file, name in json.loads(path.read_text()))
    return sorted(pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rev", default="HEAD", metavar="REVISION")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    with unpacked(chosen.rev) as tree, tempfile.TemporaryDirectory(prefix="tallystick-entered-") as scratch:
        folder = Path(scratch)
        for name in ("hook", "notes"):
            (folder / name).mkdir()
        (folder / "hook" / "sitecustomize.py").write_text(HOOK)
        failed = run(tree, folder)
        pairs = collect(folder / "notes")
    if not pairs:
        sys.exit("no function was entered: this environment loads tallystick from another folder than PYTHONPATH names")
    result = {"commit": commit_of(chosen.rev), "failed": failed, "functions": pairs}
    chosen.out.write_text(json.dumps(result, indent=0) + "\n")


if __name__ == "__main__":
    main()
