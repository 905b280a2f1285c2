"""The metrics collector, which reads the server's own counters at each scrape.

Scrapes run on threads of their own. They read plain numbers, one by one, and take no lock that
the event loop needs. After each family they let the event loop run, so that it does not wait for
the whole text.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CollectorRegistry,
    GCCollector,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.registry import Collector

from offsetd_coordinator.counters import CODES, BackupCounters, ExpiryCounters
from offsetd_coordinator.node import NodeState
from offsetd_coordinator.observability.metrics.access_metrics import access_families
from offsetd_coordinator.observability.metrics.backup_metrics import backup_families
from offsetd_coordinator.observability.metrics.cluster_metrics import cluster_families
from offsetd_coordinator.observability.metrics.commit_metrics import commit_families
from offsetd_coordinator.observability.metrics.expiry_metrics import expiry_families
from offsetd_coordinator.observability.metrics.families import (
    counter,
    counters,
    gauge,
    gauges_of,
    histogram,
    histograms,
)
from offsetd_coordinator.observability.metrics.lag_metrics import lag_families
from offsetd_coordinator.observability.metrics.upkeep_metrics import upkeep_families
from offsetd_coordinator.status_codes import StatusCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsetd_storage.clock import Clock
    from offsetd_storage.log_store import LogStore
    from prometheus_client import Metric

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.counters import CallCounters
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.observability.cleaner_log import CleanerLog
    from offsetd_coordinator.runtime.runtime import Runtime


# The scrape sleeps this long, so that a thread that waits for the interpreter can run.
_PAUSE_SECONDS: Final = 0.0001


class ServerCollector(Collector):
    """All metrics of one server. Parts that do not exist yet have no samples, as during a load."""

    def __init__(
        self,
        node: Node,
        admission: Admission,
        figures: CallCounters,
        cleaner_log: CleanerLog,
        clock: Clock,
        *,
        expiry: ExpiryCounters | None = None,
        backups: BackupCounters | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.load_seconds: float | None = None
        self._node = node
        self._admission = admission
        self._counters = figures
        self._cleaner_log = cleaner_log
        self._clock = clock
        self._expiry = expiry or ExpiryCounters()
        self._backups = backups or BackupCounters()
        self._sleep = sleep

    def collect(self) -> Iterator[Metric]:
        """Yields all metric families for one scrape."""
        for family in self._families():
            yield family
            self._sleep(_PAUSE_SECONDS)

    def _families(self) -> Iterator[Metric]:
        yield from call_families(self._counters)
        yield from access_families(self._counters.access)
        yield from admission_families(self._admission)
        yield from node_families(self._node.state, self.load_seconds)
        runtime = self._node.runtime
        if runtime is None:
            return
        yield from runtime_families(runtime)
        yield from commit_families(
            runtime.commit_guards, monotonic_ms=runtime.moment().monotonic_ms
        )
        if runtime.store is not None:
            yield from store_families(runtime.store)
        if self._node.cluster_counters is not None:
            report = self._node.cluster_report
            lags = {} if report is None else report().copy_lags
            yield from cluster_families(self._node.cluster_counters, runtime, lags)
        yield from expiry_families(self._expiry)
        survey = self._node.lag_survey
        if survey is not None and survey.report is not None:
            yield from lag_families(survey.report)
        yield from backup_families(self._backups)
        if runtime.store is not None and runtime.upkeep is not None:
            yield from upkeep_families(
                runtime.upkeep,
                runtime.store,
                self._cleaner_log.totals,
                now_ms=self._clock.now_ms(),
            )


def registry_of(collector: Collector) -> CollectorRegistry:
    """A registry with the collector and with prometheus_client's process metrics."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def call_families(figures: CallCounters) -> Iterator[Metric]:
    """Metrics of calls, streams, watchers and the event loop."""
    methods = sorted(figures.methods.items())
    streams = figures.streams
    yield counters(
        "offsetd_rpcs_total",
        "Calls that have ended, by gRPC code.",
        ("method", "code"),
        (
            ((method, code), count)
            for method, each in methods
            for code, count in zip(CODES, each.codes, strict=True)
            if count or code == StatusCode.OK.name
        ),
    )
    yield histograms(
        "offsetd_rpc_duration_seconds",
        "Time from a call's arrival to its answer. For a stream, the time that it was open.",
        "method",
        ((method, each.durations) for method, each in methods),
    )
    yield histogram(
        "offsetd_event_loop_delay_seconds",
        "How late the event loop was, measured ten times a second. New calls wait that long.",
        figures.loop_delays,
    )
    yield histogram(
        "offsetd_event_loop_hold_seconds",
        "Lower bound of the event loop thread's processor time while the loop was late.",
        figures.loop_holds,
    )
    yield gauge("offsetd_open_streams", "Open calls of StreamCommits.", streams.open_streams)
    yield counters(
        "offsetd_stream_results_total",
        "Commits in streams that were answered, by gRPC code.",
        ("code",),
        (
            ((code,), count)
            for code, count in zip(CODES, streams.result_codes, strict=True)
            if count or code == StatusCode.OK.name
        ),
    )
    yield histogram(
        "offsetd_stream_message_duration_seconds",
        "Time from the arrival of a stream's message to the last of its results.",
        streams.message_durations,
    )
    yield gauge(
        "offsetd_watchers",
        "Open calls of WatchOffsets, at most watch.watchers.max.",
        figures.watches.watchers,
    )
    yield counter(
        "offsetd_watchers_cut_off_total",
        "Calls of WatchOffsets that ended because the client did not read for watch.idle.max.ms.",
        figures.watches.cut_off,
    )


