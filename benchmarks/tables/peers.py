"""The same job with other libraries, in their own environment: opendp[polars] and pipeline-dp."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from run import alone

BUDGET = {"rho": 0.5, "delta": 1e-8}


def opendp(path: str, folder: str) -> int:
    """Count and sum per place; the mean is their quotient. Scales are the same as ours: sqrt(10) * 5 / sqrt(2 rho)."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    data = pl.scan_parquet(path)
    rows = data.select(pl.len()).collect().item()  # float sums ask for a public bound on the length
    context = dp.Context.compositor(
        data=data,
        # with an identifier this is how many identifiers one person has, not how many rows
        privacy_unit=dp.unit_of(contributions=1, identifier="person"),
        privacy_loss=dp.loss_of(rho=BUDGET["rho"], delta=BUDGET["delta"]),
        split_evenly_over=1,
        margins=[
            dp.polars.Margin(by=["place"], max_length=rows, max_groups=10_000),
            dp.polars.Margin(by=[], max_length=rows),
        ],
    )
    # keep="first": the default, a random sample, fails in this version
    query = (
        context.query()
        .truncate_per_group(5, by=["place"], keep="first")
        .truncate_num_groups(10, by=["place"], keep="first")
        .group_by("place")
        .agg(dp.len(), pl.col("amount").fill_null(0.0).fill_nan(0.0).dp.sum((0.0, 100.0)))
    )
    return int(query.release().collect().height)


def pipelinedp(path: str, folder: str) -> int:
    import pipeline_dp
    import polars as pl

    rows = pl.read_parquet(path).rows()
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=3.0, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    metrics = pipeline_dp.Metrics
    parameters = pipeline_dp.AggregateParams(
        metrics=[metrics.COUNT, metrics.SUM, metrics.MEAN],
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=10,
        max_contributions_per_partition=5,
        min_value=0.0,
        max_value=100.0,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    result = engine.aggregate(rows, parameters, extractors)
    accountant.compute_budgets()
    return len(list(result))


JOBS = {"OpenDP/Polars": opendp, "PipelineDP": pipelinedp}

if __name__ == "__main__":
    alone(*sys.argv[2:5], jobs=JOBS)  # type: ignore[misc]
