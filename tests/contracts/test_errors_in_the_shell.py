"""Errors of the shell are sentences: no labels, no Python, and numbers as people write them.

Every command is called in ways that fail: without arguments, with an unknown option, and with values that cannot be
read. Then come failures that a registered dataset with a small budget gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tallystick.cli.app import _parser, run

LABELS = re.compile(r"^ *(asked|found|works|fits:?) {1,}\S", re.MULTILINE)
NUMBERS = re.compile(r"\+-|\de[+-]0\d|\de\+\d")
PYTHON = re.compile(
    r"(?<![\"'(\w-])[a-z_]+=(?=[ ,;.)]|$)"  # rho= (and delta=)
    r"|=True\b|=None\b|\bNone\b|\bts\.|=\[|=\{|raise_limit|=\(|\['",
    re.MULTILINE,
)
FIRST = re.compile(r"(Error|Denied|Refused|Failed|Unavailable|Ledger integrity|Key conflict): \S")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name in below:
        yield from commands(below[name], (*path, name))


def bad_lines() -> Iterator[tuple[str, ...]]:
    for path, command in commands(_parser()):
        if path[:1] in (("demo",), ("explore",), ("doctor",)):
            yield (*path, "--nosuch")
            continue
        yield (*path, "--nosuch")
        needed = [each for each in command.params if each.required]
        if needed:
            yield path
        arguments = [each for each in command.params if each.param_type_name == "argument"]
        given = ["nonsense"] * len(arguments)
        for option in command.params:
            if option.param_type_name == "option" and not option.is_flag and option.name not in ("ledger", "config"):
                yield (*path, *given, option.opts[0], "nan")
                if option.name not in ("out", "card"):
                    yield (*path, *given, option.opts[0], "")


def checked(text: str, words: tuple[str, ...]) -> None:
    said = "\n".join(line for line in text.splitlines() if not line.startswith("note: "))
    assert FIRST.match(said), (words, said)
    for pattern in (LABELS, NUMBERS, PYTHON):
        assert not pattern.search(said), (words, pattern.search(said), said)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TALLYSTICK_LEDGER", raising=False)

    def typed(*words: str) -> tuple[int, str]:
        code = run(list(words))
        captured = capsys.readouterr()
        return code, captured.err

    return typed


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted({path[0] for path, _ in commands(_parser())}))
def test_every_command_fails_in_sentences(shell: Any, name: str) -> None:
    failed = 0
    for words in bad_lines():
        if words[0] != name:
            continue
        code, said = shell(*words)
        if code != 0:
            failed += 1
            checked(said, words)
    assert failed > 0


def registered(shell: Any) -> None:
    lines = [f"{unit},{'abcd'[unit % 4]},{20 + unit % 7},{'mf'[unit % 2]},{unit % 5}" for unit in range(200)]
    Path("visits.csv").write_text("patient,ward,age,sex,cost\n" + "\n".join(lines) + "\n")
    Path("wards.csv").write_text("ward\na\nb\nc\nd\n")
    words = ("--unit", "patient", "--limit", "rho=0.01,delta=1e-7", "--max-groups", "4", "--max-rows-per-group", "1")
    add = ("dataset", "add", "visits.csv", "--population", "clinic", *words, "--bounds", "age=0:100")
    assert shell(*add) == (0, "")


COUNT = ("query", "visits", "--measures", "count", "--why", "x")
FIT = ("fit", "linear", "visits", "--target", "age", "--why", "x")
FAILING = (
    (*COUNT, "--rho", "0.06"),
    (*COUNT, "--error", "1"),
    (*COUNT, "--error", "0"),
    (*COUNT, "--epsilon", "1"),
    (*COUNT, "--epsilon", "1", "--delta", "1e-6"),
    (*COUNT, "--epsilon", "1", "--delta", "1e-6", "--pure"),
    (*COUNT, "--rho", "0.001", "--pure"),
    (*COUNT, "--rho", "nan"),
    (*COUNT, "--rho", "0.00001"),
    COUNT,
    (*COUNT, "--rho", "0.001", "--epsilon", "1"),
    (*COUNT, "--rho", "0.001", "--account", "clinc"),
    (*COUNT, "--rho", "0.001", "--by", "ward"),
    (*COUNT, "--rho", "0.001", "--by", "ward", "--keys", "nofile.csv"),
    (*COUNT, "--rho", "0.001", "--by", "ward", "--keys", "visits.csv"),
    (*COUNT, "--rho", "0.001", "--by", "ward", "--private-keys", "1e-6"),
    (*COUNT, "--rho", "0.001", "--join", "nofile.csv"),
    (*COUNT, "--rho", "0.001", "--where", "age >"),
    (*COUNT, "--rho", "0.001", "--where", "ward > 3"),
    ("query", "visits", "--measures", "", "--rho", "0.001", "--why", "x"),
    ("query", "visits", "--measures", "average(age)", "--rho", "0.001", "--why", "x"),
    ("query", "visits", "--measures", "mean(sex)", "--rho", "0.001", "--why", "x"),
    ("query", "visits", "--measures", "mean(cost,0,5)", "--rho", "0.001", "--why", "x"),
    ("query", "visits", "--measures", "mean(age,5)", "--rho", "0.001", "--why", "x"),
    (*FIT, "--features", "cost", "--rho", "0.005"),
    (*FIT, "--features", "age", "--rho", "0.005"),
    (*FIT, "--features", "age"),
    (*FIT, "--features", "age", "--rho", "0.05", "--epsilon", "1"),
    (*FIT, "--features", "age", "--epsilon", "1", "--delta", "1e-6", "--pure"),
    ("fit", "logistic", "visits", "--target", "age", "--features", "age", "--solver", "foo", "--why", "x"),
    ("fit", "logistic", "visits", "--target", "age", "--features", "cost", "--epsilon", "0.1", "--why", "x"),
    ("dataset", "suggest", "visits", "--by", "ward"),
    ("dataset", "suggest", "visits", "--by", "ward", "--rho", "0.5", "--why", "x"),
    ("sql", "SELECT ward, COUNT(*) FROM visits GROUP BY ward", "--rho", "0.001", "--why", "x"),
    ("sql", "SELECT MAX(age) FROM visits", "--rho", "0.001", "--why", "x"),
    ("sql", "SELECT COUNT(*) FROM visits", "--why", "x"),
    ("sql", "SELECT COUNT(*) FROM visits", "--rho", "0.001"),
    ("sql", "SELEC COUNT(*) FROM visits", "--rho", "0.001"),
    ("charge", "add", "gaussian(sigma=1)", "--why", "x"),
    ("charge", "add", "gaussian(sigma=1).for_groups(3)", "--why", "x"),
    ("charge", "add", "1000 * gaussian(sigma=1).sampled(rate=0.01)", "--why", "x"),
    ("account", "raise", "clinic", "--budget", "zcdp(rho=0.001)", "--why", "x"),
    ("account", "open", "clinic", "--budget", "zcdp(rho=1)"),
    ("account", "open", "x", "--budget", "gaussian(sigma=1)"),
    ("account", "raise", "nope", "--budget", "zcdp(rho=1)", "--why", "x"),
    ("budget", "nope"),
    ("publish", "run", "nofile.json", "--why", "x"),
)


@pytest.mark.filterwarnings("ignore")
def test_failures_of_a_dataset_are_sentences(shell: Any) -> None:
    registered(shell)
    for words in FAILING:
        code, said = shell(*words)
        assert code in (2, 3, 4), (words, said)
        checked(said, words)


@pytest.mark.parametrize(
    "text",
    [
        "Error: x\n  asked  --rho",
        "Error: give rho= (and delta=)",
        "Error: pure=True says so",
        "Error: count +-3",
        "Error: delta 1e-06",
        "Not allowed (exit 2)",
        "Error: add bounds={'x': 1}",
    ],
)
def test_a_bad_sentence_is_noticed(text: str) -> None:
    with pytest.raises(AssertionError):
        checked(text, ())
