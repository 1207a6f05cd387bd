"""The HTML page of a privacy card: its facts in the order in which people ask for them.

The page is a function of the facts alone, so ``card verify`` can make it again and compare it to the letter. The
template escapes every value; only our own pictures, style sheet and JSON are not escaped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from tallystick.cards.charts import Curve, budget_bar, dots, interval_chart, tradeoff
from tallystick.cards.meaning import frequencies
from tallystick.digits import (
    interval,
    moment,
    nearest,
    percent,
    percent_down,
    percent_up,
    plural,
    typed,
    up,
    value_within,
    with_error,
)
from tallystick.drawing import css_variables, dark_css_variables, print_css_variables
from tallystick.printing import listed, visible
from tallystick.rounding import as_written
from tallystick.tables.aggregates import KINDS
from tallystick.tables.output import LIMITED
from tallystick.tables.reporting.line import Line
from tallystick.tables.reporting.words import (
    TOO_NOISY,
    Touched,
    article,
    hides_share,
    is_certain,
    people_over,
    rows_over,
)

if TYPE_CHECKING:
    from jinja2 import Template
    from markupsafe import Markup

Facts = Mapping[str, Any]

NOT_STATED: Final = "not stated"
SPREAD: Final = frozenset(("mean", "median", "quantile", "variance", "standard_deviation"))
"""Kinds of measure that are drawn as dots: their axis can start elsewhere than at 0."""
REST: Final = "At the time of this charge, the rest was used before or left for other publications."
NAMED_GAPS: Final = 3
"""Missing statements of the owner that page 1 names; the annex has all."""

LABELS: Final = {
    "purpose": "Purpose",
    "limit_reason": "Reason for the limit",
    "decided_by": "Decided by",
    "contact": "Contact",
    "curators": "Publisher",
    "region": "Region",
    "product_type": "Kind of product",
    "invariants": "Published without noise",
    "release_type": "How often",
    "refresh": "Repeated",
    "looked_before": "Looked at before",
    "timing": "Against timing",
    "adversarial_tests": "Attacks tried",
    "re_evaluation": "Reviewed again on",
}
"""Names of the owner's statements, in the order of the card."""


def page(facts: Facts, embedded: str) -> str:
    """Return the page of a card; ``embedded`` is the element that holds its facts as JSON."""
    from markupsafe import Markup

    rendered = template("card.html.j2").render(
        style=style(),
        card=facts,
        view=view_of(facts),
        embedded=Markup(embedded),
    )
    return str(rendered)


@cache
def style() -> Markup:
    """Return the style sheet with the colours of light, dark and printed pages."""
    from markupsafe import Markup

    text = files("tallystick.cards").joinpath("templates", "style.css").read_text(encoding="utf-8")
    colours = {
        "@LIGHT@": css_variables(),
        "@DARK@": dark_css_variables(),
        "@PRINT@": print_css_variables(),
    }
    for name, variables in colours.items():
        text = text.replace(name, variables)
    return Markup(text)


