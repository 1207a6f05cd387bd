"""The shipped package has no way to make the noise of a release repeatable.

A search of the source finds arguments that seed, generators with a seed, environment variables and
import hooks. Each use that decides no noise of a release is on a list with its reason. Two processes
with the same settings publish different numbers.
"""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "tallystick"

Finding = tuple[str, str, str]
"""A file, the function or class in it, and what was found there."""

SEEDING_ARGUMENTS = {"seed", "rng", "random_state", "generator"}
SEEDING_CALLS = {"seed", "manual_seed", "manual_seed_all", "default_rng", "RandomState", "SeededSource"}
SEEDED_MODULES = ("random.", "numpy.random.", "np.random.")
TYPES = {"Generator"}
"""Names of ``numpy.random`` that only annotate."""
HOOKS = {"meta_path", "path_hooks", "entry_points", "iter_entry_points"}
OTHERS = {"random", "SYSTEM", "environ", "getenv", "envvar"}
NEEDED = re.compile(rf"\b({'|'.join(sorted(SEEDING_ARGUMENTS | SEEDING_CALLS | HOOKS | OTHERS))})\b|[^\x00-\x7f]")
"""A text without any of them has no finding; Python reads some letters beyond ASCII as others."""


class _Search(ast.NodeVisitor):
    """Collects what could make random numbers repeatable."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.scope: list[str] = []
        self.findings: set[Finding] = set()

    def found(self, what: str) -> None:
        self.findings.add((self.path, ".".join(self.scope), what))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node, node.name)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self.scope.append(node.name)
        for argument in arguments:
            self._argument(argument.arg)
        self.scope.pop()
        self._inside(node, node.name)

    def _argument(self, name: str) -> None:
        if name in SEEDING_ARGUMENTS:
            self.found(f"argument {name}")

    def _inside(self, node: ast.AST, name: str) -> None:
        self.scope.append(name)
        self.generic_visit(node)
        self.scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._argument(node.target.id)
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if _dotted(target).rpartition(".")[2] == "SYSTEM":
                self.found("assignment of SYSTEM")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = _dotted(node.func)
        if name.rpartition(".")[2] in SEEDING_CALLS or name == "random.Random":
            self.found(f"call of {name}")
        for keyword in node.keywords:
            if keyword.arg == "envvar":
                self.found("environment by envvar")
        if name in {"os.getenv", "getenv", "os.environ.get", "environ.get"}:
            self._environment(node.args[0])
        self.generic_visit(node)

    def _environment(self, name: ast.expr) -> None:
        text = name.value if isinstance(name, ast.Constant) else "by a variable"
        self.found(f"environment {text}")

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if _dotted(node.value) in {"os.environ", "environ"}:
            self._environment(node.slice)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = _dotted(node)
        last = name.rpartition(".")[2]
        if name.startswith(SEEDED_MODULES) and last not in TYPES | SEEDING_CALLS:
            self.found(f"use of {name}")
        if last in HOOKS:
            self.found(f"hook {last}")
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        names = {alias.name for alias in node.names}
        if node.module in {"random", "numpy.random"}:
            self.found(f"import from {node.module}")
        if node.module == "os" and names & {"environ", "getenv"}:
            self.found("import of the environment")
        for name in sorted(names & HOOKS):
            self.found(f"hook {name}")


def _dotted(node: ast.expr) -> str:
    """The name of an attribute of a name, such as os.environ.get, or its last part."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return ""


def search(text: str, path: str) -> set[Finding]:
    """What could make random numbers repeatable in a source text."""
    found = _Search(path)
    if NEEDED.search(text):
        found.visit(ast.parse(text))
    return found.findings


@functools.cache
def findings() -> frozenset[Finding]:
    """What could make random numbers repeatable in the package."""
    found: set[Finding] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        found |= search(path.read_text(encoding="utf-8"), name)
    return frozenset(found)


# Uses that decide no noise of a release

