"""Random numbers whose law is exactly the stated one: nothing here is an approximation by floating point.

    randomness        where every random bit comes from
    lattice           the public lattice of released numbers, and exact rounding to it
    uniform           uniform integers
    integer_noise     discrete Laplace and discrete Gaussian noise, vectorised: exp between integers, lazy inversion
    coins             True with any computable probability
    weighted_choice   an index with probability proportional to count * exp(-exponent)
    lazy_noise        continuous noise whose bits are drawn as needed, and the largest of noisy scores
    intervals         decimals that provably contain a real number: what settles the rare close decision

Parameters are read as exact rationals: an ``int``, a ``Fraction``, or a ``float`` taken at its exact binary value.
Floating point is used only to rule out, with a margin thousands of times its error, draws that cannot be close to a
boundary; the few that remain are settled with integers or decimals.
"""
