"""A folder that is moved away, deleted or unlocked under a server, and another one in its place."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import grpc
import pytest
from commit_history import GroupHistory, History
from offsetd.v1 import offset_service_pb2
from patience import PATIENCE_SECONDS
from refusals import details
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# Small, so that the journal's files are exchanged and segments roll within the test.
SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "internal.offsets.topic.segment.bytes": 16_384,
    "journal.file.bytes": 262_144,
    "max.message.bytes": 65_536,
    "log.initial.task.delay.ms": 0,
    "log.flush.offset.checkpoint.interval.ms": 20,
}
RARE_POINTS = {"log.flush.offset.checkpoint.interval.ms": 3_600_000}
COMMITS_MAX = 20_000
PARTITIONS = 3


def commit(stubs: Stubs, history: History, group_id: str) -> None:
    """One commit that is acknowledged, or raises."""
    history.groups.setdefault(group_id, GroupHistory(partitions=PARTITIONS))
    value = history.next_value(group_id)
    offsets = [
        offset_service_pb2.OffsetCommit(topic="orders", partition=partition, offset=value)
        for partition in range(PARTITIONS)
    ]
    request = offset_service_pb2.CommitOffsetsRequest(group_id=group_id, offsets=offsets)
    response = stubs.offsets.CommitOffsets(request, timeout=60)
    history.note_acknowledged(group_id, value, response.revision.log_offset)


def commit_until_refused(
    stubs: Stubs, history: History, other: Callable[[], None]
) -> grpc.RpcError:
    """Commits until one is refused, with `other` in between."""
    for number in range(COMMITS_MAX):
        try:
            commit(stubs, history, f"g{number % 5}")
        except grpc.RpcError as refusal:
            return refusal
        other()
    raise AssertionError("a server without its folder goes on")


def assert_has(folder: Path, history: History) -> None:
    """A server on the folder has what was acknowledged."""
    with ServerProcess(folder, settings=SETTINGS) as server:
        with server.wait_until_serving().channel() as channel:
            history.check(Stubs(channel))
        server.stop_well()


def test_of_two_servers_on_one_path_the_first_stops_and_neither_loses_anything(
    tmp_path: Path,
) -> None:
    folder, moved = tmp_path / "data", tmp_path / "moved"
    ours, theirs = History(tmp_path / "ours.jsonl"), History(tmp_path / "theirs.jsonl")
    with (
        ServerProcess(folder, settings=SETTINGS) as first,
        first.wait_until_serving().channel() as to_first,
    ):
        for _ in range(50):
            commit(Stubs(to_first), ours, "before")
        folder.rename(moved)
        with (
            ServerProcess(folder, settings=SETTINGS) as second,
            second.wait_until_serving().channel() as to_second,
        ):
            second_stubs = Stubs(to_second)
            refusal = commit_until_refused(
                Stubs(to_first), ours, lambda: commit(second_stubs, theirs, "other")
            )
            assert refusal.code() == grpc.StatusCode.UNAVAILABLE
            assert details(refusal)[1] in ("STORAGE_FAILED", "")
            assert first.wait_for_exit(PATIENCE_SECONDS) == 1
            assert "the data folder was moved away, deleted or replaced" in first.log
            assert "Traceback" not in first.log
            for _ in range(50):
                commit(second_stubs, theirs, "after")
            second.kill()
    assert_has(folder, theirs)
    assert_has(moved, ours)


@pytest.mark.parametrize("what", ["folder", "lock"])
def test_a_server_whose_folder_or_lock_is_deleted_stops(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "data"
    with ServerProcess(folder, settings=SETTINGS) as server:
        server.wait_until_serving()
        if what == "folder":
            while folder.exists():  # The server may write into it meanwhile.
                shutil.rmtree(folder, ignore_errors=True)
        else:
            (folder / ".lock").unlink()
        assert server.wait_for_exit(PATIENCE_SECONDS) == 1
        # The files of a folder go one by one: the server may notice before the folder is gone.
        files_only = what == "folder" and "files of the data folder were removed" in server.log
        assert files_only or "the data folder was moved away, deleted or replaced" in server.log
        assert "Traceback" not in server.log
    assert folder.exists() == (what == "lock"), "what is gone is not made again"


def lost(folder: Path, what: str) -> list[Path]:
    """The files that go."""
    names = ["offsetd-journal-0", "offsetd-journal-1"] if what == "journals" else [what]
    return [folder / name for name in names]


@pytest.mark.parametrize("what", ["offsetd-journal-0", "offsetd-journal-1", "journals"])
def test_a_server_whose_journal_is_removed_stops_and_loses_nothing(
    tmp_path: Path, what: str
) -> None:
    folder, history = tmp_path / "data", History(tmp_path / "ours.jsonl")
    with (
        ServerProcess(folder, settings=SETTINGS | RARE_POINTS) as server,
        server.wait_until_serving().channel() as channel,
    ):
        for _ in range(50):
            commit(Stubs(channel), history, "before")
        for path in lost(folder, what):
            path.unlink()
        refusal = commit_until_refused(Stubs(channel), history, lambda: None)
        assert refusal.code() == grpc.StatusCode.UNAVAILABLE
        assert server.wait_for_exit(PATIENCE_SECONDS) == 1
        assert "were removed or replaced while the server ran" in server.log
        assert "Traceback" not in server.log
    # As the refusal of the next start says.
    for name in ("offsetd.properties", "offsetd-journal-0", "offsetd-journal-1"):
        (folder / name).unlink(missing_ok=True)
    assert_has(folder, history)


def test_a_server_whose_partition_is_removed_stops(tmp_path: Path) -> None:
    folder, history = tmp_path / "data", History(tmp_path / "ours.jsonl")
    with (
        ServerProcess(folder, settings=SETTINGS | RARE_POINTS) as server,
        server.wait_until_serving().channel() as channel,
    ):
        for number in range(50):
            commit(Stubs(channel), history, f"g{number}")
        shutil.rmtree(folder / "__consumer_offsets-1")
        assert server.wait_for_exit(PATIENCE_SECONDS) == 1
        assert "were removed or replaced while the server ran" in server.log
        assert "Traceback" not in server.log
