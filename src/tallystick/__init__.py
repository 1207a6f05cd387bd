"""tallystick: what a release costs in privacy, exactly; and a record of it that lasts.

>>> import tallystick as ts
>>> training = 10_000 * ts.gaussian(sigma=1).sampled(rate=0.01)
>>> round(training.epsilon(delta=1e-5), 3)
6.188
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallystick import errors, lazy

__version__ = "0.2.0.dev0"

_HOMES = {
    "Adjacency": "accounting.adjacency",
    "Direction": "accounting.adjacency",
    "Bounds": "accounting.bounds",
    "PrivacyLoss": "accounting.loss",
    "approx_dp": "accounting.leaves.pure",
    "correlated": "accounting.leaves.correlated",
    "cyclic": "accounting.leaves.last_iterate",
    "discrete_gaussian": "accounting.leaves.discrete",
    "discrete_laplace": "accounting.leaves.discrete",
    "discrete_pair": "accounting.leaves.tabulated",
    "exponential": "accounting.leaves.exponential",
    "from_profile": "accounting.leaves.tabulated",
    "from_tradeoff": "accounting.leaves.tabulated",
    "gaussian": "accounting.leaves.gaussian",
    "gaussian_mixture": "accounting.leaves.mixture",
    "gdp": "accounting.leaves.gaussian",
    "laplace": "accounting.leaves.laplace",
    "last_iterate": "accounting.leaves.last_iterate",
    "no_loss": "accounting.losses",
    "not_private": "accounting.leaves.not_private",
    "objective_perturbation": "accounting.leaves.objective",
    "poisson": "accounting.leaves.last_iterate",
    "propose_test_release": "accounting.leaves.tested",
    "pure_dp": "accounting.leaves.pure",
    "randomized_response": "accounting.leaves.response",
    "renyi_dp": "accounting.leaves.renyi",
    "zcdp": "accounting.leaves.renyi",
    "sampled": "mechanisms.aggregate.sampled",
    "selected": "accounting.leaves.selected",
    "shift_walk": "accounting.leaves.last_iterate",
    "shuffled": "accounting.leaves.last_iterate",
    "sparse_vector": "accounting.leaves.tested",
    "subset": "accounting.leaves.last_iterate",
    "worst": "accounting.leaves.nested",
    "connect": "client.team",
    "Ledger": "ledger.book",
    "Partition": "ledger.partition",
    "Receipt": "ledger.pay",
    "attack_goal": "accounting.calibrate",
    "belief_goal": "accounting.calibrate",
    "calibrate": "accounting.calibrate",
    "compare": "theorems.compare",
    "explain": "cards.explanation",
    "Private": "tables.private",
    "each_row": "tables.steps",
    "linear_regression": "publish.models",
    "made_up_rows": "publish.rehearse",
    "rehearse": "publish.rehearse",
    "sql": "publish.sql",
    "suggest_caps": "publish.suggest",
    "col": "tables.expressions",
    "when": "tables.expressions",
    "missing": "tables.expressions",
    "private_keys": "tables.keyset",
    "lag": "tables.unit_functions",
    "lead": "tables.unit_functions",
    "row_number": "tables.unit_functions",
    "rank": "tables.unit_functions",
    "dense_rank": "tables.unit_functions",
    "unit_count": "tables.unit_functions",
    "unit_count_distinct": "tables.unit_functions",
    "unit_max": "tables.unit_functions",
    "unit_mean": "tables.unit_functions",
    "unit_min": "tables.unit_functions",
    "unit_sum": "tables.unit_functions",
    "count": "tables.measures",
    "count_units": "tables.measures",
    "rows": "tables.measures",
    "people": "tables.measures",
    "sum": "tables.measures",
    "mean": "tables.measures",
    "variance": "tables.measures",
    "standard_deviation": "tables.measures",
    "median": "tables.measures",
    "quantile": "tables.measures",
    "histogram": "tables.measures",
    "rows_over_cap": "tables.measures",
    "units_over_cap": "tables.measures",
}
_ROOMS = {
    "theorems": "theorems",
    "adaptive": "adaptive",
    "aggregate": "mechanisms.aggregate",
    "audit": "audit",
    "inference": "inference",
    "keys": "mechanisms.keys",
    "learn": "learn",
    "noise": "mechanisms.noise",
    "response": "mechanisms.response",
    "plots": "plots",
    "select": "mechanisms.select",
    "testing": "testing",
}

__all__ = ["__version__", "errors", *_HOMES, *_ROOMS]

if TYPE_CHECKING:
    from tallystick import adaptive as adaptive
    from tallystick import audit as audit
    from tallystick import inference as inference
    from tallystick import learn as learn
    from tallystick import plots as plots
    from tallystick import testing as testing
    from tallystick import theorems as theorems
    from tallystick.accounting.adjacency import Adjacency as Adjacency
    from tallystick.accounting.adjacency import Direction as Direction
    from tallystick.accounting.bounds import Bounds as Bounds
    from tallystick.accounting.calibrate import attack_goal as attack_goal
    from tallystick.accounting.calibrate import belief_goal as belief_goal
    from tallystick.accounting.calibrate import calibrate as calibrate
    from tallystick.accounting.loss import PrivacyLoss as PrivacyLoss
    from tallystick.accounting.losses import approx_dp as approx_dp
    from tallystick.accounting.losses import correlated as correlated
    from tallystick.accounting.losses import cyclic as cyclic
    from tallystick.accounting.losses import discrete_gaussian as discrete_gaussian
    from tallystick.accounting.losses import discrete_laplace as discrete_laplace
    from tallystick.accounting.losses import discrete_pair as discrete_pair
    from tallystick.accounting.losses import exponential as exponential
    from tallystick.accounting.losses import from_profile as from_profile
    from tallystick.accounting.losses import from_tradeoff as from_tradeoff
    from tallystick.accounting.losses import gaussian as gaussian
    from tallystick.accounting.losses import gaussian_mixture as gaussian_mixture
    from tallystick.accounting.losses import gdp as gdp
    from tallystick.accounting.losses import laplace as laplace
    from tallystick.accounting.losses import last_iterate as last_iterate
    from tallystick.accounting.losses import no_loss as no_loss
    from tallystick.accounting.losses import not_private as not_private
    from tallystick.accounting.losses import objective_perturbation as objective_perturbation
    from tallystick.accounting.losses import poisson as poisson
    from tallystick.accounting.losses import propose_test_release as propose_test_release
    from tallystick.accounting.losses import pure_dp as pure_dp
    from tallystick.accounting.losses import randomized_response as randomized_response
    from tallystick.accounting.losses import renyi_dp as renyi_dp
    from tallystick.accounting.losses import selected as selected
    from tallystick.accounting.losses import shift_walk as shift_walk
    from tallystick.accounting.losses import shuffled as shuffled
    from tallystick.accounting.losses import sparse_vector as sparse_vector
    from tallystick.accounting.losses import subset as subset
    from tallystick.accounting.losses import worst as worst
    from tallystick.accounting.losses import zcdp as zcdp
    from tallystick.cards.explanation import explain as explain
    from tallystick.client.team import connect as connect
    from tallystick.ledger.book import Ledger as Ledger
    from tallystick.ledger.partition import Partition as Partition
    from tallystick.ledger.pay import Receipt as Receipt
    from tallystick.mechanisms import aggregate as aggregate
    from tallystick.mechanisms import keys as keys
    from tallystick.mechanisms import noise as noise
    from tallystick.mechanisms import response as response
    from tallystick.mechanisms import select as select
    from tallystick.mechanisms.aggregate.sampled import sampled as sampled
    from tallystick.publish.models import linear_regression as linear_regression
    from tallystick.publish.rehearse import made_up_rows as made_up_rows
    from tallystick.publish.rehearse import rehearse as rehearse
    from tallystick.publish.sql import sql as sql
    from tallystick.publish.suggest import suggest_caps as suggest_caps
    from tallystick.tables.expressions import col as col
    from tallystick.tables.expressions import missing as missing
    from tallystick.tables.expressions import when as when
    from tallystick.tables.keyset import private_keys as private_keys
    from tallystick.tables.measures import count as count
    from tallystick.tables.measures import count_units as count_units
    from tallystick.tables.measures import histogram as histogram
    from tallystick.tables.measures import mean as mean
    from tallystick.tables.measures import median as median
    from tallystick.tables.measures import people as people
    from tallystick.tables.measures import quantile as quantile
    from tallystick.tables.measures import rows as rows
    from tallystick.tables.measures import rows_over_cap as rows_over_cap
    from tallystick.tables.measures import standard_deviation as standard_deviation
    from tallystick.tables.measures import sum as sum
    from tallystick.tables.measures import units_over_cap as units_over_cap
    from tallystick.tables.measures import variance as variance
    from tallystick.tables.private import Private as Private
    from tallystick.tables.steps import each_row as each_row
    from tallystick.tables.unit_functions import dense_rank as dense_rank
    from tallystick.tables.unit_functions import lag as lag
    from tallystick.tables.unit_functions import lead as lead
    from tallystick.tables.unit_functions import rank as rank
    from tallystick.tables.unit_functions import row_number as row_number
    from tallystick.tables.unit_functions import unit_count as unit_count
    from tallystick.tables.unit_functions import unit_count_distinct as unit_count_distinct
    from tallystick.tables.unit_functions import unit_max as unit_max
    from tallystick.tables.unit_functions import unit_mean as unit_mean
    from tallystick.tables.unit_functions import unit_min as unit_min
    from tallystick.tables.unit_functions import unit_sum as unit_sum
    from tallystick.theorems.compare import compare as compare

__getattr__, __dir__ = lazy.names(__name__, _HOMES, _ROOMS)


def load_ipython_extension(shell: object) -> None:
    """Hook of ``%load_ext tallystick``: cells that begin with ``%%tallystick`` are asked in SQL."""
    from importlib import import_module

    import_module("tallystick.cli.notebook").load(shell)  # by name: the command line stands on top of all rooms
