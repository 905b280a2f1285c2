from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from groups_in_memory import GroupsInMemory
from offsetd_clients import OffsetChange, OffsetConflict, TopicPartition
from offsetd_pipeline import Checkpoint, CheckpointUnreadable, from_checkpoint, import_checkpoint
from offsetd_pipeline.queries.checkpoints import PassedOver
from spark_events import QUERY, SPARK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

BILLING = {
    TopicPartition("orders", 0): 10,
    TopicPartition("orders", 1): 18,
    TopicPartition("orders", 2): 15,
    TopicPartition("payments", 0): 5,
    TopicPartition("payments", 1): 5,
}
CONF = '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}'


@pytest.fixture
def billing(tmp_path: Path) -> Path:
    """A copy of a checkpoint that Spark wrote, of which batch 0 is gone."""
    shutil.copytree(SPARK / "two-sources", tmp_path / "billing")
    return tmp_path / "billing"


def written(folder: Path, files: dict[str, str]) -> str:
    for name, content in {"metadata": '{"id":"q"}', **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return str(folder)


def test_a_checkpoint_has_the_offsets_of_all_kafka_sources(billing: Path) -> None:
    assert from_checkpoint(str(billing)) == Checkpoint(
        path=str(billing),
        query_id=QUERY,
        batch_id=3,
        planned_batch_id=None,
        offsets=BILLING,
        passed_over=(),
    )


def test_the_last_batch_that_is_done_counts_unless_the_planned_one_is_asked_for(
    billing: Path,
) -> None:
    (billing / "commits" / "3").unlink()
    done = from_checkpoint(str(billing))
    assert (done.batch_id, done.planned_batch_id) == (2, 3)
    assert done.offsets[TopicPartition("orders", 2)] == 12
    planned = from_checkpoint(str(billing), through="planned")
    assert (planned.batch_id, planned.planned_batch_id) == (3, 3)
    assert planned.offsets == BILLING


def test_files_that_are_no_batches_are_passed_over(billing: Path) -> None:
    for name in (".3.crc", "9.tmp", ".9.4f1c.tmp", "_9", "9.compact"):
        (billing / "offsets" / name).write_text("")
        (billing / "commits" / name).write_text("")
    assert from_checkpoint(str(billing)).batch_id == 3


def test_a_checkpoint_of_continuous_processing_is_read(tmp_path: Path) -> None:
    files = {"offsets/13": 'v1\n\n{"t":{"0":10,"1":5}}', "commits/13": "v1\n{}"}
    found = from_checkpoint(written(tmp_path, files))
    assert found.offsets == {TopicPartition("t", 0): 10, TopicPartition("t", 1): 5}


def test_batches_are_numbers_not_words(tmp_path: Path) -> None:
    files = {
        f"{folder}/{number}": f'v1\n{CONF}\n{{"t":{{"0":{number}}}}}'
        for folder in ("offsets", "commits")
        for number in (9, 10)
    }
    assert from_checkpoint(written(tmp_path, files)).batch_id == 10


def test_sources_that_are_not_kafkas_are_told(tmp_path: Path) -> None:
    with_rate = from_checkpoint(str(SPARK / "with-rate"))
    assert with_rate.offsets == BILLING
    assert with_rate.passed_over == (PassedOver("1", "these are not offsets of topics: 0"),)
    delta = '{"sourceVersion":1,"reservoirId":"4f1c","reservoirVersion":7,"index":-1}'
    offsets = f'v1\n{CONF}\n-\n{delta}\n{{"t":{{"0":7}}}}\n{{"3":42}}'
    found = from_checkpoint(written(tmp_path, {"offsets/0": offsets, "commits/0": "v1\n{}"}))
    assert found.offsets == {TopicPartition("t", 0): 7}
    assert [(each.source, each.reason) for each in found.passed_over] == [
        ("0", "it has no offset yet"),
        ("1", "a Delta table"),
        ("3", 'these are not offsets of topics: {"3":42}'),
    ]


def test_a_checkpoint_of_named_sources_is_read() -> None:
    found = from_checkpoint(str(SPARK / "named-sources"))
    assert found.offsets == {at: BILLING[at] for at in BILLING if at.topic == "orders"}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, r"is not a checkpoint with a batch: it has no offsets/0"),
        ({"offsets/4": f"v1\n{CONF}\n-"}, r"no batch is done \(commits is empty\); batch 4 is"),
        (
            {"offsets/4": f"v1\n{CONF}\n-", "commits/3": "v1\n{}"},
            r"batch 3 is committed, but offsets/3 is missing",
        ),
        (
            {"offsets/0": f"v1\n{CONF}\n17\n-", "commits/0": "v1\n{}"},
            (
                r"has no source of Kafka's: source 0: these are not offsets of topics: 17; source"
                r" 1: it has no offset yet"
            ),
        ),
        ({"offsets/0": "v3\n{}\n-", "commits/0": "v1\n{}"}, r"a file of v1 or v2 is expected"),
        ({"offsets/0": "", "commits/0": "v1\n{}"}, r"a file of v1 or v2 is expected"),
        ({"offsets/0": f"v2\n{CONF}\n-", "commits/0": "v1\n{}"}, r"line 3 names no source"),
        (
            {
                "offsets/0": f'v1\n{CONF}\n{{"t":{{"0":1}}}}',
                "commits/0": "v1\n{}",
                "metadata": "[]",
            },
            r"/metadata names no query",
        ),
    ],
)
def test_what_is_no_checkpoint_of_a_kafka_query_is_an_error(
    files: dict[str, str], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointUnreadable, match=problem):
        from_checkpoint(written(tmp_path, files))