@cache
def template(name: str) -> Template:
    """Return a page of ``cards/templates``: what is poured into it is escaped, and must be there."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    room = Environment(
        loader=PackageLoader("tallystick.cards", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    room.filters["drawn"] = Markup
    return room.get_template(name)


def _shown(value: Any) -> Any:
    """Return a value for a page: other text than our own markup has no character that is not printed."""
    is_text = isinstance(value, str) and not hasattr(value, "__html__")
    return visible(value, lines=True) if is_text else value


def view_of(facts: Facts) -> dict[str, Any]:
    """Return everything that the template of a privacy card shows, in words."""
    from markupsafe import Markup

    people = People.of(facts["protected"])
    product = "model" if facts["released"]["groups"]["kind"] == "model" else "table"
    share = facts["promise"]["share_of_limit"]
    return {
        "is_published": facts["evidence"]["receipt"] is not None,
        "has_results": bool(facts["chart"] or facts["left_out"]),
        "product": product,
        "title": _title(facts),
        "about": _about(facts),
        "who": people.protected,
        "counts": sentence(people.in_words(facts["protected"]["counts"])),
        "epsilon": " ".join(_epsilon(facts["promise"])),
        "epsilon_alone": " ".join(_epsilon({**facts["promise"], "epsilon": facts["promise"]["table_epsilon"]})),
        "strength": Markup(strength(facts["promise"])),
        "strength_of": _strength_of(facts["promise"], people),
        "share": f"{_nearest_percent(share)} of that limit",
        "price": f"{_capital(facts['promise']['price'])}. {REST if facts['evidence']['receipt'] else ''}".strip(),
        "unit": people.unit,
        "bar": Markup(budget_bar(share, f"{_nearest_percent(share)} of the limit")),
        "accuracy": _capital(_accuracy(facts, people)) if _names_people(facts) else _accuracy(facts, people),
        "accuracy_note": _accuracy_note(facts, people),
        "odds": odds_of(facts["words"]["limit"], people, covers=_up_to_limit(facts, product)),
        "attacker": attacker([facts["words"]["limit"], facts["words"]["table"]], people),
        "not_protected": [labelled(sentence) for sentence in facts["not_protected"]],
        "decided": _decided(facts["decisions"]),
        "open": _open(facts["decisions"]),
        "raises": list(_raises(facts)),
        "without_approval": list(_without_approval(facts)),
        "content": _content(facts, people),
        "charts": _charts(facts, people),
        "not_drawn": "" if "model" in facts else _not_drawn(facts),
        "coefficients": _coefficients(facts),
        "target": facts["model"]["target"] if "model" in facts else "",
        "sums": _sums(facts),
        "overlap": _overlap(facts, people),
        "too_noisy": facts.get("too_noisy", ""),
        "columns": [(name, sentence(people.in_words(text))) for name, text in _columns(facts)],
        "causes": list(_causes(facts, people)),
        "intervals": _intervals(facts, people),
        "axes": people.axes,
        "curve": Markup(_curve(facts, product)),
        "epsilon_in_words": _epsilon_in_words(facts, people),
        "enforced": _enforced(facts, product),
        "rho_in_words": sentence(facts["promise"]["what_rho_is"]),
        "parts": list(_noise_parts(facts, people)),
        "rules": [sentence(people.in_words(rule)) for rule in facts["mechanisms"]["rules"]],
        "statements": _statements(facts, people),
        "evidence": _marked_up(_evidence(facts)),
        "evidence_texts": list(_evidence(facts)),
    }


# Whom the card is about.


@dataclass(frozen=True, slots=True)
class People:
    """The protected unit as parts of sentences: a person is spoken to, anything else is named."""

    unit: str
    column: str
    is_person: bool
    is_replaced: bool
    is_row_level: bool

    @classmethod
    def of(cls, protected: Facts) -> People:
        """Return the words for the unit of a card."""
        is_row_level = protected["row_level"]
        return cls(
            unit="row" if is_row_level else protected["unit"],
            column=protected["unit_column"],
            is_person=protected["spoken_of"]["it"] == "you" and not is_row_level,
            is_replaced=protected["adjacency"] == "replace",
            is_row_level=is_row_level,
        )

    @property
    def several(self) -> str:
        """The plural of the unit."""
        return plural(self.unit)

    @property
    def protected(self) -> str:
        """Who is protected, in a few words."""
        if self.is_row_level:
            return "Each row, by itself"
        whose = "their" if self.is_person else "its"
        return f"Each {self.unit}, with all {whose} rows"

    @property
    def data(self) -> str:
        """The data of one unit."""
        return "your data" if self.is_person else f"the data of one {self.unit}"

    @property
    def axes(self) -> str:
        """The two axes of the trade-off plot, in words."""
        if self.is_replaced:
            return (
                "False accusations: the first version was used, and the attacker says the second. "
                "Misses: the second version was used, and the attacker says the first."
            )
        crowd = "people" if self.is_person else self.several
        who = "who" if self.is_person else "that"
        return (
            f"False accusations: share of {crowd} not in the data {who} are accused. "
            f"Misses: share of {crowd} in the data {who} are not found."
        )

    def in_words(self, text: str) -> str:
        """Return a text of a plan with the owner's word for the unit.

        >>> People("patient", "patient_id", True, False, False).in_words("units with a row, one unit")
        'patients with a row, one patient'
        """
        if self.is_row_level:
            return text
        text = re.sub(r"\bunits\b", self.several, text)
        return re.sub(r"\bunit\b", self.unit, text)


# Page 1.


def _title(facts: Facts) -> str:
    title = facts["decisions"]["title"]
    if title != NOT_STATED:
        return str(title)
    if "model" in facts:
        return _capital(facts["model"]["title"].removeprefix("a "))
    by = listed(facts["released"]["group_by"])
    name = facts["released"]["dataset"]
    return f"{_capital(name)} by {by}" if by else _capital(name)


def _about(facts: Facts) -> str:
    released = facts["released"]
    sentences = [sentence(facts["decisions"]["purpose"])]
    if released["at"]:
        sentences.append(f"Published {released['at']}.")
    sentences.append(f"Population: {released['population']}.")
    if "place" in released:
        sentences.append(released["place"])
    if facts["protected"]["window"] != NOT_STATED:
        sentences.append(f"Data: {_ended(facts['protected']['window'])}")
    return " ".join(sentences)


def strength(promise: Facts) -> str:
    """Return epsilon and delta of a guarantee as HTML."""
    from markupsafe import escape

    epsilon, at = _epsilon(promise)
    return f'Epsilon {escape(epsilon)} <span class="pm">{escape(at)}</span>'


def _epsilon(promise: Facts) -> tuple[str, str]:
    """Return epsilon, and at which delta, in words."""
    at = f"at delta {typed(promise['delta'])}" if promise["delta"] else "(pure)"
    return _epsilon_bound(promise["epsilon"]), at


def _strength_of(promise: Facts, people: People) -> str:
    limit = _capital(promise["limit"])
    return f"{limit}, for everything that will ever be published about these {people.several}."


PEOPLE: Final = "count_units"
"""Name of a column that the card calls by the owner's word for people."""


