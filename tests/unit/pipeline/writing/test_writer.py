"""offsetd_pipeline.writing.writer, with what is behind it: what comes of what tasks have packed."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow.parquet as pq
import pytest
from commit_store import CommitStore, failure
from offsetd_clients import GroupNotEmpty, InvalidRequest, OverLimit, Unavailable
from offsetd_clients.errors import FieldViolation
from offsetd_pipeline.server_options import ServerOptions
from offsetd_pipeline.writing.columns import WriteMode
from offsetd_pipeline.writing.options import OnError, WriteOptions
from offsetd_pipeline.writing.outcome import (
    OffsetsRejected,
    UnfinishedWrite,
    WrittenOffsets,
    outcome_of_json,
    outcome_to_json,
)
from offsetd_pipeline.writing.writer import OffsetdStreamWriter, OffsetdWriter, write_packed
from written_rows import columns_of, packed

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_pipeline.writing.packed_rows import PackedRows


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> CommitStore:
    store = CommitStore(conflicts_listed_max=1)
    monkeypatch.setattr(ServerOptions, "client", lambda _self, _retry: store)
    return store


class Writes:
    """Writes rows, and reads what was rejected."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "rejects"
        self.outcome = folder / "outcome.json"

    def __call__(
        self,
        *tasks: PackedRows,
        name: str = "job",
        mode: WriteMode = WriteMode.OVERWRITE,
        columns: Any = None,
        **options: Any,
    ) -> WrittenOffsets:
        given = WriteOptions(
            server=ServerOptions(server="h:1"),
            write_mode=mode,
            on_error=OnError.COLLECT,
            rejects=str(self.folder),
            outcome_file=str(self.outcome),
            **options,
        )
        write_packed(given, columns or columns_of(), name, tasks)
        return outcome_of_json(self.outcome.read_bytes())

    def reasons(self, name: str = "job") -> dict[tuple[str, int], str]:
        rows = pq.read_table(self.folder / f"rejected-{name}.parquet").to_pylist()
        return {(row["group"], row["partition"]): row["reason"] for row in rows}


@pytest.fixture
def write(tmp_path: Path) -> Writes:
    return Writes(tmp_path)


