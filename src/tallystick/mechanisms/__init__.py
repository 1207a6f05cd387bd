"""Draws noise: entropy, exact samplers, additive noise, selection, response, quantiles, thresholds. Remembers nothing.

Start at ``base`` (what a mechanism is), ``randomness`` (where bits come from) and ``samplers`` (exact laws);
``noise`` holds the verbs that add noise.
"""