def _names_people(facts: Facts) -> bool:
    """True if the first column is called by the owner's word for people."""
    columns = facts["error"]["released"] or facts["error"]["columns"]
    return bool(columns) and columns[0]["column"].removesuffix(LIMITED) == PEOPLE


def _called(column: str, people: People) -> str:
    """Return the name of a column, for people: a number of people has the owner's word for them.

    >>> whom = People("patient", "patient_id", True, False, False)
    >>> _called("count_units", whom), _called("count_units_limited", whom), _called("mean_age", whom)
    ('patients', 'patients (limited)', 'mean_age')
    """
    if column == f"{PEOPLE}{LIMITED}":
        return f"{people.several} (limited)"
    return people.several if column == PEOPLE else column


def _accuracy(facts: Facts, people: People) -> str:
    """Return the error of the first column, for a tile."""
    if "model" in facts:
        known = _known_coefficients(facts)
        return known[0] if known else "Not stated"
    if facts["error"]["released"]:
        return _released_error(facts["error"]["released"][0], people)
    if facts["error"]["columns"]:
        first = facts["error"]["columns"][0]
        return f"{_called(first['column'], people)} {_error(first['error'])}"
    return "Not stated"


def _nearest_percent(share: float) -> str:
    """A share that is not a bound, in per cent.

    >>> _nearest_percent(0.2000000001)
    '20 %'
    """
    return f"{nearest(100 * share)} %"


def _released_error(column: Facts, people: People) -> str:
    middle, largest = _error(column["middle"]), _error(column["largest"])
    spread = middle if middle == largest else f"about {middle} in the middle group, {largest} in the widest"
    return f"{_called(column['column'], people)} {spread}"


def _accuracy_note(facts: Facts, people: People) -> str:
    if "model" in facts:
        return _accuracy_of_model(facts)
    if not facts["error"]["columns"] and not facts["error"]["released"]:
        return "A model has the intervals that its estimator computes from what was published."
    others = [_released_error(column, people) for column in facts["error"]["released"][1:]]
    more = f"{'; '.join(others)}. " if others else ""
    return f"{more}{nearest(100 * facts['error']['confidence'])} times in 100, privacy noise only."


def _accuracy_of_model(facts: Facts) -> str:
    """Return the other coefficients with their intervals, or the reason why they have no intervals."""
    model, others = facts["model"], "; ".join(_known_coefficients(facts)[1:])
    if model["no_intervals"]:
        return sentence(model["no_intervals"])
    if not others:
        return "The intervals are known when the model is published."
    return f"{others}. {nearest(100 * facts['error']['confidence'])} times in 100, privacy noise and sampling."


def _known_coefficients(facts: Facts) -> list[str]:
    """Return each coefficient that has an interval, in a few words."""
    rows = [row for row in _coefficients(facts) if row[2]]
    return [f"{name} {value} ({ends})" for name, value, ends in rows]


