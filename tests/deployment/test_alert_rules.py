"""Each alert fires when it should, and not if all is well. The runbook has a section for each."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from cli_tree import commands
from deployment.tools import DEPLOY, ROOT, did, ran

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RULES: Final = DEPLOY / "prometheus-rules.yml"
RUNBOOK: Final = ROOT / "docs" / "guides" / "runbook.md"
PARTS: Final = ("Users see", "Be sure", "Type", "Done when")
# Reasons to be paged that other systems tell, or that have metrics without an alert.
WITHOUT_ALERT: Final = frozenset[str]()
MINUTES: Final = 120
_LABELS: Final = 'instance="a",job="offsetd"'
_FIFTH_OF_A_SECOND: Final = {"0.2": "0+100x300", "0.5": "0+100x300", "+Inf": "0+100x300"}
_TWO_SECONDS: Final = {"1": "0+10x300", "4": "0+100x300", "+Inf": "0+100x300"}


def series(name: str, *labels: str) -> str:
    """A series of the one server."""
    return f"{name}{{{','.join((*labels, _LABELS))}}}"


def histogram(name: str, buckets: Mapping[str, str]) -> dict[str, str]:
    """`buckets`: values by upper bound."""
    return {series(f"{name}_bucket", f'le="{bound}"'): each for bound, each in buckets.items()}


def always(value: float) -> str:
    """In promtool's notation: for five hours, a sample each minute."""
    return f"{value}x300"


