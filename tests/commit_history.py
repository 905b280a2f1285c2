"""Writers with unique values, what was acknowledged to them, and whether a server still has it.

Each writer has a group of its own, which it commits to with growing values, always the same value
to all partitions. Of a group may be stored: the value acknowledged last, or one that was sent after
it; in all partitions the same; and nothing older than what a reader has seen.
"""

from __future__ import annotations

import itertools
import json
import threading
from typing import TYPE_CHECKING

import attrs
import grpc
from offsetd.v1 import offset_service_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from server_process import Stubs

TOPIC = "orders"
_CALL_SECONDS_MAX = 60
_STREAM_WINDOW = 16


@attrs.define
class GroupHistory:
    """What is known of one group. Values grow; -1 is none."""

    partitions: int
    attempted: int = -1
    acknowledged: int = -1
    acknowledged_revision: int = -1
    read: int = -1


class History:
    """Everything that was acknowledged, in memory and in a file outside the data folder."""

    def __init__(self, journal: Path) -> None:
        self.groups: dict[str, GroupHistory] = {}
        self.acknowledgements = 0
        self._journal = journal
        self._lock = threading.Lock()
        self._values = itertools.count()

    def next_value(self, group_id: str) -> int:
        """A value that was never used, now being sent."""
        value = next(self._values)
        self.groups[group_id].attempted = value
        return value

    def note_acknowledged(self, group_id: str, value: int, revision: int) -> None:
        """A commit was answered with OK."""
        history = self.groups[group_id]
        if value > history.acknowledged:
            assert revision > history.acknowledged_revision, "revisions grow with the commits"
            history.acknowledged, history.acknowledged_revision = value, revision
        with self._lock:
            self.acknowledgements += 1
            with self._journal.open("a") as journal:
                journal.write(json.dumps([group_id, value, revision]) + "\n")

    def check(self, stubs: Stubs) -> None:
        """Fails if the server lost, tore or made up anything."""
        for group_id, history in self.groups.items():
            stored = read_group(stubs, group_id)
            values = {offset.offset for offset in stored}
            known = max(history.acknowledged, history.read)
            if not stored:
                assert known == -1, f"{group_id} lost all, {history}"
                continue
            assert len(stored) == history.partitions, f"{group_id} is torn: {stored}"
            assert len(values) == 1, f"{group_id} is torn: {values}"
            value = values.pop()
            assert known <= value <= history.attempted, f"{group_id} has {value}, {history}"
            if value == history.acknowledged:
                revisions = [offset.revision for offset in stored]
                assert max(revisions) == history.acknowledged_revision
                assert len(set(revisions)) == history.partitions


def read_group(stubs: Stubs, group_id: str) -> list[offset_service_pb2.CommittedOffset]:
    """The stored offsets of a group."""
    request = offset_service_pb2.FetchOffsetsRequest(
        groups=[offset_service_pb2.GroupSelection(group_id=group_id)]
    )
    response = stubs.offsets.FetchOffsets(request, timeout=_CALL_SECONDS_MAX)
    return list(response.groups[0].offsets)


class Writers:
    """Threads that commit to one server until it goes away or `stop` is called.

    Half of them call CommitOffsets, half use a stream with a window; one reads.
    """

    def __init__(self, history: History, stubs: list[Stubs], *, partitions: int) -> None:
        self._history = history
        self._stopping = threading.Event()
        self._defects: list[BaseException] = []
        self.ends: list[grpc.RpcError] = []
        self.refused: list[str] = []
        self._threads = []
        for number, stub in enumerate(stubs):
            group_id = f"writer-{number}"
            history.groups.setdefault(group_id, GroupHistory(partitions=partitions))
            body = self._write_alone if number % 2 else self._write_in_a_stream
            self._threads.append(threading.Thread(target=self._guard, args=(body, stub, group_id)))
        self._threads.append(threading.Thread(target=self._guard, args=(self._read, stubs[0], "")))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Waits for all of them. Fails if one of them met an answer that it may not meet."""
        self._stopping.set()
        for thread in self._threads:
            thread.join(_CALL_SECONDS_MAX)
            assert not thread.is_alive(), "a writer hangs"
        if self._defects:
            raise self._defects[0]

    def _guard(self, body: Callable[[Stubs, str], None], stubs: Stubs, group_id: str) -> None:
        try:
            body(stubs, group_id)
        except grpc.RpcError as error:
            self.ends.append(error)
        except BaseException as error:  # noqa: BLE001  Raised again by `stop`.
            self._defects.append(error)

    def _write_alone(self, stubs: Stubs, group_id: str) -> None:
        while not self._stopping.is_set():
            value = self._history.next_value(group_id)
            response = stubs.offsets.CommitOffsets(
                self._commit(group_id, value), timeout=_CALL_SECONDS_MAX
            )
            self._history.note_acknowledged(group_id, value, response.revision.log_offset)

    def _write_in_a_stream(self, stubs: Stubs, group_id: str) -> None:
        window = threading.Semaphore(_STREAM_WINDOW)

        def messages() -> Iterator[offset_service_pb2.StreamCommitsRequest]:
            while window.acquire(timeout=_CALL_SECONDS_MAX) and not self._stopping.is_set():
                value = self._history.next_value(group_id)
                sequenced = offset_service_pb2.SequencedCommit(
                    sequence=value, commit=self._commit(group_id, value)
                )
                yield offset_service_pb2.StreamCommitsRequest(commits=[sequenced])

        try:
            for response in stubs.offsets.StreamCommits(messages()):
                for result in response.results:
                    if result.HasField("committed"):
                        self._history.note_acknowledged(
                            group_id, result.sequence, result.committed.revision.log_offset
                        )
                    else:
                        self.refused.append(result.error.message)
                    window.release()
        finally:
            self._stopping.set()  # Where the call ended, its messages end too.
            window.release()

    def _read(self, stubs: Stubs, _: str) -> None:
        """What a reader has seen is as binding as what a writer was told."""
        while not self._stopping.is_set():
            for group_id, history in list(self._history.groups.items()):
                stored = read_group(stubs, group_id)
                if stored:
                    values = {offset.offset for offset in stored}
                    assert len(values) == 1, f"{group_id} read torn: {values}"
                    history.read = max(history.read, *values)

    def _commit(self, group_id: str, value: int) -> offset_service_pb2.CommitOffsetsRequest:
        partitions = self._history.groups[group_id].partitions
        return offset_service_pb2.CommitOffsetsRequest(
            group_id=group_id,
            offsets=[
                offset_service_pb2.OffsetCommit(topic=TOPIC, partition=partition, offset=value)
                for partition in range(partitions)
            ],
        )
