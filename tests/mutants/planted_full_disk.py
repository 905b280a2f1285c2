"""Planted bugs of how a full disk is met, and what notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_SPACE_TESTS = "tests/unit/storage/disk/test_disk_space.py"
_FULL_DISK = "tests/sim/test_full_disk.py"

FULL_DISK_MUTANTS = (
    Mutant(
        name="the reserve is not given back",
        where="offsetd_storage.disk.disk_space:DiskSpace._give_back",
        replace="def _give_back(self) -> None:\n    give_back_reserve(self._files, self._folder)",
        by="def _give_back(self) -> None:",
        caught_by=_SPACE_TESTS,
    ),
    Mutant(
        name="the reserve is a length without blocks",
        where="offsetd_storage.disk.disk_space:make_reserve",
        replace="if not file.allocate(0, size_bytes):",
        by="if False:",
        caught_by=_SPACE_TESTS,
    ),
    Mutant(
        name="commits are taken again before the reserve is there",
        where="offsetd_storage.disk.disk_space:DiskSpace.check",
        replace="elif self._has_reserve() or not self.is_low:",
        by="elif self._has_reserve() or True:",
        caught_by=_SPACE_TESTS,
    ),
    Mutant(
        name="a reserve that changes its size is given back before",
        where="offsetd_storage.disk.disk_space:DiskSpace._has_reserve",
        replace="if not wanted_bytes:\n    self._give_back()",
        by="self._give_back()",
        caught_by=_SPACE_TESTS,
    ),
    Mutant(
        name="a reserve for small segments has no room for deletions",
        where="offsetd_storage.disk.disk_space:reserve_bytes_for",
        replace=", logs * _LOG_BYTES, _MORE_BYTES_MIN)",
        by=", 0)",
        caught_by=_SPACE_TESTS,
    ),
    Mutant(
        name="the reserve forgets the segments of before segment.bytes was made less",
        where="offsetd_storage.maintenance.upkeep:Upkeep._reserve_bytes_needed",
        replace="max(most, *(segment.size_bytes for segment in log.segments))",
        by="most",
        caught_by="tests/unit/storage/maintenance/test_upkeep.py",
    ),
    Mutant(
        name="a low disk takes commits",
        where="offsetd_coordinator.runtime.runtime:Runtime.submit",
        replace="if self.disk.is_low:\n    refuse_unless_it_deletes",
        by="if False:\n    refuse_unless_it_deletes",
        caught_by="tests/unit/coordinator/runtime/test_runtime.py",
    ),
    Mutant(
        name="active segments keep what was overwritten on a full disk",
        where="offsetd_storage.maintenance.upkeep:Upkeep._begin_relief",
        replace="return self.cleaner.compact(gaining, rolls_active=True).values()",
        by="return self.cleaner.compact(gaining, rolls_active=False).values()",
        caught_by=_FULL_DISK,
    ),
    Mutant(
        name="a sync makes the files of a segment that was rolled",
        where="offsetd_storage.log.segment_files:SegmentFiles.__init__",
        replace="self._offset_file.make()\nself._time_file.make()",
        by="pass",
        caught_by="tests/unit/storage/log/test_partition_log_full.py",
    ),
    Mutant(
        name="a segment is rolled without room for its last index entry",
        where="offsetd_storage.log.partition_log:PartitionLog._roll",
        replace="old.make_room_to_rest()",
        by="",
        caught_by="tests/unit/storage/log/test_partition_log_full.py",
    ),
)
