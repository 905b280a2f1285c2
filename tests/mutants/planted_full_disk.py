"""Planted bugs of how a full disk is met, and what notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_STORAGE = "storage/offsetd_storage"
_SPACE_TESTS = "tests/unit/storage/test_disk_space.py"
_FULL_DISK = "tests/sim/test_full_disk.py"

FULL_DISK_MUTANTS = (
    Mutant(
        name="the reserve is not given back",
        file=f"{_STORAGE}/disk/disk_space.py",
        replace=(
            "    def _give_back(self) -> None:\n"
            "        give_back_reserve(self._files, self._folder)\n"
        ),
        by="    def _give_back(self) -> None:\n",
        caught_by=_SPACE_TESTS,
    ),
    Mutant(
        name="the reserve is a length without blocks",
        file=f"{_STORAGE}/disk/disk_space.py",
        replace="        if not file.allocate(0, size_bytes):\n",
        by="        if False:\n",
        caught_by=_SPACE_TESTS,
    ),
    Mutant(
        name="commits are taken again before the reserve is there",
        file=f"{_STORAGE}/disk/disk_space.py",
        replace="        elif self._has_reserve() or not self.is_low:\n",
        by="        elif self._has_reserve() or True:\n",
        caught_by=_SPACE_TESTS,
    ),
    Mutant(
        name="a reserve that changes its size is given back before",
        file=f"{_STORAGE}/disk/disk_space.py",
        replace="            if not wanted_bytes:\n                self._give_back()\n",
        by="            self._give_back()\n",
        caught_by=_SPACE_TESTS,
    ),
    Mutant(
        name="a reserve for small segments has no room for deletions",
        file=f"{_STORAGE}/disk/disk_space.py",
        replace=", logs * _LOG_BYTES, _MORE_BYTES_MIN)",
        by=", 0)",
        caught_by=_SPACE_TESTS,
    ),
    Mutant(
        name="the reserve forgets the segments of before segment.bytes was made less",
        file=f"{_STORAGE}/maintenance/upkeep.py",
        replace="max(most, *(segment.size_bytes for segment in log.segments))\n",
        by="most\n",
        caught_by="tests/unit/storage/test_upkeep.py",
    ),
    Mutant(
        name="a low disk takes commits",
        file="coordinator/offsetd_coordinator/runtime/runtime.py",
        replace="            if self.disk.is_low:\n                refuse",
        by="            if False:\n                refuse",
        caught_by="tests/unit/coordinator/test_runtime.py",
    ),
    Mutant(
        name="active segments keep what was overwritten on a full disk",
        file=f"{_STORAGE}/maintenance/upkeep.py",
        replace="        return self.cleaner.compact(gaining, rolls_active=True).values()\n",
        by="        return self.cleaner.compact(gaining, rolls_active=False).values()\n",
        caught_by=_FULL_DISK,
    ),
    Mutant(
        name="a sync makes the files of a segment that was rolled",
        file=f"{_STORAGE}/log/segment_files.py",
        replace="            self._offset_file.make()\n            self._time_file.make()\n",
        by="            pass\n",
        caught_by="tests/unit/storage/test_partition_log_full.py",
    ),
    Mutant(
        name="a segment is rolled without room for its last index entry",
        file=f"{_STORAGE}/log/partition_log.py",
        replace="        old.make_room_to_rest()\n",
        by="",
        caught_by="tests/unit/storage/test_partition_log_full.py",
    ),
)
