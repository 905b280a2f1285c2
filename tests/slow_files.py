"""The files of tests that take longest, the longest first."""

from __future__ import annotations

from typing import Final

# They are begun before all others: then no worker is left alone with one of them at the end.
SLOW_FILES: Final = (
    "mutants/test_mutants.py",
    "fault/test_histories.py",
    "fault/test_server_life.py",
    "fault/test_large_groups.py",
    "fault/test_kill_loop.py",
    "fault/test_failing_disk.py",
    "interop/test_extras.py",
    "interop/test_set_up.py",
    "interop/test_taking_turns.py",
    "interop/test_zookeeper_migration.py",
    "spark/test_selections.py",
    "spark/test_bulk_migration.py",
    "spark/test_streams.py",
    "spark/test_cluster.py",
    "spark/test_kafka_queries.py",
    "spark/test_archive.py",
    "spark/test_spark_guide_promises.py",
    "spark/test_restore_promises.py",
    "spark/test_bulk_migration_promises.py",
    "sim/test_crashes.py",
    "sim/test_disk_errors.py",
    "property/test_group_machine.py",
    "interop/test_broker_on_our_folders.py",
    "unit/clients/test_cli_main.py",
    "interop/test_readme.py",
    "interop/test_kafka_cleaner.py",
    "interop/test_kafka_consumer.py",
    "interop/test_migrate_kafka.py",
    "interop/test_kafka_migration_promises.py",
    "interop/test_terminal_programs.py",
    "interop/test_cli_streams.py",
    "interop/test_documented_fields.py",
    "sim/test_cleaning_store_crashes.py",
    "fault/test_client_versions.py",
    "fault/test_clients.py",
    "fault/test_membership.py",
    "fault/test_history.py",
    "interop/test_broker_on_our_groups.py",
)