ALLOWED: dict[str, set[tuple[str, str]]] = {
    "makes up data that describes no person": {
        ("cli/demo_data/make_ratings.py", "public_list"),
        ("cli/demo_data/make_ratings.py", "ratings"),
        ("cli/demo_data/make_visits.py", "visits"),
        ("cli/commands/holdout_story.py", "_coins"),
        ("cli/commands/holdout_story.py", "holdout_story"),
        ("cli/commands/six_story.py", "errors"),
        ("learn/made_up_rows.py", "examples"),
        ("learn/made_up_rows.py", "numbers"),
        ("publish/rehearse.py", "made_up_rows"),
        ("mechanisms/aggregate/asymptotics.py", "asymptotic_normality"),
    },
    "splits public data, or copies a model to compare gradients on made-up rows": {
        ("cli/commands/learning_story.py", "_trained"),
        ("learn/torch/engine.py", "Engine._twin"),
    },
    "chooses what an attacker of a story or an audit asks or guesses": {
        ("audit/canaries.py", "mislabelled"),
        ("audit/everyday.py", "differencing"),
        ("audit/everyday.py", "swapped"),
        ("audit/reconstruction.py", "random_subsets"),
        ("audit/reconstruction.py", "success_by_noise"),
        ("cli/commands/differencing_story.py", "_tell"),
        ("cli/commands/game_story.py", "_output"),
        ("cli/commands/linkage_story.py", "_from_noisy_counts"),
        ("cli/commands/reconstruct_story.py", "_tell"),
    },
    "simulates a distribution after the release, from published numbers alone": {
        ("inference/hypotheses.py", "independent"),
        ("inference/hypotheses.py", "same_share"),
        ("inference/noise.py", "Noise.drawn"),
        ("inference/simulate.py", "_rank"),
        ("inference/simulate.py", "bootstrap_interval"),
        ("inference/simulate.py", "repro_interval"),
    },
    "is for tests of programs: no account pays for it, and its output is marked": {
        ("audit/inclusion.py", "coins"),
        ("mechanisms/exact/randomness.py", "SeededSource.__init__"),
        ("testing.py", "Deterministic"),
        ("testing.py", "Deterministic.__call__"),
        ("testing.py", "deterministic"),
        ("testing.py", "released"),
    },
    "seeds torch with secret bits of the operating system": {
        ("learn/torch/masks.py", "_seed"),
        ("learn/torch/masks.py", "_seed_others"),
    },
    "names the place of a ledger or of the configuration": {
        ("cli/app.py", "_run"),
        ("cli/commands/doctor.py", "_config_directory"),
        ("ledger/book.py", "place_of"),
        ("ledger/chain.py", "config_directory"),
    },
    "gives a token to a service, and plain settings to its processes": {
        ("cli/commands/serve.py", "token_given"),
        ("service/template.py", "Template._start"),
    },
    "is another meaning of the word, or the one source of random bits itself": {
        ("ledger/signing.py", "Signer"),
        ("mechanisms/exact/randomness.py", ""),
        ("theorems/divergences.py", "tradeoff_to_f_divergence"),
    },
}
"""Functions with a seed, a generator or an environment variable, by the reason that allows them."""

VARIABLES = {
    *("TALLYSTICK_LEDGER", "TALLYSTICK_CONFIG_DIR", "XDG_CONFIG_HOME"),
    *("TALLYSTICK_TOKEN", "TALLYSTICK_TOKEN_FILE"),
}
"""Environment variables that the package reads."""


def test_each_seed_generator_and_variable_of_the_package_has_a_reason() -> None:
    found = {(path, function) for path, function, _ in findings()}
    allowed = set().union(*ALLOWED.values())
    assert found - allowed == set(), "new: a way to repeat random numbers"
    assert allowed - found == set(), "old: remove it from the list"


def test_the_package_reads_these_environment_variables_and_has_no_import_hook() -> None:
    kinds = {what for _, _, what in findings()}
    read = {what.removeprefix("environment ") for what in kinds if what.startswith("environment ")}
    assert read == {*VARIABLES, "by a variable"}  # the doctor shows two of them
    assert not {what for what in kinds if what.startswith("hook ")}


