"""Shards over a store that a LogCleaner compacts, beside retention, crashed before any operation.

The cleaner's steps, which its threads take, are taken here one by one, on a clock moved by hand;
while they touch the disk, others commit, delete, roll and move the recovery points. Whatever a
crash leaves, and a crash of the recovery from it: each shard that a start fills knows what all
batches acknowledged say, and maybe some of those in flight; retries within the window are answered;
and of the topics with retention all is there from the log's start on.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import attrs
from cleaned_logs import offsets_of, record_batch, replayed
from cleaned_stores import DELETE_RETENTION_MS, LOG, Appended
from compacted_nodes import NODE_CONFIG, REQUEST_WINDOW_MS, CompactedNode
from log_stores import FOLDER, log_bytes, seeded, tree
from offsetd_coordinator.requests import DeleteGroup, DeleteOffsets
from offsetd_storage.cleaner.cleaner_thread import CleanerThread
from offsetd_storage.cleaner.log_cleaner import LogCleaner
from offsetd_storage.cleaner.offset_map import SLOT_BYTES
from offsetd_storage.clock import ManualClock
from offsetd_storage.configuration.log_config import COMPACT, DELETE
from offsetd_storage.configuration.server_config import DEDUPE_BYTES_PER_THREAD_MIN, CleanerConfig
from offsetd_storage.disk.delayed_deletion import FileDeleter
from offsetd_storage.disk.simulated_files import SimulatedFiles
from offsetd_storage.log_store import TopicSpec
from offsetd_storage.topic_partition import TopicPartition
from partition_logs import NOW_MS
from shards import commit, entry, state_of
from sim.crash_explorer import Killed, crashed

if TYPE_CHECKING:
    from random import Random

    from offsetd_storage.cleaner.cleaner_status import FinishedRound
    from offsetd_storage.cleaner.uncleanable_logs import UncleanablePartition
    from offsetd_storage.disk.simulated_faults import Operation
    from offsetd_storage.errors import StorageFailed
    from offsetd_storage.log.partition_log import PartitionLog

RETENTION_MS = 1500
AUDIT, BOTH = TopicPartition("audit", 0), TopicPartition("both", 0)
_AUDIT_LOG = attrs.evolve(
    LOG, cleanup_policy=DELETE, segment_bytes_max=300, retention_ms=RETENTION_MS
)
_BOTH_LOG = attrs.evolve(_AUDIT_LOG, cleanup_policy=COMPACT | DELETE)
CONFIG = attrs.evolve(
    NODE_CONFIG,
    log=attrs.evolve(NODE_CONFIG.log, file_delete_delay_ms=700, segment_ms=5000),
    other_topics=(
        TopicSpec(topic="audit", partitions=1, log=_AUDIT_LOG),
        TopicSpec(topic="both", partitions=1, log=_BOTH_LOG),
    ),
)
# One has room for everything, the other for five keys a round, in the smallest of buffers.
_BUFFER_BYTES = DEDUPE_BYTES_PER_THREAD_MIN + SLOT_BYTES
CLEANERS = tuple(
    CleanerConfig(dedupe_buffer_bytes=_BUFFER_BYTES, dedupe_load_factor=load_factor)
    for load_factor in (0.9, 5.5 * SLOT_BYTES / _BUFFER_BYTES)
)
GROUPS = ("group", "other", "g3")
LONG = bool(os.environ.get("OFFSETD_NIGHTLY"))


class UpkeptNode(CompactedNode):
    """A node with all that runs beside its appends, and two topics that forget."""

    def __init__(self, random: Random) -> None:
        self.others = {AUDIT: Appended(), BOTH: Appended()}
        self.acknowledged_others = {AUDIT: 0, BOTH: 0}
        self.starts = {AUDIT: 0, BOTH: 0}  # The log starts that were durable.
        self.segments_cleaned = self.segments_deleted = 0
        self.is_open = True
        clock = ManualClock(NOW_MS)
        super().__init__(SimulatedFiles(clock=clock), random, clock, CONFIG)

    def open(self) -> None:
        super().open()
        self.deleter = FileDeleter(self.files, self.clock)
        config = self.random.choice(CLEANERS)
        self.cleaner = LogCleaner(
            self.store,
            config,
            files=self.files,
            folder=FOLDER,
            clock=self.clock,
            random=self.random,
            sleep=lambda seconds: self.clock.advance(max(1, round(seconds * 1000))),
            deleter=self.deleter,
            on_round=self._note_round,
            on_failed=_fail,
            on_uncleanable=_fail_to_clean,
        )
        # Its threads are not started: who has this one takes its steps.
        self.thread = CleanerThread(
            0,
            self.cleaner.steps.step,
            config,
            hash_key=self.random.randbytes(16),
            clock=self.clock,
        )

    def _note_round(self, finished: FinishedRound) -> None:
        report = finished.report
        self.segments_cleaned += report.segments_before - report.segments_left_alone

    def other(self, topic_partition: TopicPartition) -> PartitionLog:
        return self.store.logs[topic_partition]

    # What is done.

    def commit(self) -> None:
        random = self.random
        entries = [
            entry("topic", partition, random.randrange(1000), monotonic=random.random() < 0.1)
            for partition in random.sample(range(4), random.randint(1, 3))
        ]
        request_id = b"%d" % random.randrange(6) if random.random() < 0.5 else b""
        self.ask(
            random.choice(self.partitions),
            commit(random.choice(GROUPS), *entries, request_id=request_id),
        )

    def delete(self) -> None:
        random = self.random
        group_id = random.choice(GROUPS).encode()
        request_id = b"d%d" % random.randrange(6)
        request: Any = DeleteGroup(group_id=group_id, request_id=request_id)
        if random.random() < 0.7:
            partitions = ((b"topic", random.randrange(4)),)
            request = DeleteOffsets(group_id=group_id, partitions=partitions, request_id=request_id)
        self.ask(random.choice(self.partitions), request)

    def note(self) -> None:
        """A record to a topic that forgets."""
        topic_partition = self.random.choice((AUDIT, BOTH))
        offset = self.other(topic_partition).offset_next
        value = None if self.random.random() < 0.2 else f"v{offset}"
        batch = record_batch(offset, self.random.choice("abc"), value)
        self.store.append(
            topic_partition, batch, last_offset=offset, max_timestamp_ms=self.clock.now_ms()
        )
        self.others[topic_partition].add(batch, offset + 1)

    def flush(self) -> None:
        ends = {each: self.other(each).offset_next for each in self.others}
        super().flush()
        self.acknowledged_others |= ends

    def restart(self) -> None:
        self.is_open = False
        super().restart()
        self.is_open = True

    def roll_any(self) -> None:
        self.store.roll(self.random.choice(sorted(self.store.logs)))

    def clean_what_is_due(self) -> None:
        """What a thread of the cleaner does until it rests."""
        for _ in range(20):
            if self.cleaner.steps.step(self.thread) > 0:
                return

    def clean_on_request(self) -> None:
        """As an operator asks, and a full disk: all of it."""
        topic_partitions = [each for each in self.store.logs if each != AUDIT]
        self.cleaner._is_started = True
        answers = self.cleaner.compact(topic_partitions, rolls_active=True)
        self.clean_what_is_due()
        for each in answers.values():
            each.result(timeout=0)

    def retain(self) -> None:
        """What `kafka-log-retention` does."""
        for topic_partition in sorted(self.store.logs):
            self.store.roll(topic_partition, only_if_due=True)
        self.flush()
        self.store.settle_points()
        plan = self.cleaner.retention.check(AUDIT)
        self.segments_deleted += len(plan.deletions) if plan is not None else 0
        for each in self.starts:
            self.starts[each] = self.store.recovery_point(each).log_start_offset

    def wait(self) -> None:
        edges = (
            1,
            REQUEST_WINDOW_MS,
            REQUEST_WINDOW_MS + 1,
            DELETE_RETENTION_MS,
            RETENTION_MS // 2,
        )
        self.clock.advance(self.random.choice(edges))
        self.deleter.run()

    def any_act(self) -> None:
        """One of them, by chance."""
        acts = [self.commit] * 8 + [self.delete] * 2 + [self.note] * 4 + [self.flush] * 4
        acts += [self.advance] * 2 + [self.roll_any] * 2 + [self.wait] * 4 + [self.retain] * 2
        acts += [self.clean_what_is_due] * 3 + [self.clean_on_request] * 2 + [self.restart]
        self.random.choice(acts)()

    def interleave(self) -> None:
        """What another thread may do now, where it would not have to wait for a lock."""
        store = self.store
        locks = [
            store._locks.pending,
            store._locks.journal,
            store._locks.flush,
            store._locks.advance,
        ]
        for log in store.logs.values():
            locks += [log._lock, log.listing._lock]
            locks += [each._name_lock for each in log.segments]
        if self.is_open and not any(each.locked() for each in locks):
            self.random.choice([self.commit, self.commit, self.delete, self.note])()
            self.random.choice([self.flush, self.advance, self.roll_any, self.commit])()

    # What has to hold.

    def settle(self) -> None:
        super().settle()
        for each, appended in self.others.items():
            log = self.other(each)
            assert log.offset_next >= self.acknowledged_others[each]
            assert log.log_start_offset >= self.starts[each], "what was deleted is back"
            appended.cut(log.offset_next)
            self.acknowledged_others[each] = log.offset_next

    def twin(self, disk: SimulatedFiles) -> UpkeptNode:
        before = self.others, self.acknowledged_others
        self.others = {each: appended.copy() for each, appended in self.others.items()}
        self.acknowledged_others = dict(self.acknowledged_others)
        twin = super().twin(disk)
        twin.starts = dict(self.starts)
        self.others, self.acknowledged_others = before
        return twin

    def check_recovered(self) -> None:
        """Of a node that has just started."""
        assert not self.store.quarantined
        for partition, shard in self.shards.items():
            assert state_of(shard) == self.expected(partition, shard.offset_next)
            self.check_offsets(partition)
            self.check_answers(partition, shard)
        self.check_others()

    def check_others(self) -> None:
        audit, both = self.other(AUDIT), self.other(BOTH)
        written = offsets_of(b"".join(self.others[AUDIT].before(audit.offset_next)))
        start = audit.log_start_offset
        found = [each for each in offsets_of(log_bytes(audit)) if each >= start]
        assert found == [each for each in written if each >= start]
        start = both.log_start_offset
        said = self._from(start, b"".join(self.others[BOTH].before(both.offset_next)))
        assert self._from(start, log_bytes(both)) == said

    def _from(self, start: int, batches: bytes) -> dict[bytes, bytes]:
        """What the batches at and above a log's start say. (Each is one record.)"""
        said = [batch for batch in _split(batches) if int.from_bytes(batch[:8]) >= start]
        return replayed(b"".join(said))


