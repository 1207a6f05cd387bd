"""Compares the output that a page shows with the output of a program that adds noise.

Everything on the page equals the output of a run, except for four kinds of numbers:

noise      a cell under ``name ±E``, a number ``x ±E``, an estimate ``x (a to b)``: the number on the
           page and the number of the run are each within 7 standard deviations of the number of a
           run without noise (the standard deviation is E / 1.96, or the width of the interval / 3.92),
           and the width of an interval is within a factor of 4
declared   ``<!-- varies: "At least # %" by 3, reason -->`` names words with ``#`` for a number, and
           how far it may be from the run without noise; ``by 3 or absent`` allows a run without
           these words, ``*`` stands for any words and ``(s)`` for an s that may be there
fresh      times, days, long hexadecimal numbers and the version, if the run made them just now
cut        a line ``...`` stands for any lines
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

DEVIATIONS = 7.0
"""Standard deviations between a noisy number and its true value that a page may have."""
HALF_WIDTH = 1.96
"""Standard deviations that an error of 95 % spans."""
ERROR_SHARE = 0.1
"""Share by which an error that depends on noisy numbers may differ from run to run."""
WIDTH_FACTOR = 4.0
"""Factor by which the width of an interval may differ from run to run."""
CUT = "..."

_DIGITS = r"-?\d(?:[\d,]*\d)?(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)"
_NUMBER = rf"(?<![\w.,]){_DIGITS}"
_HEADER = re.compile(rf"\S+ ±(?P<error>{_DIGITS})(?: \(all groups\))?\Z")
_WITH_ERROR = re.compile(rf"(?P<value>{_NUMBER}) ±(?P<error>{_DIGITS})")
_WITH_INTERVAL = re.compile(rf"(?P<value>{_NUMBER})(?P<open> \(|  +)(?P<low>{_NUMBER}) to (?P<high>{_NUMBER})")
_VARIES = re.compile(
    r"<!-- varies: (?P<words>\"[^\"]+\"(?:, \"[^\"]+\")*) by (?P<tolerance>[\d.]+)"
    r"(?P<absent> or absent)?, (?P<reason>\w[^>]*) -->"
)
_ALL_DIGITS = re.compile(r"(?<![\w.])\d+\.\d{13,}(?:e[-+]?\d+)?(?!\w)")
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?"
_FRESH = re.compile(
    rf"(?P<time>{_TIME})|(?P<day>\d{{4}}-\d\d-\d\d|\d{{1,2}} (?:{_MONTHS}) \d{{4}})"
    r"|(?P<hash>(?<![\w.])[0-9a-f]{16,}\b)|(?P<version>tallystick \d+\.\d+[\w.]*)"
)


@dataclass(frozen=True)
class Noisy:
    """A number with noise: its value, and how far it may be from another run's."""

    value: float
    tolerance: float
    rounding: float = 0.0
    name: str = "the number"


@dataclass(frozen=True)
class Line:
    """A line of output: its words with a mark for each noisy number, and these numbers."""

    words: str
    numbers: tuple[Noisy, ...]


@dataclass(frozen=True)
class Varying:
    """Words with numbers that a page declares as varying."""

    pattern: re.Pattern[str]
    tolerance: float
    may_be_absent: bool


def declared(text: str) -> list[Varying]:
    """The numbers that the comments of a page declare as varying."""
    found = []
    for match in _VARIES.finditer(text):
        for words in re.findall(r'"([^"]+)"', match["words"]):
            pattern = re.compile(_pattern_of(words))
            found.append(Varying(pattern, float(match["tolerance"]), bool(match["absent"])))
    if len(re.findall("<!-- varies", text)) != len(_VARIES.findall(text)):
        raise AssertionError('a comment is not of the form: varies: "words" by 3, reason')
    return found


def _pattern_of(words: str) -> str:
    escaped = re.escape(words).replace(r"\(s\)", "s?").replace(r"\ ", r"\s+")
    return escaped.replace(r"\#", f"({_NUMBER})").replace(r"\*", ".*?")


# The numbers of a line


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _rounding(text: str) -> float:
    """One unit of the last digit that is shown."""
    digits = text.partition("e")[0]
    decimals = len(digits.partition(".")[2])
    return 10.0**-decimals


