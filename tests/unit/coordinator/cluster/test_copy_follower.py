"""The thread that reads the topic into the copies: what they hold, and up to where."""

from __future__ import annotations

from concurrent.futures import CancelledError
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError
from log_stores import FOLDER, opened
from offsetd_coordinator.cluster import copy_follower
from offsetd_coordinator.cluster.claims import Claim
from offsetd_coordinator.cluster.copy_checkpoint import CopyCheckpoint
from offsetd_coordinator.cluster.copy_follower import CopyFollower
from offsetd_storage.batch.record_batch import NO_TIMESTAMP, batch_header
from offsetd_storage.clock import ManualClock
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import NOW_MS, batch_of
from patience import PATIENCE_SECONDS
from read_topics import ReadMessage, ReadTopic
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterator


class FollowingNode:
    """A follower of a topic in memory, on a simulated disk."""

    def __init__(self, topic: ReadTopic, files: SimulatedFiles, copies: CopyCheckpoint) -> None:
        self.topic = topic
        self.copies = copies
        self.files = files
        self.store = opened(files, random=Random(1))
        self.failures: list[BaseException] = []
        clients: Any = SimpleNamespace(
            names=SimpleNamespace(offsets_topic="offsets"), reader=lambda: topic
        )
        self.follower = CopyFollower(
            clients,
            self.store,
            copies,
            folder=FOLDER,
            clock=ManualClock(NOW_MS),
            on_failed=self.failures.append,
            on_journal_filling=lambda: None,
        )
        self.follower.start()

    def end(self, partition: int) -> int:
        """The log offset at which a copy ends."""
        return self.store.log(TopicPartition(OFFSETS_TOPIC, partition)).offset_next

    def wait_for_end(self, partition: int, end: int) -> None:
        poll(lambda: self.end(partition) == end or self.failures, PATIENCE_SECONDS)
        assert self.end(partition) == end, self.failures

    def wait_until_read(self) -> None:
        """Returns when all that the consumer had before was read."""
        [done] = self.follower.catch_up({2: 0})
        done.result(PATIENCE_SECONDS)
        [done] = self.follower.catch_up({2: 0})
        done.result(PATIENCE_SECONDS)


def new_copies() -> CopyCheckpoint:
    return CopyCheckpoint(topic_id="t", cluster_id="c")


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[FollowingNode]:
    """Saves only when a test says so."""
    monkeypatch.setattr(copy_follower, "_SAVE_SECONDS", 10 * PATIENCE_SECONDS)
    node = FollowingNode(ReadTopic(), SimulatedFiles(), new_copies())
    yield node
    node.follower.stop()


def saved(node: FollowingNode) -> CopyCheckpoint:
    """What another start finds in the folder."""
    found = CopyCheckpoint.load(node.files, FOLDER, topic_id="t", cluster_id="c", now_ms=NOW_MS)
    assert found is not None
    return found


def claim(first_offset: int, **fields: Any) -> bytes:
    values = {"epoch": 1, "node_id": "n2", "address": "n2:7171", "producers": 1}
    return Claim(first_offset=first_offset, **{**values, **fields}).encode()


def test_it_reads_what_is_followed_but_not_what_the_node_owns(node: FollowingNode) -> None:
    for partition in (0, 1, 2):
        node.topic.commit(partition, batch_of(0, count=3))
    node.follower.follow((0, 1), owned=(1,))
    node.wait_for_end(0, 3)
    assert node.topic.assigned == {0}
    node.topic.commit(0, batch_of(3), batch_of(4))
    node.wait_for_end(0, 5)
    assert (node.end(1), node.end(2)) == (0, 0)
    node.follower.follow((1,), owned=())
    node.wait_for_end(1, 3)
    assert node.topic.assigned == {1}
    assert node.copies.positions[0] == 7, "behind the markers of both transactions"


def test_half_a_batch_is_no_part_of_a_copy(node: FollowingNode) -> None:
    """A commit of several partitions is read whole, or not at all."""
    node.topic.commit(0, batch_of(0))
    node.topic.commit(0, batch_of(1, count=3))
    node.topic.show(0, 4)  # Two of the three.
    node.follower.follow((0,), owned=())
    node.wait_for_end(0, 1)
    poll(lambda: node.topic.assigned == {0}, PATIENCE_SECONDS)
    node.wait_until_read()
    assert node.end(0) == 1
    node.follower.follow((), owned=())
    node.wait_until_read()
    assert node.copies.positions[0] == 2, "it is read from its first record again"
    node.topic.show(0, None)
    node.follower.follow((0,), owned=())
    node.wait_for_end(0, 4)


def test_what_is_saved_says_no_more_than_the_copies_hold(node: FollowingNode) -> None:
    node.topic.commit(0, batch_of(0))
    node.topic.commit(0, batch_of(1, count=3))
    node.topic.show(0, 4)
    node.follower.follow((0,), owned=())
    node.wait_for_end(0, 1)
    node.wait_until_read()
    node.follower.stop()
    node.follower.save()
    assert saved(node).positions[0] == 2
    node.topic.show(0, None)
    crashed = node.files.power_cut()
    again = FollowingNode(node.topic, crashed, saved(node))
    assert again.end(0) == 1, "what was saved is durable"
    again.follower.follow((0,), owned=())
    again.wait_for_end(0, 4)
    again.follower.stop()