HEALTHY: Final = {
    series("offsetd_serving"): always(1),
    series("offsetd_storage_failed"): always(0),
    series("offsetd_quarantined_partitions"): always(0),
    series("offsetd_cleaner_threads"): always(1),
    series("offsetd_cleaner_dead_threads"): always(0),
    series("offsetd_cleaner_since_last_run_seconds"): always(15),
    series("offsetd_cleaner_full_map_rounds_total"): always(2),
    series("offsetd_log_oldest_dirty_age_seconds", 'partition="p-1"'): always(7200),
    series("offsetd_retention_blocked_partitions"): always(0),
    series("offsetd_task_failures_in_row", 'task="t"'): always(0),
    series("offsetd_expiry_suspended", 'reason="disabled"'): always(1),
    series("offsetd_expiry_suspended", 'reason="settings_unreadable"'): always(0),
    series("offsetd_clock_offset_seconds"): always(-2),
    series("offsetd_ssl_certificate_expiry_timestamp_seconds"): always(90 * 86_400),
    series("offsetd_authentication_failures_total"): "0+6x300",
    series("offsetd_disk_low"): always(0),
    series("offsetd_disk_free_bytes"): always(10**11),
    series("offsetd_disk_free_limit_bytes"): always(10**9),
    **histogram("offsetd_journal_fsync_duration_seconds", _FIFTH_OF_A_SECOND),
    series("offsetd_journal_used_ratio"): always(0.5),
    series("offsetd_rpcs_total", 'code="OK"'): "0+1000x300",
    series("offsetd_rpcs_total", 'code="UNAVAILABLE"'): "0+5x300",
    series("offsetd_rpcs_total", 'code="FAILED_PRECONDITION"'): "0+500x300",
    series("offsetd_commits_over_rate_total"): "0+6x300",
    series("offsetd_connections_closed_total", 'reason="unread"'): always(3),
    series("offsetd_connections_closed_total", 'reason="idle"'): "0+100x300",
    **histogram("offsetd_flush_duration_seconds", _FIFTH_OF_A_SECOND),
    series("offsetd_cluster_nodes"): always(3),
    series("offsetd_cluster_log_partitions"): always(12),
    series("offsetd_cluster_partitions", 'state="serving"'): always(12),
    series("offsetd_cluster_lost_partitions_total"): always(1),
    series("offsetd_cluster_copy_lag_records", 'partition="p-1"'): always(10),
    series("offsetd_groups_by_verdict", 'verdict="ERR"'): always(0),
    series("offsetd_groups_by_verdict", 'verdict="WARN"'): always(3),
    series("offsetd_backup_failures_total"): always(1),
    series("offsetd_backup_interval_seconds"): always(600),
    series("offsetd_backup_last_moment_timestamp_seconds"): "0+60x300",
}
# By alert: what is otherwise than in a healthy server. Not always from the beginning, since some
# alerts look at what changes: the first 30 minutes are as in a healthy one where it matters.
CASES: Final[dict[str, dict[str, str]]] = {
    "OffsetdCleanerDead": {series("offsetd_cleaner_dead_threads"): always(1)},
    "OffsetdCleanerStalled": {series("offsetd_cleaner_since_last_run_seconds"): "0+60x300"},
    "OffsetdCleanerOff": {series("offsetd_cleaner_threads"): always(0)},
    "OffsetdPartitionUncleanable": {
        series("offsetd_cleaner_failures_in_row", 'partition="p-1"'): always(4)
    },
    "OffsetdLogDirtyForLong": {
        series("offsetd_log_oldest_dirty_age_seconds", 'partition="p-1"'): always(15 * 86_400)
    },
    "OffsetdCleanerMapFull": {series("offsetd_cleaner_full_map_rounds_total"): "0+1x300"},
    "OffsetdRetentionBlocked": {
        series("offsetd_retention_blocked_bytes", 'partition="p-1"'): always(10**9)
    },
    "OffsetdTaskFailing": {series("offsetd_task_failures_in_row", 'task="t"'): always(3)},
    "OffsetdExpirySuspended": {
        series("offsetd_expiry_suspended", 'reason="settings_unreadable"'): always(1)
    },
    "OffsetdClockWrong": {series("offsetd_clock_offset_seconds"): always(-61)},
    "OffsetdCertificateEnds": {
        series("offsetd_ssl_certificate_expiry_timestamp_seconds"): always(13 * 86_400)
    },
    "OffsetdAuthenticationFailures": {series("offsetd_authentication_failures_total"): "0+120x300"},
    "OffsetdDiskLow": {series("offsetd_disk_low"): always(1)},
    "OffsetdDiskFillsUp": {series("offsetd_disk_free_bytes"): "100000000000-200000000x300"},
    "OffsetdFsyncSlow": histogram(
        "offsetd_journal_fsync_duration_seconds",
        {"0.2": "0+90x300", "0.5": "0+100x300", "+Inf": "0+100x300"},
    ),
    "OffsetdJournalFull": {series("offsetd_journal_used_ratio"): always(1.5)},
    "OffsetdStorageFailed": {series("offsetd_storage_failed"): always(1)},
    "OffsetdPartitionQuarantined": {series("offsetd_quarantined_partitions"): always(1)},
    "OffsetdNotServing": {series("offsetd_serving"): always(0)},
    "OffsetdGone": {series("offsetd_serving"): f"1x{MINUTES - 10} stale"},
    "OffsetdCallsFail": {series("offsetd_rpcs_total", 'code="UNAVAILABLE"'): "0+50x300"},
    "OffsetdCommitStorm": {series("offsetd_commits_over_rate_total"): "0+120x300"},
    "OffsetdConnectionsClosed": {
        series("offsetd_connections_closed_total", 'reason="unread"'): "0+2x300"
    },
    "OffsetdPartitionsNotServed": {
        series("offsetd_cluster_partitions", 'state="serving"'): always(11)
    },
    "OffsetdPartitionsLost": {series("offsetd_cluster_lost_partitions_total"): "0+1x300"},
    "OffsetdNodeLost": {series("offsetd_cluster_nodes"): f"3x{MINUTES - 10} 2x300"},
    "OffsetdKafkaSlow": {
        # Without the healthy buckets: a histogram has one set of bounds.
        **dict.fromkeys(histogram("offsetd_flush_duration_seconds", _FIFTH_OF_A_SECOND), ""),
        **histogram("offsetd_flush_duration_seconds", _TWO_SECONDS),
    },
    "OffsetdConsumersBehind": {series("offsetd_groups_by_verdict", 'verdict="ERR"'): always(2)},
    "OffsetdBackupsFail": {series("offsetd_backup_failures_total"): "0+1x300"},
    "OffsetdBackupOld": {series("offsetd_backup_last_moment_timestamp_seconds"): always(0)},
    "OffsetdCopiesBehind": {
        series("offsetd_cluster_copy_lag_records", 'partition="p-1"'): always(200_000)
    },
}