def _coefficients(facts: Facts) -> list[tuple[str, str, str]]:
    """Return the coefficients of a linear model as the terminal shows them: name, value, interval."""
    rows = []
    for each in facts["model"]["coefficients"] if "model" in facts else ():
        value, low, high = each["value"], each["lower"], each["upper"]
        is_known = low is not None
        shown = value_within(value, low, high) if is_known else nearest(value)
        rows.append((each["name"], shown, interval(low, high) if is_known else ""))
    return rows


def _sums(facts: Facts) -> list[tuple[str, str, str]]:
    """Return the published sums of a linear model: name, meaning, value."""
    if "model" not in facts:
        return []
    errors = {each["column"]: each["error"] for each in facts["error"]["columns"]}
    return [
        (each["name"], each["said"], with_error(each["value"], errors[each["name"]]) if "value" in each else "")
        for each in facts["model"]["sums"]
    ]


@dataclass(frozen=True, slots=True)
class Figure:
    """A hundred dots with a caption in pieces, of which one is strong and one is a number."""

    drawn: Any
    before: str
    strong: str
    after: str
    number: str
    end: str


@dataclass(frozen=True, slots=True)
class Odds:
    """The odds of an attacker, in frequencies."""

    heading: str
    intro: str
    figures: tuple[Figure, Figure]
    note: str


def odds_of(limit: Facts, people: People, *, covers: str) -> Odds:
    """Return the odds of an attacker in frequencies; ``covers`` says which publications they are about."""
    without, within, out_of = frequencies(limit["false_alarm"], limit["hit"])
    both = [f"{number} of {out_of}" for number in (without, within)]
    drawn = [_hundred(limit[name]) for name in ("false_alarm", "hit")]
    whom = "you" if people.is_person else f"one {people.unit}"
    heading = f"What could someone learn about {whom}?"
    note = (
        "Each dot is a possible result, not a person. Without any results it would be 50 and 50. "
        f"The figures are for {covers}."
    )
    if people.is_replaced:
        intro = f"An attacker knows everything else and wants to know which of two versions of {people.data} was used."
        said = " possible results make the attacker say the second."
        first = Figure(drawn[0], "If the ", "first", " was used, about ", both[0], said)
        second = Figure(drawn[1], "If the ", "second", " was used, about ", both[1], " do.")
        return Odds(heading, intro, (first, second), note)
    it, verb = ("you", "are") if people.is_person else ("it", "is")
    others = "everyone else" if people.is_person else f"every other {people.unit}"
    whether = "you are in this data" if people.is_person else "this one is in the data"
    intro = f"An attacker knows everything about {others} and wants to know whether {whether}."
    thinks = f" possible results make the attacker think {it} {verb}."
    first = Figure(drawn[0], f"If {it} {verb} ", "not", " in the data, about ", both[0], thinks)
    second = Figure(drawn[1], f"If {it} ", verb, " in the data, about ", both[1], " do.")
    return Odds(heading, intro, (first, second), note)


def _hundred(share: float) -> Any:
    from markupsafe import Markup

    marked = min(100, max(0, round(100 * share)))
    return Markup(dots(marked, f"{marked} of 100 dots are filled"))


def attacker(losses: Sequence[Facts], people: People) -> list[tuple[str, ...]]:
    """Return rows of what the best attacker can do, with one column for each privacy loss."""
    crowd = "people" if people.is_person else people.several
    found = "recognise the second version" if people.is_replaced else f"find {crowd} in the data"
    equal = "both versions" if people.is_replaced else "in and out"
    rows: list[tuple[str, ...]] = []
    for alarm in ("0.01", "0.001"):
        hits = (each["hit_rate_at_false_alarm"][alarm] for each in losses)
        one_in = f"{round(1 / float(alarm)):,}"
        rows.append((f"{found}, with 1 false accusation per {one_in}", *map(_share, hits)))
    for prior in ("0.01", "0.001"):
        beliefs = (each["belief_from_prior"][prior] for each in losses)
        cases = f" (in {_cases(losses[0])})" if losses[0]["belief_exceptions"] else ""
        rows.append((f"raise a suspicion of {percent(float(prior))} to{cases}", *map(_share, beliefs)))
    guesses = (each["guess_accuracy"] for each in losses)
    rows.append((f"be right when {equal} are equally likely", *map(_share, guesses)))
    return rows


def _cases(limit: Facts) -> str:
    return f"{nearest(100 - 100 * limit['belief_exceptions'])} of 100 cases"


def _share(value: float) -> str:
    return percent_up(value)


