"""Metrics of a node of a cluster."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from offsetd_coordinator.observability.metrics.families import counter, gauge, gauges, histogram
from offsetd_coordinator.runtime.commit_log import PartitionState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client import Metric

    from offsetd_coordinator.counters import ClusterCounters
    from offsetd_coordinator.runtime.runtime import Runtime


def cluster_families(
    figures: ClusterCounters, runtime: Runtime, copy_lags: Mapping[int, int]
) -> Iterator[Metric]:
    """Metrics of the partitions that the node has, of its transactions and of its copies."""
    log = runtime.log
    states = Counter(log.state(partition) for partition in range(log.partitions))
    yield gauge("offsetd_cluster_log_partitions", "Log partitions of the cluster.", log.partitions)
    yield gauge(
        "offsetd_cluster_nodes",
        "Nodes of the cluster that this node knows of, itself among them.",
        0 if runtime.directory is None else len(runtime.directory.nodes()),
    )
    yield gauges(
        "offsetd_cluster_partitions",
        "Log partitions of this node, by state. Released ones are with another node, or with none.",
        "state",
        ((state.value, states[state]) for state in PartitionState),
    )
    yield counter(
        "offsetd_cluster_taken_partitions_total",
        "Log partitions that this node has taken over.",
        figures.taken_partitions,
    )
    yield histogram(
        "offsetd_cluster_takeover_duration_seconds",
        "Time to take over the partitions that were assigned at once, until they are served.",
        figures.takeover_durations,
    )
    yield counter(
        "offsetd_cluster_lost_partitions_total",
        "Log partitions that were lost: another node may have got them before this one gave them"
        " up.",
        figures.lost_partitions,
    )
    yield counter(
        "offsetd_cluster_transaction_retries_total",
        "Kafka transactions that failed and were sent again.",
        figures.transaction_retries,
    )
    yield counter(
        "offsetd_cluster_producer_replacements_total",
        "Times that all Kafka producers were replaced, because one did not answer.",
        figures.producer_replacements,
    )
    yield gauges(
        "offsetd_cluster_copy_lag_records",
        "Kafka records that a copy on this node's disk is behind, by log partition.",
        "partition",
        ((f"__consumer_offsets-{each}", lag) for each, lag in sorted(copy_lags.items())),
    )
