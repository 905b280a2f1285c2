"""The checks of `offsetd doctor`: a server that is well has no finding, each fault has its own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from offsetd_clients.admin_values import BlockedRetention, LogPartition
from offsetd_clients.cli.doctor.diagnosis import Finding, Grade, diagnosed
from offsetd_clients.cli.doctor.machine_checks import file_system, huge_pages, kind_of
from offsetd_clients.cli.doctor.scrapes import Metrics, MetricsAccess, read_metrics
from offsetd_clients.cli.doctor.server_checks import SERVER_CHECKS
from offsetd_clients.cli.doctor.server_facts import ServerFacts
from offsetd_clients.values import ExpirySuspension, ServerInfo, ServerState

NOW: Final = datetime(2026, 11, 28, tzinfo=UTC)
DAY_S: Final = 86_400
BAD, WARN = Grade.BAD, Grade.WARN
INFO: Final = ServerInfo(
    version="1",
    folder_id="f",
    node_id="0",
    start_time=NOW - timedelta(days=30),
    log_partitions=50,
    state=ServerState.SERVING,
    group_count=1,
    offset_count=1,
    unknown_record_count=0,
    undecodable_record_count=0,
    quarantined_partitions=(),
    expiry_suspension=None,
    clock_offset=timedelta(0),
    settings_problem="",
    problems=(),
)
PARTITION: Final = LogPartition(
    partition=7,
    log_start_offset=0,
    log_end_offset=1,
    recovery_point=1,
    size_bytes=1,
    segments=(),
    quarantine_reason="",
    cleaning=None,
    blocked_retention=None,
)
HEALTHY: Final = ServerFacts(
    info=INFO,
    is_healthy=dict.fromkeys(("the server", "the cleaner", "the clock", "the disk"), True),
    settings={
        "offsets.retention.minutes": "10080",
        "history.ms": "3600000",
        "lag.window.ms": "600000",
        "commit.unchanged.suppress.ms": "60000",
        "metrics.compatibility": "none",
        "metrics.lag.partitions.max": "0",
        "queued.max.request.bytes": "67108864",
        "socket.request.max.bytes": "4194304",
        "request.id.window.ms": "60000",
        "request.receive.max.ms": "60000",
        "max.connections": "1000",
        "log.cleaner.enable": "true",
        "backup.target": "s3://bucket/backups",
        "backup.interval.ms": str(DAY_S * 1000),
    },
    partitions=(PARTITION,),
    cluster_problems=(),
    metrics=Metrics(
        values={
            "offsetd_disk_free_bytes": 10e9,
            "offsetd_disk_free_limit_bytes": 1e9,
            "process_max_fds": 65_536.0,
            "process_open_fds": 300.0,
            "offsetd_ssl_certificate_expiry_timestamp_seconds": NOW.timestamp() + 90 * DAY_S,
            "offsetd_backup_last_moment_timestamp_seconds": NOW.timestamp() - DAY_S,
            'offsetd_groups_by_verdict{verdict="ERR"}': 0.0,
        }
    ),
    folder=None,
    client_version="1",
    now=NOW,
)
BLOCKED: Final = BlockedRetention(
    base_offset=0, timestamp=NOW, blocked_until_time=NOW, held_segments=1, held_bytes=1
)


def with_served(**more: Any) -> ServerFacts:
    return attrs.evolve(HEALTHY, info=attrs.evolve(INFO, **more))


def with_settings(**more: str) -> ServerFacts:
    settings = {name.replace("__", "."): value for name, value in more.items()}
    return attrs.evolve(HEALTHY, settings={**HEALTHY.settings, **settings})


def with_metrics(skew_s: float = 0.0, **more: float) -> ServerFacts:
    values = {**HEALTHY.metrics.values, **more}
    return attrs.evolve(HEALTHY, metrics=Metrics(values=values, skew_s=skew_s))


def sick(part: str) -> ServerFacts:
    return attrs.evolve(HEALTHY, is_healthy={**HEALTHY.is_healthy, part: False})


def suspended(reason: str) -> ServerFacts:
    return with_served(expiry_suspension=ExpirySuspension(reason=reason, end_time=None))


def findings(facts: ServerFacts) -> list[tuple[str, Finding]]:
    return [each for each in diagnosed(SERVER_CHECKS, facts) if each[1].grade is not Grade.OK]


def stopped(*, cleanly: bool, days: int) -> ServerFacts:
    """A server that started this long ago, after such a stop."""
    return with_served(start_time=NOW - timedelta(days=days), stopped_cleanly=cleanly)


def test_a_server_that_is_well_has_no_finding() -> None:
    assert findings(HEALTHY) == []
    assert findings(suspended("disabled")) == []
    assert findings(stopped(cleanly=True, days=6)) == []
    assert findings(stopped(cleanly=False, days=8)) == []
    assert [name for name, _ in diagnosed(SERVER_CHECKS, HEALTHY)] == list(SERVER_CHECKS)


@pytest.mark.parametrize(
    ("facts", "check", "grade", "what"),
    [
        (with_served(state=ServerState.LOADING), "server", BAD, "the server is loading"),
        (with_served(problems=("a log is damaged",)), "server", BAD, "a log is damaged"),
        (with_served(settings_problem="a record"), "server", BAD, "not all settings can be read"),
        (stopped(cleanly=False, days=6), "last stop", WARN, "had not stopped cleanly"),
        (attrs.evolve(HEALTHY, unseen=("the log: denied",)), "server", WARN, "cannot see the log"),
        (sick("the disk"), "disk", BAD, "commits are refused"),
        (with_metrics(offsetd_disk_free_bytes=1.9e9), "disk", WARN, "1.8 GiB are free"),
        (with_served(clock_offset=timedelta(seconds=-30)), "clock", WARN, "30 s behind"),
        (with_served(clock_offset=timedelta(seconds=90)), "clock", BAD, "90 s ahead of"),
        (with_metrics(offsetd_clock_jumps_total=2), "clock", WARN, "2 times"),
        (with_metrics(skew_s=-6.0), "clock", WARN, "6 s behind this one"),
        (with_metrics(process_open_fds=50_000), "descriptors", WARN, "50000 of 65536"),
        (with_metrics(process_open_fds=60_000), "descriptors", BAD, "60000 of 65536"),
        (sick("the cleaner"), "cleaner", BAD, "no progress"),
        (with_settings(log__cleaner__enable="false"), "cleaner", WARN, "the log only grows"),
        (with_served(quarantined_partitions=(7,)), "log partitions", BAD, "partition 7 is damaged"),
        (
            attrs.evolve(HEALTHY, partitions=[attrs.evolve(PARTITION, blocked_retention=BLOCKED)]),
            "log partitions",
            WARN,
            "a time in the future",
        ),
        (suspended("clock_jump"), "expiry", WARN, "nothing expires: clock_jump"),
        (suspended("foreign_folder"), "expiry", WARN, "nothing expires: foreign_folder"),
        (
            with_metrics(
                offsetd_ssl_certificate_expiry_timestamp_seconds=NOW.timestamp() + 20 * DAY_S
            ),
            "certificate",
            WARN,
            "ends in 20 days",
        ),
        (
            with_metrics(offsetd_ssl_certificate_expiry_timestamp_seconds=NOW.timestamp() - 1),
            "certificate",
            BAD,
            "has ended",
        ),
        (with_settings(history__ms="700000000"), "settings", WARN, "history.ms is longer"),
        (
            with_settings(commit__unchanged__suppress__ms="600000"),
            "settings",
            WARN,
            "looks stopped",
        ),
        (with_settings(metrics__compatibility="kafka_exporter"), "settings", WARN, "is 0"),
        (with_settings(queued__max__request__bytes="5000000"), "settings", WARN, "does not hold"),
        (with_settings(request__id__window__ms="1000"), "settings", WARN, "applied twice"),
        (with_settings(security__allow__insecure="true"), "settings", WARN, "everybody"),
        (
            attrs.evolve(HEALTHY, metrics=Metrics(problem="metrics.address is empty")),
            "metrics",
            WARN,
            "less is checked",
        ),
        (attrs.evolve(HEALTHY, client_version="2"), "versions", WARN, "this client 2"),
        (
            with_metrics(**{'offsetd_groups_by_verdict{verdict="ERR"}': 3}),
            "lag",
            WARN,
            "rewound: 3",
        ),
        (
            with_metrics(offsetd_backup_last_moment_timestamp_seconds=NOW.timestamp() - 3 * DAY_S),
            "backups",
            BAD,
            "3 days, 0:00:00",
        ),
        (with_metrics(offsetd_backup_last_failed=1), "backups", BAD, "it is tried again"),
        (
            attrs.evolve(HEALTHY, cluster_problems=("no node serves 3",)),
            "cluster",
            BAD,
            "no node serves 3",
        ),
    ],
)
def test_each_fault_has_one_finding(
    facts: ServerFacts, check: str, grade: Grade, what: str
) -> None:
    [(name, finding)] = findings(facts)
    assert (name, finding.grade) == (check, grade)
    assert what in finding.what
    assert finding.remedy


def test_a_cleaner_that_is_off_is_started_where_it_was_stopped() -> None:
    at_start = with_settings(log__cleaner__enable="false")
    [(_, finding)] = findings(at_start)
    assert finding.remedy == "Start the server with log.cleaner.enable=true."
    [(_, finding)] = findings(attrs.evolve(at_start, set_while_running={"log.cleaner.enable"}))
    assert finding.remedy.startswith("`offsetd admin config --unset log.cleaner.enable`")


def test_a_server_without_any_backup_is_told_of_once_two_are_missed() -> None:
    values = {name: value for name, value in HEALTHY.metrics.values.items() if "backup" not in name}
    none = attrs.evolve(HEALTHY, metrics=Metrics(values=values))
    assert [name for name, _ in findings(none)] == ["backups"]
    young = attrs.evolve(INFO, start_time=NOW - timedelta(days=1))
    assert findings(attrs.evolve(none, info=young)) == []


@pytest.mark.parametrize(
    ("mount", "grade"),
    [
        ("/ / rw - ext4 /dev/sda rw", None),
        ("/ PLACE rw - tmpfs tmpfs rw", WARN),
        ("/ PLACE rw - nfs4 host:/x rw", BAD),
        ("/ PLACE rw - fuse.sshfs host:/x rw", WARN),
        ("/ / rw - overlay overlay rw", WARN),
    ],
)
def test_the_kind_of_the_file_system_counts(
    mount: str, grade: Grade | None, tmp_path: Path
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        f"1 0 8:1 / / rw - xfs /dev/x rw\n36 35 98:0 {mount}\n".replace("PLACE", str(tmp_path))
    )
    found = list(file_system(tmp_path, mounts))
    assert [each.grade for each in found] == ([grade] if grade else [])


def test_the_kind_is_that_of_this_machines_mount() -> None:
    assert kind_of(Path("/proc")) == "proc"


@pytest.mark.parametrize(
    ("setting", "count"), [("[always] madvise never", 1), ("always [madvise] never", 0)]
)
def test_huge_pages_for_everybody_are_told(setting: str, count: int, tmp_path: Path) -> None:
    (tmp_path / "enabled").write_text(setting)
    assert len(list(huge_pages(tmp_path / "enabled"))) == count
    assert list(huge_pages(tmp_path / "absent")) == []


def test_metrics_that_cannot_be_read_have_a_reason() -> None:
    assert "is empty" in read_metrics("", is_secure=False).problem
    assert "does not answer" in read_metrics("127.0.0.1:1", is_secure=True).problem
    token = MetricsAccess(token="secret")
    for address in ("db1:9464", "127.example:9464", "localhost.example:9464"):
        assert "not sent the token" in read_metrics(address, is_secure=False, access=token).problem
    assert "does not answer" in read_metrics("127.0.0.1:1", is_secure=False).problem
