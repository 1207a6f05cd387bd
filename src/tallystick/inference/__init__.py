"""Inference on what was released: intervals, tests, planning and free improvements. Everything here is post-processing.

    ill = ts.inference.Released(412, noise=mechanism, about="ill patients", of=10_000)
    ill.noise_interval()         how far from the table's own value: over the privacy noise alone
    ill.population_interval()    the population behind the sample: over sampling and noise

Two questions, two names. Every interval says what it is about and whether it holds for every sample size or for large
samples only. Where nothing valid is known the answer is a refusal that says what works.
"""

from __future__ import annotations

from tallystick import lazy

_HOMES: dict[str, str] = {
    "Answer": "released",
    "Combined": "combined",
    "Contrast": "contrasts",
    "Interval": "interval",
    "LocalMean": "local",
    "LocalShare": "local",
    "Mean": "means",
    "Noise": "noise",
    "Quantile": "quantiles",
    "Released": "released",
    "Statistics": "regression",
    "Verdict": "hypotheses",
    "bootstrap_interval": "simulate",
    "cells": "released",
    "combine": "combined",
    "consistent_table": "combined",
    "difference": "contrasts",
    "effective_sample_size": "planning",
    "from_csv": "stored",
    "from_reports": "local",
    "independent": "hypotheses",
    "least_budget": "planning",
    "least_samples": "planning",
    "line": "regression",
    "mean_equals": "hypotheses",
    "posterior_share": "combined",
    "power": "planning",
    "ratio": "contrasts",
    "repro_interval": "simulate",
    "same_mean": "hypotheses",
    "same_share": "hypotheses",
    "share_equals": "hypotheses",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = lazy.names(__name__, _HOMES)
