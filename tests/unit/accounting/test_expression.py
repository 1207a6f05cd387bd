"""The reader understands the notation of the library and nothing else."""

from __future__ import annotations

import inspect

import pytest

import tallystick as ts
from tallystick.accounting.expression import CONSTRUCTORS, DEEPEST_NESTING, LONGEST_TEXT, as_typed, parse, read_loss
from tallystick.errors import ExpressionError, InvalidInput

MEANT = {
    "gaussian(sigma=2)": lambda: ts.gaussian(sigma=2),
    "ts.gaussian(sigma=2)": lambda: ts.gaussian(sigma=2),
    "12 * gaussian(sigma=4) + laplace(scale=2)": lambda: 12 * ts.gaussian(sigma=4) + ts.laplace(scale=2),
    "laplace(scale=2) * 3": lambda: 3 * ts.laplace(scale=2),
    "2 * (pure_dp(epsilon=1/3) + pure_dp(epsilon=0.5))": lambda: (
        2 * (ts.pure_dp(epsilon=1 / 3) + ts.pure_dp(epsilon=0.5))
    ),
    "2**10 * gaussian(sigma=1e1).sampled(rate=256/60000)": lambda: (
        1024 * ts.gaussian(sigma=10.0).sampled(rate=256 / 60000)
    ),
    "approx_dp(epsilon=1, delta=1e-6)": lambda: ts.approx_dp(epsilon=1, delta=1e-6),
    "renyi_dp({2: 0.5, 8: 1.75})": lambda: ts.renyi_dp({2: 0.5, 8: 1.75}),
    "discrete_pair([0.75, 0.25], [0.25, 0.75])": lambda: ts.discrete_pair([0.75, 0.25], [0.25, 0.75]),
    "worst(gdp(mu=1), pure_dp(epsilon=1))": lambda: ts.worst(ts.gdp(mu=1), ts.pure_dp(epsilon=1)),
    "gaussian(sigma=2).for_groups(3)": lambda: ts.gaussian(sigma=2).for_groups(3),
    "gaussian(sigma=2).as_replace()": lambda: ts.gaussian(sigma=2).as_replace(),
    'gaussian(sigma=2, adjacency="replace", unit="patient")': lambda: ts.gaussian(
        sigma=2, adjacency=ts.Adjacency.REPLACE, unit="patient"
    ),
    "from_tradeoff([[0, 1], [0.25, 0.25], [1, 0]])": lambda: ts.from_tradeoff([(0, 1), (0.25, 0.25), (1, 0)]),
    "from_profile([(0, 0.5), (1, 0)])": lambda: ts.from_profile([(0, 0.5), (1, 0)]),
    "no_loss()": lambda: ts.no_loss(),
    "  zcdp(rho=-(-0.5))\n": lambda: ts.zcdp(rho=0.5),
}

REFUSED = [
    "",
    "   ",
    "3",
    "'text'",
    "[1]",
    "gaussian",
    "gaussian(1)",
    "gaussian(sigma=1",
    "gaussian(sigma=1) gaussian(sigma=1)",
    "gaussian(sgima=1)",
    "gaussian(sigma=1, **{})",
    "gaussian(*[1])",
    "gauss(sigma=1)",
    "from_tradeoff(lambda a: 1 - a)",
    "lambda: 0",
    "__import__('os').system('true')",
    "gaussian(sigma=1).__class__",
    "gaussian(sigma=1).__class__()",
    "gaussian(sigma=1).epsilon(delta=1e-5)",
    "gaussian(sigma=1).to_json()",
    "(1).sampled(rate=0.1)",
    "ts.errors",
    "ts.errors()",
    "os.path()",
    "gaussian(sigma=1) - gaussian(sigma=1)",
    "gaussian(sigma=1) + 1",
    "1 + gaussian(sigma=1)",
    "gaussian(sigma=1) * gaussian(sigma=1)",
    "gaussian(sigma=1) / 2",
    "-gaussian(sigma=1)",
    "not gaussian(sigma=1)",
    "~1 * gaussian(sigma=1)",
    "gaussian(sigma=True)",
    "gaussian(sigma=None)",
    "gaussian(sigma=1j)",
    "gaussian(sigma=b'1')",
    "gaussian(sigma=1/0)",
    "gaussian(sigma=9**9**9)",
    "gaussian(sigma=10.0**400)",
    "gaussian(sigma=(-1)**0.5)",
    "gaussian(sigma=5 % 3)",
    "gaussian(sigma=1 if 1 else 2)",
    "gaussian(sigma=[x for x in [1]][0])",
    "gaussian(sigma=x)",
    "gaussian(sigma=(y:=1))",
    "f'{1}'",
    "renyi_dp({'a': 1})",
    "renyi_dp({**{}})",
    "gaussian(sigma=1); 1",
    "import os",
    "gaussian(sigma=1)\x00",
    "9" * 5000,
    "1" * 30 + " * gaussian(sigma=1)",
    "gaussian(sigma=1) if True else laplace(scale=1)",
    "gaussian(sigma=1) and laplace(scale=1)",
    "gaussian(sigma=1) <= laplace(scale=1)",
    "(" * 300 + "gaussian(sigma=1)" + ")" * 300,
    "-" * 9_000 + "1",
    "1*(" * 150 + "gaussian(sigma=1)" + ")" * 150,
    "gaussian(sigma=1)" + ".for_groups(1)" * 400,
    "gaussian(sigma=1) + " * 10_000 + "gaussian(sigma=1)",
    "\ud800",
]