def _split(batches: bytes) -> list[bytes]:
    found = []
    while batches:
        size = 12 + int.from_bytes(batches[8:12])
        found.append(batches[:size])
        batches = batches[size:]
    return found


def _fail(failure: StorageFailed) -> None:
    raise failure


def _fail_to_clean(failure: UncleanablePartition) -> None:
    raise AssertionError(f"{failure.topic_partition}: {failure.reason}")


@attrs.define
class Explorer:
    """Looks, before operations of a node's disk, at what a crash then could leave."""

    random: Random
    look_chance: float
    looks_max: int = 1 << 30
    looks: int = 0
    states: int = 0
    crashed_again: int = 0
    gone_on: int = 0
    seen: set[int] = attrs.Factory(set)

    def watch(self, node: UpkeptNode) -> None:
        def look(files: SimulatedFiles, operation: Operation) -> None:
            files.before_operation = None
            if self.looks < self.looks_max and self.random.random() < self.look_chance:
                self.looks += 1
                disks = files.crash_states(samples=2, exhaustive_pending_max=2, random=self.random)
                for disk in (*disks, files.kill()):
                    self.check(disk, node, f"before {operation}")
            if self.random.random() < 0.03:
                node.interleave()
            files.before_operation = look

        node.files.before_operation = look

    def check(self, disk: SimulatedFiles, node: UpkeptNode, what: str) -> None:
        found = hash(tuple(sorted((path, raw) for path, raw in tree(disk).items())))
        if found in self.seen:
            return
        self.seen.add(found)
        self.states += 1
        try:
            if self.random.random() < 0.2:
                disk = self._crash_recovery(disk, node)
                self.crashed_again += 1
            twin = node.twin(disk)
            twin.check_recovered()
            if self.random.random() < 0.1:
                self._go_on(twin)
                self.gone_on += 1
            twin.store.abandon()
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error

    def _crash_recovery(self, disk: SimulatedFiles, node: UpkeptNode) -> SimulatedFiles:
        rehearsal = disk.kill()
        node.twin(rehearsal).store.abandon()
        last = self.random.randrange(rehearsal.operations + 1)

        def kill(_: SimulatedFiles, operation: Operation) -> None:
            if operation.number >= last:
                raise Killed

        disk.before_operation = kill
        with contextlib.suppress(Killed):
            node.twin(disk).store.abandon()
        disk.before_operation = None
        return crashed(disk, self.random)

    def _go_on(self, twin: UpkeptNode) -> None:
        """What was found is used and cleaned, for as long as it takes tombstones to go."""
        twin.clock = ManualClock(twin.clock.now_ms())
        for _ in range(5):
            twin.any_act()
        for _ in range(2):
            twin.clock.advance(DELETE_RETENTION_MS)
            twin.clean_on_request()
        twin.check()
        twin.crash(crashed(twin.files, self.random))
        twin.check_recovered()


