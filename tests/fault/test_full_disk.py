"""A real file system that gets full under the real server, and is left again by itself."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import grpc
import pytest
from commit_history import GroupHistory, History
from ext4_volumes import fill, mounted_ext4
from google.rpc import error_details_pb2
from offsetd.v1 import offset_service_pb2
from refusals import status_of
from server_process import ServerProcess, Stubs, poll

if TYPE_CHECKING:
    from pathlib import Path

    from google.rpc.status_pb2 import Status

MIB = 1 << 20
DISK_BYTES = 64 * MIB
WAIT_SECONDS = 60
PARTITIONS = 20
SEGMENT_BYTES = 65_536
METADATA = "m" * 1000
# Overwriting leaves garbage behind: only want of room is a reason to clean.
SETTINGS = {
    "internal.offsets.topic.segment.bytes": SEGMENT_BYTES,
    "min.cleanable.dirty.ratio": 1,
    "journal.file.bytes": 2 * MIB,
    "request.id.window.ms": 100,
    "log.cleaner.dedupe.buffer.size": 4 * MIB,
    "log.initial.task.delay.ms": 100,
    "metrics.address": "",
}


class Client:
    """Commits to groups of 20 partitions, and knows what was acknowledged."""

    def __init__(self, server: ServerProcess, history: History) -> None:
        self.server = server
        self.history = history
        self.channel = server.channel()
        self.stubs = Stubs(self.channel)

    def request(self, group_id: str, value: int) -> offset_service_pb2.CommitOffsetsRequest:
        return offset_service_pb2.CommitOffsetsRequest(
            group_id=group_id,
            offsets=[
                offset_service_pb2.OffsetCommit(
                    topic="orders", partition=partition, offset=value, metadata=METADATA
                )
                for partition in range(PARTITIONS)
            ],
        )

    def commit(self, group_id: str) -> None:
        self.history.groups.setdefault(group_id, GroupHistory(partitions=PARTITIONS))
        value = self.history.next_value(group_id)
        response = self.stubs.offsets.CommitOffsets(
            self.request(group_id, value), timeout=WAIT_SECONDS
        )
        self.history.note_acknowledged(group_id, value, response.revision.log_offset)

    def overwrite(self, commits: int) -> None:
        """Twenty groups again and again, as fast as they are answered; what is refused, again."""
        for number in range(commits):
            try:
                self.commit(f"over-{number % 20}")
            except grpc.RpcError as error:
                assert_disk_full(status_of(error))
                self.wait_until_taken()

    def refusal(self) -> grpc.RpcError | None:
        """Of one commit, if it is refused."""
        try:
            self.commit("probe")
        except grpc.RpcError as error:
            return error
        return None

    def wait_for_refusal(self) -> None:
        """Until commits are refused for want of room, as the contract says."""
        refusals: list[grpc.RpcError] = []

        def is_refused() -> bool:
            error = self.refusal()
            if error is not None:
                refusals.append(error)
            return error is not None

        poll(is_refused, WAIT_SECONDS, self.server)
        assert refusals[0].code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert_disk_full(status_of(refusals[0]))

    def wait_until_taken(self) -> None:
        """Until commits are taken again."""

        def is_taken() -> bool:
            error = self.refusal()
            assert error is None or error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
            return error is None

        poll(is_taken, WAIT_SECONDS, self.server)

    def check_that_the_rest_goes_on(self) -> None:
        """On a full disk: a stream's commits are refused one by one, reads and deletions done."""
        messages = [
            offset_service_pb2.StreamCommitsRequest(
                commits=[
                    offset_service_pb2.SequencedCommit(
                        sequence=sequence, commit=self.request("stream", sequence)
                    )
                ]
            )
            for sequence in (1, 2)
        ]
        responses = self.stubs.offsets.StreamCommits(iter(messages), timeout=WAIT_SECONDS)
        results = [result for response in responses for result in response.results]
        assert sorted(result.sequence for result in results) == [1, 2]
        for result in results:
            assert_disk_full(result.error)
        self.history.check(self.stubs)
        gone = min(self.history.groups)

        def is_deleted() -> bool:
            request = offset_service_pb2.DeleteOffsetsRequest(group_id=gone, topics=["orders"])
            try:
                self.stubs.offsets.DeleteOffsets(request, timeout=WAIT_SECONDS)
            except grpc.RpcError as error:
                # Until the reserve is given back, a second later at the latest.
                assert_disk_full(status_of(error))
                return False
            return True

        poll(is_deleted, WAIT_SECONDS, self.server)
        self.history.groups[gone] = GroupHistory(partitions=PARTITIONS)
        self.history.check(self.stubs)


def assert_disk_full(status: Status) -> None:
    """RESOURCE_EXHAUSTED with the reason, what was exceeded, and when to come again."""
    info, quota = error_details_pb2.ErrorInfo(), error_details_pb2.QuotaFailure()
    retry = error_details_pb2.RetryInfo()
    unpacked = [
        any(packed.Unpack(detail) for packed in status.details) for detail in (info, quota, retry)
    ]
    assert all(unpacked), status
    assert info.reason == "DISK_FULL", status


def log_bytes(folder: Path) -> int:
    """Of all segments that are in use."""
    total = 0
    for path in folder.glob("*/*.log"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


@pytest.mark.root
def test_a_small_disk_gets_full_and_is_left_without_an_operator(tmp_path: Path) -> None:
    history = History(tmp_path / "acknowledged.jsonl")
    with mounted_ext4(tmp_path, size_bytes=DISK_BYTES) as volume:
        disk, folder = volume.folder, volume.folder / "data"
        with ServerProcess(folder, settings=SETTINGS) as server:
            client = Client(server.wait_until_serving(), history)
            reserve = folder / "offsetd-reserve"
            poll(lambda: reserve.exists() and reserve.stat().st_size, WAIT_SECONDS, server)
            # It is not set: a segment, and 1 MiB.
            assert reserve.stat().st_size == SEGMENT_BYTES + MIB
            client.overwrite(700)  # 14 MiB.
            before_bytes = log_bytes(folder)
            assert before_bytes > 10 * MIB  # The rest, 4 MiB at most, is not written yet.
            fill(disk / "foreign")
            client.wait_for_refusal()
            client.wait_until_taken()  # What was overwritten went; nobody did anything.
            assert log_bytes(folder) < before_bytes * 3 / 4
            client.overwrite(40)
            history.check(client.stubs)
            # Now there is nothing to clean.
            fill(disk / "foreign-2")
            client.wait_for_refusal()
            client.check_that_the_rest_goes_on()
            client.channel.close()
            server.kill()
        with ServerProcess(folder, settings=SETTINGS) as server:
            client = Client(server.wait_until_serving(), history)
            history.check(client.stubs)
            client.wait_for_refusal()
            client.check_that_the_rest_goes_on()
            (disk / "foreign").unlink()
            (disk / "foreign-2").unlink()
            client.wait_until_taken()
            client.overwrite(40)
            history.check(client.stubs)
            client.channel.close()
            assert server.stop() == 0, server.log
        with ServerProcess(folder, settings=SETTINGS) as server:
            client = Client(server.wait_until_serving(), history)
            history.check(client.stubs)
            client.channel.close()
            assert server.stop() == 0, server.log
