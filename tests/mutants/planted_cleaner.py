"""Bugs of the cleaner's map, judgement and bytes; `planted` has what a mutant is."""

from __future__ import annotations

from mutants.planted import Mutant

_CLEANER = "storage/offsetd_storage/cleaner"
_KERNELS = "storage/offsetd_storage/kernels"
_CLEAN = "tests/unit/storage/cleaner/test_clean.py"
_KEEP = "tests/unit/storage/cleaner/test_keep.py"
_OFFSET_MAP = "tests/unit/storage/cleaner/test_offset_map.py"
_REFERENCE = "tests/property/test_cleaned_records.py"
_RULES = "tests/property/test_cleaning_rules.py"

CLEANER_MUTANTS = (
    Mutant(
        name="the latest record of a key counts as superseded",
        file="storage/offsetd_storage/kernels/record_retention.py",
        replace="if queue[row, 3] < latest:",
        by="if queue[row, 3] <= latest:",
        caught_by=_REFERENCE,
    ),
    Mutant(
        name="a tombstone goes without a horizon",
        file="storage/offsetd_storage/kernels/record_retention.py",
        replace="attributes & HORIZON_BIT != 0 and now >= horizon",
        by="now >= horizon",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a tombstone goes a millisecond early",
        file="storage/offsetd_storage/kernels/record_retention.py",
        replace="now >= horizon)",
        by="now >= horizon - 1)",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a tombstone is left without a horizon",
        file="storage/offsetd_storage/kernels/segment_rewrite.py",
        replace="stamps = has_tombstones and not _has_horizon(buffer, position)",
        by="stamps = False",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a horizon is stamped anew",
        file="storage/offsetd_storage/kernels/segment_rewrite.py",
        replace="stamps = has_tombstones and not _has_horizon(buffer, position)",
        by="stamps = has_tombstones",
        caught_by=_REFERENCE,
    ),
    Mutant(
        name="an abort marker can go while its transaction has batches",
        file=f"{_CLEANER}/transactions.py",
        replace="        if not is_open:\n            return True\n",
        by="        if not is_open or kind == producers.ABORT:\n            return True\n",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a batch passed by its header does not count for its transaction",
        file="storage/offsetd_storage/kernels/record_retention.py",
        replace="            return NEW_TRANSACTION, 0\n",
        by="            return END, 0\n",
        caught_by=_REFERENCE,
    ),
    Mutant(
        name="bits are trusted beyond the end of the map",
        file=f"{_CLEANER}/offset_map.py",
        replace="bits_end = min(offset_next, first_dirty + self._bits_max)",
        by="bits_end = first_dirty + self._bits_max",
        caught_by=_KEEP,
    ),
    Mutant(
        name="records beyond the end of the map are looked up",
        file="storage/offsetd_storage/kernels/record_retention.py",
        replace="if offset < map_end:",
        by="if offset <= map_end:",
        caught_by=_REFERENCE,
    ),
    Mutant(
        name="the first record of a key has the bit",
        file="storage/offsetd_storage/kernels/key_offsets.py",
        replace="    table[entry + 2] = queue[row, 3] + 1\n",
        by="    table[entry + 2] = table[entry + 2] or queue[row, 3] + 1\n",
        caught_by=_OFFSET_MAP,
    ),
    Mutant(
        name="the last batch of a round goes with the stretch that it is in",
        file=f"{_KERNELS}/bitmap.py",
        replace="last_offset >= end or last_offset + 1 == round_end",
        by="last_offset >= end",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a producer's batches go with the stretch that they are in",
        file=f"{_KERNELS}/bitmap.py",
        replace="load_i64(buffer, position + PRODUCER_ID_AT) < 0\n        and ",
        by="",
        caught_by=_KEEP,
    ),
    Mutant(
        name="a stretch goes for what is in another one",
        file=f"{_KERNELS}/bitmap.py",
        replace="bits_in(bits, stretches[row, FIRST_OFFSET] - first, last_offset - first) > 0",
        by="bits_in(bits, last_offset - first, last_offset - first) > 0",
        caught_by=_REFERENCE,
    ),
    Mutant(
        name="the headers of producers are taken for plain ones",
        file="storage/offsetd_storage/log/segment.py",
        replace="self.plain_bytes = 0 if scan.marked_batches else scan.valid_bytes",
        by="self.plain_bytes = scan.valid_bytes",
        caught_by=_CLEAN,
    ),
    Mutant(
        name="below a raised start it is forgotten what was aborted",
        file="storage/offsetd_storage/cleaner/cleaning_round.py",
        replace="        self._transactions = CleanedTransactions(history.aborted)\n",
        by="        start = log.log_start_offset\n"
        "        self._transactions = CleanedTransactions(\n"
        "            each for each in history.aborted if each.last_offset >= start\n"
        "        )\n",
        caught_by=_RULES,
    ),
    Mutant(
        name="a marker makes the last batch of its producer unknown",
        file=f"{_CLEANER}/transactions.py",
        replace="before.last_data_offset if before and is_known else None",
        by="None",
        caught_by=_RULES,
    ),
    Mutant(
        name="a map that is to be filled whole has room for a key less",
        file=f"{_CLEANER}/offset_map.py",
        replace="self._slots_max = self.slots + 1",
        by="self._slots_max = self.slots",
        caught_by=_OFFSET_MAP,
    ),
    Mutant(
        name="the hash has no secret",
        file=f"{_CLEANER}/offset_map.py",
        replace="self.secret[:] = np.frombuffer",
        by="self.secret[:] = 1 + 0 * np.frombuffer",
        caught_by=_OFFSET_MAP,
    ),
    Mutant(
        name="keys that begin alike have one hash",
        file="storage/offsetd_storage/kernels/key_offsets.py",
        replace="while size > 16:\n",
        by="while size > 16 and word < 6:\n",
        caught_by=_OFFSET_MAP,
    ),
    Mutant(
        name="what is rewritten is not checked first",
        file="storage/offsetd_storage/kernels/segment_rewrite.py",
        replace="if not is_checked and not has_valid_checksum(buffer, position, size):",
        by="if False:",
        caught_by=_KEEP,
    ),
)