def test_a_takeover_reads_up_to_its_end_and_then_leaves_the_partition(node: FollowingNode) -> None:
    end = node.topic.commit(0, batch_of(0, count=3))
    node.topic.show(0, 2)
    [done] = node.follower.catch_up({0: end})
    poll(lambda: node.topic.assigned == {0}, PATIENCE_SECONDS)
    node.follower.follow((1,), owned=())  # What is taken over stays.
    poll(lambda: node.topic.assigned == {0, 1}, PATIENCE_SECONDS)
    assert not done.done()
    node.topic.show(0, None)
    done.result(PATIENCE_SECONDS)
    assert node.end(0) == 3, "it has all before it says so"
    assert node.topic.assigned == {1}
    assert node.copies.positions[0] == end


def test_a_takeover_whose_end_is_no_end_of_the_topic_has_the_last_batch(
    node: FollowingNode,
) -> None:
    """The consumer has fetched the last record, and does not know yet that it is the last one."""
    node.topic.commit(0, batch_of(0, count=3))
    node.topic.show(0, 2)
    [done] = node.follower.catch_up({0: 3})
    poll(lambda: node.topic.assigned == {0}, PATIENCE_SECONDS)
    node.wait_until_read()
    node.topic.show(0, 3)
    done.result(PATIENCE_SECONDS)
    assert node.end(0) == 3


def test_a_takeover_of_what_is_read_already_is_done(node: FollowingNode) -> None:
    end = node.topic.commit(0, batch_of(0))
    node.follower.follow((0,), owned=())
    node.wait_for_end(0, 1)
    poll(lambda: node.follower._followed[0].reached == end, PATIENCE_SECONDS)
    [done] = node.follower.catch_up({0: end})
    done.result(PATIENCE_SECONDS)
    assert node.topic.assigned == set()


def test_what_is_released_is_not_read_any_more(node: FollowingNode) -> None:
    end = node.topic.commit(0, batch_of(0), batch_of(1))
    node.topic.show(0, 1)
    [done] = node.follower.catch_up({0: end})
    poll(lambda: node.topic.assigned == {0}, PATIENCE_SECONDS)
    node.follower.release((0,))
    with pytest.raises(CancelledError):
        done.result(0)
    assert node.topic.assigned == set()
    before = node.end(0)
    node.topic.stray(node.topic.record_at(0, 1))  # It was fetched before.
    node.follower.follow((1,), owned=())
    node.topic.commit(1, batch_of(0))
    node.wait_for_end(1, 1)
    assert node.end(0) == before
    node.follower.save()
    assert node.copies.positions[0] == 0
    assert not node.failures


def test_the_log_offsets_that_a_claim_left_out_are_no_loss(node: FollowingNode) -> None:
    node.topic.commit(0, batch_of(0))
    node.topic.claim(0, claim(5000, unused_from=1))
    node.topic.commit(0, batch_of(5000))
    node.follower.follow((0,), owned=())
    node.wait_for_end(0, 5001)
    assert node.copies.claims[0].first_offset == 5000
    log = node.store.log(TopicPartition(OFFSETS_TOPIC, 0))
    content = b"".join(bytes(buffer[:end]) for buffer, end in log.read_chunks(1 << 20))
    gap = batch_header(content[batch_header(content).size_bytes :])
    assert (gap.base_offset, gap.last_offset, gap.count) == (1, 4999, 0)
    assert gap.max_timestamp_ms == NO_TIMESTAMP, "so history knows that nothing was cleaned away"


@pytest.mark.parametrize("value", [None, b"", b"{", b'{"version": 2}'])
def test_a_claim_that_cannot_be_read_is_left_out(node: FollowingNode, value: bytes | None) -> None:
    node.topic.commit(0, batch_of(0))
    node.topic.claim(0, value)
    node.topic.commit(0, batch_of(1))
    node.follower.follow((0,), owned=())
    node.wait_for_end(0, 2)
    assert 0 not in node.copies.claims
    assert not node.failures


def test_the_lag_is_what_a_copy_has_not_read(node: FollowingNode) -> None:
    node.topic.commit(0, batch_of(0), batch_of(1))
    node.topic.show(0, 1)
    node.follower.follow((0,), owned=())
    poll(lambda: 0 in node.follower._followed, PATIENCE_SECONDS)
    poll(lambda: node.follower._followed[0].reached == 1, PATIENCE_SECONDS)
    assert node.follower.lag(0) is None, "it is counted when the copies are saved"
    node.follower.save()
    assert node.follower.lag(0) == 2
    assert node.follower.lag(1) is None


@pytest.mark.parametrize("fatal", [False, True])
def test_only_a_fatal_error_of_the_consumer_ends_the_reading(
    node: FollowingNode, fatal: bool
) -> None:
    node.topic.commit(0, batch_of(0))
    node.topic.show(0, 0)
    node.follower.follow((0,), owned=())
    failure = KafkaError(KafkaError._ALL_BROKERS_DOWN, "gone", fatal=fatal)
    node.topic.stray(ReadMessage(0, 0, failure=failure))
    if fatal:
        poll(lambda: node.failures, PATIENCE_SECONDS)
        assert "the topic cannot be read: gone" in str(node.failures[0])
        node.follower.release((0,))  # It does not wait for a thread that is gone.
    else:
        node.topic.show(0, None)
        node.wait_for_end(0, 1)
        assert not node.failures
        node.follower.stop()
        assert node.topic.is_closed
