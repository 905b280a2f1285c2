"""Runs a script on a simulated disk, and at every operation recovers from what a crash could leave.

The model is what was promised: acknowledged batches, and, while a flush runs, the frames that it
may have made durable. A recovered folder has to hold the acknowledged batches byte for byte, and
of the frames in flight the first few, each of them whole.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import attrs
from log_stores import SMALL, SMALL_LOG, append, append_run, contents, opened, runs_of
from offsetd_storage.configuration.log_config import LogConfig
from offsetd_storage.log_store import TopicSpec
from partition_logs import batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random

    from offsetd_storage.disk.simulated_faults import Operation
    from offsetd_storage.disk.simulated_files import SimulatedFiles
    from offsetd_storage.log_store import LogStore, LogStoreConfig
    from offsetd_storage.topic_partition import TopicPartition


_FLUSH_BYTES = 1500  # At most, of what `append_some` appends.
_CONFIG = LogConfig(segment_bytes_max=5000)
# What an operator may change from one start to the next.
SETTINGS = (
    SMALL,
    attrs.evolve(SMALL, log=attrs.evolve(SMALL_LOG, segment_bytes_max=300)),
    attrs.evolve(SMALL, log=attrs.evolve(SMALL_LOG, segment_bytes_max=2000)),
    attrs.evolve(SMALL, journal_file_bytes=8192),
    attrs.evolve(SMALL, journal_header_bytes=1024, unwritten_bytes_max=900),
    attrs.evolve(SMALL, other_topics=(TopicSpec(topic="other", partitions=2, log=_CONFIG),)),
)
# A few frames fill both files of the journal.
SMALLEST_JOURNALS = tuple(attrs.evolve(each, journal_header_bytes=2048) for each in SETTINGS[:3])


class Killed(BaseException):
    """The process dies at an operation."""


class BrokenPromiseError(AssertionError):
    """A crash state that recovery got wrong."""


@attrs.define
class Model:
    """What the store has promised so far."""

    acknowledged: dict[TopicPartition, bytes] = attrs.Factory(dict)
    pending: list[tuple[TopicPartition, bytes]] = attrs.Factory(list)
    in_flight: list[list[tuple[TopicPartition, bytes]]] = attrs.Factory(list)

    def outcomes(self) -> list[dict[TopicPartition, bytes]]:
        """What a folder may hold after a crash now."""
        outcomes = [dict(self.acknowledged)]
        for frame in self.in_flight:
            after = dict(outcomes[-1])
            for topic_partition, batch in frame:
                after[topic_partition] = after.get(topic_partition, b"") + batch
            outcomes.append(after)
        return outcomes

    def settle(self, held: dict[TopicPartition, bytes]) -> None:
        """Takes for acknowledged what a recovered folder serves."""
        self.acknowledged = held
        self.pending, self.in_flight = [], []

    def check(self, store: LogStore) -> dict[TopicPartition, bytes]:
        """What the recovered store holds, which has to be one of the outcomes."""
        held = {each: batches for each, batches in contents(store).items() if batches}
        if store.quarantined:
            raise BrokenPromiseError(f"quarantined: {[*map(str, store.quarantined.values())]}")
        if held not in self.outcomes():
            raise BrokenPromiseError(self._difference(held))
        return held

    def _difference(self, held: dict[TopicPartition, bytes]) -> str:
        promised = self.acknowledged
        pairs = {
            each: (held.get(each, b""), promised.get(each, b""))
            for each in sorted(held.keys() | promised.keys())
        }
        lines = [
            f"{each}: holds {len(holds)} bytes, {len(acknowledged)} are acknowledged, equal up to"
            f" {_equal_up_to(holds, acknowledged)}"
            for each, (holds, acknowledged) in pairs.items()
        ]
        flying = [[(str(each), len(batch)) for each, batch in frame] for frame in self.in_flight]
        return "\n".join([*lines, f"in flight: {flying}"])


def _by_log(batches: Iterable[tuple[TopicPartition, bytes]]) -> dict[TopicPartition, bytes]:
    found: dict[TopicPartition, bytes] = {}
    for topic_partition, content in batches:
        found[topic_partition] = found.get(topic_partition, b"") + content
    return found


def _equal_up_to(one: bytes, other: bytes) -> int:
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


class Run:
    """A store on a simulated disk, its model, and what is done to them."""

    def __init__(
        self,
        files: SimulatedFiles,
        random: Random,
        settings: Sequence[LogStoreConfig] = (SMALL,),
        model: Model | None = None,
    ) -> None:
        self.files = files
        self.random = random
        self.settings = settings
        self.model = model or Model()
        self.store: LogStore | None = None

    def open(self) -> LogStore:
        """Opens the store and takes what it holds for acknowledged."""
        self.store = self.opened(self.files)
        self.model.settle(self.model.check(self.store))
        return self.store

    def opened(self, files: SimulatedFiles) -> LogStore:
        """A store on some disk, with any of the settings."""
        return opened(files, self.random.choice(self.settings), random=self.random)

    def append(self, topic_partition: TopicPartition, size_bytes: int) -> None:
        """Appends a batch, which nothing is promised about yet."""
        assert self.store is not None
        batch = append(self.store, topic_partition, size_bytes=size_bytes)
        self.model.pending.append((topic_partition, batch))

    def append_run(self, topic_partition: TopicPartition, sizes_bytes: Sequence[int]) -> None:
        """Appends batches in one piece; raises StorageFull behind those that went in."""
        assert self.store is not None
        offset = self.store.logs[topic_partition].offset_next
        batches = [batch_of(offset + n, size_bytes=size) for n, size in enumerate(sizes_bytes)]
        count, refusal = append_run(self.store, topic_partition, b"".join(batches))
        if count:
            self.model.pending.append((topic_partition, b"".join(batches[:count])))
        if refusal is not None:
            raise refusal

    def append_some(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """Appends a few batches of chosen sizes to chosen partitions."""
        random = self.random
        if random.random() < 0.3:
            sizes_bytes = [random.randint(75, 200) for _ in range(random.randint(2, 4))]
            self.append_run(random.choice(topic_partitions), sizes_bytes)
            return
        for _ in range(random.randint(1, 4)):
            self.append(random.choice(topic_partitions), random.randint(75, 260))

    def write(self) -> None:
        """Has a log written, as a reader does, on whatever thread."""
        assert self.store is not None
        log = self.random.choice(list(self.store.logs.values()))
        if not (log._write_lock.locked() or log._lock.locked()):
            log.write()

    def flush(self) -> None:
        """Flushes; only when that has returned, what was pending is acknowledged."""
        assert self.store is not None
        # Which batches share a frame is the store's choice; that a frame is whole is its promise.
        frames = self.store._pending_frames.frames()
        flying = list(map(runs_of, frames))
        assert _by_log(each for frame in flying for each in frame) == _by_log(self.model.pending)
        self.model.pending = []
        self.model.in_flight += flying
        self.store.flush()
        self.model.acknowledged = self.model.outcomes()[-1]
        self.model.in_flight = []
        self.store.bound_unwritten()

    def advance(self) -> None:
        """Moves the recovery points."""
        assert self.store is not None
        self.store.advance_recovery_points()

    def resize_journal(self) -> None:
        """Makes the journal small, as where nothing is appended, or large again."""
        assert self.store is not None
        if self.random.random() < 0.4:
            self.store.journal_size.grow()
        elif not self.model.pending:
            self.advance()
            self.store.journal_size.rest()

    def interleave(self) -> None:
        """What another thread may do while this one is about to touch the disk.

        A commit while recovery points move, or the other way round, or a reader; not where that
        thread would have to wait for a lock.
        """
        store = self.store
        if store is not None and self.random.random() < 0.3:
            self.write()
            return
        if store is None or store._locks.pending.locked() or store._locks.journal.locked():
            return
        if any(log._write_lock.locked() or log._lock.locked() for log in store.logs.values()):
            return
        journal = store._journal
        if not store._locks.flush.locked():
            other_fits = journal.other_file_is_free and journal.capacity_bytes > _FLUSH_BYTES
            if other_fits or journal._fits(_FLUSH_BYTES, keep=2):
                self.append_some(sorted(store.logs))
                self.flush()
        elif not store._locks.advance.locked():
            self.advance()

    def close(self) -> None:
        """Ends the store in order, with nothing pending; nobody uses it meanwhile."""
        assert self.store is not None
        assert not self.model.pending
        store, self.store = self.store, None
        store.close()

    def crash(self) -> None:
        """Goes on with a disk that a crash at this moment may leave."""
        assert self.store is not None
        self.store.abandon()
        self.store = None
        self.files = crashed(self.files, self.random)


def crashed(files: SimulatedFiles, random: Random) -> SimulatedFiles:
    """One of the disks that a crash may leave: of the process, or of the power."""
    how = random.random()
    if how < 0.2:
        return files.kill()
    if how < 0.5:
        return files.power_cut()  # The hardest test of what was said to be durable.
    return random.choice(list(files.crash_states(samples=8, random=random)))


@attrs.define
class Explorer:
    """Hooks into a run's disk, and checks every crash state."""

    random: Random
    samples: int  # Of the states at one operation, beyond none and all of what is pending.
    again_chance: float  # That a recovery is itself crashed, and the one after it.
    interleave_chance: float  # That another thread gets its turn at an operation.
    look_chance: float = 1.0  # That an operation is explored at all.
    states: int = 0
    nested: int = 0

    def watch(self, run: Run) -> None:
        """Explores before each operation of this run's disk from now on."""

        def look(files: SimulatedFiles, operation: Operation) -> None:
            self.explore(files, operation, run)
            if self.random.random() < self.interleave_chance:
                files.before_operation = self._only_explore(run)
                run.interleave()
                files.before_operation = look

        run.files.before_operation = look

    def _only_explore(self, run: Run) -> Callable[[SimulatedFiles, Operation], None]:
        return lambda files, operation: self.explore(files, operation, run)

    def explore(self, files: SimulatedFiles, operation: Operation, run: Run) -> None:
        """Recovers from every crash state of this moment."""
        if self.random.random() >= self.look_chance:
            return
        for place, state in enumerate(files.crash_states(samples=self.samples, random=self.random)):
            self.check(state, run, f"power cut {place} before {operation}")
        self.check(files.kill(), run, f"kill before {operation}")

    def check(self, disk: SimulatedFiles, run: Run, what: str) -> None:
        """Recovers a disk, and now and then crashes that, and checks what is served."""
        model = attrs.evolve(run.model)
        self.states += 1
        try:
            while self.random.random() < self.again_chance:
                disk = self._crash_recovery(disk, run)
                self.nested += 1
            store = run.opened(disk)
            model.settle(model.check(store))
            if self.random.random() < self.again_chance:
                self._continue(disk, store, run, model)
            store.abandon()
        except Exception as error:
            raise BrokenPromiseError(f"{what}: {type(error).__name__}: {error}") from error

    def _crash_recovery(self, disk: SimulatedFiles, run: Run) -> SimulatedFiles:
        """Recovers a disk, and crashes it at an operation of the recovery."""
        rehearsal = disk.kill()
        run.opened(rehearsal).abandon()
        last = self.random.randrange(rehearsal.operations + 1)

        def kill(files: SimulatedFiles, operation: Operation) -> None:
            if operation.number >= last:
                raise Killed

        disk.before_operation = kill
        with contextlib.suppress(Killed):
            run.opened(disk).abandon()
        return crashed(disk, self.random)

    def _continue(self, disk: SimulatedFiles, store: LogStore, run: Run, model: Model) -> None:
        """Commits a little more, crashes, and recovers once more."""
        life = Run(disk, self.random, run.settings, model)
        life.store = store
        life.append_some(sorted(store.logs))
        life.flush()
        if self.random.random() < 0.5:
            life.advance()
        life.append_some(sorted(store.logs))
        life.crash()
        life.open()
        self.states += 1
        assert life.store is not None
        life.store.abandon()