def admission_families(admission: Admission) -> Iterator[Metric]:
    """Metrics of admission, and of connections closed for its limits."""
    yield gauge(
        "offsetd_requests_in_flight",
        "Requests and stream messages that are not answered yet.",
        admission.requests,
    )
    yield gauge(
        "offsetd_request_in_flight_bytes",
        "Bytes of requests that are not answered yet. Above queued.max.request.bytes, calls are"
        " refused.",
        admission.bytes_taken,
    )
    yield gauge(
        "offsetd_request_in_flight_limit_bytes",
        "The limit queued.max.request.bytes.",
        admission.bytes_max,
    )
    yield gauge(
        "offsetd_answer_in_flight_bytes",
        "Bytes of answers that are being built or were not read yet, at most half of"
        " queued.max.request.bytes.",
        admission.answers.bytes_held,
    )
    yield counters(
        "offsetd_connections_closed_total",
        "Connections that were closed because of the memory that they held, or to make room for"
        " new ones.",
        ("reason",),
        (((reason,), count) for reason, count in admission.connections.closed.items()),
    )


def node_families(state: NodeState, load_seconds: float | None) -> Iterator[Metric]:
    """Metrics of the server as a whole."""
    yield gauge(
        "offsetd_serving",
        "1 while the server accepts calls, 0 while the log loads or the server drains.",
        float(state is NodeState.SERVING),
    )
    yield gauge("offsetd_load_seconds", "Time to open the folder and load its log.", load_seconds)


def runtime_families(runtime: Runtime) -> Iterator[Metric]:
    """Metrics of flushes, and of the shards' contents."""
    yield histogram(
        "offsetd_flush_duration_seconds",
        "Duration of each flush: the journal's write and fdatasync.",
        runtime.log.flush_durations,
    )
    yield gauge(
        "offsetd_flush_waiting_batches",
        "Record batches that are appended but not durable yet.",
        runtime.log.batches_not_durable,
    )
    yield gauge(
        "offsetd_storage_failed",
        "1 once the disk has failed: no more commits are acknowledged, and the server ends.",
        float(runtime.failed is not None),
    )
    shards = [(str(partition), shard) for partition, shard in sorted(runtime.shards.items())]
    yield from gauges_of(
        "partition",
        shards,
        (
            "offsetd_offsets",
            "Committed offsets, by log partition.",
            lambda shard: shard.offset_count,
        ),
        (
            "offsetd_groups",
            "Groups that have offsets, by log partition.",
            lambda shard: shard.groups_with_offsets,
        ),
    )
    yield gauge(
        "offsetd_useless_records",
        "Records read that have an unknown type, or that could not be decoded.",
        sum(shard.useless_records for _, shard in shards),
    )


def store_families(store: LogStore) -> Iterator[Metric]:
    """Metrics of the logs and the journal."""
    yield histogram(
        "offsetd_journal_fsync_duration_seconds",
        "Duration of each fdatasync of the journal.",
        store.journal_sync_durations,
    )
    yield gauge(
        "offsetd_journal_used_ratio",
        "Bytes written to the journal since the recovery points moved, divided by the size of one"
        " journal file. Above 1, flushes wait.",
        store.journal_used_ratio,
    )
    yield gauge(
        "offsetd_journal_size_bytes",
        "Size of both journal files on the disk. It shrinks while nothing is written.",
        store.journal_size.size_bytes,
    )
    yield gauge(
        "offsetd_quarantined_partitions",
        "Damaged log partitions, which are not served.",
        len(store.quarantined),
    )
    logs = sorted((str(each), log) for each, log in tuple(store.logs.items()))
    yield from gauges_of(
        "partition",
        logs,
        (
            "offsetd_log_size_bytes",
            "Kafka's Size: bytes in the segments of a log.",
            lambda log: log.size_bytes,
        ),
        ("offsetd_log_segments", "Kafka's NumLogSegments.", lambda log: len(log.segments)),
        ("offsetd_log_start_offset", "Kafka's LogStartOffset.", lambda log: log.log_start_offset),
        ("offsetd_log_end_offset", "Kafka's LogEndOffset.", lambda log: log.offset_next),
    )
