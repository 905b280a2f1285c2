"""The dashboards: what each panel shows. `make dashboards` makes Grafana's files from these tables.

A query names metrics without labels; `grafana` adds those of the chosen servers. `[R]` is the time
over which a rate is taken. Times of histograms are quantiles of all chosen servers together.
"""

from typing import Final

import attrs


@attrs.frozen
class Panel:
    """A graph, or with `is_stat` a single value. `unit` is Grafana's; queries are by legend."""

    title: str
    unit: str
    queries: dict[str, str]
    about: str = ""
    is_stat: bool = False


@attrs.frozen
class Dashboard:
    """`name` is that of the file."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def graph(title: str, unit: str, about: str = "", **queries: str) -> Panel:
    """`queries`: by legend; `_` is a blank, and `by_LABEL` stands for the value of that label."""
    return Panel(title, unit, {_legend(name): query for name, query in queries.items()}, about)


def stat(title: str, unit: str, query: str, about: str = "") -> Panel:
    return Panel(title, unit, {title: query}, about, is_stat=True)


def quantiles(title: str, metric: str, about: str = "") -> Panel:
    """The median and the 99th percentile of a histogram of seconds."""
    buckets = f"sum by (le) (rate({metric}_bucket[R]))"
    queries = {f"p{q}": f"histogram_quantile(0.{q}, {buckets})" for q in (50, 99)}
    return Panel(title, "s", queries, about)


def _legend(name: str) -> str:
    label = name.removeprefix("by_")
    return f"{{{{{label}}}}}" if label != name else name.replace("_", " ")


_FAILED: Final = 'code!~"OK|CANCELLED|NOT_FOUND|FAILED_PRECONDITION|INVALID_ARGUMENT"'

OVERVIEW: Final = Dashboard(
    "overview",
    "offsetd: overview",
    (
        stat("Serving", "short", "sum(offsetd_serving)", "Servers that take calls."),
        stat("Groups", "short", "sum(offsetd_groups)"),
        stat("Offsets", "short", "sum(offsetd_offsets)"),
        stat("Damaged log partitions", "short", "sum(offsetd_quarantined_partitions)"),
        stat(
            "Free above the limit",
            "bytes",
            "min(offsetd_disk_free_bytes - offsetd_disk_free_limit_bytes)",
            "How much may be written until the disk is low and commits are refused.",
        ),
        stat("Dead cleaner threads", "short", "sum(offsetd_cleaner_dead_threads)"),
        graph("Calls", "reqps", by_method="sum by (method) (rate(offsetd_rpcs_total[R]))"),
        graph(
            "Calls that were not answered as asked",
            "reqps",
            "By gRPC's code. Refusals that callers expect, such as conflicts, are among them.",
            by_code='sum by (code) (rate(offsetd_rpcs_total{code!="OK"}[R]))',
        ),
        Panel(
            "Time of a commit",
            "s",
            {
                f"p{q}": f"histogram_quantile(0.{q}, sum by (le) (rate("
                'offsetd_rpc_duration_seconds_bucket{method="CommitOffsets"}[R])))'
                for q in (50, 99)
            },
            "From arrival to answer, with the flush; of single calls, not of streams.",
        ),
        quantiles("Time of a flush", "offsetd_flush_duration_seconds"),
        quantiles(
            "Delay of the event loop",
            "offsetd_event_loop_delay_seconds",
            "All calls wait that long. Frequent delays above 25 ms: the machine is too slow.",
        ),
        graph("Size of the log", "bytes", by_instance="sum by (instance) (offsetd_log_size_bytes)"),
        graph("Memory", "bytes", by_instance="process_resident_memory_bytes"),
        graph("Processor", "percentunit", by_instance="rate(process_cpu_seconds_total[R])"),
        graph("Open descriptors", "short", by_instance="process_open_fds"),
    ),
)

GROUPS: Final = Dashboard(
    "groups-and-lag",
    "offsetd: groups and lag",
    (
        graph("Groups", "short", by_instance="sum by (instance) (offsetd_groups)"),
        graph("Offsets", "short", by_instance="sum by (instance) (offsetd_offsets)"),
        graph(
            "Groups by verdict on their lag",
            "short",
            by_verdict="sum by (verdict) (offsetd_groups_by_verdict)",
        ),
        graph(
            "Partitions by verdict",
            "short",
            by_verdict="sum by (verdict) (offsetd_partitions_by_verdict)",
        ),
        graph(
            "Groups that are behind most",
            "short",
            "With metrics.lag.partitions.max above 0.",
            by_group="topk(10, sum by (group) (offsetd_group_lag_records))",
        ),
        graph(
            "Groups that commit most",
            "short",
            "Commits in the last minute.",
            by_group="topk(10, offsetd_group_commits_last_minute)",
        ),
        graph(
            "Commits that were answered without a record, or refused",
            "reqps",
            unchanged="sum(rate(offsetd_unchanged_commits_total[R]))",
            over_the_rate="sum(rate(offsetd_commits_over_rate_total[R]))",
        ),
        graph(
            "Groups that will lose offsets within a day",
            "short",
            by_instance="offsetd_expiring_groups",
        ),
        graph(
            "What expired",
            "short",
            "In an hour.",
            offsets="sum(increase(offsetd_expired_offsets_total[1h]))",
            groups="sum(increase(offsetd_expired_groups_total[1h]))",
        ),
        graph(
            "Why nothing expires",
            "short",
            "1 for each reason.",
            by_reason="max by (reason) (offsetd_expiry_suspended)",
        ),
        graph(
            "Since the last check of expiry",
            "s",
            by_instance="time() - offsetd_expiry_last_check_timestamp_seconds",
        ),
        graph("Time of a check of expiry", "s", by_instance="offsetd_expiry_check_seconds"),
        graph(
            "Machine's clock ahead of the server's time",
            "s",
            by_instance="offsetd_clock_offset_seconds",
        ),
    ),
)

CLEANER: Final = Dashboard(
    "cleaner-and-disk",
    "offsetd: cleaner and disk",
    (
        graph(
            "Free space",
            "bytes",
            free="min(offsetd_disk_free_bytes)",
            low_below="max(offsetd_disk_free_limit_bytes)",
            reserve="max(offsetd_disk_reserve_bytes)",
        ),
        graph("Largest log partitions", "bytes", by_partition="topk(5, offsetd_log_size_bytes)"),
        graph(
            "Journal in use",
            "percentunit",
            "Above 100 %, flushes wait for segments.",
            by_instance="offsetd_journal_used_ratio",
        ),
        quantiles("Time of an fdatasync of the journal", "offsetd_journal_fsync_duration_seconds"),
        graph(
            "Dirty part of the dirtiest log",
            "percentunit",
            by_instance="offsetd_cleaner_max_dirty_ratio",
        ),
        graph("Dirty bytes", "bytes", by_instance="sum by (instance) (offsetd_log_dirty_bytes)"),
        graph(
            "Longest wait for cleaning",
            "s",
            by_instance="max by (instance) (offsetd_log_oldest_dirty_age_seconds)",
        ),
        graph(
            "Rounds of cleaning in an hour",
            "short",
            rounds="sum(increase(offsetd_cleaner_rounds_total[1h]))",
            ended_early="sum(increase(offsetd_cleaner_full_map_rounds_total[1h]))",
        ),
        graph(
            "What rounds read and keep",
            "Bps",
            read="sum(rate(offsetd_cleaner_read_bytes_total[R]))",
            kept="sum(rate(offsetd_cleaner_retained_bytes_total[R]))",
        ),
        graph(
            "Use of the offset map",
            "percentunit",
            by_instance="offsetd_cleaner_max_buffer_utilization_ratio",
        ),
        graph(
            "Since a cleaner thread looked for work",
            "s",
            by_instance="offsetd_cleaner_since_last_run_seconds",
        ),
        graph(
            "Cleaner in trouble",
            "short",
            dead_threads="sum(offsetd_cleaner_dead_threads)",
            partitions_not_cleaned="sum(offsetd_cleaner_uncleanable_partitions)",
            partitions_with_blocked_retention="sum(offsetd_retention_blocked_partitions)",
        ),
        graph(
            "Failures of tasks in a row",
            "short",
            by_task="max by (task) (offsetd_task_failures_in_row)",
        ),
        graph("Time of tasks", "s", by_task="max by (task) (offsetd_task_last_duration_seconds)"),
        graph(
            "Since the moment of the last backup",
            "s",
            "With backup.target.",
            by_instance="time() - offsetd_backup_last_moment_timestamp_seconds",
        ),
        graph(
            "Backups in an hour",
            "short",
            made="sum(increase(offsetd_backups_total[1h]))",
            failed="sum(increase(offsetd_backup_failures_total[1h]))",
        ),
        graph(
            "Deleted files that still have room",
            "bytes",
            by_instance="offsetd_deletion_waiting_bytes",
        ),
    ),
)

CLUSTER: Final = Dashboard(
    "cluster",
    "offsetd: nodes on Kafka",
    (
        graph(
            "Log partitions of the nodes",
            "short",
            "As many should be serving as there are.",
            by_state="sum by (state) (offsetd_cluster_partitions)",
            all_of_them="max(offsetd_cluster_log_partitions)",
        ),
        graph(
            "Serving log partitions",
            "short",
            by_instance='offsetd_cluster_partitions{state="serving"}',
        ),
        graph("Nodes that a node knows of", "short", by_instance="offsetd_cluster_nodes"),
        quantiles("Time of a Kafka transaction", "offsetd_flush_duration_seconds"),
        graph(
            "Transactions that were sent again",
            "short",
            "In an hour. Some are normal while partitions move.",
            by_instance="increase(offsetd_cluster_transaction_retries_total[1h])",
        ),
        graph(
            "Producers that were replaced",
            "short",
            "In an hour.",
            by_instance="increase(offsetd_cluster_producer_replacements_total[1h])",
        ),
        graph(
            "Log partitions that moved",
            "short",
            "In an hour.",
            taken="sum(increase(offsetd_cluster_taken_partitions_total[1h]))",
            lost="sum(increase(offsetd_cluster_lost_partitions_total[1h]))",
        ),
        Panel(
            "Time of a takeover",
            "s",
            {
                f"p{q}": f"histogram_quantile(0.{q}, sum by (le) ("
                "increase(offsetd_cluster_takeover_duration_seconds_bucket[1h])))"
                for q in (50, 99)
            },
            "In an hour.",
        ),
        graph(
            "Records that the best copy is behind",
            "short",
            by_partition="topk(5, min by (partition) (offsetd_cluster_copy_lag_records))",
        ),
    ),
)

CLIENTS: Final = Dashboard(
    "clients",
    "offsetd: clients",
    (
        graph(
            "Calls that failed",
            "reqps",
            "Without those that a caller asked for wrongly, or gave up.",
            by_method=f"sum by (method) (rate(offsetd_rpcs_total{{{_FAILED}}}[R]))",
        ),
        Panel(
            "99th percentile of calls",
            "s",
            {
                "{{method}}": "histogram_quantile(0.99, sum by (le, method) "
                "(rate(offsetd_rpc_duration_seconds_bucket[R])))"
            },
        ),
        graph(
            "Open streams",
            "short",
            commits="sum(offsetd_open_streams)",
            watchers="sum(offsetd_watchers)",
        ),
        graph(
            "Commits in streams",
            "reqps",
            by_code="sum by (code) (rate(offsetd_stream_results_total[R]))",
        ),
        quantiles("Time of a stream's message", "offsetd_stream_message_duration_seconds"),
        graph(
            "Watchers that were cut off",
            "short",
            "In an hour.",
            by_instance="increase(offsetd_watchers_cut_off_total[1h])",
        ),
        graph(
            "Bytes of unanswered requests",
            "bytes",
            requests="sum(offsetd_request_in_flight_bytes)",
            answers="sum(offsetd_answer_in_flight_bytes)",
            limit="sum(offsetd_request_in_flight_limit_bytes)",
        ),
        graph("Unanswered requests", "short", by_instance="offsetd_requests_in_flight"),
        graph(
            "Connections that the server closed",
            "short",
            "In an hour.",
            by_reason="sum by (reason) (increase(offsetd_connections_closed_total[1h]))",
        ),
        graph(
            "Callers without a valid token or certificate",
            "reqps",
            by_instance="rate(offsetd_authentication_failures_total[R])",
        ),
        graph(
            "Rights that callers lacked",
            "reqps",
            by_operation="sum by (operation) (rate(offsetd_authorization_refusals_total[R]))",
        ),
        graph(
            "Calls above a quota",
            "reqps",
            by_quota="sum by (quota) (rate(offsetd_quota_refusals_total[R]))",
        ),
        graph(
            "Certificates end in",
            "s",
            by_instance="offsetd_ssl_certificate_expiry_timestamp_seconds - time()",
        ),
    ),
)

DASHBOARDS: Final = (OVERVIEW, GROUPS, CLEANER, CLUSTER, CLIENTS)
