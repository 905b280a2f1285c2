"""The numbers that guides state as defaults and limits are those of the code."""

from __future__ import annotations

import inspect
import tomllib
from typing import Any, Final

import pytest
from offsetd_clients.calling.commit_queue import BYTES_MAX, COMMIT_BYTES_MAX, COMMITS_MAX
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.consumer.settings import ConsumerSettings, LeaseTerms
from offsetd_coordinator.configuration.server_settings import ALL_SETTINGS
from offsetd_pipeline import OffsetCommitListener
from offsetd_pipeline.audit.thresholds import Thresholds
from offsetd_pipeline.queries.progress_ledger import RETRY_S_MAX, RETRY_S_MIN
from promised import ROOT, absent

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
CONSUMER: Final = ConsumerSettings()
AUDIT: Final = Thresholds()

GUARANTEES: Final = "docs/guarantees.md"
README: Final = "README.md"
_GUIDES: Final = "docs/guides"


def setting(name: str) -> Any:
    return ALL_SETTINGS[name].default


def default_of(function: Any, name: str) -> Any:
    return inspect.signature(function).parameters[name].default


STATED: Final[tuple[tuple[str, str, Any, Any], ...]] = (
    ("expiry", "Every `offsets.retention.check.interval.ms` (10 minutes)",
     setting("offsets.retention.check.interval.ms"), 600_000),
    ("expiry", "`offsets.retention.minutes` (7 days;",
     setting("offsets.retention.minutes"), 7 * 24 * 60),
    ("expiry", "the server was down for more than `expiry.grace.ms` (24 h)",
     setting("expiry.grace.ms"), DAY_MS),
    ("expiry", "within `offsets.expiry.warning.ms` (24 h)",
     setting("offsets.expiry.warning.ms"), DAY_MS),
    ("expiry", "Its members are gone 45 s after the start (`group.consumer.session.timeout.ms`)",
     setting("group.consumer.session.timeout.ms"), 45_000),
    ("history", "With `history.ms` (default 1 h)", setting("history.ms"), HOUR_MS),
    ("commit-storms", "`metrics.group.commits.top` is the number of these groups (20; 0: none)",
     setting("metrics.group.commits.top"), 20),
    ("commit-storms", "With `commit.unchanged.suppress.ms` (0: off)",
     setting("commit.unchanged.suppress.ms"), 0),
    ("commit-storms", "`group.commit.rate.max` (0: off)", setting("group.commit.rate.max"), 0),
    ("commit-storms", "`group.commit.burst.max` at once (0: as many as in one second)",
     setting("group.commit.burst.max"), 0),
    ("commit-storms", "`connection.calls.max` (128)", setting("connection.calls.max"), 128),
    ("backup", "| `backup.interval.ms` | 1 hour |", setting("backup.interval.ms"), HOUR_MS),
    ("backup", "| `backup.keep` | 0: all |", setting("backup.keep"), 0),
    ("backup", "| `backup.max.bytes.per.second` | 8,388,608 (8 MiB) |",
     setting("backup.max.bytes.per.second"), 8 << 20),
    ("lag", "a tenth of `lag.window.ms` (10 minutes)", setting("lag.window.ms"), 600_000),
    ("lag", "With `metrics.lag.partitions.max` (0: off; at most 10,000)",
     setting("metrics.lag.partitions.max"), 0),
    ("metrics", "`metrics.address` (default `127.0.0.1:9464`; empty: no port)",
     str(setting("metrics.address")), "127.0.0.1:9464"),
    ("first-consumer", "waits 3 s for others (`group.initial.rebalance.delay.ms`).",
     setting("group.initial.rebalance.delay.ms"), 3000),
    ("first-consumer", "Processed items are committed every `auto_commit_interval_s` (5 s)",
     CONSUMER.auto_commit_interval_s, 5),
    ("first-consumer", "silent for longer than `session_timeout_s` (45 s)",
     CONSUMER.session_timeout_s, 45),
    ("first-consumer", "`poll_interval_s_max` (5 min, `PollIntervalExceeded`)",
     CONSUMER.poll_interval_s_max, 300),
    ("first-consumer", "`ttl_s` (30 s) after its last sign of life",
     LeaseTerms(holder="h").ttl_s, 30),
    ("first-consumer", "It is asked again after `idle_wait_s` (0.1 s).", CONSUMER.idle_wait_s, 0.1),
    ("first-consumer",
     "The source is asked for `partition_counts` every `source_interval_s` (5 s).",
     CONSUMER.source_interval_s, 5),
    ("kafka-data-offsets-here", "committed every 5 s (`auto_commit_interval_s`)",
     CONSUMER.auto_commit_interval_s, 5),
    ("kafka-data-offsets-here", "noticed every 5 s (`source_interval_s`)",
     CONSUMER.source_interval_s, 5),
    ("kafka-data-offsets-here", "`\"earliest\"` (default)", CONSUMER.start, "earliest"),
    ("kafka-data-offsets-here", "At most `read_items_max` messages (500)",
     CONSUMER.read_items_max, 500),
    ("python-client", "At most 10,000 commits, or 16 MiB of them, are unanswered at one time.",
     (COMMITS_MAX, BYTES_MAX), (10_000, 16 << 20)),
    ("python-client", "A commit of more than 256 KiB is a call of its own.",
     COMMIT_BYTES_MAX, 256 << 10),
    ("python-client", "`RetryPolicy(timeout_s=30)`", RetryPolicy().timeout_s, 30),
    ("spark-kafka", "is not written again for an hour (`refresh_s`)",
     default_of(OffsetCommitListener.__init__, "refresh_s"), 3600),
    ("spark-kafka", "after 0.5 s, and then after longer and longer times, up to 30 s",
     (RETRY_S_MIN, RETRY_S_MAX), (0.5, 30)),
    ("spark-kafka", "`listener.flush(query)` waits, 30 s at most",
     default_of(OffsetCommitListener.flush, "timeout_s"), 30),
    ("spark-kafka", "`listener.close()` waits for the rest, 10 s at most",
     default_of(OffsetCommitListener.close, "timeout_s"), 10),
    ("spark-audit", "`--repeats` (100)", AUDIT.repeats_min, 100),
    ("spark-audit", "`--repeat-ratio` (0.5)", AUDIT.repeat_ratio_min, 0.5),
    ("spark-audit", "`--rewind` (1)", AUDIT.rewind_min, 1),
    ("spark-audit", "`--skip` (10,000)", AUDIT.skip_min, 10_000),
    ("spark-audit", "`--skip-factor` (10)", AUDIT.skip_factor, 10),
    ("spark-audit", "there must be at least 5 earlier steps", AUDIT.skip_steps_min, 5),
    ("spark-audit", "`--expiry-warning` (1d)", AUDIT.expiry_warning_ms, DAY_MS),
    ("spark-audit", "`--retention` (7d; `never`)", AUDIT.retention_ms, 7 * DAY_MS),
    ("spark-audit", "`--time-lag` (10m)", AUDIT.time_lag_max_ms, 600_000),
    ("spark-audit", "`--stopped-after` (10m)", AUDIT.stopped_ms, 600_000),
    ("spark-audit", "`--stalled-after` (5)", AUDIT.stalled_commits_min, 5),
    ("spark-audit", "`--future` (1h, Kafka's own limit)", AUDIT.future_ms, HOUR_MS),
    ("spark-audit", "`--dirty-ratio` (0.5)", AUDIT.dirty_ratio_max, 0.5),
    ("spark-audit", "`--saving-ratio` (0.5)", AUDIT.saving_ratio_min, 0.5),
    ("spark-audit", "at least 0.2 of the log", AUDIT.hot_group_ratio_min, 0.2),
    ("spark-audit", "hot if it has more than 3 times the mean", AUDIT.hot_partition_factor, 3),
    ("spark", "Below the server's `request.id.window.ms` (60 s)",
     setting("request.id.window.ms"), 60_000),
    (README, "the same `request_id` within 60 seconds", setting("request.id.window.ms"), 60_000),
    (GUARANTEES, "the same `request_id` within 60 seconds",
     setting("request.id.window.ms"), 60_000),
    ("groups-and-leases",
     "The first member waits 3 s for others (`group.initial.rebalance.delay.ms`).",
     setting("group.initial.rebalance.delay.ms"), 3000),
    ("operating", "expire after 7 days (`offsets.retention.minutes`; -1: never)",
     setting("offsets.retention.minutes"), 7 * 24 * 60),
    ("settings", "`history.ms` ([1 h, and what that takes on the disk]", setting("history.ms"),
     HOUR_MS),
)  # fmt: skip


@pytest.mark.parametrize(("page", "sentence", "value", "stated"), STATED)
def test_what_is_stated_is_so(page: str, sentence: str, value: Any, stated: Any) -> None:
    path = page if page.endswith(".md") else f"{_GUIDES}/{page}.md"
    assert absent(path, (sentence,)) == []
    assert value == stated


def test_the_client_needs_the_packages_that_its_guide_names() -> None:
    sentence = (
        "need five packages (`attrs`, `googleapis-common-protos`, `grpcio`, `protobuf`, `tenacity`)"
    )
    assert absent(f"{_GUIDES}/python-client.md", (sentence,)) == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {
        "".join(c if c.isalnum() or c in "-_" else " " for c in each).split()[0]
        for each in project["dependencies"]
    }
    assert names == {"attrs", "googleapis-common-protos", "grpcio", "protobuf", "tenacity"}
