"""Rules that hold for every picture: its words are text, and no curve hides another."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from tallystick import plots
from tallystick.errors import InvalidInput
from unit.plots.gallery import PICTURES

SVG = "{http://www.w3.org/2000/svg}"
NOT_PICTURES = {"Curve", "save"}
QUESTIONS = ("?", "How ", "What ", "Who ", "Where ", "Why ")


def words_of(node: ElementTree.Element) -> str:
    return " ".join("".join(node.itertext()).split())


@functools.cache
def drawn(name: str):
    """Return a picture and the text of its SVG file; it is saved first, because saving changes its font."""
    picture = PICTURES[name]()
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(plots.save(picture, Path(folder) / "picture.svg")).read_text(encoding="utf-8")
    picture.draw_without_rendering()
    return picture, saved


@pytest.fixture(params=sorted(PICTURES))
def name(request):
    return request.param


@pytest.fixture
def figure(name):
    return drawn(name)[0]


def test_the_gallery_has_every_plot_function() -> None:
    assert set(plots.__all__) - NOT_PICTURES <= set(PICTURES)


def test_a_saved_picture_has_its_words_as_text(name: str) -> None:
    figure, saved = drawn(name)
    root = ElementTree.fromstring(saved)
    axes = figure.axes[0]
    texts = [words_of(node) for node in root.iter(f"{SVG}text")]
    everything = " ".join(texts)
    for label in (axes.get_title(loc="left"), axes.get_xlabel(), axes.get_ylabel()):
        assert label
        for line in label.split("\n"):
            assert " ".join(line.split()) in everything
    title = root.find(f"{SVG}title")
    description = root.find(f"{SVG}desc")
    assert title is not None
    assert description is not None
    assert words_of(title) == " ".join(axes.get_title(loc="left").split())
    assert words_of(description).startswith(words_of(title))
    assert " ".join(axes.get_xlabel().split()) in words_of(description)
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"


def test_a_title_states_a_finding(figure) -> None:
    title = figure.axes[0].get_title(loc="left")
    assert not title.endswith("?")
    assert not title.startswith(QUESTIONS)
    assert any(letter.isdigit() for letter in title)


def test_every_curve_has_its_name_beside_it_or_in_a_legend(figure) -> None:
    axes = figure.axes[0]
    written = " ".join(text.get_text().replace("\n", " ") for text in axes.texts)
    if axes.get_legend():
        written += " ".join(text.get_text() for text in axes.get_legend().get_texts())
    for name in axes.get_legend_handles_labels()[1]:
        assert name in written


def test_no_curve_hides_another(figure) -> None:
    lines = sorted(figure.axes[0].get_lines(), key=lambda line: line.get_zorder())
    for i, lower in enumerate(lines):
        for upper in lines[i + 1 :]:
            if share_under(lower, upper) < 0.2:
                continue
            is_seen = upper.is_dashed() or upper.get_linewidth() + 1 <= lower.get_linewidth()
            assert is_seen, (lower.get_label(), upper.get_label())


def test_curves_that_are_one_line_say_so(figure) -> None:
    axes = figure.axes[0]
    lines = [line for line in axes.get_lines() if not str(line.get_label()).startswith("_")]
    for one in lines:
        for other in lines:
            if one is not other and min(share_under(one, other), share_under(other, one)) > 0.99:
                assert "the same line as" in f"{one.get_label()} {other.get_label()}"


def test_words_on_a_picture_do_not_overlap(figure) -> None:
    from matplotlib.text import Text

    boxes = [(text.get_text(), Text.get_window_extent(text)) for text in figure.axes[0].texts]
    for i, (words, box) in enumerate(boxes):
        for others, other in boxes[i + 1 :]:
            if text_is_turned(words) or text_is_turned(others):
                continue
            assert not box.shrunk(0.9, 0.8).overlaps(other.shrunk(0.9, 0.8)), (words, others)


def test_title_and_words_fit_on_the_sheet(figure) -> None:
    from matplotlib.text import Text

    sheet = figure.bbox
    axes = figure.axes[0]
    for text in [*axes.texts, axes._left_title, axes.xaxis.label, axes.yaxis.label]:
        box = Text.get_window_extent(text)
        assert box.x0 >= sheet.x0 - 1, text.get_text()
        assert box.x1 <= sheet.x1 + 1, text.get_text()
        assert box.y0 >= sheet.y0 - 1, text.get_text()
        assert box.y1 <= sheet.y1 + 1, text.get_text()


def text_is_turned(words: str) -> bool:
    """The name of the guessing line is turned, so its rectangle is larger than its words."""
    return words == "guessing"


@functools.cache
def share_under(lower, upper) -> float:
    """The share of a curve that lies within 1.2 pixels of another one."""
    one, other = (dense(line) for line in (lower, upper))
    if len(one) < 2 or len(other) < 2:
        return 0.0
    gaps = np.hypot(one[:, None, 0] - other[None, :, 0], one[:, None, 1] - other[None, :, 1])
    return float(np.mean(gaps.min(axis=1) <= 1.2))


@functools.cache
def dense(line) -> np.ndarray:
    if line.get_linestyle() == "None":
        return np.empty((0, 2))
    points = line.get_transform().transform(line.get_path().vertices)
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) < 2:
        return points
    way = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(points, axis=0).T))])
    at = np.linspace(0, way[-1], 600)
    return np.column_stack([np.interp(at, way, points[:, k]) for k in (0, 1)])


def test_pictures_of_the_documentation_have_a_title_and_text() -> None:
    folder = Path(__file__).parents[3] / "docs" / "images"
    paths = sorted(folder.glob("*.svg"))
    assert paths
    for path in paths:
        root = ElementTree.parse(path).getroot()
        assert root.find(f"{SVG}title") is not None, path.name
        assert root.find(f"{SVG}desc") is not None, path.name
        assert len(list(root.iter(f"{SVG}text"))) > 5, path.name


def test_a_picture_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        plots.save(PICTURES["noise"](), tmp_path / "missing" / "picture.svg")
