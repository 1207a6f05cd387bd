"""Exact samplers, vectorised. A sampler is a file; each takes exact parameters, ``size`` and a ``Source``.

    uniform.integers(upper, size=, source=)                       uniform on 0 .. upper-1
    uniform.dyadics(lower, upper, bits=, size=, source=)          uniform on the multiples of 2^-bits in [lower, upper)
    bernoulli.bernoulli(probability, size=, source=)              exact rational probability
    bernoulli.bernoulli_exp(exponent, size=, source=)             True with probability exp(-exponent)
    geometric.geometric(exponent, size=, source=)                 P(k) proportional to exp(-k exponent), k >= 0
    discrete_laplace.discrete_laplace(scale, size=, source=)      P(k) proportional to exp(-|k| / scale)
    discrete_gaussian.discrete_gaussian(sigma, size=, source=)    P(k) proportional to exp(-k^2 / (2 sigma^2))

Choices among weighted candidates are drawn by ``mechanisms.exact.weighted_choice``.

Parameters are read as exact rationals: an ``int``, a ``Fraction``, or a ``float`` taken at its exact binary value.
"Exact" means that the law of the output is the stated one. Floating point is used only to rule out, with a margin
thousands of times its error, draws that cannot be close to a boundary; the few that remain are settled with integers.
Arrays of integers come back as int64. Each function is a module attribute; import the module or the name.
"""
