"""Large groups are changed in turns: others work meanwhile, and nobody sees half a change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from offsetd.v1 import admin_service_pb2, group_service_pb2, history_pb2, offset_service_pb2
from offsetd_coordinator.calls import answer_reservations, current_call
from offsetd_coordinator.calls.connections import AnswerBudget, Connection
from offsetd_coordinator.changes import large_decisions
from offsetd_coordinator.committed_offsets import OffsetRows
from offsetd_coordinator.errors import (
    CoordinatorError,
    CoordinatorLoadInProgress,
    GroupIdNotFound,
    InvalidCommitSize,
)
from offsetd_coordinator.history import history_rows
from offsetd_coordinator.large_groups import group_reading, large_changes
from offsetd_coordinator.messages import audit_events
from offsetd_coordinator.requests import CommitOffsets, CommitReply, OffsetEntry
from offsetd_coordinator.runtime import runtime as runtime_module
from offsetd_coordinator.runtime.runtime import Runtime
from offsetd_coordinator.services import history_calls, offset_imports, reset_calls
from offsetd_coordinator.services.group_calls import GroupService
from offsetd_coordinator.services.history_calls import HistoryService
from offsetd_coordinator.services.offset_imports import ImportService
from offsetd_coordinator.services.reset_calls import ResetCalls
from offsetd_coordinator.state import offset_batches, tombstone_batches
from offsetd_coordinator.state.offset_table import OffsetTable
from serving_nodes import METADATA_UNITS_MAX, WAIT_SECONDS, ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from offsetd_coordinator.requests import Decision
    from offsetd_coordinator.shard.shard import Shard
    from offsetd_storage.disk.simulated_files import SimulatedFiles

SLICE = 64
OFFSETS = 10 * SLICE
TOPICS = 10
Stored = dict[tuple[str, int], int]


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (
        runtime_module,
        group_reading,
        history_rows,
        large_changes,
        large_decisions,
        audit_events,
        history_calls,
        offset_imports,
        reset_calls,
    ):
        monkeypatch.setattr(module, "SLICE_ROWS", SLICE)
    monkeypatch.setattr(group_reading, "SLICE_BLOCKS", 8)
    monkeypatch.setattr(large_decisions, "fits_one_batch", lambda *_: False)
    monkeypatch.setattr(large_decisions, "fit_one_batch", lambda *_: False)


def name(place: int) -> tuple[str, int]:
    return f"t{place % TOPICS}", place


async def commit(serving: ServingNode, value: int, *places: int, group: str = "large") -> None:
    await serving.commit_offsets(
        group,
        *(
            {"topic": name(place)[0], "partition": place, "offset": value, "metadata": f"m{value}"}
            for place in places
        ),
    )


async def fetched(serving: ServingNode, group: str = "large") -> Stored:
    [found] = await serving.fetch(group)
    return {(each.topic, each.partition): each.offset for each in found.offsets}


async def clone(serving: ServingNode) -> Any:
    request = group_service_pb2.CloneGroupRequest(
        source_group_id="source", target_group_id="large", overwrite=True, request_id="r"
    )
    answer = await ResetCalls(
        serving.node, None, metadata_units_max=METADATA_UNITS_MAX
    ).clone_group(request.SerializeToString())
    return group_service_pb2.CloneGroupResponse.FromString(answer)


async def restore(serving: ServingNode, **fields: Any) -> Any:
    request = history_pb2.RestoreGroupRequest(
        group_id="large", revision=_REVISION, request_id="r", **fields
    )
    answer = await HistoryService(serving.node).restore_group(request.SerializeToString())
    return history_pb2.RestoreGroupResponse.FromString(answer)


async def delete(serving: ServingNode, **fields: Any) -> Any:
    request = offset_service_pb2.DeleteOffsetsRequest(
        group_id="large", topics=[f"t{each}" for each in range(TOPICS)], request_id="r", **fields
    )
    answer = await serving.offsets.delete_offsets(request.SerializeToString())
    return offset_service_pb2.DeleteOffsetsResponse.FromString(answer)


async def delete_group(serving: ServingNode, **fields: Any) -> Any:
    request = group_service_pb2.DeleteGroupRequest(group_id="large", request_id="r", **fields)
    answer = await GroupService(serving.node).delete_group(request.SerializeToString())
    return group_service_pb2.DeleteGroupResponse.FromString(answer)


async def import_large(serving: ServingNode) -> Any:
    options = admin_service_pb2.ImportOffsetsOptions(
        format=admin_service_pb2.OFFSET_FORMAT_KAFKA_CSV, group_id="large", request_id="r"
    )
    lines = "".join(f"{name(place)[0]},{place},7\n" for place in reversed(range(OFFSETS)))

    async def messages() -> AsyncIterator[bytes]:
        yield admin_service_pb2.ImportOffsetsRequest(
            options=options, content=lines.encode()
        ).SerializeToString()

    service = ImportService(serving.node, metadata_units_max=METADATA_UNITS_MAX)
    answer = await service.import_offsets(messages())
    response = admin_service_pb2.ImportOffsetsResponse.FromString(answer)
    assert not response.groups[0].HasField("error"), response
    return response


_REVISION = OFFSETS - 1
AT_FIRST = {name(place): 5 for place in range(OFFSETS)}
BEFORE = {name(place): 6 for place in range(SLICE, OFFSETS)} | {
    (name(place)[0], place): 6 for place in range(OFFSETS, OFFSETS + 10)
}
CLONED = BEFORE | {name(place): 7 for place in range(OFFSETS)}
CLONED_ALONE = dict.fromkeys(AT_FIRST, 7)
CHANGES: dict[str, tuple[Any, Stored]] = {
    "clone": (clone, CLONED),
    "restore": (restore, AT_FIRST),
    "delete-offsets": (delete, {}),
    "delete-group": (delete_group, {}),
    "import": (import_large, CLONED),
}
EACH = pytest.mark.parametrize(("change", "after"), CHANGES.values(), ids=CHANGES)


async def fill(serving: ServingNode) -> None:
    """A large group as it was, and then as it is; and one to be copied."""
    await commit(serving, 5, *range(OFFSETS))
    request = offset_service_pb2.DeleteOffsetsRequest(group_id="large", topics=["t"])
    await serving.offsets.delete_offsets(request.SerializeToString())
    gone = [{"topic": name(place)[0], "partition": place} for place in range(SLICE)]
    request = offset_service_pb2.DeleteOffsetsRequest(group_id="large", partitions=gone)
    await serving.offsets.delete_offsets(request.SerializeToString())
    await commit(serving, 6, *range(SLICE, OFFSETS + 10))
    await commit(serving, 7, *range(OFFSETS), group="source")
    assert await fetched(serving) == BEFORE


class Turns:
    """Counts the rows that are touched in each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = self.now = self.writes = 0
        self._loop = asyncio.get_running_loop()
        self._thread = asyncio.current_task()
        self._is_over = False
        self._next()
        of_entries, write = OffsetRows.of_entries, Runtime.write
        entries_of = OffsetTable.entries_of

        def counted_entries(offsets: Any, entries: Any) -> OffsetRows:
            self._note(len(entries))
            return of_entries(offsets, entries)

        def counted_listing(offsets: OffsetTable, group_id: bytes) -> Any:
            entries = entries_of(offsets, group_id)
            self._note(len(entries))
            return entries

        def counted_write(
            runtime: Runtime, partition: int, shard: Shard, step: Decision, **named: Any
        ) -> None:
            before = shard.offset_next
            write(runtime, partition, shard, step, **named)
            self.writes += 1
            self._note(shard.offset_next - before)

        monkeypatch.setattr(OffsetRows, "of_entries", staticmethod(counted_entries))
        monkeypatch.setattr(OffsetTable, "entries_of", counted_listing)
        monkeypatch.setattr(Runtime, "write", counted_write)

    def _next(self) -> None:
        self.now = 0
        if not self._is_over:
            self._loop.call_soon(self._next)

    def _note(self, rows: int) -> None:
        self.now += rows
        self.most = max(self.most, self.now)

    def end(self) -> None:
        self._is_over = True


