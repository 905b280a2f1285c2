"""Planted bugs of a journal that gets small and large again, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_TESTS = "tests/unit/storage/journal/test_journal_size.py"
_UPKEEP_TESTS = "tests/unit/storage/maintenance/test_upkeep_of_the_journal.py"
_CRASHES = (
    "tests/sim/test_journal_crashes.py"
    "::test_at_every_operation_of_a_rest_and_of_growth_every_crash_state_recovers"
)

JOURNAL_ROOM_MUTANTS = (
    Mutant(
        name="a journal rests though only it holds what was acknowledged",
        where="offsetd_storage.log.journal_size:JournalSize.rest",
        replace="if self.is_short or not (self.rest_gain_bytes and journal.is_settled):",
        by="if self.is_short or not self.rest_gain_bytes:",
        caught_by=f"{_TESTS}::test_a_journal_does_not_rest_before_all_is_in_the_segments",
    ),
    Mutant(
        name="a journal rests though a frame that is too large for it waits",
        where="offsetd_storage.log.journal_size:JournalSize.rest",
        replace="if self._unflushed:\n    return False",
        by="",
        caught_by=f"{_TESTS}::test_a_journal_does_not_rest_before_all_is_in_the_segments",
    ),
    Mutant(
        name="a journal rests though a log wants larger files",
        where="offsetd_storage.log.journal_size:JournalSize.rest",
        replace="if self.is_short or not (self.rest_gain_bytes and journal.is_settled):",
        by="if not (self.rest_gain_bytes and journal.is_settled):",
        caught_by=f"{_TESTS}::test_a_rest_of_one_file_takes_no_batch_that_the_other_cannot",
    ),
    Mutant(
        name="while one file is made small, the other counts for more than it takes",
        where="offsetd_storage.log.journal_size:JournalSize.rest",
        replace="least_bytes = min(size, *journal.sizes_bytes)",
        by="least_bytes = size",
        caught_by=f"{_TESTS}::test_a_rest_of_one_file_takes_no_batch_that_the_other_cannot",
    ),
    Mutant(
        name="frames stay as large as they were before the journal was made small",
        where="offsetd_storage.log.journal_size:JournalSize._bound",
        replace="self._unflushed.payload_bytes_max = payload_bytes",
        by="",
        caught_by=f"{_TESTS}::test_frames_that_were_begun_at_rest_fit_the_small_files",
    ),
    Mutant(
        name="a file at rest does not take the largest batch",
        where="offsetd_storage.journal.journal:Journal.least_file_bytes",
        replace="payload_bytes = self._entry_bytes() + max(batch_bytes_max, SECTOR_BYTES)",
        by="payload_bytes = self._entry_bytes() + SECTOR_BYTES",
        caught_by=f"{_TESTS}::test_a_full_disk_takes_no_flush_from_a_journal_at_rest",
    ),
    Mutant(
        name="a full disk that keeps a journal from growing ends the server",
        where="offsetd_storage.log.journal_size:JournalSize._made_spare",
        replace="if not may_pass(error):\n    raise",
        by="raise",
        caught_by=f"{_TESTS}::test_without_room_to_grow_the_files_just_take_more_turns",
    ),
    Mutant(
        name="the current file is made small before its turn has ended",
        where="offsetd_storage.log.journal_size:JournalSize._exchange_both",
        replace="journal.turn()",
        by="journal._place = 1 - journal._place",
        caught_by=f"{_TESTS}::test_a_journal_at_rest_takes_the_largest_batch_and_little_more",
    ),
    Mutant(
        name="nothing in a file that was exchanged tells which turns there were",
        where="offsetd_storage.journal.journal:Journal._put_spare",
        replace='b"" if is_first else turned',
        by='b""',
        caught_by=f"{_TESTS}::test_a_current_file_that_is_replaced_by_itself_of_before_is_missed",
    ),
    Mutant(
        name="nothing in a file that a start makes tells which turns there were",
        where="offsetd_storage.journal.journal:Journal._prepare",
        replace="self._put_spare(place, made)",
        by='self._files.put_spare(place, b"", 0)\nself._bytes[place] = made',
        caught_by=(
            f"{_TESTS}"
            "::test_an_older_copy_of_the_current_file_is_missed_though_a_start_made_both_anew"
        ),
    ),
    Mutant(
        name="the name of an exchanged journal file is not durable when it is used",
        where="offsetd_storage.journal.journal_files:JournalFiles.put_spare",
        replace="self._files.sync_folder(self._folder)",
        by="",
        caught_by=_CRASHES,
    ),
    Mutant(
        name="the zeros of an exchanged journal file are not durable when it gets its name",
        where="offsetd_storage.journal.journal_files:JournalFiles.make_spare",
        replace="    file.pwrite([zeros[: size_bytes - position]], position)\nfile.sync()",
        by="    pass\nfile.truncate(size_bytes)",
        caught_by=f"{_TESTS}::test_a_full_disk_takes_no_flush_from_a_journal_at_rest",
    ),
    Mutant(
        name="a journal file that was being made stays behind",
        where="offsetd_storage.recovery.folder_recovery:recover_folder",
        replace="if journal.drop_spare():",
        by="if False:",
        caught_by=f"{_TESTS}::test_a_start_has_the_room_of_a_file_that_was_being_made",
    ),
    Mutant(
        name="a start takes a journal file that the largest batch does not go into",
        where="offsetd_storage.journal.journal:Journal._will_do",
        replace="return self._least_file_bytes() <= size <= self._sizes.file_bytes",
        by="return size <= self._sizes.file_bytes",
        caught_by=f"{_TESTS}::test_a_start_makes_files_anew_that_do_not_take_the_largest_batch",
    ),
    Mutant(
        name="a journal grows whatever that leaves of the disk",
        where="offsetd_storage.maintenance.upkeep:Upkeep._is_room_left",
        replace="and left_bytes >= disk.marks.room_bytes_enough",
        by="",
        caught_by=(
            f"{_UPKEEP_TESTS}"
            "::test_a_small_journal_does_not_grow_where_the_disk_would_get_low_by_it"
        ),
    ),
    Mutant(
        name="a journal grows into the reserve that a low disk has given back",
        where="offsetd_storage.maintenance.upkeep:Upkeep._is_room_left",
        replace="disk.state is SpaceState.OK and left_bytes >= disk.marks.room_bytes_enough",
        by="left_bytes >= 2 * disk.marks.free_bytes_min",
        caught_by=f"{_UPKEEP_TESTS}::test_a_journal_does_not_grow_into_the_reserve",
    ),
    Mutant(
        name="growth that finds no room is tried again and again",
        where="offsetd_storage.maintenance.upkeep:Upkeep._has_grown",
        replace="if not has_grown:",
        by="if False:",
        caught_by=(f"{_UPKEEP_TESTS}::test_growth_that_finds_no_room_is_not_tried_again_at_once"),
    ),
    Mutant(
        name="a low disk is left with a journal that is made for a load",
        where="offsetd_storage.maintenance.upkeep:Upkeep._begin_relief",
        replace=(
            "if self._store.journal_size.rest_gain_bytes:\n"
            "    self._store.settle_points()\n"
            "    self._store.journal_size.rest()"
        ),
        by="",
        caught_by=f"{_UPKEEP_TESTS}::test_a_low_disk_gets_the_journals_room_too",
    ),
    Mutant(
        name="a journal grows for what comes once an hour",
        where="offsetd_storage.maintenance.upkeep:Upkeep._note_filled",
        replace="if filled_ms is None or self._filled_ms - filled_ms > _JOURNAL_REST_MS:",
        by="if filled_ms is None:",
        caught_by=(
            f"{_UPKEEP_TESTS}::test_a_small_journal_grows_when_it_fills_twice_within_a_minute"
        ),
    ),
    Mutant(
        name="a batch that the journal takes soon is refused for good",
        where="offsetd_storage.log.journal_size:JournalSize.refuse_large",
        replace="if batch_bytes <= log.batch_bytes_max and self.is_short:",
        by="if False:",
        caught_by=f"{_TESTS}::test_a_batch_that_became_possible_waits_until_the_files_have_grown",
    ),
)
