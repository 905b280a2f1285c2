"""Which files and gaps a time is about, and which groups are meant."""

from __future__ import annotations

import attrs
import pytest
from offsetd_pipeline.archive.archive_table import GroupSelection, earliest_ms, files_until, gaps_at
from offsetd_pipeline.archive.manifests import ArchivedFile, Gap, Manifest
from offsetd_pipeline.archive.restored_groups import PastOffset
from offsetd_storage.offsets_topic.placement import partition_of


def file(day: str | None, log_partition: int, earliest: int | None = None) -> ArchivedFile:
    return ArchivedFile(
        path=f"{day}/{log_partition}",
        log_partition=log_partition,
        day=day,
        record_count=1,
        size_bytes=1,
        first_log_offset=0,
        last_log_offset=0,
        earliest_ms=earliest,
    )


def gap(log_partition: int, from_ms: int | None, to_ms: int) -> Gap:
    return Gap(
        log_partition=log_partition,
        begin_log_offset=0,
        end_log_offset=9,
        missing_count=1,
        from_ms=from_ms,
        to_ms=to_ms,
    )


MANIFEST = Manifest(
    number=1,
    run_id="r",
    time_ms=0,
    source="s",
    folders=(),
    offsets_partitions=2,
    positions={},
    files=(file("2026-11-20", 0, 70), file("2026-11-21", 1, 50), file(None, 1)),
    gaps=(gap(0, None, 10), gap(1, 20, 30)),
    damage=(),
)


@pytest.mark.parametrize(
    ("at_ms", "log_partitions", "expected"),
    [
        (9, None, [0]),
        (10, None, []),
        (19, None, []),
        (20, None, [1]),
        (29, {0}, []),
        (29, {1}, [1]),
        (30, None, []),
    ],
)
def test_a_gap_is_from_the_last_record_before_until_all_is_known_again(
    at_ms: int, log_partitions: set[int] | None, expected: list[int]
) -> None:
    found = gaps_at([MANIFEST], at_ms, log_partitions)
    assert [each.log_partition for each in found] == expected


@pytest.mark.parametrize(
    ("day", "log_partitions", "expected"),
    [
        (None, None, {"2026-11-20/0", "2026-11-21/1", "None/1"}),
        ("2026-11-20", None, {"2026-11-20/0", "None/1"}),
        ("2026-11-20", {1}, {"None/1"}),
        ("2026-11-19", None, {"None/1"}),
    ],
)
def test_files_of_later_days_and_other_log_partitions_are_left_out(
    day: str | None, log_partitions: set[int] | None, expected: set[str]
) -> None:
    assert {each.path for each in files_until([MANIFEST], day, log_partitions)} == expected


def test_an_archive_begins_with_its_earliest_record() -> None:
    assert earliest_ms([MANIFEST]) == 50
    assert earliest_ms([attrs.evolve(MANIFEST, files=())]) is None


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (GroupSelection(), ["a", "ab", "b"]),
        (GroupSelection(groups=("b",)), ["b"]),
        (GroupSelection(group_prefix="a"), ["a", "ab"]),
        (GroupSelection(groups=("b",), group_prefix="ab"), ["ab", "b"]),
    ],
)
def test_groups_are_named_or_begin_so(selection: GroupSelection, expected: list[str]) -> None:
    assert [each for each in ("a", "ab", "b") if selection.takes_group(each)] == expected


def test_named_groups_are_where_their_hash_says() -> None:
    named = GroupSelection(groups=("a", "b"))
    assert named.log_partitions(50) == {partition_of("a", 50), partition_of("b", 50)}
    assert named.log_partitions(None) is None
    assert attrs.evolve(named, group_prefix="c").log_partitions(50) is None


@pytest.mark.parametrize(
    ("commit_ms", "expire_ms", "retention_ms", "expected"),
    [(5, None, 10, 15), (5, 7, 10, 7), (5, None, None, None), (None, None, 10, None)],
)
def test_an_offset_expires_by_its_own_time_or_by_its_retention(
    commit_ms: int | None, expire_ms: int | None, retention_ms: int | None, expected: int | None
) -> None:
    offset = PastOffset(
        topic="t",
        partition=0,
        offset=1,
        leader_epoch=None,
        metadata="",
        commit_time_ms=commit_ms,
        expire_time_ms=expire_ms,
    )
    assert offset.expires_ms(retention_ms) == expected
