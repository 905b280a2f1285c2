"""What a server needs for a workload: disk, memory, cores, descriptors, from measured constants.

`tests/fault/test_sizing.py` loads a server, and compares.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
from offsetd_storage.log.store_config import OFFSETS_PARTITIONS_DEFAULT

from offsetd_coordinator.network.connection_limits import connections_beyond
from offsetd_coordinator.server_folder import DESCRIPTORS_BESIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetd_coordinator.configuration.server_settings import Settings

MIB: Final = 1 << 20
DAY_S: Final = 86_400


class Measured(NamedTuple):
    """A constant, and how it was measured."""

    value: float
    unit: str
    how: str


# Measured on 2026-11-28, Python 3.11, x86-64, but where a page is named.
MEASURED: Final[dict[str, Measured]] = {
    "process": Measured(62 * 10**6, "bytes", "RssAnon of a server without groups"),
    "mapped files": Measured(80 * 10**6, "bytes", "RssFile of a server; up to 150 MB were seen"),
    "working memory": Measured(8 * 10**6, "bytes", "what the first 100,000 commits add to it"),
    "offset": Measured(34, "bytes", "docs/performance.md, `memory`"),
    "group": Measured(110, "bytes", "100,000 groups of one offset, less offsets and requests"),
    "block": Measured(44, "bytes", "a row and its slots, for 64 partitions of a group and topic"),
    "lag window": Measured(217, "bytes", "the same offsets, with and without reported ends"),
    "request id": Measured(64, "bytes", "a row and its slots"),
    "batch": Measured(113, "bytes", "a commit's header and request id in a segment"),
    "record": Measured(42, "bytes", "an offset in a segment, without the names"),
    "commit": Measured(95, "µs of a core", "docs/performance.md: 10,500 commits/s on a stream"),
    "further offset": Measured(1.1, "µs of a core", "docs/performance.md: 50 partitions a commit"),
}
INDEX_SHARE: Final = 0.02  # Of a segment: its two indexes.
LOOP_SHARE_MAX: Final = 0.7  # Above it, commits wait for the event loop.
BLOCK_PARTITIONS: Final = 64


@attrs.frozen(kw_only=True)
class Workload:
    """The load by clients. Names are in bytes; a commit has partitions of one group and topic."""

    groups: int
    partitions: int
    """Per group."""
    commits_per_second: float
    offsets_per_commit: int
    history_days: float
    reports_ends: bool = True
    name_bytes: int = 20
    """The length of a group's id, and of a topic's name."""

    @property
    def offsets(self) -> int:
        """Offsets that are stored."""
        return self.groups * self.partitions

    def commit_bytes(self, offsets: int) -> float:
        """The bytes of a commit in a segment."""
        return _of("batch") + offsets * (_of("record") + 2 * self.name_bytes)


class Need(NamedTuple):
    """A part of what is needed: `amount` bytes of disk or memory, cores, or descriptors."""

    resource: str
    what: str
    amount: float
    why: str


def needs(workload: Workload, settings: Settings) -> list[Need]:
    """All parts, each resource with its total last."""
    parts = [
        *_memory(workload, settings),
        *_disk(workload, settings),
        *_cores(workload),
        *_descriptors(settings),
    ]
    found: list[Need] = []
    for resource in dict.fromkeys(part.resource for part in parts):
        of_it = [part for part in parts if part.resource == resource]
        total = sum(part.amount for part in of_it)
        if resource == "cores":
            total = max(2, math.ceil(total))
        found += [*of_it, Need(resource, "total", total, "")]
    return found


def loop_share(workload: Workload) -> float:
    """How busy the commits keep the event loop, which is one thread."""
    us = _of("commit") + _of("further offset") * (workload.offsets_per_commit - 1)
    return workload.commits_per_second * us / 1e6


def _of(name: str) -> float:
    return MEASURED[name].value


def _memory(workload: Workload, settings: Settings) -> Iterator[Need]:
    blocks = workload.groups * math.ceil(workload.partitions / BLOCK_PARTITIONS)
    stored = workload.offsets * _of("offset") + workload.groups * _of("group")
    stored += blocks * _of("block")
    ids = min(
        workload.commits_per_second * settings.request_id_window_ms / 1000,
        float(settings.request_ids_per_partition_max * _partitions(settings)),
    )
    yield Need("memory", "the process", _of("process") + _of("working memory"), "measured")
    yield Need("memory", "mapped files", _of("mapped files"), "code of Python and its libraries")
    yield Need("memory", "offsets and groups", stored, f"{workload.offsets:,} offsets")
    if workload.reports_ends:
        windows = workload.offsets * _of("lag window")
        yield Need("memory", "lag windows", windows, "lag.window.ms, for reported ends")
    yield Need("memory", "request ids", ids * _of("request id"), "request.id.window.ms")
    buffer = settings.cleaner.dedupe_buffer_bytes
    yield Need("memory", "the cleaner", buffer, "log.cleaner.dedupe.buffer.size")
    budget = settings.queued_max_request_bytes
    yield Need("memory", "calls", budget, "queued.max.request.bytes")


def _disk(workload: Workload, settings: Settings) -> Iterator[Need]:
    live = workload.groups * workload.commit_bytes(workload.partitions) * (1 + INDEX_SHARE)
    rate = workload.commits_per_second * workload.commit_bytes(workload.offsets_per_commit)
    kept_s = max(workload.history_days * DAY_S, settings.request_id_window_ms / 1000)
    segment = settings.log.segment_bytes_max
    partitions = min(_partitions(settings), max(workload.groups, 1))
    yield Need("disk", "live offsets", live, "one record of each offset")
    yield Need("disk", "replaced offsets", live, "min.cleanable.dirty.ratio: half of a log")
    yield Need("disk", "history", rate * kept_s * (1 + INDEX_SHARE), "each commit is kept")
    if rate:
        active = float(partitions * segment)
        yield Need("disk", "active segments", active, "they are not cleaned")
    yield Need("disk", "a round of cleaning", float(segment), "what it writes anew")
    yield Need("disk", "the journal", 2.0 * settings.journal_file_bytes, "two files")
    yield Need("disk", "the reserve", 1.28 * segment, "disk.reserve.bytes")
    free = settings.disk.free_bytes_min
    yield Need("disk", "free room", 2.0 * free, "twice disk.free.bytes.min")


def _cores(workload: Workload) -> Iterator[Need]:
    yield Need("cores", "commits", loop_share(workload), "one commit a message")
    yield Need("cores", "flushes, cleaning, reads", 1, "threads beside the event loop")


def _descriptors(settings: Settings) -> Iterator[Need]:
    connections = settings.max_connections
    beyond = connections_beyond(connections)
    yield Need("descriptors", "connections", connections + beyond, "max.connections, and more")
    yield Need("descriptors", "segments", 3 * _partitions(settings), "three files of a log")
    yield Need("descriptors", "others", DESCRIPTORS_BESIDE, "")


def _partitions(settings: Settings) -> int:
    return settings.offsets_topic_num_partitions or OFFSETS_PARTITIONS_DEFAULT
