"""History and watchers over gRPC, on a server that is killed, cleaned and drained."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs
import grpc
import pytest
from offsetd.v1 import history_pb2
from offsetd_clients import OffsetClient, OffsetToCommit, RetryPolicy, TopicPartition
from offsetd_clients.errors import HistoryCompacted
from ports import free_ports
from server_process import ServerProcess, Stubs, poll

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_clients.history_values import OffsetEvent

pytestmark = pytest.mark.long(minutes=1)

WAIT_SECONDS = 60
MILLISECOND = timedelta(milliseconds=1)  # What the times of commits are counted in.
SETTINGS: dict[str, object] = {"offsets.topic.num.partitions": 3, "request.id.window.ms": 0}


def client_of(server: ServerProcess, timeout_s: float = WAIT_SECONDS) -> OffsetClient:
    return OffsetClient(server.address, retry=RetryPolicy(timeout_s=timeout_s))


class Watching:
    """A watcher in a thread of its own."""

    def __init__(self, client: OffsetClient, **fields: Any) -> None:
        self.watch = client.watch_offsets(**fields)
        self.events: list[OffsetEvent] = []
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for batch in self.watch.batches():
                self.events += batch.events
        except BaseException as error:  # noqa: BLE001  For the test.
            self.error = error

    def wait(self, count: int) -> None:
        poll(lambda: len(self.events) >= count or self.error, WAIT_SECONDS, self.events[-3:])
        assert self.error is None

    def stop(self) -> None:
        self.watch.cancel()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()


def values(events: list[OffsetEvent], group_id: str) -> list[int | None]:
    return [each.offset for each in events if each.group_id == group_id]


def test_a_watcher_misses_nothing_and_sees_nothing_twice_across_kills(tmp_path: Path) -> None:
    [port] = free_ports(1)
    settings = {**SETTINGS, "listen.address": f"127.0.0.1:{port}"}
    sent = 0
    with ServerProcess(tmp_path / "data", settings=settings).wait_until_serving() as server:
        client = client_of(server)
        watching = Watching(client)
        poll(lambda: watching.watch.token, WAIT_SECONDS)
        for _ in range(50):
            client.commit("g", {TopicPartition("t", 0): sent})
            client.commit(f"g{sent % 5}", {TopicPartition("t", 1): sent})
            sent += 1
        watching.wait(20)
        server.kill()
    for _ in range(2):
        with ServerProcess(tmp_path / "data", settings=settings).wait_until_serving() as server:
            for _ in range(50):
                client.commit("g", {TopicPartition("t", 0): sent})
                client.commit(f"g{sent % 5}", {TopicPartition("t", 1): sent})
                sent += 1
            server.kill()
    with ServerProcess(tmp_path / "data", settings=settings).wait_until_serving():
        watching.wait(2 * sent)
        assert values(watching.events, "g") == list(range(sent))
        for group in range(5):
            assert values(watching.events, f"g{group}") == list(range(group, sent, 5))
        watching.stop()
        history = list(client.list_offset_history("g", oldest_first=True, page_size=7))
        assert values(history, "g") == list(range(sent))
        of_group = [each for each in watching.events if each.group_id == "g"]
        assert history == of_group
        client.close()


def test_a_group_is_put_back_over_grpc_and_through_a_kill(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", settings=SETTINGS).wait_until_serving() as server:
        with client_of(server) as client:
            partition = TopicPartition("t", 0)
            good = client.commit("g", {partition: 10})
            before = client.fetch("g")[partition].commit_time
            poll(lambda: datetime.now(tz=UTC) >= before + MILLISECOND, WAIT_SECONDS)
            client.commit("g", {partition: 99})
            dry = client.restore_group("g", good.log_offset, validate_only=True)
            assert client.fetch("g")[partition].offset == 99
            done = client.restore_group("g", good.log_offset, reason="a bad reset")
            (shown,), (change,) = dry.changes, done.changes
            assert (shown.offset_before, shown.offset_after, shown.revision) == (99, 10, None)
            assert change == attrs.evolve(shown, revision=done.revision)
            assert done.revision is not None
            assert client.fetch("g")[partition].revision == done.revision.log_offset
            client.commit("g", {partition: 100})
            client.restore_group("g", before)
        server.kill()
    with (
        ServerProcess(tmp_path / "data", settings=SETTINGS).wait_until_serving() as server,
        client_of(server) as client,
    ):
        assert client.fetch("g")[partition].offset == 10


def test_a_watcher_is_told_what_was_cleaned_away(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data", settings=SETTINGS).wait_until_serving() as server,
        client_of(server) as client,
    ):
        partition = TopicPartition("t", 0)
        watching = Watching(client, group_ids=["g"])
        poll(lambda: watching.watch.token, WAIT_SECONDS)
        token = watching.watch.token
        watching.stop()
        for value in range(20):
            revision = client.commit("g", {partition: value})
        client.compact_log(partitions=[revision.log_partition], roll_active=True)
        with pytest.raises(HistoryCompacted) as refused:
            next(client.watch_offsets(["g"], token=token).batches())
        assert refused.value.oldest_token
        with pytest.raises(HistoryCompacted):
            client.restore_group("g", 0)
        with pytest.raises(HistoryCompacted):
            list(client.list_offset_history("g", since=0))
        client.commit("g", {partition: 77})
        again = Watching(client, group_ids=["g"], token=refused.value.oldest_token)
        poll(lambda: values(again.events, "g")[-1:] == [77] or again.error, WAIT_SECONDS)
        assert again.error is None
        again.stop()


def test_what_history_ms_keeps_is_not_cleaned_away(tmp_path: Path) -> None:
    settings = {**SETTINGS, "history.ms": 3_600_000}
    with (
        ServerProcess(tmp_path / "data", settings=settings).wait_until_serving() as server,
        client_of(server) as client,
    ):
        partition = TopicPartition("t", 0)
        for value in range(20):
            revision = client.commit("g", {partition: value})
        client.compact_log(partitions=[revision.log_partition], roll_active=True)
        assert values(list(client.list_offset_history("g")), "g") == list(range(20))[::-1]


def test_a_watcher_that_does_not_read_is_cut_off_and_goes_on(tmp_path: Path) -> None:
    settings = {**SETTINGS, "watch.idle.max.ms": 500, "watch.watchers.max": 1}
    # A window that gRPC widens to all there is to read would leave the watcher waiting for more.
    window = {"http2.bdp_probe": 0}
    with (
        ServerProcess(tmp_path / "data", settings=settings).wait_until_serving() as server,
        client_of(server) as client,
        server.channel(**window) as channel,
    ):
        metadata = "m" * 4000
        for value in range(40):
            client.commit(
                "g",
                {
                    TopicPartition("t", each): OffsetToCommit(value, metadata=metadata)
                    for each in range(50)
                },
            )
        request = history_pb2.WatchOffsetsRequest(group_ids=["g"], from_oldest=True)
        call = Stubs(channel).offsets.WatchOffsets(request)
        next(call)

        # There is room for another one as soon as that is cut off, and it waits for that.
        other = Watching(client)
        poll(lambda: other.watch.token or other.error, WAIT_SECONDS)
        assert other.error is None
        other.stop()
        responses: list[Any] = []
        with pytest.raises(grpc.RpcError) as ended:
            responses.extend(iter(call))
        assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        seen, token = sum(len(each.events) for each in responses), responses[-1].token
        assert 0 < seen < 2000
        rest = Watching(client, group_ids=["g"], token=token)
        rest.wait(2000 - seen)
        assert len(rest.events) == 2000 - seen
        rest.stop()
        client.commit("g", {TopicPartition("t", 0): 1})
