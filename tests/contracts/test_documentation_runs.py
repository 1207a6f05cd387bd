"""Every code block of the documentation does what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from contracts import snippets


@pytest.mark.parametrize("page", snippets.pages(), ids=lambda page: page.relative_to(snippets.ROOT).as_posix())
def test_every_code_block_of_a_page_does_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    snippets.run_page(page)


def test_the_runner_finds_wrong_output_wrong_numbers_and_missing_targets(tmp_path: Path) -> None:
    wrong = {
        "doctest": "```python\n>>> 1 + 1\n3\n```\n",
        "number": "```python\nvalue = 2\nvalue * 3.1415   # 6.28\n```\n",
        "target": "```console\n$ make coffee\n```\n",
        "output": "```console\n$ tallystick --version\ntallystick 99\n```\n",
        "exit": "```console\n$ tallystick epsilon 'nonsense' --delta 1e-5\n```\n",
    }
    for name, text in wrong.items():
        page = tmp_path / f"{name}.md"
        page.write_text(text)
        if name == "number":
            snippets.run_page(page)  # 6.283 rounds to 6.28
            page.write_text(text.replace("6.28", "6.30"))
        with pytest.raises(AssertionError):
            snippets.run_page(page)


def test_the_runner_runs_blocks_in_one_session_and_leaves_marked_ones_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 20\n```\n<!-- not run: later -->\n```python\n1 / 0\n```\n```python\n>>> x + 1\n21\n```\n"
    )
    assert snippets.run_page(page) == 2


def test_readme_and_guides_have_code_to_run() -> None:
    assert list(snippets.blocks(snippets.ROOT / "README.md"))
    assert sum(len(list(snippets.blocks(page))) for page in snippets.pages()) > 20
