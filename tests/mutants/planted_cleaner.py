"""Bugs of the cleaner's map, judgement and bytes; `planted` has what a mutant is."""

from __future__ import annotations

from mutants.planted import Mutant

_CLEAN = "tests/unit/storage/cleaner/test_clean.py"
_KEEP = "tests/unit/storage/cleaner/test_keep.py"
_OFFSET_MAP = "tests/unit/storage/cleaner/test_offset_map.py"
_REFERENCE = "tests/property/test_cleaned_records.py"
_RULES = "tests/property/test_cleaning_rules.py"

CLEANER_MUTANTS = (
    Mutant(
        name="the latest record of a key counts as superseded",
        where="offsetd_storage.kernels.compaction_filter:_pass_judgement",
        replace="if queue[row, 3] < latest:",
        by="if queue[row, 3] <= latest:",
        caught_by=_REFERENCE,
    ),
    Mutant(
        name="a tombstone goes without a horizon",
        where="offsetd_storage.kernels.compaction_filter:_horizon_has_passed",
        replace="attributes & HORIZON_BIT != 0 and now >= horizon",
        by="now >= horizon",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a tombstone goes a millisecond early",
        where="offsetd_storage.kernels.compaction_filter:_horizon_has_passed",
        replace="now >= horizon)",
        by="now >= horizon - 1)",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a tombstone is left without a horizon",
        where="offsetd_storage.kernels.segment_rewrite:retain_batches",
        replace="stamps = has_tombstones and not _has_horizon(buffer, position)",
        by="stamps = False",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a horizon is stamped anew",
        where="offsetd_storage.kernels.segment_rewrite:retain_batches",
        replace="stamps = has_tombstones and not _has_horizon(buffer, position)",
        by="stamps = has_tombstones",
        caught_by=_REFERENCE,
    ),
    Mutant(
        name="an abort marker can go while its transaction has batches",
        where="offsetd_storage.cleaner.cleaned_transactions:CleanedTransactions.end",
        replace="if not is_open:\n    return True",
        by="if not is_open or kind == producers.ABORT:\n    return True",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a batch passed by its header does not count for its transaction",
        where="offsetd_storage.kernels.compaction_filter:_batch_outlook",
        replace="return NEW_TRANSACTION, 0",
        by="return END, 0",
        caught_by=_REFERENCE,
    ),
    Mutant(
        name="bits are trusted beyond the end of the map",
        where="offsetd_storage.cleaner.offset_map:OffsetMap.build",
        replace="bits_end = min(offset_next, first_dirty + self._bits_max)",
        by="bits_end = first_dirty + self._bits_max",
        caught_by=_KEEP,
    ),
    Mutant(
        name="records beyond the end of the map are looked up",
        where="offsetd_storage.kernels.compaction_filter:_judge_records",
        replace="if offset < map_end:",
        by="if offset <= map_end:",
        caught_by=_REFERENCE,
    ),
    Mutant(
        name="the first record of a key has the bit",
        where="offsetd_storage.kernels.key_offsets:_put",
        replace="table[entry + 2] = queue[row, 3] + 1",
        by="table[entry + 2] = table[entry + 2] or queue[row, 3] + 1",
        caught_by=_OFFSET_MAP,
    ),
    Mutant(
        name="the last batch of a round goes with the stretch that it is in",
        where="offsetd_storage.kernels.bitmap:find_gone",
        replace="last_offset >= end or last_offset + 1 == round_end",
        by="last_offset >= end",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a producer's batches go with the stretch that they are in",
        where="offsetd_storage.kernels.bitmap:is_plain",
        replace="load_i64(buffer, position + PRODUCER_ID_AT) < 0\nand",
        by="",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a stretch goes for what is in another one",
        where="offsetd_storage.kernels.bitmap:find_gone",
        replace="bits_in(bits, stretches[row, FIRST_OFFSET] - first, last_offset - first) > 0",
        by="bits_in(bits, last_offset - first, last_offset - first) > 0",
        caught_by=_REFERENCE,
    ),
    Mutant(
        name="the headers of producers are taken for plain ones",
        where="offsetd_storage.log.segment:Segment.take_scan",
        replace="self.plain_bytes = 0 if scan.marked_batches else scan.valid_bytes",
        by="self.plain_bytes = scan.valid_bytes",
        caught_by=_CLEAN,
    ),
    Mutant(
        name="below a raised start it is forgotten what was aborted",
        where="offsetd_storage.cleaner.cleaning_round:_Round.__init__",
        replace="self._transactions = CleanedTransactions(history.aborted)",
        by=(
            "start = log.log_start_offset\n"
            "self._transactions = CleanedTransactions(\n"
            "    each for each in history.aborted if each.last_offset >= start\n"
            ")"
        ),
        caught_by=_RULES,
    ),
    Mutant(
        name="a marker makes the last batch of its producer unknown",
        where="offsetd_storage.cleaner.cleaned_transactions:_HistorySoFar.take",
        replace="before.last_data_offset if before and is_known else None",
        by="None",
        caught_by=_RULES,
    ),
    Mutant(
        name="a map that is to be filled whole has room for a key less",
        where="offsetd_storage.cleaner.offset_map:OffsetMap.__init__",
        replace="self._slots_max = self.slots + 1",
        by="self._slots_max = self.slots",
        caught_by=_OFFSET_MAP,
    ),
    Mutant(
        name="the hash has no secret",
        where="offsetd_storage.cleaner.offset_map:OffsetMap._clear",
        replace="self.secret[:] = np.frombuffer",
        by="self.secret[:] = 1 + 0 * np.frombuffer",
        caught_by=_OFFSET_MAP,
    ),
    Mutant(
        name="keys that begin alike have one hash",
        where="offsetd_storage.kernels.key_offsets:hash_key",
        replace="while size > 16:",
        by="while size > 16 and word < 6:",
        caught_by=_OFFSET_MAP,
    ),
    Mutant(
        name="what is rewritten is not checked first",
        where="offsetd_storage.kernels.segment_rewrite:_replace",
        replace="if not is_checked and not has_valid_checksum(buffer, position, size):",
        by="if False:",
        caught_by=_KEEP,
    ),
)
