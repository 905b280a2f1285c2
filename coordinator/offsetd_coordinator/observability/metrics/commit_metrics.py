"""Metrics of the commit guards: the groups that commit most, and commits that were not written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetd_coordinator.observability.metrics.families import counter, gauges

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from offsetd_coordinator.runtime.commit_guards import CommitGuards


def commit_families(guards: CommitGuards, *, monotonic_ms: int) -> Iterator[Metric]:
    """Commits that were not written, and the configured number of groups that commit most."""
    yield counter(
        "offsetd_unchanged_commits_total",
        "Commits that were answered without a record: commit.unchanged.suppress.ms.",
        guards.unchanged_commits,
    )
    yield counter(
        "offsetd_commits_over_rate_total",
        "Commits that were refused: group.commit.rate.max.",
        guards.quota.refusals,
    )
    yield gauges(
        "offsetd_group_commits_last_minute",
        "Commits asked for in the last whole minute, by the groups with most of them:"
        " metrics.group.commits.top.",
        "group",
        (
            (each.group_id.decode(errors="backslashreplace"), each.commits)
            for each in guards.activity.top(monotonic_ms)
        ),
    )