def test_a_place_that_only_spark_reads_needs_spark() -> None:
    with pytest.raises(CheckpointUnreadable, match=r"s3a://b/c is read through Spark"):
        from_checkpoint("s3a://b/c")


@pytest.fixture
def groups() -> GroupsInMemory:
    groups = GroupsInMemory()
    groups.put("g", "orders", 0, 4)  # Behind,
    groups.put("g", "orders", 1, 99)  # further,
    groups.put("g", "orders", 2, 15)  # and where the checkpoint is.
    return groups


def shown(changes: Iterable[OffsetChange]) -> list[tuple[str, int | None, int]]:
    return [(str(each.topic_partition), each.before, each.after) for each in changes]


NEW = [("payments:0", None, 5), ("payments:1", None, 5)]


def test_an_import_is_shown_before_it_is_done(billing: Path, groups: GroupsInMemory) -> None:
    before = groups.offsets("g")
    planned = import_checkpoint(from_checkpoint(str(billing)), groups, "g")
    assert shown(planned.changes) == [("orders:0", 4, 10), *NEW]
    assert shown(planned.held_back) == [("orders:1", 99, 18)]
    assert shown(planned.unchanged) == [("orders:2", 15, 15)]
    assert planned.revision is None
    assert groups.offsets("g") == before


def test_an_import_never_goes_back_unless_it_is_allowed_to(
    billing: Path, groups: GroupsInMemory
) -> None:
    checkpoint = from_checkpoint(str(billing))
    done = import_checkpoint(checkpoint, groups, "g", execute=True)
    assert done.revision is not None
    expected = {(at.topic, at.partition): offset for at, offset in BILLING.items()}
    assert groups.offsets("g") == {**expected, ("orders", 1): 99}
    again = import_checkpoint(checkpoint, groups, "g", execute=True)
    assert (again.changes, again.revision) == ((), None)
    back = import_checkpoint(checkpoint, groups, "g", allow_back=True, execute=True)
    assert shown(back.changes) == [("orders:1", 99, 18)]
    assert groups.offsets("g") == expected


@pytest.mark.parametrize(("topic", "partition"), [("payments", 1), ("orders", 0)])
def test_an_import_writes_nothing_over_what_came_meanwhile(
    topic: str, partition: int, billing: Path, groups: GroupsInMemory
) -> None:
    fetch = groups.fetch

    def fetch_and_be_late(*given: object, **named: object) -> object:
        found = fetch(*given, **named)  # type: ignore[arg-type]
        groups.put("g", topic, partition, 77)
        return dict(found)

    before = groups.offsets("g")
    groups.fetch = fetch_and_be_late  # type: ignore[method-assign, assignment]
    with pytest.raises(OffsetConflict):
        import_checkpoint(from_checkpoint(str(billing)), groups, "g", execute=True)
    assert groups.offsets("g") == {**before, (topic, partition): 77}
