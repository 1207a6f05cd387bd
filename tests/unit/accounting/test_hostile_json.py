"""A JSON text builds what the public constructors build, or is refused with the field named."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

import tallystick as ts
from tallystick.accounting.adjacency import Protects
from tallystick.accounting.foreign import read_record
from tallystick.errors import InvalidInput, TallystickError

GAUSSIAN = {"kind": "gaussian", "sigma": 1.0}
LAPLACE = {"kind": "laplace", "scale": 1.0}
SAMPLED = {"kind": "sampled", "base": GAUSSIAN, "rate": 0.1}
PAIR = {"kind": "discrete_pair", "p": [0.99, 0.01], "q": [0.01, 0.99], "both": False}


def text_of(*leaves: Any, adjacency: str = "add_remove", count: Any = 1, **other: Any) -> str:
    terms = [[leaf, count] for leaf in leaves]
    body = {"format": "tallystick.loss/1", "adjacency": adjacency, "unit": None, "group": 1, "terms": terms}
    return json.dumps({**body, **other})


REFUSED = {
    "sampled under replace": text_of(SAMPLED, adjacency="replace"),
    "truncated under replace": text_of(
        {"kind": "truncated", "base": GAUSSIAN, "rate": 0.1, "largest": 5, "population": 10}, adjacency="replace"
    ),
    "allocated under replace": text_of({"kind": "allocated", "base": GAUSSIAN, "steps": 3}, adjacency="replace"),
    "worst under replace": text_of(
        {"kind": "worst", "members": [[[GAUSSIAN, 1]], [[LAPLACE, 1]]]}, adjacency="replace"
    ),
    "subset under add/remove": text_of({"kind": "subset", "base": GAUSSIAN, "batch": 1, "population": 10}),
    "sampled_replaced under add/remove": text_of({"kind": "sampled_replaced", "sigma": 1.0, "rate": 0.1}),
    "replaced under add/remove": text_of({"kind": "replaced", "terms": [[SAMPLED, 1]]}),
    "one order of a replace pair": text_of(PAIR, adjacency="replace"),
    "a replace pair in the old format": text_of(
        {"kind": "discrete_pair", "p": [0.99, 0.01], "q": [0.9, 0.1]}, adjacency="replace"
    ),
    "one order of a replace pair inside a subset": text_of(
        {"kind": "subset", "base": PAIR, "batch": 1, "population": 10}, adjacency="replace"
    ),
    "both orders of a pair inside a sample": text_of({"kind": "sampled", "base": {**PAIR, "both": True}, "rate": 0.1}),
    "sampled inside a subset": text_of(
        {"kind": "subset", "base": SAMPLED, "batch": 1, "population": 10}, adjacency="replace"
    ),
    "sampled inside a composition inside a subset": text_of(
        {"kind": "subset", "base": {"kind": "composed", "terms": [[SAMPLED, 2]]}, "batch": 1, "population": 10},
        adjacency="replace",
    ),
    "an empty pair": text_of({**PAIR, "p": [], "q": []}),
    "an unnormalised pair": text_of({**PAIR, "p": [0.5, 0.4]}),
    "a pair of masses far above one": text_of({**PAIR, "p": [5.0, 4.0], "q": [5.0, 4.0]}),
    "negative masses": text_of({**PAIR, "p": [1.5, -0.5]}),
    "unequal lengths": text_of({**PAIR, "p": [1.0]}),
    "an empty trade-off function": text_of({"kind": "from_tradeoff", "alpha": [], "beta": []}),
    "a trade-off function that is not convex": text_of(
        {"kind": "from_tradeoff", "alpha": [0.0, 0.1, 0.5, 1.0], "beta": [1.0, 0.89, 0.2, 0.0]}
    ),
    "a trade-off function above the diagonal": text_of(
        {"kind": "from_tradeoff", "alpha": [0.0, 0.5, 1.0], "beta": [1.0, 0.9, 0.0]}
    ),
    "a trade-off function that grows": text_of(
        {"kind": "from_tradeoff", "alpha": [0.0, 0.5, 1.0], "beta": [0.1, 0.3, 0.0]}
    ),
    "a trade-off function that starts late": text_of(
        {"kind": "from_tradeoff", "alpha": [0.5, 1.0], "beta": [0.2, 0.0]}
    ),
    "negative deltas": text_of({"kind": "from_profile", "epsilon": [0.0, 1.0], "delta": [0.1, -0.1]}),
    "deltas that grow": text_of({"kind": "from_profile", "epsilon": [0.0, 1.0], "delta": [0.1, 0.2]}),
    "deltas above one": text_of({"kind": "from_profile", "epsilon": [0.0], "delta": [1.5]}),
    "a profile beyond e^700": text_of({"kind": "from_profile", "epsilon": [0.0, 800.0], "delta": [0.1, 0.0]}),
    "an unsorted profile": text_of({"kind": "from_profile", "epsilon": [1.0, 0.0], "delta": [0.1, 0.1]}),
    "an unsorted Renyi curve": text_of({"kind": "renyi_dp", "orders": [8.0, 2.0], "epsilons": [1.0, 0.1]}),
    "a Renyi curve at order one": text_of({"kind": "renyi_dp", "orders": [1.0, 2.0], "epsilons": [0.0, 0.1]}),
    "a negative Renyi curve": text_of({"kind": "renyi_dp", "orders": [2.0], "epsilons": [-1.0]}),
    "an empty Renyi curve": text_of({"kind": "renyi_dp", "orders": [], "epsilons": []}),
    "a Renyi curve with orders to spare": text_of({"kind": "renyi_dp", "orders": [2.0, 3.0], "epsilons": [1.0]}),
    "noise that asks for 74 GiB": text_of({**SAMPLED, "base": {"kind": "gaussian", "sigma": 1e-9}}),
    "tiny Laplace noise": text_of({"kind": "laplace", "scale": 1e-9}),
    "discrete noise without a shift": text_of({"kind": "discrete_gaussian", "sigma": 1.0, "sensitivity": 0}),
    "one choice": text_of({"kind": "randomized_response", "epsilon": 1.0, "choices": 1}, adjacency="replace"),
    "no choice": text_of({"kind": "randomized_response", "epsilon": 1.0, "choices": 0}, adjacency="replace"),
    "a huge epsilon": text_of({"kind": "pure_dp", "epsilon": 1e300}),
    "a huge rho": text_of({"kind": "zcdp", "rho": 1e300, "delta": 0.0}),
    "a huge mu": text_of({"kind": "gdp", "mu": 1e300}),
    "nothing as a leaf": text_of({"kind": "gdp", "mu": 0.0}),
    "more units taken than there are": text_of(
        {"kind": "subset", "base": GAUSSIAN, "batch": 11, "population": 10}, adjacency="replace"
    ),
    "a subset of nobody": text_of(
        {"kind": "subset", "base": GAUSSIAN, "batch": 1, "population": 0}, adjacency="replace"
    ),
    "too many steps": text_of({"kind": "allocated", "base": GAUSSIAN, "steps": 10**9}),
    "an empty composition": text_of({**SAMPLED, "base": {"kind": "composed", "terms": []}}),
    "a composition on its own": text_of({"kind": "composed", "terms": [[GAUSSIAN, 2]]}),
    "the worst of nothing": text_of({"kind": "worst", "members": []}),
    "the worst of one": text_of({"kind": "worst", "members": [[[GAUSSIAN, 1]]]}),
    "a closed form hidden in the general rule": text_of(
        {"kind": "replaced", "terms": [[GAUSSIAN, 1]]}, adjacency="replace"
    ),
    "a kind that is a list": text_of({"kind": ["gaussian"], "sigma": 1.0}),
    "a kind that is a dictionary": text_of({"kind": {}, "sigma": 1.0}),
    "terms that are leaves": text_of({"kind": "replaced", "terms": [GAUSSIAN]}, adjacency="replace"),
    "terms that are numbers": text_of({"kind": "composed", "terms": [[1, 1]]}),
    "terms that are a number": text_of({"kind": "worst", "members": 3}),
    "a base that is a number": text_of({**SAMPLED, "base": 1}),
    "a base that is a list": text_of({**SAMPLED, "base": [GAUSSIAN]}),
    "a parameter that is a leaf": text_of({"kind": "gaussian", "sigma": LAPLACE}),
    "orders that are a number": text_of({"kind": "renyi_dp", "orders": 2.0, "epsilons": 1.0}),
    "masses that are text": text_of({**PAIR, "p": "ab"}),
    "masses in lists": text_of({**PAIR, "p": [[0.5], [0.5]]}),
    "a sampled sample": text_of({"kind": "sampled", "base": SAMPLED, "rate": 0.1}),
    "no count": text_of(GAUSSIAN, count=0),
    "half a count": text_of(GAUSSIAN, count=0.5),
    "a count of truth": text_of(GAUSSIAN, count=True),
    "a huge count": text_of(GAUSSIAN, count=10**80),
    "an adjacency that is a list": text_of(GAUSSIAN, adjacency=["add_remove"]),  # type: ignore[arg-type]
    "a unit that is a number": text_of(GAUSSIAN, unit=7),
    "an empty unit": text_of(GAUSSIAN, unit=""),
    "no group": text_of(GAUSSIAN, group=0),
    "a huge group": text_of(GAUSSIAN, group=10**9),
    "terms that are no list": text_of(GAUSSIAN, terms={}),
    "a field of another version": text_of(GAUSSIAN, newer=1),
    "a key twice": text_of(GAUSSIAN).replace('"sigma": 1.0', '"sigma": 1.0, "sigma": 9.0'),
    "terms twice": text_of(GAUSSIAN)[:-1] + ', "terms": []}',
    "not a number": text_of(GAUSSIAN).replace("1.0", "NaN"),
    "infinity": text_of(GAUSSIAN).replace("1.0", "Infinity"),
    "an infinity in disguise": text_of(GAUSSIAN).replace("1.0", "1e999"),
    "a number of 5,000 digits": text_of(GAUSSIAN).replace("1.0", "1" * 5000),
    "half a character": text_of(GAUSSIAN, unit="x").replace('"x"', '"\\ud800"'),
    "deep lists": "[" * 100_000 + "]" * 100_000,
    "deep leaves": text_of({}).replace("{}", '{"kind":"sampled","rate":0.5,"base":' * 5000 + "1" + "}" * 5000),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_constructor_allows_is_refused(what: str) -> None:
    with pytest.raises(InvalidInput):
        ts.PrivacyLoss.from_json(REFUSED[what])


def test_the_same_text_without_the_fault_is_read() -> None:
    assert ts.PrivacyLoss.from_json(text_of(SAMPLED)) == ts.gaussian(sigma=1).sampled(rate=0.1)
    both = text_of({**PAIR, "both": True}, adjacency="replace")
    assert ts.PrivacyLoss.from_json(both) == ts.discrete_pair([0.99, 0.01], [0.01, 0.99], adjacency="replace")


def test_the_loss_itself_refuses_a_leaf_about_other_neighbours() -> None:
    sampled = ts.gaussian(sigma=1).sampled(rate=0.1)
    with pytest.raises(InvalidInput, match="adjacency"):
        ts.PrivacyLoss(sampled.terms, Protects(ts.Adjacency.REPLACE))
    subset = ts.gaussian(sigma=1, adjacency="replace").subset(batch=1, population=10)
    with pytest.raises(InvalidInput, match="adjacency"):
        ts.PrivacyLoss(subset.terms, Protects(ts.Adjacency.ADD_REMOVE))


@pytest.mark.parametrize("times", [30, 300, 3000])
def test_leaves_inside_one_another_have_an_end(times: int) -> None:
    def nested() -> ts.PrivacyLoss:
        loss = ts.laplace(scale=1)
        for _ in range(times):
            loss = loss.sampled(rate=0.5, largest=10, population=100, cut="anyhow")
        return loss

    with pytest.raises(InvalidInput, match="inside one another"):
        nested()


def test_a_batch_cut_although_everybody_is_sampled_has_a_loss() -> None:
    loss = ts.gaussian(sigma=1).sampled(rate=1.0, largest=10, population=100, cut="anyhow")
    assert loss.delta(epsilon=1) == 1.0


def test_sampling_twice_never_rounds_the_rate_down() -> None:
    once = ts.laplace(scale=1).sampled(rate=0.1).sampled(rate=0.7)
    ((leaf, _),) = once.terms
    assert Fraction(leaf.rate) >= Fraction(0.1) * Fraction(0.7)  # type: ignore[attr-defined]
    assert ts.laplace(scale=1).sampled(rate=0.5).sampled(rate=0.5) == ts.laplace(scale=1).sampled(rate=0.25)
    with pytest.raises(InvalidInput, match="rate"):
        ts.laplace(scale=1).sampled(rate=1e-200).sampled(rate=1e-200)


IMPORTS = {
    "a history given twice": ("opacus", b'{"history": [[1.0, 0.1, 10]], "history": [[100.0, 0.001, 1]]}'),
    "a class given twice": ("dp-accounting", b'{"class_name": "NoOpDpEvent", "class_name": "GaussianDpEvent"}'),
    "a rate of 1e999": ("opacus", b"[[1.0, 1e999, 10]]"),
    "not a number": ("opacus", b"[[1.0, NaN, 10]]"),
    "5,000 digits": ("opacus", b"[[1.0, 0.1, " + b"1" * 5000 + b"]]"),
    "deep lists": ("opacus", b"[" * 100_000),
    "broken text": ("opacus", b"\xff\xfe"),
}  # fmt: skip


@pytest.mark.parametrize("what", IMPORTS)
def test_an_import_with_two_meanings_or_none_is_refused(what: str) -> None:
    source, content = IMPORTS[what]
    with pytest.raises(InvalidInput, match="file"):
        read_record(source, "run.json", content)


@pytest.mark.parametrize(
    ("source", "name", "content"),
    [("opacus", None, b""), ("opacus", "run.json", "[]"), ("opacus", "run.json", None), ([], "run.json", b"")],
)
def test_an_import_of_something_else_is_refused(source: Any, name: Any, content: Any) -> None:
    with pytest.raises(TallystickError):
        read_record(source, name, content)


def test_an_imported_rate_of_decay_never_becomes_more_noise() -> None:
    event = {"class_name": "DiscreteLaplaceDpEvent", "noise_parameter": 0.3, "sensitivity": 1}
    loss = read_record("dp-accounting", "run.json", json.dumps(event).encode())
    assert loss.epsilon(delta=0) >= 0.3
