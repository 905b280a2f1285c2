"""The files of tests that take longest, the longest first."""

from __future__ import annotations

from typing import Final

# They are begun before all others: then no worker is left alone with one of them at the end.
SLOW_FILES: Final = (
    "mutants/test_mutants.py",
    "fault/test_histories.py",
    "fault/test_failing_disk.py",
    "fault/test_kill_loop.py",
    "interop/test_kafka_cleaner.py",
    "interop/test_taking_turns.py",
    "interop/test_broker_on_our_groups.py",
    "sim/test_crashes.py",
    "sim/test_disk_errors.py",
    "sim/test_node_crashes.py",
    "property/test_group_machine.py",
    "property/test_cleaned_log_machine.py",
    "property/test_membership_machine.py",
)