@pytest.mark.parametrize("text", MEANT)
def test_text_means_the_loss_that_python_would_build(text: str) -> None:
    assert read_loss(text) == MEANT[text]()


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: ascii(text[:30]))
def test_anything_else_is_refused_with_a_way_out(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        read_loss(text)
    assert caught.value.allowed or "Did you mean" in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "text",
    [
        "gaussian(sigma=-1)",
        "gaussian(sigma='1')",
        "gaussian(sigma=[1])",
        "-2 * gaussian(sigma=1)",
        "1.5 * gaussian(sigma=1)",
        "10**10 * gaussian(sigma=1)",
        "gaussian(sigma=1).sampled(rate=2)",
        'gaussian(sigma=1, adjacency="neighbours")',
        'gaussian(sigma=1) + gaussian(sigma=1, adjacency="replace")',
        "discrete_pair([0.5, 0.4], [0.5, 0.5])",
        "renyi_dp({})",
    ],
)
def test_well_formed_text_with_a_bad_value_names_the_argument(text: str) -> None:
    with pytest.raises(InvalidInput):
        read_loss(text)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("gaussian(sigma=1, sigma=10)", "each argument once .sigma is given 2 times"),
        ("gaussian(sigma=1).sampled(rate=.5, rate=.01, rate=.1)", "each argument once .rate is given 3 times"),
        ("1000 * gaussian(sigma=1, sigma=-1)", "each argument once"),
        ("gauss(sigma=1, sigma=10)", "each argument once"),
        ("renyi_dp({2: 5, 2: 0.1})", "each order once .2 is given 2 times"),
        ("renyi_dp({2: 5, 2.0: 0.1})", "each order once .2 is given 2 times"),
        ("renyi_dp({2: 5, 4/2: gaussian(sigma=0)})", "each order once"),
    ],
)
def test_what_is_given_twice_is_refused_by_name_before_anything_is_computed(text: str, named: str) -> None:
    """The last one won: "gaussian(sigma=1, sigma=10)" had the epsilon of sigma 10."""
    with pytest.raises(ExpressionError, match=named):
        read_loss(text)


def test_a_refusal_names_the_token_and_its_column() -> None:
    with pytest.raises(ExpressionError, match=r"unknown name gauss \(column 18\). Did you mean gaussian\?"):
        read_loss("laplace(scale=1) + gauss(sigma=1)".replace(" + ", "+"))


def test_a_misspelt_argument_is_answered_with_the_signature() -> None:
    with pytest.raises(ExpressionError, match=r"gaussian\(sigma="):
        read_loss("gaussian(std=1)")


def test_long_sums_are_read_although_deep_nesting_is_refused() -> None:
    terms = 200
    loss = read_loss(" + ".join(f"gdp(mu=0.{i:03d})" for i in range(1, terms)))
    assert len(loss.terms) >= 1
    nested = "1*(" * (DEEPEST_NESTING + 1) + "gdp(mu=1)" + ")" * (DEEPEST_NESTING + 1)
    with pytest.raises(ExpressionError, match="nesting"):
        read_loss(nested)


def test_text_longer_than_the_limit_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ExpressionError, match="200,000 characters"):
        read_loss("(" * (LONGEST_TEXT + 1))


def test_every_constructor_the_reader_knows_exists_and_every_constructor_is_known() -> None:
    assert all(getattr(ts, name) is CONSTRUCTORS[name] for name in CONSTRUCTORS)
    functions = [getattr(ts, name) for name in ts.__all__ if inspect.isfunction(getattr(ts, name))]
    returned = ("PrivacyLoss", "Cyclic", "Shuffled", "Poisson", "Subset")  # a loss, or an argument of one
    makers = {f.__name__ for f in functions if f.__annotations__["return"] in returned}
    assert {*CONSTRUCTORS} == makers


def test_the_unknown_is_filled_in() -> None:
    template = parse("1000 * gaussian(sigma=X).sampled(rate=0.01)", unknown="X")
    assert template.mentions_unknown
    assert template.at(2.0) == 1000 * ts.gaussian(sigma=2.0).sampled(rate=0.01)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("X * gaussian(sigma=1)", True),
        ("(10 * X) * gaussian(sigma=1) + laplace(scale=1)", True),
        ("gaussian(sigma=1) * X", True),
        ("10 * gaussian(sigma=X)", False),
        ("10 * gaussian(sigma=2*X)", False),
        ("gaussian(sigma=1).sampled(rate=X)", False),
    ],
)
def test_an_unknown_that_counts_is_recognised_as_whole(text: str, whole: bool) -> None:
    assert parse(text, unknown="X").counts_with_unknown is whole


def test_the_unknown_is_refused_where_none_was_announced() -> None:
    with pytest.raises(ExpressionError, match="'X'"):
        read_loss("gaussian(sigma=X)")


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        (0.1, "pure_dp(epsilon=0.1)", "0.1"),
        (0.1, "2 * pure_dp(epsilon=0.1) + laplace(scale=3)", "0.1"),
        (0.1, "pure_dp(epsilon=1e-1)", "1e-1"),
        (0.3, "pure_dp(epsilon=0.3)", "0.3"),
        (0.1, "pure_dp(epsilon=1/10)", "0.100001"),  # computed, not typed: a bound is rounded up
        (0.2, "2 * pure_dp(epsilon=0.1)", "0.200001"),
        (0.12345678, "pure_dp(epsilon=0.12345678)", "0.123457"),
        (1.0, "pure_dp(epsilon=1)", "1"),
    ],
)
def test_a_number_that_a_person_typed_is_shown_as_typed(value: float, text: str, shown: str) -> None:
    assert as_typed(value, text) == shown