def labelled(sentence: str) -> tuple[str, str]:
    """Split a point into its label and its text.

    >>> labelled("Timing. When the work was done is not hidden.")
    ('Timing.', 'When the work was done is not hidden.')
    """
    label, _, text = sentence.partition(". ")
    return (f"{label}.", text) if text else ("", sentence)


def _decided(decisions: Facts) -> list[str]:
    sentences = []
    reason, who = decisions["limit_reason"], decisions["decided_by"]
    if reason != NOT_STATED:
        sentences.append(f"Limit: “{reason}”.")
    if who != NOT_STATED:
        sentences.append(f"Decided by: {_ended(who)}")
    if decisions["contact"] != NOT_STATED:
        sentences.append(f"Contact: {_ended(decisions['contact'])}")
    return sentences


def _open(decisions: Facts) -> str:
    gaps = [label for name, label in LABELS.items() if decisions[name] == NOT_STATED]
    named = ", ".join(label.lower() for label in gaps[:NAMED_GAPS])
    more = f" ({len(gaps) - NAMED_GAPS} more in annex D)" if len(gaps) > NAMED_GAPS else ""
    return f"{named}{more}"


# Page 2.


def _content(facts: Facts, people: People) -> str:
    released = facts["released"]
    model = f"{_capital(facts['model']['title'])}, fitted to the rows" if "model" in facts else ""
    what = {
        "model": model or "A model fitted to the rows",
        "total": "One total",
        "public": f"{released['groups'].get('count', 0):,} groups from a public list,",
        "private": "The groups that are large enough,",
    }[released["groups"]["kind"]]
    by = f", by {listed(released['group_by'])}" if released["group_by"] else ""
    steps = f", after {', '.join(released['steps'])}" if released["steps"] else ""
    return people.in_words(f"{what} of {released['dataset']}{by}{steps}.")


def _columns(facts: Facts) -> list[tuple[str, str]]:
    if "model" in facts:  # its sums are in the annex
        return []
    return [(each["name"], each.get("said", each["kind"])) for each in facts["released"]["measures"]]


def _charts(facts: Facts, people: People) -> list[dict[str, Any]]:
    measures = {each["name"]: each for each in facts["released"]["measures"]}
    by = facts["released"]["group_by"]
    charts = []
    for chart in () if "model" in facts else facts["chart"]:
        measure = measures.get(chart["field"], {"kind": ""})
        from_zero = measure["kind"] not in SPREAD
        drawn = interval_chart(chart, from_zero=from_zero, bounds=_bounds_of(measure))
        title = _measured(measure, chart["field"], people)
        note = "" if from_zero else "The axis can start at a number other than 0. "
        charts.append(
            {
                "title": f"{title} by {listed(by)}" if by else title,
                "note": f"{note}Lines are 95 % intervals for the privacy noise only.",
                "head": ", ".join(by) or "group",
                "field": chart["field"],
                "drawn": drawn,
            }
        )
    return charts


def _not_drawn(facts: Facts) -> str:
    """Return which columns have no chart; empty if all have one. A histogram has a column for each bin."""
    drawn = [chart["field"].partition("[")[0] for chart in facts["chart"]]
    others = [each["name"] for each in facts["released"]["measures"] if each["name"] not in drawn]
    if not drawn or not others:
        return ""
    named = listed(others if len(others) <= NAMED_COLUMNS else [*others[:NAMED_COLUMNS], "others"])
    return f"The table has more columns, which are not drawn here: {named}."


NAMED_COLUMNS: Final = 6
"""Columns without a chart that a sentence names."""


def _bounds_of(measure: Facts) -> tuple[float, float] | None:
    """Return the public bounds between which the value of a mean or quantile lies; else None."""
    if measure["kind"] not in ("mean", "quantile"):
        return None
    return measure["lower"], measure["upper"]


def _measured(measure: Facts, field: str, people: People) -> str:
    """Return what a chart shows, in words.

    >>> whom = People("patient", "patient_id", True, False, False)
    >>> _measured({"kind": "count_units"}, "n", whom), _measured({"kind": "mean", "column": "age"}, "a", whom)
    ('Patients', 'Mean of age')
    """
    kind, column = measure["kind"], measure.get("column")
    if kind == "count_units":
        return _capital(people.several)
    if kind == "count":
        return "Rows"
    if column is None or kind not in (*SPREAD, "sum"):
        return field
    return f"{_capital(kind.replace('_', ' '))} of {column}"