@EACH
async def test_a_large_change_does_what_a_small_one_does(change: Any, after: Stored) -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        await asyncio.wait_for(change(serving), WAIT_SECONDS)
        assert await fetched(serving) == after
    async with serving_node(partitions=1, files=serving.files) as again:
        assert await fetched(again) == after


@pytest.mark.slow
@EACH
async def test_what_fits_one_batch_is_written_at_once(
    change: Any, after: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a crash leaves all of it, or nothing."""
    monkeypatch.setattr(large_decisions, "fits_one_batch", offset_batches.fits_one_batch)
    monkeypatch.setattr(large_decisions, "fit_one_batch", tombstone_batches.fit_one_batch)
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        with monkeypatch.context() as patch:
            turns = Turns(patch)
            first = await asyncio.wait_for(change(serving), WAIT_SECONDS)
            turns.end()
        assert turns.writes == 1
        assert await fetched(serving) == after
        again = await asyncio.wait_for(change(serving), WAIT_SECONDS)
        if hasattr(first, "revision"):
            assert again.revision == first.revision
        if isinstance(first, history_pb2.RestoreGroupResponse):
            revisions = {
                each.partition: each.revision for each in serving.runtime.shards[0].fetch(b"large")
            }
            for each in first.changes:
                if each.HasField("offset_after"):
                    assert each.revision.log_offset == revisions[each.partition]


@EACH
async def test_no_turn_of_a_change_deals_with_more_than_a_slice(
    change: Any, after: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        with monkeypatch.context() as patch:
            turns = Turns(patch)
            await asyncio.wait_for(change(serving), WAIT_SECONDS)
            turns.end()
        assert turns.writes >= OFFSETS // SLICE - 1
        assert 0 < turns.most <= SLICE


@pytest.mark.slow
@EACH
async def test_others_commit_meanwhile_and_readers_see_all_of_a_change_or_nothing(
    change: Any, after: Stored
) -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        task = asyncio.create_task(change(serving))
        runtime, seen = serving.runtime, []
        others = refused_writers = refused_readers = 0
        while not task.done():
            _, outcome = runtime.submit(one_commit(b"other", others))
            assert isinstance(outcome, CommitReply)
            others += 1
            _, stored = runtime.fetch(b"large")
            if isinstance(stored, CoordinatorLoadInProgress):
                refused_readers += 1
            else:
                assert isinstance(stored, list)
                seen.append({(each.topic.decode(), each.partition): each.offset for each in stored})
            if runtime.shards[0].holds:
                _, outcome = runtime.submit(one_commit(b"large", 99))
                assert isinstance(outcome, CoordinatorLoadInProgress)
                refused_writers += 1
            await asyncio.sleep(0)
        await asyncio.wait_for(task, WAIT_SECONDS)
        assert all(each in (BEFORE, after) for each in seen)
        assert await fetched(serving) == after
        assert others >= refused_readers >= OFFSETS // SLICE - 1
        assert refused_writers > refused_readers


def one_commit(group_id: bytes, offset: int) -> CommitOffsets:
    return CommitOffsets.of(group_id, [OffsetEntry(topic=b"t0", partition=0, offset=offset)])


@EACH
async def test_a_request_that_comes_again_is_answered_once_the_change_is_done(
    change: Any, after: Stored
) -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        task = asyncio.create_task(change(serving))
        for _ in range(3):
            await asyncio.sleep(0)
        first = await asyncio.wait_for(task, WAIT_SECONDS)
        end = serving.runtime.shards[0].offset_next
        again = await asyncio.wait_for(change(serving), WAIT_SECONDS)
        assert serving.runtime.shards[0].offset_next == end
        if hasattr(first, "revision"):
            assert again.revision == first.revision
        assert await fetched(serving) == after


@EACH
async def test_a_change_that_is_being_written_goes_on_without_its_caller(
    change: Any, after: Stored
) -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        task = asyncio.create_task(change(serving))
        await until_writing(serving)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(serving.large_changes.until_ended(), WAIT_SECONDS)
        assert await fetched(serving) == after


@EACH
async def test_a_change_whose_caller_goes_before_it_is_written_is_none(
    change: Any, after: Stored
) -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        end = serving.runtime.shards[0].offset_next
        task = asyncio.create_task(change(serving))
        await turns_until(lambda: bool(serving.runtime.shards[0].holds))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(serving.large_changes.until_ended(), WAIT_SECONDS)
        assert serving.runtime.shards[0].offset_next == end
        assert not serving.runtime.shards[0].holds
        assert await fetched(serving) == BEFORE


@EACH
async def test_what_a_change_reads_counts_while_it_goes_on_and_leaves_room_for_others(
    change: Any, after: Stored
) -> None:
    budget = AnswerBudget(10_000)
    held: list[int] = []

    async def call() -> None:
        current_call.note_connection(Connection("one", budget))
        await change(serving)
        answer_reservations.let_go()

    async with serving_node(partitions=1) as serving:
        await fill(serving)
        task = asyncio.create_task(call())
        while not task.done():
            held.append(budget.bytes_held)
            await asyncio.sleep(0)
        await task
        assert max(held) == budget.bytes_max // 2
        assert budget.bytes_held == 0
        assert await fetched(serving) == after


async def until_writing(serving: ServingNode) -> None:
    holds = serving.runtime.shards[0].holds
    await turns_until(lambda: any(hold.is_writing for hold in holds))


async def turns_until(holds: Callable[[], bool]) -> None:
    """Looks in each turn of the loop."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0)


async def power_cut_at(serving: ServingNode, slices: int, change: Any) -> SimulatedFiles:
    """The disk as a power cut leaves it when so many slices of a change are durable."""
    cut: list[SimulatedFiles] = []
    runtime, left = serving.runtime, slices
    write = runtime.write

    def counted(*arguments: Any, **named: Any) -> None:
        nonlocal left
        write(*arguments, **named)
        left -= 1
        if not left:
            serving.store.flush()
            cut.append(serving.files.power_cut())

    runtime.write = counted  # type: ignore[method-assign]
    await asyncio.wait_for(change(serving), WAIT_SECONDS)
    return cut[0]


@EACH
async def test_what_a_crash_cut_off_is_done_by_the_same_request(change: Any, after: Stored) -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        cut = await power_cut_at(serving, 3, change)
    async with serving_node(partitions=1, files=cut) as again:
        torn = await fetched(again)
        assert torn not in (BEFORE, after)
        await asyncio.wait_for(change(again), WAIT_SECONDS)
        assert await fetched(again) == after


async def test_every_change_is_told_with_the_revision_of_its_record() -> None:
    """Although others' records lie between its own."""
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        task = asyncio.create_task(restore(serving))
        others = 0
        while not task.done():
            await commit(serving, others, 0, group="other")
            others += 1
        done = await task
        stored = {
            each.partition: each.revision for each in serving.runtime.shards[0].fetch(b"large")
        }
        listed = [(each.topic, each.partition) for each in done.changes]
        assert listed == sorted(listed, key=lambda each: (each[0].encode(), each[1]))
        for each in done.changes:
            if each.HasField("offset_after"):
                assert each.revision.log_offset == stored[each.partition]
                assert each.offset_after == 5
        assert {each.partition for each in done.changes} == set(range(OFFSETS + 10))
        dry = await restore(serving, validate_only=True)
        assert not dry.changes


async def test_a_dry_run_holds_nobody_up() -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        dry = asyncio.create_task(restore(serving, validate_only=True))
        while not dry.done():
            await commit(serving, 6, OFFSETS - 1)
        assert len((await dry).changes) == OFFSETS + 10
        assert await fetched(serving) == BEFORE


async def test_a_reset_of_more_than_a_batch_takes_is_refused_and_of_less_is_done() -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        admin = ResetCalls(serving.node, None, metadata_units_max=METADATA_UNITS_MAX)
        request = offset_service_pb2.ResetOffsetsRequest(group_id="large", offset=3)
        answer = await admin.reset_offsets(request.SerializeToString())
        response = offset_service_pb2.ResetOffsetsResponse.FromString(answer)
        assert len(response.changes) == len(BEFORE)
        assert {each.offset_before for each in response.changes} == {6}
        assert await fetched(serving) == dict.fromkeys(BEFORE, 3)
        request = offset_service_pb2.ResetOffsetsRequest(group_id="large", topics=["t1"], offset=4)
        await admin.reset_offsets(request.SerializeToString())
        stored = await fetched(serving)
        assert stored == {at: 4 if at[0] == "t1" else 3 for at in BEFORE}
        with pytest.raises(InvalidCommitSize):
            large_decisions.check_size(1_000_000, b"large", 1_048_588)


async def test_a_member_may_not_come_while_its_group_is_changed() -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        task = asyncio.create_task(delete_group(serving))
        await until_writing(serving)
        with pytest.raises(CoordinatorLoadInProgress):
            serving.runtime.shards[0].holds.check_writer(b"large")
        with pytest.raises(CoordinatorLoadInProgress):
            serving.runtime.shards[0].get_group(b"large")
        await task
        with pytest.raises(GroupIdNotFound):
            serving.runtime.shards[0].get_group(b"large")


async def test_two_changes_of_a_group_are_done_one_after_the_other() -> None:
    async with serving_node(partitions=1) as serving:
        await fill(serving)
        outcomes = await asyncio.gather(
            clone(serving), restore(serving), delete_group(serving), return_exceptions=True
        )
        assert not any(
            isinstance(each, BaseException) and not isinstance(each, CoordinatorError)
            for each in outcomes
        )
        assert await fetched(serving) in ({}, CLONED, AT_FIRST, CLONED_ALONE)
        assert not serving.runtime.shards[0].holds
