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

from offsetd_coordinator.figures import CODES, OK, ExpiryFigures
from offsetd_coordinator.node import NodeState
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
from offsetd_coordinator.observability.metrics.upkeep_metrics import upkeep_families

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsetd_storage.clock import Clock
    from offsetd_storage.log_store import LogStore
    from prometheus_client import Metric

    from offsetd_coordinator.calls.admission import Admission
    from offsetd_coordinator.figures import CallFigures
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.observability.cleaner_log import CleanerLog
    from offsetd_coordinator.runtime.runtime import Runtime


_PAUSE_SECONDS: Final = 0.0001  # Long enough for a waiting thread to run.


class ServerCollector(Collector):
    """All metrics of one server; parts that do not exist yet, as during a load, have no samples."""

    def __init__(
        self,
        node: Node,
        admission: Admission,
        figures: CallFigures,
        cleaner_log: CleanerLog,
        clock: Clock,
        *,
        expiry: ExpiryFigures | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.load_seconds: float | None = None
        self._node = node
        self._admission = admission
        self._figures = figures
        self._cleaner_log = cleaner_log
        self._clock = clock
        self._expiry = expiry or ExpiryFigures()
        self._sleep = sleep

    def collect(self) -> Iterator[Metric]:
        """The families, for one scrape."""
        for family in self._families():
            yield family
            self._sleep(_PAUSE_SECONDS)

    def _families(self) -> Iterator[Metric]:
        yield from call_families(self._figures)
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
        yield from expiry_families(self._expiry)
        if runtime.store is not None and runtime.upkeep is not None:
            yield from upkeep_families(
                runtime.upkeep,
                runtime.store,
                self._cleaner_log.totals,
                now_ms=self._clock.now_ms(),
            )


def registry_of(collector: Collector) -> CollectorRegistry:
    """The registry for scrapes: the collector, and prometheus_client's process metrics."""
    registry = CollectorRegistry()
    registry.register(collector)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


def call_families(figures: CallFigures) -> Iterator[Metric]:
    """Calls, streams and watchers."""
    methods = sorted(figures.methods.items())
    streams = figures.streams
    yield counters(
        "offsetd_rpcs_total",
        "Calls that have ended, by gRPC's code.",
        ("method", "code"),
        (
            ((method, code), count)
            for method, each in methods
            for code, count in zip(CODES, each.codes, strict=True)
            if count or code == CODES[OK]
        ),
    )
    yield histograms(
        "offsetd_rpc_duration_seconds",
        "From a call's arrival to its answer; what a stream takes is as long as it is open.",
        "method",
        ((method, each.durations) for method, each in methods),
    )
    yield histogram(
        "offsetd_event_loop_delay_seconds",
        "How late the event loop was, ten times a second: as long calls wait that have come.",
        figures.loop_delays,
    )
    yield histogram(
        "offsetd_event_loop_hold_seconds",
        "Processor time of the event loop's thread while the loop was late, at least.",
        figures.loop_holds,
    )
    yield gauge("offsetd_open_streams", "Calls of StreamCommits.", streams.open_streams)
    yield counters(
        "offsetd_stream_results_total",
        "Commits in streams that were answered, by gRPC's code.",
        ("code",),
        (
            ((code,), count)
            for code, count in zip(CODES, streams.result_codes, strict=True)
            if count or code == CODES[OK]
        ),
    )
    yield histogram(
        "offsetd_stream_message_duration_seconds",
        "From a stream's message to the last of its results.",
        streams.message_durations,
    )
    yield gauge(
        "offsetd_watchers",
        "Calls of WatchOffsets; watch.watchers.max at most.",
        figures.watches.watchers,
    )
    yield counter(
        "offsetd_watchers_cut_off_total",
        "Those that ended as what was sent was not read for watch.idle.max.ms.",
        figures.watches.cut_off,
    )


def admission_families(admission: Admission) -> Iterator[Metric]:
    """Metrics of admission, and of connections closed for its limits."""
    yield gauge(
        "offsetd_requests_in_flight",
        "Requests and messages of streams that are not answered yet.",
        admission.requests,
    )
    yield gauge(
        "offsetd_request_in_flight_bytes",
        "What those take; beyond queued.max.request.bytes calls are refused.",
        admission.bytes_taken,
    )
    yield gauge(
        "offsetd_request_in_flight_limit_bytes", "queued.max.request.bytes.", admission.bytes_max
    )
    yield gauge(
        "offsetd_answer_in_flight_bytes",
        "What answers take that are built or not read yet; at most half of the same limit.",
        admission.answers.bytes_held,
    )
    yield counters(
        "offsetd_connections_closed_total",
        "Those that were closed for what they held, or as others came.",
        ("reason",),
        (((reason,), count) for reason, count in admission.connections.closed.items()),
    )


def node_families(state: NodeState, load_seconds: float | None) -> Iterator[Metric]:
    """The server as a whole."""
    yield gauge(
        "offsetd_serving",
        "1 while calls are taken; 0 while the log loads, or the server drains.",
        float(state is NodeState.SERVING),
    )
    yield gauge(
        "offsetd_load_seconds", "What opening the folder and loading its log took.", load_seconds
    )


def runtime_families(runtime: Runtime) -> Iterator[Metric]:
    """Metrics of flushes, and of the shards' contents."""
    yield histogram(
        "offsetd_flush_duration_seconds",
        "Group commits: the journal's write and fdatasync.",
        runtime.log.flush_durations,
    )
    yield gauge(
        "offsetd_flush_waiting_batches",
        "Record batches that were appended and are not durable yet.",
        runtime.log.batches_not_durable,
    )
    yield gauge(
        "offsetd_storage_failed",
        "1 once the disk has failed: nothing more is acknowledged, the server ends.",
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
        "Records that were read of a type that is not known, or that could not be decoded.",
        sum(shard.useless_records for _, shard in shards),
    )


def store_families(store: LogStore) -> Iterator[Metric]:
    """The logs and the journal."""
    yield histogram(
        "offsetd_journal_fsync_duration_seconds",
        "Each fdatasync of the journal.",
        store.journal_sync_durations,
    )
    yield gauge(
        "offsetd_journal_used_ratio",
        "What the journal took since the recovery points moved, of one of its files; above 1"
        " flushes wait.",
        store.journal_used_ratio,
    )
    yield gauge(
        "offsetd_journal_size_bytes",
        "What both files of the journal take: less while nothing is written.",
        store.journal_room.size_bytes,
    )
    yield gauge(
        "offsetd_quarantined_partitions",
        "Log partitions that are damaged and not served.",
        len(store.quarantined),
    )
    logs = sorted((str(each), log) for each, log in tuple(store.logs.items()))
    yield from gauges_of(
        "partition",
        logs,
        (
            "offsetd_log_size_bytes",
            "Kafka's Size: what the segments of a log take.",
            lambda log: log.size_bytes,
        ),
        ("offsetd_log_segments", "Kafka's NumLogSegments.", lambda log: len(log.segments)),
        ("offsetd_log_start_offset", "Kafka's LogStartOffset.", lambda log: log.log_start_offset),
        ("offsetd_log_end_offset", "Kafka's LogEndOffset.", lambda log: log.offset_next),
    )
