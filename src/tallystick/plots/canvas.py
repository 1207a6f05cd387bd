"""The sheets that pictures are drawn on, and the files they are saved to. Colours come from ``drawing``."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallystick.drawing import INK, LETTERS, LINE, PAPER, QUIET, SHARE_LABELS, SHARES
from tallystick.errors import InvalidInput, Remedy, Unavailable
from tallystick.printing import html_text
from tallystick.regular_file import written_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png")
DASHES = (0, (4, 3))
"""Dashes of guidelines and of limits."""
ACCUSED = "false accusations (share of tests without the person)"
MISSED = "misses (share of tests with the person)"
_TITLE_LETTERS = 8.2
"""Letters of a title per inch of the sheet."""
_GUESSING = (0.86, 0.14)
"""Place of the name of the guessing line."""
_FALLBACK = f"'{LETTERS[-1]}', Verdana, sans-serif"
"""Fonts of a saved SVG: Verdana has nearly the widths with which matplotlib placed the text."""

# Any, because the type of the keys differs between versions of matplotlib.
_SETTINGS: Any = {
    "font.family": LETTERS[-1],  # everywhere the same, whatever else is installed
    "font.size": 11,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": LINE,
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 2.2,
    "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and translated
    "svg.hashsalt": "tallystick",  # the same picture gives the same bytes
}


def sheet(*, title: str, across: str, up: str, width: float = 7.2, height: float = 5.0) -> tuple[Figure, Axes]:
    """Return an empty picture with its title and the names of its axes; needs the extra ``plots``.

    >>> figure, axes = sheet(title="t", across="x", up="y")
    >>> axes.get_xlabel()
    'x'
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        remedies = [Remedy("install", packages="'.[plots]'")]
        words = "pictures need matplotlib, which is not installed"
        raise Unavailable(words, remedies=remedies) from error
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained", facecolor=PAPER)
        FigureCanvasAgg(figure)  # draws without a display, and leaves pyplot's global state alone
        axes = figure.add_subplot()
        axes.set_title(_wrapped(title, width), loc="left", fontsize=13, fontweight="bold", pad=12)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
    return figure, axes


def _wrapped(title: str, width: float) -> str:
    """Return a title in lines that fit on the sheet; a number stays beside its unit."""
    joined = title.replace(" %", "\u00a0%").replace(" √", "\u00a0√")
    letters = int(_TITLE_LETTERS * width)
    return "\n".join(textwrap.wrap(joined, letters, break_on_hyphens=False))


def square(*, title: str, across: str = ACCUSED, up: str = MISSED) -> tuple[Figure, Axes]:
    """Return a sheet for trade-off functions, with the line of guessing.

    >>> [text.get_text() for text in square(title="t")[1].texts]
    ['guessing']
    """
    figure, axes = sheet(title=title, across=across, up=up, width=6.4, height=6.2)
    axes.plot([0, 1], [1, 0], color=QUIET, linewidth=1.2, linestyle=DASHES)
    place: Any = {"rotation": -45, "ha": "center", "va": "bottom", "fontsize": 10}
    axes.text(*_GUESSING, "guessing", color=QUIET, **place)
    axes.set(xlim=(0, 1), ylim=(0, 1.005))
    axes.set_aspect("equal")
    axes.set_xticks(SHARES, SHARE_LABELS)
    axes.set_yticks(SHARES, SHARE_LABELS)
    return figure, axes


def shares_up(axes: Axes) -> None:
    """Let the vertical axis run from 0 to 100 per cent."""
    axes.set_ylim(0.0, 1.02)
    axes.set_yticks(SHARES, SHARE_LABELS)


def title_of(figure: Figure) -> str:
    """Return the title of a picture in one line.

    >>> title_of(sheet(title="Epsilon 1.83 at delta 1e-5", across="x", up="y")[0])
    'Epsilon 1.83 at delta 1e-5'
    """
    return _plain(figure.axes[0].get_title(loc="left"))


def description_of(figure: Figure) -> str:
    """Return the words of a picture, for readers who do not see it.

    >>> description_of(sheet(title="t", across="epsilon", up="delta")[0])
    't. Horizontal axis: epsilon. Vertical axis: delta.'
    """
    axes = figure.axes[0]
    sentences = [title_of(figure)]
    sentences.append(f"Horizontal axis: {_plain(axes.get_xlabel())}")
    sentences.append(f"Vertical axis: {_plain(axes.get_ylabel())}")
    words = _words_on(axes)
    if words:
        sentences.append(f"In the picture: {'; '.join(words)}")
    return f"{'. '.join(sentences)}."


def _words_on(axes: Axes) -> list[str]:
    """Return the texts of a picture and the names of what it draws, each once."""
    texts = [text.get_text() for text in axes.texts]
    _, names = axes.get_legend_handles_labels()
    return list(dict.fromkeys(_plain(text) for text in [*names, *texts] if text))


def _plain(text: str) -> str:
    """Return a text of a picture in one line, without matplotlib's escapes."""
    return " ".join(text.replace(r"\$", "$").split())


def save(figure: Figure, path: str | Path) -> Path:
    """Write the picture as .svg or .png, by the ending of ``path``.

    The file has a title and a description for readers who do not see the picture. Its bytes depend
    on the picture only.

    >>> save(sheet(title="t", across="x", up="y")[0], "picture.pdf")
    Traceback (most recent call last):
    ...
    tallystick.errors.InvalidInput: out = 'picture.pdf' is not allowed; give a file name ending in .svg or .png
    """
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in FORMATS:
        raise InvalidInput("out", str(path), f"a file name ending in {' or '.join(FORMATS)}")
    from matplotlib import rc_context

    stamp = {"Date": None} if ending == ".svg" else _png_words(figure)
    try:
        with rc_context(_SETTINGS), written_whole(target) as drawn:
            _use_one_font(figure)
            figure.savefig(drawn, dpi=160, metadata=stamp, format=ending.removeprefix("."))
            if ending == ".svg":
                _add_words(drawn, figure)
    except OSError as error:
        raise InvalidInput("out", str(path), f"a file that can be written ({error.strerror})") from error
    return target


def _use_one_font(figure: Figure) -> None:
    """Use the font that matplotlib brings along for all words: machines have different others."""
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_fontfamily(LETTERS[-1])


def _png_words(figure: Figure) -> dict[str, str | None]:
    """Return the text chunks of a PNG file."""
    words = {"Title": title_of(figure), "Description": description_of(figure)}
    return {"Software": None, **words}


def _add_words(drawn: Path, figure: Figure) -> None:
    """Give an SVG file a title and a description, and fonts that most readers have."""
    text = drawn.read_text(encoding="utf-8")
    text = text.replace(f"'{LETTERS[-1]}'", _FALLBACK)
    before, start, after = text.partition("<svg ")
    attributes, end, body = after.partition(">")
    role = ' role="img" aria-labelledby="title description"'
    title = f'<title id="title">{html_text(title_of(figure))}</title>'
    description = f'<desc id="description">{html_text(description_of(figure))}</desc>'
    words = f"\n {title}\n {description}"
    drawn.write_text(f"{before}{start}{attributes}{role}{end}{words}{body}", encoding="utf-8")
