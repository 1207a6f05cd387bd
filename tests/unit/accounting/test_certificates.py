"""Certificates are close to the accountant's own number where that is an edge of the law."""

from __future__ import annotations

import json

import tallystick as ts


def test_a_certificate_at_the_largest_loss_is_close():
    """The tilt went to where the mean is epsilon, beyond all tilts, and the rounding of an empty knot with it."""
    loss = 10 * ts.pure_dp(epsilon=0.5).sampled(rate=0.25)
    claim = json.loads(loss.certificate(delta=1e-9).text)["claim"]
    assert claim["epsilon"] <= loss.epsilon(delta=1e-9) * (1 + 1e-6)
