"""Planted bugs in what refuses newer formats, and in what tells versions."""

from __future__ import annotations

from mutants.planted import Mutant

_NEWER = "tests/unit/coordinator/test_newer_formats.py"
_VERSIONS = "tests/unit/clients/cli/test_versions.py"
_UNTOUCHED = "test_a_newer_file_is_refused_untouched_and_named_with_both_versions"

RELEASE_MUTANTS = (
    Mutant(
        name="a newer cleaner's checkpoint is noticed only when the folder is locked",
        where="offsetd_storage.recovery.survey:lock_folder",
        replace="(RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, CLEANER_CHECKPOINT)",
        by="(RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT)",
        caught_by=f"{_NEWER}::test_a_folder_with_a_newer_checkpoint_is_not_even_locked",
    ),
    Mutant(
        name="a newer checkpoint counts as damaged",
        where="offsetd_storage.folder.checkpoint_files:_check_version",
        replace="int(version) > CHECKPOINT_VERSION",
        by="int(version) > CHECKPOINT_VERSION + 1",
        caught_by=f"{_NEWER}::{_UNTOUCHED}",
    ),
    Mutant(
        name="a newer offsetd.last-up counts as damaged",
        where="offsetd_coordinator.expiry.uptime_marker:read_marker",
        replace="int(version) > LAST_UP_VERSION",
        by="int(version) > LAST_UP_VERSION + 1",
        caught_by=f"{_NEWER}::{_UNTOUCHED}",
    ),
    Mutant(
        name="a newer offsetd.last-up is noticed only when the folder was changed",
        where="offsetd_coordinator.server_folder:open_store",
        replace="read_marker(files, folder)",
        by="folder.exists()",
        caught_by=f"{_NEWER}::{_UNTOUCHED}",
    ),
    Mutant(
        name="a newer list of segments is read as if it were known",
        where="offsetd_storage.log.segment_list:read_segment_list",
        replace="int(version) > SEGMENT_LIST_VERSION",
        by="int(version) > SEGMENT_LIST_VERSION + 1",
        caught_by=f"{_NEWER}::{_UNTOUCHED}",
    ),
    Mutant(
        name="a newer quarantine file is read as if it were known",
        where="offsetd_storage.recovery.quarantine:read_quarantine_file",
        replace="version > QUARANTINE_FORMAT_VERSION",
        by="version > QUARANTINE_FORMAT_VERSION + 1",
        caught_by=f"{_NEWER}::{_UNTOUCHED}",
    ),
    Mutant(
        name="a newer journal is read as if it were known",
        where="offsetd_storage.journal.journal_format:decode_header",
        replace="version > FORMAT_VERSION",
        by="version > FORMAT_VERSION + 1",
        caught_by=f"{_NEWER}::{_UNTOUCHED}",
    ),
    Mutant(
        name="a newer journal is refused without its name",
        where="offsetd_storage.journal.journal_reader:JournalReader.header",
        replace="decode_header(self._window, self._window_end, name)",
        by="decode_header(self._window, self._window_end)",
        caught_by=f"{_NEWER}::{_UNTOUCHED}",
    ),
    Mutant(
        name="a node that does not answer is left out without a word",
        where="offsetd_clients.cli.versions:_servers",
        replace="if node.server is None:",
        by="if not node.address:",
        caught_by=_VERSIONS,
    ),
    Mutant(
        name="a server is asked although no address was given",
        where="offsetd_clients.cli.versions:_checked_address",
        replace="if address else None",
        by="if address else checked_address('127.0.0.1:1')",
        caught_by=_VERSIONS,
    ),
)
