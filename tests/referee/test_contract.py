"""A new leaf, transformation, parameter or read-out without a referee fails here."""

from __future__ import annotations

import pytest

import tallystick as ts
from referee import asking, matrix
from referee.asking import READOUTS, Asker
from referee.draws import MAKERS, TRANSFORMATIONS, drawn
from referee.leaves import LEAVES

LEAF_PARAMETERS = {
    "no_loss": set(),
    "pure_dp": {"epsilon"},
    "approx_dp": {"epsilon", "delta"},
    "gdp": {"mu"},
    "gaussian": {"sigma"},
    "gaussian_mixture": {"sigma", "sensitivities", "probabilities"},
    "laplace": {"scale"},
    "discrete_gaussian": {"sigma", "sensitivity"},
    "discrete_laplace": {"scale", "sensitivity"},
    "randomized_response": {"epsilon", "flip_prob", "choices"},
    "exponential": {"epsilon"},
    "sparse_vector": {"threshold_scale", "answer_scale", "hits", "monotone"},
    "not_private": {"why"},
    "zcdp": {"rho", "delta", "offset"},
    "renyi_dp": {"curve"},
    "from_tradeoff": {"f"},
    "from_profile": {"f"},
    "discrete_pair": {"p", "q"},
    "objective_perturbation": {"sigma", "ridge"},
    "shift_walk": {"tail", "steps", "contraction", "sigma", "diameter"},
    "correlated": {"sigma", "steps", "coefficients", "matrix", "uses", "separation"},
    "last_iterate": {"steps", "contraction", "sigma", "diameter", "batches", "delta"},
}


def test_every_constructor_of_a_loss_has_a_truth_and_a_draw() -> None:
    assert matrix.leaves_in_code() == LEAF_PARAMETERS
    assert set(LEAVES) == set(MAKERS) == set(LEAF_PARAMETERS)


def test_every_transformation_has_a_truth_and_a_draw() -> None:
    assert matrix.transformations_in_code() == matrix.PARAMETERS
    drawn_for = {name for names in matrix.DRAWN_AS.values() for name in names}
    assert drawn_for | {"identity"} == set(TRANSFORMATIONS)
    assert set(matrix.DRAWN_AS) == set(matrix.PARAMETERS)


def test_every_readout_has_a_judge() -> None:
    judged = set(matrix.CELLS)
    for name in sorted(matrix.readouts_in_code() - matrix.NOT_NUMBERS):
        assert judged.issuperset(matrix.JUDGED_TOGETHER.get(name, (name,))), f"{name} has no judge in tests/referee"
    assert all(callable(getattr(Asker, name)) for name in READOUTS)


def test_a_draw_is_the_same_for_ever() -> None:
    assert drawn(1, "approx_dp", "sampled", 7).text == drawn(1, "approx_dp", "sampled", 7).text
    assert drawn(1, "approx_dp", "sampled", 7).text != drawn(2, "approx_dp", "sampled", 7).text


@pytest.mark.parametrize(
    "refused",
    [
        "ts.pure_dp(epsilon=1).subset(batch=1, population=2)",
        "ts.randomized_response(epsilon=1).sampled(rate=.5)",
        "ts.randomized_response(epsilon=1).sampled(rate=.5, largest=1, population=2, cut='anyhow')",
        "ts.randomized_response(epsilon=1).allocated(steps=2)",
        "ts.worst(ts.randomized_response(epsilon=1), ts.randomized_response(epsilon=2))",
        "ts.gdp(mu=1).for_groups(2).sampled(rate=.5)",
        "ts.gdp(mu=1).for_groups(2).allocated(steps=2)",
        "ts.gdp(mu=1, adjacency='replace').for_groups(2).subset(batch=1, population=2)",
        "ts.gdp(mu=1).for_groups(2).as_replace()",
        "ts.worst(ts.gdp(mu=1).for_groups(2), ts.gdp(mu=1))",
        "ts.selected(ts.gdp(mu=1).for_groups(2), gamma=.1)",
        "ts.selected(ts.gdp(mu=1), eta=1, gamma=.1, poisson=3)",
        "ts.gdp(mu=1) + ts.gdp(mu=1, adjacency='replace')",
        "ts.gdp(mu=1) + ts.gdp(mu=1).for_groups(2)",
        "ts.zcdp(rho=1).privacy_loss().cdf(0.)",
        "ts.renyi_dp({2: 1}).privacy_loss().mean",
        "ts.gdp(mu=1).for_groups(2).privacy_loss().quantile(.5)",
        "ts.gdp(mu=1) <= ts.gdp(mu=1, adjacency='replace')",
    ],
)
def test_what_has_no_meaning_is_refused_with_a_reason(refused: str) -> None:
    with pytest.raises(ts.errors.InvalidInput):
        eval(refused, {"ts": ts})


def test_an_empty_purse_is_filled_for_the_next_expression() -> None:
    asking.PURSE.left = 0.0
    records = asking.ask_all(drawn(1, "pure_dp", "identity", 0), "purse", ("delta",))
    assert any(record.verdict in ("ok", "loose") for record in records)
