"""The nouns: constructors of privacy losses, each in the file of its leaf. Scales are in units of the sensitivity."""

from __future__ import annotations

from typing import Any

from tallystick.accounting.adjacency import Adjacency
from tallystick.accounting.leaves import allocated as allocated  # made by methods of a loss, as the next four
from tallystick.accounting.leaves import nested as nested
from tallystick.accounting.leaves import sampled as sampled
from tallystick.accounting.leaves import truncated as truncated
from tallystick.accounting.leaves import with_replacement as with_replacement
from tallystick.accounting.leaves.correlated import correlated as correlated
from tallystick.accounting.leaves.discrete import discrete_gaussian as discrete_gaussian
from tallystick.accounting.leaves.discrete import discrete_laplace as discrete_laplace
from tallystick.accounting.leaves.exponential import exponential as exponential
from tallystick.accounting.leaves.gaussian import gaussian as gaussian
from tallystick.accounting.leaves.gaussian import gdp as gdp
from tallystick.accounting.leaves.laplace import laplace as laplace
from tallystick.accounting.leaves.last_iterate import cyclic as cyclic
from tallystick.accounting.leaves.last_iterate import last_iterate as last_iterate
from tallystick.accounting.leaves.last_iterate import poisson as poisson
from tallystick.accounting.leaves.last_iterate import shift_walk as shift_walk
from tallystick.accounting.leaves.last_iterate import shuffled as shuffled
from tallystick.accounting.leaves.last_iterate import subset as subset
from tallystick.accounting.leaves.mixture import gaussian_mixture as gaussian_mixture
from tallystick.accounting.leaves.nested import worst as worst
from tallystick.accounting.leaves.not_private import not_private as not_private
from tallystick.accounting.leaves.objective import objective_perturbation as objective_perturbation
from tallystick.accounting.leaves.pure import approx_dp as approx_dp
from tallystick.accounting.leaves.pure import pure_dp as pure_dp
from tallystick.accounting.leaves.renyi import renyi_dp as renyi_dp
from tallystick.accounting.leaves.renyi import zcdp as zcdp
from tallystick.accounting.leaves.response import randomized_response as randomized_response
from tallystick.accounting.leaves.selected import selected as selected
from tallystick.accounting.leaves.tabulated import discrete_pair as discrete_pair
from tallystick.accounting.leaves.tabulated import from_profile as from_profile
from tallystick.accounting.leaves.tabulated import from_tradeoff as from_tradeoff
from tallystick.accounting.leaves.tested import propose_test_release as propose_test_release
from tallystick.accounting.leaves.tested import sparse_vector as sparse_vector
from tallystick.accounting.loss import PrivacyLoss, constructor, loss_of


@constructor
def no_loss(*, adjacency: Any = Adjacency.ADD_REMOVE, unit: str | None = None) -> PrivacyLoss:
    """Nothing was released.

    >>> no_loss().epsilon(delta=0)
    0.0
    """
    return loss_of(None, adjacency, unit)
