"""``import tallystick`` is quick and pulls in nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pace import slower

HEAVY = (
    "scipy",
    "duckdb",
    "pyarrow",
    "matplotlib",
    "torch",
    "pandas",
    "pyspark",
    "psycopg",
    "flint",
    "rich",
    "typer",
    "jinja2",
)


def _run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_tallystick_imports_nothing_heavy() -> None:
    loaded = _run("import sys, tallystick; print(' '.join(sorted(name for name in sys.modules if '.' not in name)))")
    assert not set(HEAVY) & set(loaded.split())


def test_naming_every_public_name_imports_neither_scipy_nor_an_extra() -> None:
    code = "import sys, tallystick\nfor name in tallystick.__all__: getattr(tallystick, name)\n"
    loaded = set(_run(code + "print(' '.join(name for name in sys.modules if '.' not in name))").split())
    assert not {"scipy", "duckdb", "pyarrow", "matplotlib", "torch"} & loaded


def test_importing_tallystick_takes_at_most_a_third_of_a_second() -> None:
    # The best of five: the machine may be busy, the import may not be slow.
    code = "import time; start = time.process_time(); import tallystick; print(time.process_time() - start)"
    assert min(float(_run(code)) for _ in range(5)) <= 0.3 * slower()


def test_asking_the_command_line_for_help_does_not_load_numpy_or_scipy() -> None:
    code = (
        "import sys, contextlib, io\nfrom tallystick.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()): assert main(['--help']) == 0\n"
        "print(' '.join(sys.modules))"
    )
    assert not {"numpy", "scipy", "matplotlib"} & set(_run(code).split())


def test_asking_for_help_imports_no_command_and_running_one_imports_only_that() -> None:
    code = (
        "import sys, contextlib, io\nfrom tallystick.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()): assert main({words}) == 0\n"
        "print(' '.join(name for name in sys.modules if name.startswith('tallystick.cli.commands.')))"
    )
    assert _run(code.format(words=["--help"])) == ""
    assert _run(code.format(words=["delta", "pure_dp(epsilon=1)", "--epsilon", "1"])) == "tallystick.cli.commands.read"


def test_asking_for_help_takes_at_most_fifteen_hundredths_of_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The best of five: the machine may be busy, the help may not be slow. The first one writes the bytecode.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    code = (
        "import contextlib, io, time\nfrom tallystick.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()): assert main(['--help']) == 0\n"
        "print(time.process_time())"
    )
    assert min(float(_run(code)) for _ in range(5)) <= 0.15 * slower()
