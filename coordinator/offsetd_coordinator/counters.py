"""Counters of calls, streams, watchers and expiry: plain numbers, so that counting costs little.

The event loop's thread writes them. Other threads may read them at any time, one by one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from offsetd_storage.duration_histogram import Durations

from offsetd_coordinator.status_codes import StatusCode

if TYPE_CHECKING:
    from offsetd_coordinator.expiry.expiry_guard import Held

CODES: Final = tuple(code.name for code in StatusCode)
"""The names of the codes, by their numbers."""


class MethodCounters:
    """Counts of the ended calls of one method."""

    __slots__ = ("codes", "durations")

    def __init__(self) -> None:
        self.codes = [0] * len(CODES)
        self.durations = Durations()

    def note(self, code: int, seconds: float) -> None:
        """Counts a call that ended with `code` after `seconds`."""
        self.codes[code] += 1
        self.durations.note(seconds)


class StreamCounters:
    """Counts of StreamCommits. A message's duration is from its arrival to its last result."""

    __slots__ = ("message_durations", "open_streams", "result_codes")

    def __init__(self) -> None:
        self.open_streams = 0
        self.result_codes = [0] * len(CODES)
        self.message_durations = Durations()


class WatchCounters:
    """Counts of WatchOffsets: calls now, and calls ended because the client did not read."""

    __slots__ = ("cut_off", "watchers")

    def __init__(self) -> None:
        self.watchers = 0
        self.cut_off = 0


class AccessCounters:
    """Calls refused since the start by identity, rule or quota; the end of the certificate."""

    __slots__ = ("certificate_expire_ms", "failed_authentications", "quotas", "refusals")

    def __init__(self) -> None:
        self.certificate_expire_ms: int | None = None
        """None without TLS."""
        self.failed_authentications = 0
        self.refusals: Counter[str] = Counter()
        """By Kafka's name of the operation."""
        self.quotas: QuotaCounters | None = None
        """None without quotas."""


class QuotaCounters:
    """Refusals and delays for quotas, by principal. `OTHERS` has those of further principals."""

    __slots__ = ("_principals_max", "delay_seconds", "refusals")

    OTHERS: Final = "other"

    def __init__(self, principals_max: int) -> None:
        self._principals_max = principals_max
        self.refusals: Counter[tuple[str, str]] = Counter()
        """By principal and quota."""
        self.delay_seconds: dict[str, float] = {}
        """By principal. How long the server has not read or written streams."""

    def note_refusal(self, principal: str, quota: str) -> None:
        """Counts a refused call."""
        self.refusals[self._label(principal), quota] += 1

    def note_delay(self, principal: str, seconds: float) -> None:
        """Counts a pause of a stream."""
        label = self._label(principal)
        self.delay_seconds[label] = self.delay_seconds.get(label, 0) + seconds

    def _label(self, principal: str) -> str:
        known = self.delay_seconds
        if principal not in known and len(known) >= self._principals_max:
            return self.OTHERS
        known.setdefault(principal, 0)
        return principal


class CallCounters:
    """The counters of all methods, streams and watchers, and of the event loop."""

    def __init__(self) -> None:
        self.methods: dict[str, MethodCounters] = {}
        self.streams = StreamCounters()
        self.watches = WatchCounters()
        self.access = AccessCounters()
        self.loop_delays = Durations()
        """The delay of the event loop at each measurement."""
        self.loop_holds = Durations()
        """Lower bound of the processor time that its thread used while it was late."""

    def method(self, name: str) -> MethodCounters:
        """The counters of a method, such as `CommitOffsets`; the first call makes them."""
        return self.methods.setdefault(name, MethodCounters())


class ClusterCounters:
    """What a node of a cluster has done since its start."""

    __slots__ = (
        "lost_partitions",
        "producer_replacements",
        "taken_partitions",
        "takeover_durations",
        "transaction_retries",
    )

    def __init__(self) -> None:
        self.taken_partitions = 0
        self.takeover_durations = Durations()
        """From the assignment of some partitions until they are served."""
        self.lost_partitions = 0
        """Partitions that another node may have got before this one gave them up."""
        self.transaction_retries = 0
        self.producer_replacements = 0


class BackupCounters:
    """The server's own backups in one run of the server."""

    __slots__ = (
        "failures",
        "interval_seconds",
        "last_bytes",
        "last_failed",
        "last_moment_ms",
        "last_seconds",
        "made",
        "new_bytes",
    )

    def __init__(self) -> None:
        self.made = 0
        self.failures = 0
        self.interval_seconds: float | None = None
        """None without a target."""
        self.new_bytes = 0
        """The bytes that all backups added to the target."""
        self.last_failed = False
        self.last_moment_ms: int | None = None
        self.last_seconds: float | None = None
        self.last_bytes: int | None = None
        """The size of all logs in the last backup."""


class ExpiryCounters:
    """The work of expiry in one run of the server."""

    __slots__ = (
        "check_seconds",
        "clock_jumps",
        "clock_offset_ms",
        "expired_groups",
        "expired_offsets",
        "failures",
        "held",
        "held_until_ms",
        "last_check_ms",
        "warned_groups",
    )

    def __init__(self) -> None:
        self.expired_offsets = 0
        self.expired_groups = 0
        self.clock_jumps = 0
        self.clock_offset_ms = 0
        """The milliseconds by which the wall clock is ahead of the server's time."""
        self.failures = 0
        """Checks that ended early."""
        self.last_check_ms: int | None = None
        """The time at which the last complete check ended."""
        self.check_seconds: float | None = None
        self.warned_groups: int | None = None
        """Groups that will lose offsets soon, at the last complete check."""
        self.held: Held | None = None
        self.held_until_ms: int | None = None
