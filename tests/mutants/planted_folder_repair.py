"""Planted bugs of the commands that repair a folder at rest."""

from __future__ import annotations

from mutants.planted import Mutant

_BROKEN_OFF = "tests/unit/coordinator/commands/test_broken_off_repairs.py"
_LOSSES = "offsetd_coordinator.offline.repair_losses"
_PLAN = "offsetd_storage.recovery.repair_plan"
_RANDOM = "tests/unit/coordinator/offline/test_repair_of_random_damage.py"
_REPAIR = "tests/unit/coordinator/commands/test_log_repair.py"
_TRANSACTIONS = "tests/unit/coordinator/commands/test_log_transactions.py"

FOLDER_REPAIR_MUTANTS = (
    Mutant(
        name="a repair tells no loss",
        where=f"{_LOSSES}:losses_of",
        replace="for batch in split_batches(bad.content):",
        by="for batch in ():",
        caught_by=_REPAIR,
    ),
    Mutant(
        name="a repair is silent on what cannot be read",
        where=f"{_LOSSES}:losses_of",
        replace="(*unreadable_parts, *repair.missing)",
        by="()",
        caught_by=_RANDOM,
    ),
    Mutant(
        name="a repair trusts the names in a batch that fails its checksum",
        where=f"{_LOSSES}:losses_of",
        replace="if doubtful:",
        by="if False:",
        caught_by=_REPAIR,
    ),
    Mutant(
        name="a lost record counts as replaced by an older one",
        where=f"{_LOSSES}:_loss",
        replace="kept.offset >= lost.log_offset",
        by="True",
        caught_by=_REPAIR,
    ),
    Mutant(
        name="a repair takes a batch with a wrong checksum",
        where=f"{_PLAN}:_batch_at",
        replace="len(batch) < header.size_bytes or computed_crc(batch) != header.crc",
        by="len(batch) < header.size_bytes",
        caught_by=_RANDOM,
    ),
    Mutant(
        name="a repair leaves out what follows a bad batch",
        where=f"{_PLAN}:_valid_batches",
        replace="end = size if following is None else following",
        by="end = size",
        caught_by=_RANDOM,
    ),
    Mutant(
        name="a repair is not in the audit log",
        where="offsetd_coordinator.administration.repair_journal:append_event",
        replace="store.produce(AUDIT_PARTITION, encode_batch([record], base_offset=0))",
        by="pass",
        caught_by=_REPAIR,
    ),
    Mutant(
        name="a repair rewrites before its entry is on the disk",
        where="offsetd_storage.recovery.folder_recovery:apply_all",
        replace="witness.begins(folder.files, plan.repair)",
        by="pass",
        caught_by=_BROKEN_OFF,
    ),
    Mutant(
        name="a repair forgets the entries of one before it",
        where="offsetd_coordinator.commands.log_repair:_Work.begins",
        replace="[*read_begun(files, self._folder), event]",
        by="[event]",
        caught_by=_BROKEN_OFF,
    ),
    Mutant(
        name="the entries of repairs are dropped if the audit log is damaged",
        where="offsetd_coordinator.administration.repair_journal:complete_repairs",
        replace="left.append(event)",
        by="done.append(event)",
        caught_by=_BROKEN_OFF,
    ),
    Mutant(
        name="an entry that the audit log cannot take keeps the others in the list",
        where="offsetd_coordinator.administration.repair_journal:_leave_only",
        replace="write_begun(files, folder, left)",
        by="pass",
        caught_by=_BROKEN_OFF,
    ),
    Mutant(
        name="an entry that is too large stays in the list for ever",
        where="offsetd_coordinator.administration.repair_journal:_append_fitting",
        replace="except RecordTooLarge:",
        by="except NewerFormat:",
        caught_by=_BROKEN_OFF,
    ),
    Mutant(
        name="the lists of an entry have no end",
        where="offsetd_coordinator.commands.log_repair:_listed",
        replace="if end <= _LIST_BYTES_MAX",
        by="if end",
        caught_by=_BROKEN_OFF,
    ),
    Mutant(
        name="a repair begins though a folder cannot be written",
        where="offsetd_coordinator.commands.log_repair:_refuse_unwritable",
        replace="not files.may_write(each)",
        by="False",
        caught_by=_BROKEN_OFF,
    ),
    Mutant(
        name="a transaction is committed instead of aborted",
        where="offsetd_coordinator.offline.open_transactions:abort_marker",
        replace="ControlType.ABORT",
        by="ControlType.COMMIT",
        caught_by=_TRANSACTIONS,
    ),
    Mutant(
        name="all producers' transactions are aborted",
        where="offsetd_coordinator.commands.log_transactions:_aborted",
        replace="if each.producer_id == producer_id",
        by="",
        caught_by=_TRANSACTIONS,
    ),
    Mutant(
        name="a transaction has the offsets of all others",
        where="offsetd_coordinator.offline.open_transactions:_transaction",
        replace="batch.producer_id == producer_id and batch.is_transactional",
        by="batch.is_transactional",
        caught_by=_TRANSACTIONS,
    ),
)
