"""Everything that adds noise: ``ts.noise.add_laplace``, ``ts.noise.add_gaussian``, ``ts.noise.add_knorm``, ..."""

from tallystick.mechanisms.noise.additive import AdditiveNoise
from tallystick.mechanisms.noise.gaussian import add_discrete_gaussian, add_gaussian
from tallystick.mechanisms.noise.knorm import add_knorm
from tallystick.mechanisms.noise.laplace import add_discrete_laplace, add_laplace
from tallystick.mechanisms.noise.sensitivity import Clamp, Sensitivity, clamp, exact_sum, sensitivity_of

__all__ = [
    "AdditiveNoise",
    "Clamp",
    "Sensitivity",
    "add_discrete_gaussian",
    "add_discrete_laplace",
    "add_gaussian",
    "add_knorm",
    "add_laplace",
    "clamp",
    "exact_sum",
    "sensitivity_of",
]
