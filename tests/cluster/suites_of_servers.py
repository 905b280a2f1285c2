"""Which suites of one server run on three nodes, and why others do not.

Stubs of such a suite are on an `OwnersChannel`, which finds the owner of each group as a client
does. In a suite that runs, what is about one server has the marker `single_server`.
"""

from __future__ import annotations

from typing import Final

ON_THREE_NODES: Final = (
    "tests/fault/test_administration.py",
    "tests/fault/test_bad_input.py",
    "tests/fault/test_client_versions.py",
    "tests/fault/test_clients.py",
    "tests/fault/test_commit_guards.py",
    "tests/fault/test_consumer.py",
    "tests/fault/test_examples.py",
    "tests/fault/test_extreme_values.py",
    "tests/fault/test_history.py",
    "tests/fault/test_leases.py",
    "tests/fault/test_membership.py",
    "tests/fault/test_offset_changes.py",
    "tests/fault/test_reasons.py",
    "tests/interop/test_cli_streams.py",
    "tests/interop/test_zookeeper_migration.py",
    "tests/promises/test_command_line_reference.py",
    "tests/promises/test_commit_storms.py",
    "tests/promises/test_history_guide.py",
    "tests/promises/test_lag_guide.py",
    "tests/promises/test_resetting_a_group.py",
)

_CRASHES = "kills of a server on its own disk; tests/cluster/test_faults.py kills nodes"
_FOLDER = "the folder of one server; that of a node is a copy"
_PORT = "the ports and the connections of one server"
_MEMORY = "the memory and the limits of one process"
_CLOCK = "the clock or the pauses of one process; tests/cluster/test_faults.py pauses nodes"
_METRICS = "the metrics, logs and traces of one process"
_ADMINISTRATION = "settings, audit and cleaning, which each node has of its own"
_BACKUPS = "backups of one server; tests/cluster/test_backups_of_nodes.py makes those of nodes"

LEFT_OUT: Final = {
    "tests/fault/test_attacks.py": _MEMORY,
    "tests/fault/test_backup_targets.py": _BACKUPS,
    "tests/fault/test_backups.py": _BACKUPS,
    "tests/fault/test_backups_ended.py": _BACKUPS,
    "tests/fault/test_bursts.py": _PORT,
    "tests/fault/test_consumers_killed.py": _CRASHES,
    "tests/fault/test_doctor.py": _FOLDER,
    "tests/fault/test_doctor_rights.py": _FOLDER,
    "tests/fault/test_ended_by_sigterm.py": _CRASHES,
    "tests/fault/test_failing_disk.py": _FOLDER,
    "tests/fault/test_full_disk.py": _FOLDER,
    "tests/fault/test_groups_from_backups.py": _BACKUPS,
    "tests/fault/test_histories.py": _CRASHES,
    "tests/fault/test_kill_loop.py": _CRASHES,
    "tests/fault/test_killed_repairs.py": _FOLDER,
    "tests/fault/test_kip_848_sessions.py": _FOLDER,
    "tests/fault/test_large_groups.py": _MEMORY,
    "tests/fault/test_looking_beside_a_cleaner.py": _FOLDER,
    "tests/fault/test_lost_generation.py": _CRASHES,
    "tests/fault/test_metrics.py": _METRICS,
    "tests/fault/test_moved_folder.py": _FOLDER,
    "tests/fault/test_offline_clean.py": _FOLDER,
    "tests/fault/test_paused_server.py": _CLOCK,
    "tests/fault/test_rotten_settings.py": _FOLDER,
    "tests/fault/test_server_life.py": _CRASHES,
    "tests/fault/test_set_clocks.py": _CLOCK,
    "tests/fault/test_sizing.py": _MEMORY,
    "tests/fault/test_taken_ports.py": _PORT,
    "tests/fault/test_tracing.py": _METRICS,
    "tests/fault/test_wire_floods.py": _PORT,
    "tests/promises/test_expiry_guide.py": _ADMINISTRATION,
    "tests/promises/test_metrics_guide.py": _METRICS,
    "tests/promises/test_settings_and_guarantees.py": _FOLDER,
}
"""What a suite is about, if it does not run on three nodes."""
