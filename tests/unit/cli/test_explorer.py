"""``tallystick explore`` and docs/explorer.html: one small file, whose numbers are Python's or on the safe side."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import shlex
import webbrowser
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallystick as ts
from campaigns import explorer_points
from sweeps import ALL
from tallystick.cli.explorer import page, part
from tallystick.digits import up

ROOT = Path(__file__).resolve().parents[3]
needs_node = pytest.mark.skipif(explorer_points.NODE is None, reason="node runs the page's JavaScript")


@cache
def maker() -> Any:
    spec = importlib.util.spec_from_file_location("explorer_maker", ROOT / "docs" / "explorer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GRID = json.loads(part("dpsgd.json"))


def test_the_committed_page_is_the_page() -> None:
    assert (ROOT / "docs" / "explorer.html").read_text(encoding="utf-8") == page()
    assert len(page().encode()) <= 80_000


def test_the_page_needs_nothing_from_outside_and_grades_nothing() -> None:
    text = page()
    assert not re.search(
        r"https?:|//cdn|@import|fetch\(|XMLHttp|<link(?! rel=\"icon\" href=\"data:,\")|\bsrc=|url\(", text
    )
    assert "default-src 'none'" in text
    words = re.sub(r"<[^>]*>", " ", part("page.html")) + part("page.js")
    assert not re.search(r"\b(strong|weak|good|bad|safe|unsafe|excellent|poor|secure)\b(?! the model)", words, re.I)


def test_every_place_the_script_writes_to_is_on_the_page() -> None:
    places = set(re.findall(r'\$\("([\w-]+)"\)', part("page.js")))
    assert places <= set(re.findall(r'id="([\w-]+)"', part("page.html")))
    assert len(places) > 15


@needs_node
def test_closed_forms_are_python_s_and_never_on_the_unsafe_side() -> None:
    wrong, numbers = explorer_points.compare(60, seed=7)
    assert not wrong
    assert numbers > 1000


def codes_of(rate: int, sigma: int, steps: int) -> list[int]:
    letters = maker().LETTERS
    width = len(GRID["shares"]) + len(GRID["deltas"]) + 1
    start = 2 * width * ((rate * len(GRID["sigmas"]) + sigma) * len(GRID["steps"]) + steps)
    pairs = GRID["codes"][start : start + 2 * width]
    return [letters.index(a) * len(letters) + letters.index(b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]


@pytest.mark.parametrize("place", [(0, 2, 4), (5, 5, 5), (7, 0, 6), (6, 10, 0), (2, 9, 6), (4, 8, 2)])
def test_nodes_of_the_grid_are_what_the_accountant_says(place: tuple[int, int, int]) -> None:
    rate, sigma, steps = place
    computed = maker().node(GRID["rates"][rate], GRID["sigmas"][sigma], GRID["steps"][steps])
    # a code is 0.3 %; the last digits of an engine may differ between machines
    assert np.all(np.abs(np.array(codes_of(*place)) - computed) <= 1)


def test_the_grid_is_as_the_page_reads_it() -> None:
    made = maker()
    for name, nodes in (("rates", made.RATES), ("sigmas", made.SIGMAS), ("steps", made.STEPS)):
        assert GRID[name] == list(nodes) == sorted(nodes)
    shape = tuple(len(GRID[name]) for name in ("rates", "sigmas", "steps"))
    table = np.array([codes_of(*place) for place in np.ndindex(*shape)]).reshape(*shape, -1)
    quoted = table[..., [0, *range(1 + len(GRID["shares"]), table.shape[-1])]]
    assert np.all(np.diff(quoted, axis=0) >= 0)  # between nodes the next worse one is read: more often, more steps ...
    assert np.all(np.diff(quoted, axis=1) <= 0)  # ... less noise
    assert np.all(np.diff(quoted, axis=2) >= 0)


PRINTED = """
const fs = require("fs");
const asked = JSON.parse(fs.readFileSync(process.argv[2] + "/asked.json"));
const answers = asked.map((p) => bounds.node(grid, p.rate, p.sigma, p.steps).promise.printed);
fs.writeFileSync(process.argv[2] + "/answers.json", JSON.stringify(answers));
"""


@needs_node
def test_the_page_prints_what_the_shell_prints() -> None:
    """Numbers of DP-SGD, to the digit: epsilon, people found, right guesses, suspicions and odds."""
    rng = np.random.default_rng(11)
    names = ("rates", "sigmas", "steps")
    places = [[GRID[name][rng.integers(len(GRID[name]))] for name in names] for _ in range(30 if ALL else 6)]
    asked = [{"rate": rate, "sigma": sigma, "steps": steps} for rate, sigma, steps in places]
    for (rate, sigma, steps), said in zip(places, explorer_points.in_javascript(PRINTED, asked), strict=True):
        loss = steps * ts.gaussian(sigma=sigma).sampled(rate=rate)
        words = ts.explain(loss, delta=1e-5)
        shell = {name: number for name, number, _ in words.rows()}
        found, more, one, less, right, _ = (number.removesuffix(" %").replace(",", "") for number in shell.values())
        assert [said["hits"]["0.01"], said["hits"]["0.001"]] == [float(found), float(more)], (rate, sigma, steps)
        assert [said["beliefs"]["0.01"], said["beliefs"]["0.001"]] == [float(one), float(less)]
        assert said["accuracy"] == float(right)
        assert said["epsilon"]["0.00001"] == float(up(loss.epsilon(delta=1e-5)).replace(",", ""))
        assert round(100 * said["even"]) == round(100 * words.meaning.false_alarm)


@needs_node
def test_dpsgd_is_read_on_the_safe_side_between_nodes() -> None:
    rng = np.random.default_rng(3)
    asked = []
    for _ in range(6):
        rate, sigma = math.exp(rng.uniform(math.log(1e-4), math.log(0.1))), rng.uniform(0.6, 9.0)
        steps = int(math.exp(rng.uniform(math.log(100), math.log(1e5))))
        places = {"alphas": [0.01, 0.001, 0.3], "deltas": [1e-5, 1e-6], "epsilons": [0.0], "priors": [0.01]}
        asked.append({"rate": rate, "sigma": sigma, "steps": steps, **places})
    for q, said in zip(asked, explorer_points.in_javascript(explorer_points.ASKING, asked), strict=True):
        loss = q["steps"] * ts.gaussian(sigma=q["sigma"]).sampled(rate=q["rate"])
        assert all(loss.epsilon(delta=d) <= e for d, e in zip(q["deltas"], said["epsilon"], strict=True))
        assert loss.total_variation() <= said["delta"][0]
        for alpha, hits in zip(q["alphas"], said["hits"], strict=True):
            assert loss.power(alpha=alpha) <= hits * (1 + 1e-6)
        assert loss.posterior(prior=0.01, delta=0.01) <= said["beliefs"][0] + 1e-9


@needs_node
def test_between_the_nodes_of_a_point_nothing_is_far_from_certified() -> None:
    asked = [
        {
            "rate": 0.01,
            "sigma": 1.0,
            "steps": 10000,
            "alphas": [0.01],
            "deltas": [1e-5],
            "epsilons": [0],
            "priors": [0.01],
        }
    ]
    (said,) = explorer_points.in_javascript(explorer_points.ASKING, asked)
    loss = 10000 * ts.gaussian(sigma=1).sampled(rate=0.01)
    assert said["epsilon"][0] <= loss.epsilon(delta=1e-5) * 1.01
    assert said["hits"][0] <= loss.power(alpha=0.01) * 1.1


PLAYING = """
const fs = require("fs");
const asked = JSON.parse(fs.readFileSync(process.argv[2] + "/asked.json"));
const answers = asked.map(([notion, typed, alpha]) => {
  for (const each of Object.values(elements)) each.heard = {};
  element("alpha").value = alpha;
  play();
  elements.notions.heard.change({ target: { value: notion } });
  for (const [name, value] of Object.entries(typed)) {
    const field = elements["n-" + name];
    field.value = value; field.heard.input();
  }
  elements.hold.heard.click(); elements.again.heard.click(); elements.alpha.heard.input();
  return Object.fromEntries(Object.entries(elements).map(([id, e]) => [id, e.innerHTML + e.textContent]));
});
fs.writeFileSync(process.argv[2] + "/answers.json", JSON.stringify(answers));
"""
STAGE = """
const elements = {};
const element = (id) => elements[id] ??= { innerHTML: "", textContent: "", value: "500", min: "0", max: "1e9",
  heard: {},  setAttribute() {}, addEventListener(name, does) { this.heard[name] = does; } };