def rows(group: str, *offsets: int | None, first: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [
        {"group": group, "partition": partition, "offset": offset, **more}
        for partition, offset in enumerate(offsets, first)
    ]


def test_a_group_is_one_commit_however_many_tasks_had_its_rows(
    store: CommitStore, write: Writes
) -> None:
    tasks = [packed(columns_of(), *rows("a", 1, 2), *rows("b", 3)), packed(columns_of())]
    tasks.append(packed(columns_of(), *rows("a", 5, first=2)))
    written = write(*tasks)
    assert (written.group_count, written.offset_count, written.rejects) == (2, 4, None)
    assert store.numbers() == {"a": {0: 1, 1: 2, 2: 5}, "b": {0: 3}}
    assert len(store.requests) == 2
    assert store.closed == 1


def test_one_bad_row_keeps_its_group_of_all_tasks_from_being_sent(
    store: CommitStore, write: Writes
) -> None:
    tasks = [packed(columns_of(), *rows("a", 1, 2), *rows("b", 3))]
    tasks.append(packed(columns_of(), *rows("a", -1, first=2), {"group": None, "offset": 1}))
    written = write(*tasks)
    assert store.numbers() == {"b": {0: 3}}
    assert (written.rejected_group_count, written.rejected_offset_count) == (1, 4)
    assert written.reasons == {"GROUP_REJECTED": 2, "INVALID_OFFSET": 1, "INVALID_GROUP_ID": 1}
    assert {each.reason for each in written.first_rejected} == set(written.reasons)
    found = write.reasons()
    assert found.pop((None, 0)) == "INVALID_GROUP_ID"  # type: ignore[call-overload]
    assert found == {
        ("a", 0): "GROUP_REJECTED",
        ("a", 1): "GROUP_REJECTED",
        ("a", 2): "INVALID_OFFSET",
    }


def test_which_of_two_rows_is_meant_is_not_guessed(store: CommitStore, write: Writes) -> None:
    tasks = [packed(columns_of(), *rows("a", 1, 2)), packed(columns_of(), *rows("a", 1))]
    written = write(*tasks)
    assert store.requests == []
    assert written.reasons == {"DUPLICATE_ROW": 2, "GROUP_REJECTED": 1}
    assert write.reasons()[("a", 1)] == "GROUP_REJECTED"


@pytest.mark.parametrize(
    ("refusal", "reasons"),
    [
        (GroupNotEmpty(failure("FAILED_PRECONDITION", "NON_EMPTY_GROUP")), {"NON_EMPTY_GROUP": 2}),
        (OverLimit(failure("RESOURCE_EXHAUSTED", "")), {"RESOURCE_EXHAUSTED": 2}),
        (
            InvalidRequest(
                failure(
                    "INVALID_ARGUMENT",
                    "INVALID_METADATA",
                    field_violations=(
                        FieldViolation(field="offsets[1].metadata", description="too long"),
                    ),
                )
            ),
            {"INVALID_METADATA": 1, "GROUP_REJECTED": 1},
        ),
    ],
)
def test_what_the_server_refuses_is_rejected_and_the_others_are_written(
    refusal: Any, reasons: dict[str, int], store: CommitStore, write: Writes
) -> None:
    store.refusals["b"] = refusal
    written = write(packed(columns_of(), *rows("a", 1), *rows("b", 2, 3), *rows("c", 4)))
    assert store.numbers() == {"a": {0: 1}, "c": {0: 4}}
    assert written.reasons == reasons
    assert set(write.reasons()) == {("b", 0), ("b", 1)}


@pytest.mark.parametrize(
    "error",
    [
        Unavailable(failure("UNAVAILABLE", "")),
        OverLimit(failure("RESOURCE_EXHAUSTED", "DISK_FULL", retry_after_s=1.0)),
    ],
)
def test_what_may_pass_is_no_rows_fault_and_ends_the_write(
    error: Any, store: CommitStore, write: Writes
) -> None:
    store.refusals["b"] = error
    task = packed(columns_of(), *rows("a", 1), *rows("b", 2), *rows("c", 4))
    with pytest.raises(UnfinishedWrite, match="groups that are written: 1"):
        write(task)
    assert "c" not in store.numbers()
    store.refusals.clear()
    written = write(task)
    assert written.group_count == 3
    ids = [(each.group_id, each.request_id) for each in store.requests]
    assert len(set(ids)) == 3


def cas(*given: dict[str, Any]) -> PackedRows:
    return packed(columns_of("expected_offset", mode=WriteMode.COMPARE_AND_SET), *given)


def test_conflicts_are_told_for_each_row_also_those_the_answer_had_no_room_for(
    store: CommitStore, write: Writes
) -> None:
    columns = columns_of("expected_offset", mode=WriteMode.COMPARE_AND_SET)
    write(packed(columns_of(), *rows("a", 1, 2, 3, 4)), name="before")
    wanted = [
        {**row, "expected_offset": expected}
        for row, expected in zip(rows("a", 11, 12, 13, 14, 15), (1, 9, 9, 4, 9), strict=True)
    ]
    written = write(cas(*wanted), mode=WriteMode.COMPARE_AND_SET, columns=columns)
    assert written.group_count == 0
    assert written.reasons == {"OFFSET_CONFLICT": 3, "GROUP_REJECTED": 2}
    found = pq.read_table(write.folder / "rejected-job.parquet").to_pylist()
    assert [(row["partition"], row["stored_offset"]) for row in found] == [
        (0, None),
        (1, 2),
        (2, 3),
        (3, None),
        (4, None),
    ]
    assert [row["reason"] == "OFFSET_CONFLICT" for row in found] == [0, 1, 1, 0, 1]


@pytest.mark.parametrize("forgets", [False, True])
def test_a_write_again_is_written_also_when_its_ids_are_forgotten(
    forgets: bool,
    store: CommitStore,
    write: Writes,
) -> None:
    columns = columns_of("expected_offset", mode=WriteMode.COMPARE_AND_SET)
    task = cas(*rows("a", 1, 2, expected_offset=None))
    for _ in range(2):
        written = write(task, mode=WriteMode.COMPARE_AND_SET, columns=columns)
        assert (written.group_count, written.rejected_offset_count) == (1, 0)
        if forgets:
            store.known.clear()
    other = cas(*rows("a", 1, 3, expected_offset=None))
    written = write(other, mode=WriteMode.COMPARE_AND_SET, columns=columns)
    assert written.reasons == {"OFFSET_CONFLICT": 2}


def test_a_rejects_file_is_that_of_the_last_attempt(store: CommitStore, write: Writes) -> None:
    store.refusals["a"] = GroupNotEmpty(failure("FAILED_PRECONDITION", "NON_EMPTY_GROUP"))
    task = packed(columns_of(), *rows("a", 1))
    first = write(task)
    assert first.rejects == str(write.folder / "rejected-job.parquet")
    store.refusals.clear()
    assert write(task).rejects is None
    assert list(write.folder.iterdir()) == []


def test_rejects_are_an_error_unless_they_are_collected(
    store: CommitStore, write: Writes, caplog: pytest.LogCaptureFixture
) -> None:
    options = WriteOptions(server=ServerOptions(server="h:1"))
    task = packed(columns_of(), *rows("a", -1, *range(20)), *rows("b", 2))
    with pytest.raises(OffsetsRejected) as raised:
        OffsetdWriter(options, columns_of()).commit([None, task])
    told = str(raised.value)
    assert "21 offsets were rejected (GROUP_REJECTED 20, INVALID_OFFSET 1)" in told
    assert "those of 1 group; 1 offset of 1 group was written" in told
    assert "group 'a' t:0: INVALID_OFFSET: offset is below 0" in told
    assert store.numbers() == {"b": {0: 2}}
    collecting = attrs.evolve(options, on_error=OnError.COLLECT, rejects=str(write.folder))
    OffsetdWriter(collecting, columns_of()).commit([task])
    assert "21 offsets were rejected" in caplog.text


def test_those_who_are_told_of_rejects_are_told_where_all_of_them_are(
    store: CommitStore, write: Writes
) -> None:
    options = WriteOptions(server=ServerOptions(server="h:1"))
    task = packed(columns_of(), *rows("a", -1, *range(20)))
    with pytest.raises(OffsetsRejected, match="… and 16 more\nthe option rejects, a folder, gets"):
        OffsetdWriter(options, columns_of()).commit([task])
    keeping = attrs.evolve(options, rejects=str(write.folder))
    with pytest.raises(OffsetsRejected, match=f"… and 16 more\nall of them are in {write.folder}"):
        OffsetdWriter(keeping, columns_of()).commit([task])
    assert not store.numbers()


def test_a_batch_of_a_query_is_known_by_query_and_epoch(store: CommitStore) -> None:
    options = WriteOptions(server=ServerOptions(server="h:1"))
    writer = OffsetdStreamWriter(options, columns_of())
    task = attrs.evolve(packed(columns_of(), *rows("a", 1)), query_id="q")
    for epoch in (0, 0, 1):
        writer.commit([None, task], epoch)
    writer.commit([None, packed(columns_of())], 2)
    first, again, next_epoch = (each.request_id for each in store.requests)
    assert first == again != next_epoch


def test_batches_without_a_name_are_writes_of_their_own(store: CommitStore) -> None:
    options = WriteOptions(server=ServerOptions(server="h:1"))
    for given in (options, options, *[attrs.evolve(options, job_id="nightly")] * 2):
        OffsetdWriter(given, columns_of()).commit([packed(columns_of(), *rows("a", 1))])
    ids = [each.request_id for each in store.requests]
    assert len(set(ids)) == 3
    assert ids[2] == ids[3]


def test_nothing_is_asked_of_a_server_for_nothing(store: CommitStore, write: Writes) -> None:
    written = write(packed(columns_of()))
    assert (written.group_count, store.closed) == (0, 0)
    assert not write.folder.exists()


def test_an_outcome_goes_through_a_file() -> None:
    with pytest.raises(UnfinishedWrite, match="why"):
        outcome_of_json(outcome_to_json(UnfinishedWrite("why")))


def test_what_was_rejected_comes_whole_out_of_another_process() -> None:
    written = WrittenOffsets(
        group_count=1,
        offset_count=2,
        rejected_group_count=1,
        rejected_offset_count=3,
        reasons={"OFFSET_CONFLICT": 3},
    )
    error = pickle.loads(pickle.dumps(OffsetsRejected(written)))
    assert error.written == written
    assert str(error) == str(OffsetsRejected(written))


def test_a_row_with_a_time_that_python_has_none_for_is_told(write: Writes) -> None:
    columns = columns_of("commit_time", keep_commit_times=True)
    row = {"group": "g", "offset": 1, "commit_time": -(1 << 60)}  # Some 34,000 years ago.
    written = write(packed(columns, row), columns=columns, keep_commit_times=True)
    assert written.reasons == {"INVALID_COMMIT_TIME": 1}
    assert [each.group for each in written.first_rejected] == ["g"]


def test_very_many_rejects_are_all_in_the_file(store: CommitStore, write: Writes) -> None:
    store.refusals["a"] = GroupNotEmpty(failure("FAILED_PRECONDITION", "NON_EMPTY_GROUP"))
    store.refusals["b"] = store.refusals["a"]
    count = 15_000
    tasks = [packed(columns_of(), *rows(each, *range(count)), batch_rows=5000) for each in "ab"]
    written = write(*tasks)
    assert written.rejected_offset_count == 2 * count
    assert len(write.reasons()) == 2 * count
    assert len(written.first_rejected) == 5