def test_commits_deletes_cleaning_rolling_and_retention_outlive_a_crash_anywhere() -> None:
    random = seeded()
    # Only some of the last steps are looked at; the others cost little, and fail as readily.
    runs, steps, watched = (60, 500, 120) if LONG else (2, 500, 60)
    explorer = Explorer(random, look_chance=0.3) if LONG else Explorer(random, 0.06, 100)
    cleaned = deleted = 0
    for _ in range(runs):
        node = UpkeptNode(random)
        for step in range(steps):
            if step >= steps - watched and node.files.before_operation is None:
                explorer.watch(node)
            node.any_act()
            if random.random() < 0.02:
                node.crash(crashed(node.files, random))
            if random.random() < 0.1:
                hook, node.files.before_operation = node.files.before_operation, None
                node.check()
                node.check_others()
                node.files.before_operation = hook
        node.files.before_operation = None
        node.flush()
        for disk in (node.files.power_cut(), node.files.kill()):
            explorer.check(disk, node, "at the end")
        cleaned += node.segments_cleaned
        deleted += node.segments_deleted
    assert explorer.states > 100
    assert explorer.crashed_again > 10
    assert explorer.gone_on > 3
    assert cleaned > 10
    assert deleted > 0


def test_the_cleaner_waits_for_the_recovery_point() -> None:
    node = UpkeptNode(seeded())
    point = node.store.recovery_point(node.log(0).topic_partition)
    while len(node.log(0).segments) < 4:
        node.ask(0, commit("group", entry("topic", 0, 1)))
    node.flush()
    assert node.store.recovery_point(node.log(0).topic_partition) == point
    node.clock.advance(DELETE_RETENTION_MS)
    node.clean_what_is_due()
    assert node.segments_cleaned == 0
    node.advance()
    node.clean_what_is_due()
    assert node.segments_cleaned > 0
    node.crash(node.files.power_cut())
    node.check_recovered()