def _overlap(facts: Facts, people: People) -> str:
    groups = facts["protected"]["max_groups"]
    if not groups or groups < 2 or people.is_row_level:
        return ""
    return (
        f"One {people.unit} can count in {groups:,} groups, so adding up the groups counts some "
        f"{people.several} more than once."
    )


def _causes(facts: Facts, people: People) -> Iterator[tuple[str, str, str]]:
    """Return the three causes of error: noise, limits and bounds, each with its effect here."""
    columns = facts["error"]["released"]
    if "model" in facts:
        yield "Noise added for privacy, and sampling", _noise_of_model(facts), "yes"
        yield from _other_causes(facts, people)
        return
    noise = [_released_error(column, people) for column in columns]
    if not columns:
        planned = facts["error"]["columns"]
        noise = [f"{_called(each['column'], people)} {_error(each['error'])} {each['holds']}" for each in planned]
    yield "Noise added for privacy", f"{'; '.join(noise)}.", "yes"
    yield from _other_causes(facts, people)


def _noise_of_model(facts: Facts) -> str:
    known = _known_coefficients(facts)
    return f"{'; '.join(known)}." if known else _accuracy_of_model(facts)


def _other_causes(facts: Facts, people: People) -> Iterator[tuple[str, str, str]]:
    limits, bounds = _effects(facts["left_out"])
    if not people.is_row_level:
        yield f"Limits per {people.unit}", _effect(limits, people, _touched(facts)), "no"
    if facts["error"]["clamping"] or bounds:
        yield "Bounds", f"{_effect(bounds, people)}\n{facts['error']['clamping']}".strip(), "no"


def _effects(lines: Sequence[Facts]) -> tuple[list[Facts], list[Facts]]:
    """Split the lines about limits from those about bounds."""
    bounds = [line for line in lines if line["what"].startswith("values of ")]
    return [line for line in lines if line not in bounds], bounds


INTERVALS_OF_EFFECTS: Final = (
    'Shares are 95 % intervals. "At most" and "up to" can also be none: the noise hides small shares.'
)


def _touched(facts: Facts) -> Touched:
    """Return which columns of the table limits per person touch."""
    measures = [each for each in facts["released"]["measures"] if each["kind"] in KINDS]  # a fit has others
    return Touched.of((KINDS[each["kind"]].limited, each.get("lower")) for each in measures)


def _effect(lines: Sequence[Facts], people: People, touched: Touched | None = None) -> str:
    """Return which share of rows or units each limit changed, in one line each, if the release measured it."""
    if not lines:
        return "How many this changed was not measured."
    said = [_limit_said(line, people, touched) or _share_changed(line, people) for line in lines]
    if any(line.get("too_noisy") for line in lines):
        said.append(TOO_NOISY)
    return "\n".join(said)


def _limit_said(line: Facts, people: People, touched: Touched | None) -> str:
    """Return how many rows or people are over a limit and what that does to the table; empty for other lines."""
    if touched is None or not line.get("said") or line.get("too_noisy"):
        return ""
    rows, groups = ROWS_OVER.match(line["what"]), GROUPS_OVER.match(line["what"])
    if rows is None and (groups is None or not touched.people):
        return ""
    numbers = Line(**{name: line[name] for name in NUMBERS if name in line})
    if hides_share(numbers):
        return ""
    if rows is None:
        assert groups is not None
        return people_over(replace(numbers, limit=int(groups[1]), is_of_groups=True), people.unit)
    over = rows_over(replace(numbers, seen_to=int(rows[1])), people.unit, touched)
    seen = f" To measure this share, at most {int(rows[1]):,} such rows of {article(people.unit)} {people.unit} were"
    return f"{over}{seen} counted." if is_certain(numbers) else over


ROWS_OVER: Final = re.compile(r"rows over the caps, of each unit up to (\d+)$")
GROUPS_OVER: Final = re.compile(r"units with more than (\d+) groups?$")
"""Names of quantities that were measured, as a plan has them."""
NUMBERS: Final = ("what", "value", "lower", "upper", "total", "share", "share_lower", "share_upper")


def _intervals(facts: Facts, people: People) -> str:
    """Return what the intervals mean: those of published numbers, and those of shares if some are shown."""
    if "model" in facts:
        return f"{facts['model']['intervals']} They describe the line of the values within their bounds."
    is_shown = any(line.get("said") and not line.get("too_noisy") for line in facts["left_out"])
    own = people.in_words(sentence(facts["error"]["intervals"]))
    return f"{own} {INTERVALS_OF_EFFECTS}" if is_shown else own