def _noisy(text: str, deviation: float) -> Noisy:
    return Noisy(_value(text), DEVIATIONS * deviation, _rounding(text))


class _Reader:
    """Reads lines one after the other: a header says which cells below it are noisy."""

    def __init__(self, varying: Sequence[Varying]) -> None:
        self.varying = varying
        self.errors: dict[int, float] = {}
        self.columns = 0
        self.perhaps: list[Noisy] = []
        self.numbers: list[Noisy] = []

    def read(self, text: str) -> Line:
        self.numbers = []
        cells = re.split(r"  +", text.strip())
        headers = [_HEADER.match(cell) for cell in cells]
        if any(headers):
            self.columns = len(cells)
            self.errors = {i: _value(head["error"]) for i, head in enumerate(headers) if head}
        elif len(cells) == self.columns:
            cells = [self._cell(i, cell) for i, cell in enumerate(cells)]
        words = self._declared("  ".join(cells))
        words = _WITH_INTERVAL.sub(self._interval, words)
        words = _WITH_ERROR.sub(self._error, words)
        return Line(" ".join(words.split()), tuple(self.numbers))

    def _cell(self, column: int, cell: str) -> str:
        error = self.errors.get(column)
        if error is None or not re.fullmatch(_NUMBER, cell):
            return cell
        self.numbers.append(_noisy(cell, error / HALF_WIDTH))
        return "<noise>"

    def _declared(self, words: str) -> str:
        for each in self.varying:
            words = each.pattern.sub(lambda match, each=each: self._varied(each, match), words)
        return words

    def _varied(self, each: Varying, match: re.Match[str]) -> str:
        numbers = [Noisy(_value(text), each.tolerance) for text in match.groups()]
        if each.may_be_absent:
            self.perhaps.extend(numbers)
            return ""
        self.numbers.extend(numbers)
        return re.sub(_NUMBER, "<varies>", match[0])

    def _interval(self, match: re.Match[str]) -> str:
        low, high = _value(match["low"]), _value(match["high"])
        deviation = (high - low) / (2 * HALF_WIDTH)
        ends = (match["value"], match["low"], match["high"])
        self.numbers.extend(_noisy(text, deviation) for text in ends)
        width = math.log(max(high - low, _rounding(match["low"])))
        name = "the logarithm of the width"
        self.numbers.append(Noisy(width, math.log(WIDTH_FACTOR), name=name))
        return "<noise>" + match["open"] + "<noise> to <noise>"

    def _error(self, match: re.Match[str]) -> str:
        error = _value(match["error"])
        self.numbers.append(_noisy(match["value"], error / HALF_WIDTH))
        self.numbers.append(Noisy(error, ERROR_SHARE * error, _rounding(match["error"])))
        return "<noise> ±<noise>"


# Times, hashes and versions


def _is_fresh(match: re.Match[str]) -> bool:
    if match["hash"]:
        return True
    if match["version"]:
        from tallystick import __version__

        return match[0] == f"tallystick {__version__}"
    day = _day(match[0])
    return day is not None and abs(datetime.date.today() - day) <= datetime.timedelta(days=1)


def _day(text: str) -> datetime.date | None:
    kind = "%Y-%m-%d" if text[4:5] == "-" else "%d %B %Y"
    try:
        return datetime.datetime.strptime(text[:10] if "%m" in kind else text, kind).date()
    except ValueError:
        return None


def _fixed(text: str) -> set[str]:
    """Times, days and versions in an output that this run did not make."""
    return {match[0] for match in _FRESH.finditer(text) if not _is_fresh(match)}


def _without_fresh(text: str, fixed: set[str]) -> str:
    def mark(match: re.Match[str]) -> str:
        return match[0] if match[0] in fixed else f"<{match.lastgroup}>"

    return without_last_digits(_FRESH.sub(mark, text))


def without_last_digits(text: str) -> str:
    """The text with 11 digits of every number that has more than 12 decimals: processors differ in the last ones.

    >>> without_last_digits("sigma=1.029021049297613, epsilon 1.99")
    'sigma=1.0290210493, epsilon 1.99'
    """
    return _ALL_DIGITS.sub(lambda match: f"{float(match[0]):.11g}", text)