const document = { getElementById: element, querySelector: () => ({}) };
"""


def filled(picture: str) -> int:
    """Count the filled dots of a picture."""
    path = picture.split('class="dots-on" d="')[1].split('"')[0]
    return sum(1 + int(float(length) // 20) for length in re.findall(r"h([\d.]+)", path))


@needs_node
def test_the_odds_are_those_that_the_shell_prints(run, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = {"stage": STAGE, "play": "const play = () => {" + part("page.js") + "};"}
    monkeypatch.setattr(explorer_points, "part", lambda name: pieces.get(name) or part(name))
    asked = [
        (0, {"epsilon": "1"}, "500"),
        (1, {"epsilon": "2", "delta": "1e-6"}, "500"),
        (2, {"rho": "0.1"}, "500"),
        (3, {"mu": "1"}, "500"),
    ]
    shown = explorer_points.in_javascript(PLAYING, asked, pieces=("bounds.js", "stage", "play"))
    for places in shown:
        words = shlex.split(places["command"])
        assert places["sentence"] in run(*words[1:]).out


@needs_node
def test_every_promise_is_shown_at_its_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's own script with a stage of forty words instead of a browser."""
    pieces = {"stage": STAGE, "play": "const play = () => {" + part("page.js") + "};"}
    monkeypatch.setattr(explorer_points, "part", lambda name: pieces.get(name) or part(name))
    ends = [
        (0, {"epsilon": "0.01"}), (0, {"epsilon": "20"}), (1, {"epsilon": "0.01", "delta": "1e-10"}),
        (1, {"epsilon": "20", "delta": "0.01"}), (2, {"rho": "0.0001"}), (2, {"rho": "20"}), (3, {"mu": "0.01"}),
        (3, {"mu": "8"}), (4, {"rate": "0.0001", "sigma": "10", "steps": "100"}),
        (4, {"rate": "0.1", "sigma": "0.5", "steps": "100000"}),
        (4, {"rate": "0.0123", "sigma": "1.05", "steps": "777"}),
    ]  # fmt: skip
    asked = [(notion, typed, alpha) for notion, typed in ends for alpha in ("0", "1000")]
    shown = explorer_points.in_javascript(PLAYING, asked, pieces=("bounds.js", "stage", "play"))
    for (notion, _, _), places in zip(asked, shown, strict=True):
        said = " ".join(text for place, text in places.items())
        assert not re.search(r"NaN|undefined|Infinity|null", said)
        assert "at most" in places["numbers"]
        assert filled(places["without"]) + filled(places["within"]) in (99, 100, 101)
        assert ("Shown for share" in places["read"]) == (notion == 4)
    assert "share 0.02, sigma 1, 1,000 steps" in shown[-1]["read"]


def test_the_command_writes_the_page_and_nothing_over_another_file(run, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda place: bool(opened.append(place)) or True)
    assert "tallystick-explorer.html" in run("explore").out
    assert Path("tallystick-explorer.html").read_text(encoding="utf-8") == page()
    assert opened == []
    again = run("explore", "--open", "--json")
    assert again.document["found"] == {
        "file": "tallystick-explorer.html",
        "bytes": len(page().encode()),
        "opened": True,
    }
    assert opened == [Path("tallystick-explorer.html").resolve().as_uri()]
    Path("mine.html").write_text("<title>mine</title>")
    assert run("explore", "--out", "mine.html").code == 2
    assert Path("mine.html").read_text() == "<title>mine</title>"
    assert run("explore", "--out", "page.txt").code == 2
    assert run("explore", "--out", "nowhere/page.html").code == 2