def alerts() -> dict[str, dict[str, Any]]:
    """By name."""
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def sections() -> dict[str, str]:
    """The text of each section of the runbook, by its anchor."""
    parts = re.split(r"^### (.+)$", RUNBOOK.read_text(), flags=re.MULTILINE)
    titles, texts = parts[1::2], parts[2::2]
    return {
        re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-"): text.split("\n## ")[0]
        for title, text in zip(titles, texts, strict=True)
    }


def firing(values: Mapping[str, str], expected: set[str]) -> dict[str, Any]:
    """A test of promtool: after two hours, these alerts fire, and no others."""
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": each} for name, each in values.items() if each],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{MINUTES}m",
                "exp_samples": [
                    {"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(expected)
                ],
            }
        ],
    }


def test_the_rules_are_valid() -> None:
    did("promtool", "check", "rules", "--lint=all", "--lint-fatal", RULES)


def test_there_is_a_case_for_each_alert() -> None:
    missing = alerts().keys() - CASES.keys()
    assert not missing, f"add to CASES what makes {missing} fire"
    assert not CASES.keys() - alerts().keys()


def test_each_alert_fires_alone_and_none_in_a_healthy_server(tmp_path: Path) -> None:
    tests = [firing(HEALTHY, set())]
    tests += [firing({**HEALTHY, **case}, {name}) for name, case in CASES.items()]
    assert ran_tests(tests, tmp_path) == ""


def test_a_backup_that_never_was_is_told_once_it_is_late(tmp_path: Path) -> None:
    never = {**HEALTHY, series("offsetd_backup_last_moment_timestamp_seconds"): ""}
    late, young = (
        {**never, series("process_start_time_seconds"): always(at_s)}
        for at_s in (0, 60 * MINUTES - 900)
    )
    tests = [firing(late, {"OffsetdBackupOld"}), firing(young, set())]
    assert ran_tests(tests, tmp_path) == ""


def test_a_wrong_expectation_is_found(tmp_path: Path) -> None:
    assert "OffsetdDiskLow" in ran_tests([firing(HEALTHY, {"OffsetdDiskLow"})], tmp_path)


@pytest.mark.parametrize("name", alerts())
def test_each_alert_has_a_section_that_names_it(name: str) -> None:
    page, _, anchor = alerts()[name]["annotations"]["runbook_url"].partition("#")
    assert page == "docs/guides/runbook.md"
    assert anchor in sections(), f"write a section for {name} in {page}"
    row = next(line for line in RUNBOOK.read_text().splitlines() if f"`{name}`" in line)
    assert row.startswith("| ")
    assert f"](#{anchor})" in row


def test_each_section_is_complete_and_is_for_an_alert() -> None:
    named = {each["annotations"]["runbook_url"].partition("#")[2] for each in alerts().values()}
    assert named | WITHOUT_ALERT == sections().keys()
    for anchor, text in sections().items():
        assert tuple(re.findall(r"^- \*\*(.+?):\*\*", text, re.MULTILINE)) == PARTS, anchor


def test_commands_of_the_runbook_are_commands() -> None:
    known = {" ".join(words) for words, _ in commands()}
    typed = re.findall(r"`offsetd ((?:[a-z][a-z-]*(?: |(?=`)))+)", RUNBOOK.read_text())
    assert len(typed) > 20
    for each in typed:
        words = each.split()
        assert any(" ".join(words[:count]) in known for count in (1, 2, 3)), each


def test_metrics_of_the_runbook_are_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "metrics.md").read_text()
    for each in set(re.findall(r"\boffsetd_\w+", RUNBOOK.read_text())):
        assert f"`{each}`" in guide, each


def ran_tests(tests: list[dict[str, Any]], folder: Path) -> str:
    """What promtool says of tests that fail."""
    file = folder / "tests.yml"
    content = {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(json.dumps(content))
    ended = ran("promtool", "test", "rules", file)
    return "" if ended.returncode == 0 else ended.stdout + ended.stderr