# Comparison


@dataclass(frozen=True)
class Read:
    """An output: its lines without blank ones, and the numbers of words that may be absent."""

    lines: list[Line]
    perhaps: list[Noisy]


def read(text: str, varying: Sequence[Varying], fixed: set[str]) -> Read:
    """The lines of an output, with a mark for every number that may differ."""
    reader = _Reader(varying)
    lines = [reader.read(line) for line in _without_fresh(text, fixed).splitlines()]
    return Read([line for line in lines if line.words], reader.perhaps)


def differences(page: str, run: str, noiseless: str | None, varying: Sequence[Varying] = ()) -> list[str]:
    """Sentences about each difference between a page and a run that noise does not explain."""
    fixed = _fixed(run)
    shown, printed = read(page, varying, fixed), read(run, varying, fixed)
    true = read(noiseless or "", varying, fixed)
    pairs = _paired(shown.lines, printed.lines)
    if isinstance(pairs, str):
        return [pairs]
    problems = list(_too_far(_with_true_values(pairs, true.lines)))
    problems += _perhaps_too_far(shown.perhaps, true.perhaps)
    problems += _perhaps_too_far(printed.perhaps, true.perhaps)
    return problems


Pairs = list[tuple[Line, Line]]


def _paired(page: list[Line], run: list[Line]) -> Pairs | str:
    """Each line of the page with its line of the run, or the first line that is wrong."""
    parts = list(_parts(page))
    pairs: Pairs = []
    start = 0
    for i, part in enumerate(parts):
        is_last = i == len(parts) - 1
        place = _place(part, run, start, is_first=i == 0, is_last=is_last)
        pairs += zip(part, run[place:], strict=False)
        start = place + len(part)
        if start > len(run):
            return f"the page shows a line that the run does not print: {part[-1].words}"
    if start < len(run):
        return f"the run prints a line that the page does not show: {run[start].words}"
    wrong = [pair for pair in pairs if pair[0].words != pair[1].words]
    return f"the page shows: {wrong[0][0].words}\nthe run prints: {wrong[0][1].words}" if wrong else pairs


def _parts(page: list[Line]) -> Iterator[list[Line]]:
    """The parts of an output between lines that are cut out."""
    part: list[Line] = []
    for line in page:
        if line.words == CUT:
            yield part
            part = []
        else:
            part.append(line)
    yield part


def _place(part: list[Line], run: list[Line], start: int, *, is_first: bool, is_last: bool) -> int:
    if is_first:
        return 0
    if is_last:
        return max(start, len(run) - len(part))
    places = range(start, len(run))
    return next((i for i in places if run[i].words == part[0].words), start)


def _with_true_values(pairs: Pairs, true: list[Line]) -> Iterator[tuple[Line, Line, Line | None]]:
    """Each pair with the line of the run without noise that has the same words."""
    left = list(true)
    for page, run in pairs:
        match = next((line for line in left if line.words == run.words), None)
        if match is not None:
            left.remove(match)
        yield page, run, match


def _too_far(lines: Iterator[tuple[Line, Line, Line | None]]) -> Iterator[str]:
    for page, run, true in lines:
        if page.numbers == run.numbers:
            continue
        if true is None:
            yield f"a run without noise does not print this line: {run.words}"
            continue
        for there in (page, run):
            for number, wanted in zip(there.numbers, true.numbers, strict=True):
                problem = _far(number, wanted)
                if problem:
                    yield f"{problem}, in the line: {there.words}"


def _perhaps_too_far(numbers: list[Noisy], true: list[Noisy]) -> Iterator[str]:
    """Problems of words that may be absent: where they are, the number counts as 0."""
    for number, wanted in zip_longest(numbers, true):
        if number is not None:
            problem = _far(number, wanted or Noisy(0.0, number.tolerance))
            if problem:
                yield problem


def _far(number: Noisy, true: Noisy) -> str:
    tolerance = true.tolerance + max(number.rounding, true.rounding)
    if abs(number.value - true.value) <= tolerance:
        return ""
    return f"{number.name} {number.value:g} is not within {tolerance:.3g} of {true.value:g}"