def _share_changed(line: Facts, people: People) -> str:
    """Return the share that one limit or bound changed; its number if the total is not known."""
    if not line.get("said"):
        return sentence(people.in_words(f"will be measured to {_error(line['error'])}: {line['what']}"))
    upper = line.get("share_upper")
    is_hidden = upper is None or (line["share_lower"] <= 0 and upper >= 1)  # none to all of them says nothing
    if is_hidden or line.get("too_noisy"):
        return sentence(people.in_words(line["said"].replace("+-", "±")))
    low, high = percent_down(line["share_lower"]), percent_up(line["share_upper"])
    share = f"{low} to {high}" if line["lower"] else f"at most {high}"
    return sentence(people.in_words(f"{share} of {line['of']} {line['did']}"))


# The annex.


def _curve(facts: Facts, product: str) -> str:
    curve, words = facts["promise"]["tradeoff"], facts["words"]
    curves = [
        Curve(f"limit, {facts['promise']['limit']}", curve["limit"], is_limit=True),
        Curve(f"this {product}", curve["table"], is_limit=False),
    ]
    limit, table = (_share(words[name]["false_alarm"]) for name in ("limit", "table"))
    about = (
        "Trade-off between false accusations and misses. "
        f"The limit allows at best {limit} of each; this {product} alone {table}; guessing 50 %."
    )
    return tradeoff(curve["alpha"], curves, about=about)


def _epsilon_in_words(facts: Facts, people: People) -> str:
    promise, factor = facts["promise"], _bound(facts["words"]["limit"]["odds_factor"])
    at = f"At delta {typed(promise['delta'])} the limit is" if promise["delta"] else "The limit is pure"
    if people.is_replaced:
        likely = f"with one version of {people.data} as with another"
    elif people.is_person:
        likely = "with you as without you"
    else:
        likely = f"with one {people.unit} as without it"
    apart = f", apart from results with total probability {typed(promise['delta'])}" if promise["delta"] else ""
    epsilon = _epsilon_bound(promise["epsilon"])
    return f"{at} epsilon {epsilon}. No result is more than {factor} times as likely {likely}{apart}."


def _up_to_limit(facts: Facts, product: str) -> str:
    """Return which guarantee the odds are about; a training card says the same about its run."""
    limit = facts["promise"]["limit"]
    return f"everything published up to the limit, {limit}. They use this limit, not the noise of this {product}"


def _enforced(facts: Facts, product: str) -> str:
    accounting = facts["accounting"]
    article = "An" if accounting["filter"].lstrip("(")[:1] in "aeiou" else "A"
    return (
        f"{article} {accounting['filter']} enforces the limit ({accounting['theorem']}). "
        "It also holds when later queries depend on earlier answers. "
        f"This {product} alone is charged as epsilon "
        f"{_epsilon_bound(facts['promise']['table_epsilon'])} at the same delta."
    )


def _noise_parts(facts: Facts, people: People) -> Iterator[tuple[str, str, str, str]]:
    """Return the noise of each part; the parts that measure limits and bounds are one row."""
    sums = {each["part"]: each["said"] for each in facts["model"]["sums"]} if "model" in facts else {}
    parts = [{**each, "part": sums.get(each["part"], each["part"])} for each in facts["mechanisms"]["parts"]]
    about_limits = {line["what"] for line in facts["left_out"]} | {"units in all", "rows that count"}
    folded = [each for each in parts if each["part"] in about_limits or each["part"].startswith("values of ")]
    for part in parts:
        if part not in folded:
            scale = f"{part['noise']}, scale {nearest(part['scale'])}"
            yield people.in_words(part["part"]), _bound(part["sensitivity"]), scale, _cost([part])
    if folded:
        moved = sorted(part["sensitivity"] for part in folded)
        scales = sorted(part["scale"] for part in folded)
        name = f"limits and bounds ({len(folded)} quantities)"
        noise = f"{folded[0]['noise']}, scale {nearest(scales[0])} to {nearest(scales[-1])}"
        yield name, f"{_bound(moved[0])} to {_bound(moved[-1])}", noise, _cost(folded)


def _cost(parts: Sequence[Facts]) -> str:
    return f"{nearest(100 * sum(part['share'] for part in parts))} %"


