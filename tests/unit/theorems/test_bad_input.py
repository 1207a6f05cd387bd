"""Every theorem refuses bad numbers with the name of the argument, and never returns NaN."""

from __future__ import annotations

import inspect
import math

import pytest

import tallystick.theorems as theorems
from tallystick.errors import InvalidInput, Refused

# one good value for each argument name that appears in a signature of plain numbers
GOOD = {
    "accuracy": 0.1,
    "adjacency": "add_remove",
    "alpha": 0.1,
    "base_epsilon": 2.0,
    "batch": 1,
    "bound": 1.0,
    "coin": 0.5,
    "constant": 1.25,
    "covariates": 2,
    "delta": 1e-5,
    "delta_slack": 1e-6,
    "dimension": 4,
    "contraction": 0.9,
    "displacement": 1.0,
    "distance": 0.01,
    "divergence": 0.5,
    "epsilon": 0.5,
    "failure": 0.05,
    "hidden": 1.0,
    "intercept": True,
    "larger_population": 10,
    "local": True,
    "lower": 0.0,
    "mean": 0.1,
    "moment": 2,
    "moments": 2.0,
    "mu": 1.0,
    "order": 2.0,
    "people": 100,
    "probability": 0.1,
    "population": 1000,
    "proportion": 0.3,
    "queries": 5,
    "rate": 0.1,
    "records": 10,
    "rho": 0.5,
    "sample": 10,
    "samples": 100,
    "sensitivity": 1.0,
    "shift": 1.0,
    "sigma": 2.0,
    "size": 2,
    "steps": 5,
    "t": 0.5,
    "threshold": 2.0,
    "total_delta": 1e-5,
    "total_epsilon": 0.9,
    "upper": 1.0,
}
SWITCHES = {"adjacency", "constant", "intercept", "local"}


def plain_functions():
    for name in theorems.__all__:
        function = getattr(theorems, name)
        if isinstance(function, type) or name in {"lookup", "all_statements", "show"}:
            continue
        parameters = inspect.signature(function).parameters.values()
        if all(p.kind is p.KEYWORD_ONLY and p.name in GOOD for p in parameters):
            yield name, {p.name: GOOD[p.name] for p in parameters}


CASES = [(name, good, argument) for name, good in plain_functions() for argument in good if argument not in SWITCHES]


def numbers(value):
    return value if isinstance(value, tuple | list) else (value,)


def test_most_theorems_are_plain_functions_of_numbers():
    assert len({name for name, _, _ in CASES}) > 55


@pytest.mark.parametrize(("name", "good"), list(plain_functions()), ids=[name for name, _ in plain_functions()])
def test_good_numbers_give_numbers(name, good):
    for value in numbers(getattr(theorems, name)(**good)):
        flat = value if isinstance(value, tuple) else (value,)
        assert not any(isinstance(x, float) and math.isnan(x) for x in flat)


ANY_SIGN = {"lower", "mean", "threshold", "upper", "t"}


@pytest.mark.parametrize(("name", "good", "argument"), CASES, ids=[f"{name}-{arg}" for name, _, arg in CASES])
def test_bad_numbers_are_refused_by_name(name, good, argument):
    for bad in (float("nan"), float("-inf"), "1", None, True, *([] if argument in ANY_SIGN else [-1.0])):
        with pytest.raises(InvalidInput) as caught:
            getattr(theorems, name)(**{**good, argument: bad})
        assert caught.value.argument == argument


@pytest.mark.parametrize("delta", [0.0, 1.0, 1.5])
def test_probabilities_at_the_ends_are_refused_where_a_logarithm_is_taken(delta):
    with pytest.raises(InvalidInput):
        theorems.rdp_to_approx(order=2.0, epsilon=1.0, delta=delta)
    with pytest.raises(InvalidInput):
        theorems.advanced_composition(epsilon=0.1, steps=10, delta_slack=delta)


@pytest.mark.parametrize("masses", [[0.5, 0.6], [-0.5, 1.5], [], [float("nan"), 1.0], "ab", [[0.5, 0.5]], None])
def test_vectors_that_are_no_distributions_are_refused(masses):
    with pytest.raises(InvalidInput):
        theorems.hockey_stick(masses, [0.5, 0.5], epsilon=0.0)
    with pytest.raises(InvalidInput):
        theorems.renyi_divergence([0.5, 0.5], masses, order=2.0)


def test_pairs_of_unlike_length_are_refused():
    with pytest.raises(InvalidInput, match="as many"):
        theorems.hockey_stick([1.0], [0.5, 0.5], epsilon=0.0)


@pytest.mark.parametrize("bad", [[], [1.0, -1.0], [float("nan")], ["1"], None, 3])
def test_lists_of_epsilons_are_checked(bad):
    with pytest.raises(InvalidInput):
        theorems.basic_composition(epsilons=bad)
    with pytest.raises(InvalidInput):
        theorems.zcdp_composition(rhos=bad)


def test_refusals_say_the_way_out():
    with pytest.raises(Refused, match="analytic_gaussian_sigma"):
        theorems.classical_gaussian_sigma(epsilon=3.0, delta=1e-5)
