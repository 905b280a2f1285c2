"""Planted bugs of `offsetd doctor`."""

from __future__ import annotations

from mutants.planted import Mutant

_CHECKS = "offsetd_clients.cli.doctor.server_checks"
_MACHINE = "offsetd_clients.cli.doctor.machine_checks"
_FOLDER = "offsetd_coordinator.offline.folder_diagnosis"
_UNIT = "tests/unit/clients/cli/doctor/test_doctor_checks.py"
_FAULT = "tests/fault/test_doctor.py"

DOCTOR_MUTANTS = (
    Mutant(
        name="doctor passes over folders that its user may not write to",
        where=f"{_FOLDER}:_rights_to",
        replace="if not files.may_write(folder):",
        by="if False:",
        caught_by="tests/fault/test_doctor_rights.py",
    ),
    Mutant(
        name="doctor sends the token of the metrics in plain text to any machine",
        where="offsetd_clients.cli.doctor.scrapes:read_metrics",
        replace="not (is_secure or is_loopback(address))",
        by="False",
        caught_by="tests/unit/clients/cli/doctor/test_doctor_checks.py",
    ),
    Mutant(
        name="expiry that an operator turned off is a finding",
        where=f"{_CHECKS}:expiry",
        replace="held is not None and held.reason in EXPIRY_REMEDIES",
        by="held is not None",
        caught_by=f"{_UNIT}::test_a_server_that_is_well_has_no_finding",
    ),
    Mutant(
        name="a server that never made a backup is well",
        where=f"{_CHECKS}:backups",
        replace="age = up if last_s is None",
        by="age = timedelta(0) if last_s is None",
        caught_by=f"{_UNIT}::test_a_server_without_any_backup_is_told_of_once_two_are_missed",
    ),
    Mutant(
        name="a stop of long ago is told for ever",
        where=f"{_CHECKS}:last_stop",
        replace="stopped_cleanly is False and is_recent",
        by="stopped_cleanly is False",
        caught_by=f"{_UNIT}::test_a_server_that_is_well_has_no_finding",
    ),
    Mutant(
        name="the kind of a file system is that of the root",
        where=f"{_MACHINE}:kind_of",
        replace="len(place) >= len(best)",
        by="not best",
        caught_by=f"{_UNIT}::test_the_kind_of_the_file_system_counts",
    ),
    Mutant(
        name="what is bad is no failure",
        where="offsetd_clients.cli.doctor.doctor_command:register",
        replace="fail_if_any(list(bad), terminal)",
        by="pass",
        caught_by=f"{_FAULT}::test_a_folder_that_is_none_of_ours_is_told_and_is_not_changed",
    ),
    Mutant(
        name="a folder that a server has open was not closed",
        where=f"{_FOLDER}:_shutdown",
        replace="and not facts.is_open",
        by="",
        caught_by=f"{_FAULT}::test_a_server_that_is_well_has_no_finding_and_exits_with_0",
    ),
)