def _statements(facts: Facts, people: People) -> list[tuple[str, str | None]]:
    protected, decisions = facts["protected"], facts["decisions"]
    rows: list[tuple[str, str]] = [
        ("Period of the data", protected["window"]),
        ("Bounds from", facts["mechanisms"]["bounds_from"]),
        *((label, decisions[name]) for name, label in LABELS.items()),
        ("Neighbouring datasets", f"{protected['neighbours']} ({protected['adjacency'].replace('_', '/')})"),
        ("Protected for", protected["lifetime"]),
    ]
    if not people.is_row_level:
        rows.insert(0, (f"A {people.unit} is", f"everything with the same {people.column}"))
    return [(label, None if text == NOT_STATED else text) for label, text in rows]


def _raises(facts: Facts) -> Iterator[str]:
    """Sentences about raised limits: who asked, and who approved. People are shown by their ids in the ledger."""
    for each in facts.get("approvals", {}).get("raises", ()):
        approvers = " and ".join(_short(principal) for principal in each["approved_by"])
        yield (
            f"The limit was raised from {each['was']} to {each['limit']} on {moment(each['at'])}: "
            f"{_short(each['asked_by'])} asked, and {approvers} approved (ledger entry {each['entry']})."
        )


def _without_approval(facts: Facts) -> Iterator[str]:
    """Sentences about approvers who were added without approvals."""
    for each in facts.get("approvals", {}).get("without_approval", ()):
        yield (
            f"An approver was added without approval on {moment(each['at'])} (ledger entry {each['entry']}). "
            "Ask the operator why."
        )


def _short(principal: str) -> str:
    """The beginning of an id, which tells people of one ledger apart."""
    return f"person {principal[:8]}"


HASHES: Final = frozenset(("Ledger", "Head", "Answer", "Plan", "Privacy loss", "Certificate hash", "Check"))
"""Names of evidence that is shown in a typewriter's letters."""


def _evidence(facts: Facts) -> Iterator[tuple[str, str]]:
    accounting, evidence = facts["accounting"], facts["evidence"]
    is_published = evidence["receipt"] is not None
    if is_published:
        yield "Ledger", evidence["ledger"]
        yield "Ledger entries", f"{evidence['charge']} (charge), {evidence['entry']} (answer)"
        yield "Head", evidence["head"]
        yield "Answer", evidence["answer_hash"]
    yield "Plan", accounting["plan_hash"]
    yield "Privacy loss", accounting["plan_privacy"]
    yield "Budget split", accounting["split"]
    yield "Software", accounting["software"]
    if "certificate" in evidence:
        proof = evidence["certificate"]
        yield "Certificate", f"{proof['claim']}. Check it: tallystick certificate check FILE"
        yield "Certificate hash", proof["hash"]
    if is_published:
        yield "Check", evidence["verify"]


def _marked_up(rows: Iterable[tuple[str, str]]) -> list[tuple[str, Any]]:
    """Return evidence with hashes in a typewriter's letters."""
    from markupsafe import Markup, escape

    marked: list[tuple[str, Any]] = []
    for name, text in rows:
        code = Markup(f'<span class="hash">{escape(visible(str(text)))}</span>')
        marked.append((name, code if name in HASHES else text))
    return marked


# Small words.


def _bound(value: Any) -> str:
    """Return an upper bound for people; the facts write infinity as text."""
    return up(float(value))


def _epsilon_bound(value: Any) -> str:
    """Return an epsilon for people, with the digits that screens show.

    The facts have the epsilon that a screen shows, or that an owner wrote. Its float may be above this decimal, and
    must not be rounded up once more. A computed epsilon has more digits.

    >>> _epsilon_bound(1.31), _epsilon_bound(1.3049911193545588), _epsilon_bound("inf")
    ('1.31', '1.31', 'infinite')
    """
    epsilon = float(value)
    return up(as_written("epsilon", epsilon)) if math.isfinite(epsilon) else up(epsilon)


def _error(half: float) -> str:
    """Return an error, rounded up."""
    return f"±{up(half)}"


def _capital(text: str) -> str:
    """Return a text that starts with a capital letter."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """Return a text as a sentence: a capital letter first, a full stop last.

    >>> sentence("annual report"), sentence("Why? ")
    ('Annual report.', 'Why?')
    """
    return _capital(_ended(text))


def _ended(text: str) -> str:
    """Return a text with a full stop at its end, if it has no mark there."""
    stripped = text.strip()
    return stripped if stripped.endswith((".", "!", "?")) or not stripped else f"{stripped}."
