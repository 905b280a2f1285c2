"""Metrics of the commit guards: the groups that commit most, and commits that were not written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.observability.metrics.families import counter, gauges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from offsetd_coordinator.runtime.commit_guards import CommitGuards


def commit_families(guards: CommitGuards, *, monotonic_ms: int) -> Iterator[Metric]:
    """Metrics of commits that were not written, and of the groups that commit most."""
    yield counter(
        "offsetd_unchanged_commits_total",
        "Unchanged commits that were answered without a record (commit.unchanged.suppress.ms).",
        guards.unchanged_commits,
    )
    yield counter(
        "offsetd_commits_over_rate_total",
        "Commits that were refused because their group exceeds group.commit.rate.max.",
        guards.quota.refusals,
    )
    yield gauges(
        "offsetd_group_commits_last_minute",
        "Requested commits in the last whole minute, for the groups with the most of them"
        " (metrics.group.commits.top).",
        "group",
        (
            (each.group_id.decode(errors="backslashreplace"), each.commits)
            for each in guards.activity.top(monotonic_ms)
        ),
    )