def test_only_tests_of_programs_and_simulations_use_a_seeded_source() -> None:
    users = {path for path, _, what in findings() if what == "call of SeededSource"}
    assert users == {"audit/inclusion.py", "inference/noise.py", "testing.py"}


WRONG = {
    "argument": "def add_noise(value, *, seed=None): ...",
    "field": "class Noise:\n    random_state: int = 0",
    "generator": "import numpy as np\n\ndef noise(n): return np.random.default_rng(1).normal(size=n)",
    "global seed": "import random\nrandom.seed(7)",
    "imported": "from random import gauss",
    "legacy": "import numpy as np\nnoise = np.random.normal()",
    "torch": "import torch\ntorch.manual_seed(0)",
    "seeded source": "def release(value): return draw(value, SeededSource(1))",
    "replaced source": "from tallystick.mechanisms.exact import randomness\nrandomness.SYSTEM = fixed",
    "variable": "import os\nSEED = os.environ.get('TALLYSTICK_SEED')",
    "variable by index": "import os\nSEED = os.environ['TALLYSTICK_SEED']",
    "variable imported": "from os import environ",
    "option": "import typer\nSEED = typer.Option(0, envvar='TALLYSTICK_SEED')",
    "import hook": "import sys\nsys.meta_path.insert(0, finder)",
    "plug-in": "from importlib.metadata import entry_points",
}
"""Modules that could make noise repeatable."""


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_a_module_that_could_repeat_noise_is_found(text: str) -> None:
    assert search(text, "wrong.py")


def test_a_module_with_system_noise_is_not_found() -> None:
    text = "def noise(source: Source = SYSTEM): return source.bits(64)"
    assert search(text, "right.py") == set()


# Two processes with the same settings

PROGRAM = """
import random
import numpy
random.seed(1)
numpy.random.seed(1)
{seeding}
from pathlib import Path
from tallystick.cli import main
wards = [f"w{{i}}" for i in range(8)]
Path("stays.csv").write_text("\\n".join(["patient,ward"] + [f"p{{i}},w{{i % 8}}" for i in range(80)]))
Path("wards.csv").write_text("\\n".join(["ward", *wards]))
added = "dataset add stays.csv --population p --unit patient --max-groups 1 --max-rows-per-group 1 --limit rho=1"
asked = "query stays --by ward --keys wards.csv --measures count_units --rho 0.001 --key k --why w --quiet"
assert main(added.split()) == 0
assert main(asked.split()) == 0
"""
"""Publishes eight counts. Their noise has a standard deviation above 20."""
SEEDING = """
from tallystick.mechanisms.exact import randomness
seeded = randomness.SeededSource(1)
randomness.SystemSource.read = lambda self, count: seeded.read(count)
"""
"""A wrong version of the package, whose source of random bits has a seed."""


def published(folder: Path, seeding: str = "") -> list[str]:
    """The rows that a new process publishes, with all variables that the package reads."""
    folder.mkdir()
    same = dict.fromkeys(VARIABLES, "same") | {"TALLYSTICK_LEDGER": "ledger.db", "PYTHONHASHSEED": "0"}
    settings = {**os.environ, **same, "NO_COLOR": "1"}
    words = [sys.executable, "-c", PROGRAM.format(seeding=seeding)]
    ran = subprocess.run(words, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [line for line in ran.stdout.splitlines() if line.startswith("w")]


def test_two_processes_with_the_same_settings_publish_different_numbers(tmp_path: Path) -> None:
    """Equal by chance: 8 counts that are each equal with probability below 1/70, so below 1e-14."""
    first, second = published(tmp_path / "first"), published(tmp_path / "second")
    assert len(first) == len(second) == 9  # a header and eight groups
    assert first != second


def test_the_comparison_of_two_processes_finds_a_seeded_package(tmp_path: Path) -> None:
    first = published(tmp_path / "first", SEEDING)
    assert len(first) == 9
    assert published(tmp_path / "second", SEEDING) == first
