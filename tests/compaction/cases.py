"""Cases for two cleaners to agree on: a table of shapes, and logs drawn from them by a seed."""

from random import Random
from typing import Any

import attrs
from compaction.logs import (
    ABORT,
    COMMIT,
    DAY_MS,
    START_MS,
    Case,
    CleanerSettings,
    KeyValue,
    LogWriter,
    Producer,
    Round,
)
from offsetd_storage.batch.compression import Compression
from offsetd_storage.timestamp_type import TimestampType

NONE = (Compression.NONE,)
RETENTION_MS = 1000
# From one round to the next: within, at and beyond the horizon of what the round before stamped.
WAITS_MS = (0, 1, RETENTION_MS - 1, RETENTION_MS, RETENTION_MS + 1, 3 * RETENTION_MS)
BASE_OFFSETS = (0, 1, 1000, 2**31 - 2, 2**40)


def _settings(**changed: Any) -> CleanerSettings:
    return CleanerSettings(delete_retention_ms=RETENTION_MS, **changed)


@attrs.frozen(kw_only=True)
class Shape:
    """What logs of a kind have in common; shares are of batches, where nothing else is said."""

    keys: int = 12
    batches: int = 60
    segments: tuple[int, int] = (3, 7)
    records: tuple[int, int] = (1, 4)  # Of a batch.
    key_step_bytes: int = 0  # Key n is n times as long; key 0 is empty.
    value_bytes: tuple[int, int] = (0, 30)
    tombstones: float = 0.1  # Of the records.
    unkeyed: float = 0.0  # Of the records.
    compressions: tuple[Compression, ...] = NONE
    producers: int = 0
    idempotent: float = 0.0
    transactional: float = 0.0
    markers: float = 0.0
    epoch_bumps: float = 0.0  # Of the transactions ended.
    is_left_open: bool = False  # The transactions that the last batches are of.
    inner_gaps: float = 0.0
    skips: float = 0.0
    skipped_offsets: tuple[int, int] = (1, 50)
    empty: float = 0.0
    stamped: float = 0.0  # With a horizon already.
    timeless: float = 0.0
    headers: float = 0.0
    leader_changes: float = 0.0
    rolls_twice: bool = False  # The active segment is empty.
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    is_start_raised: bool = False  # The log was told to begin further on.
    settings: CleanerSettings = attrs.field(factory=_settings)
    rounds: int = 4
    reopened: float = 0.0  # Of the rounds.
    waits_ms: tuple[int, ...] = WAITS_MS


COMPRESSED = tuple(each for each in Compression if each is not Compression.NONE)
TRANSACTIONS = Shape(producers=3, transactional=0.6, markers=0.25, idempotent=0.1)
EVERYTHING = Shape(
    batches=90,
    records=(1, 6),
    tombstones=0.2,
    unkeyed=0.03,
    compressions=(*NONE, *NONE, *COMPRESSED),
    producers=4,
    idempotent=0.15,
    transactional=0.35,
    markers=0.15,
    epoch_bumps=0.2,
    inner_gaps=0.1,
    skips=0.1,
    empty=0.03,
    stamped=0.05,
    timeless=0.02,
    headers=0.1,
    leader_changes=0.05,
    reopened=0.3,
)

SHAPES = {
    "many keys": Shape(keys=200, batches=120),
    "few keys": Shape(keys=2),
    "one key": Shape(keys=1, tombstones=0.3),
    "keys of many lengths": Shape(keys=14, key_step_bytes=211, unkeyed=0.1),
    "distinct keys": Shape(keys=10**9),
    "tombstones": Shape(tombstones=0.6),
    "no tombstones": Shape(tombstones=0),
    "unkeyed": Shape(unkeyed=0.3),
    "single record batches": Shape(records=(1, 1), batches=100),
    "large batches": Shape(keys=60, records=(20, 60), batches=20),
    "gzip": Shape(compressions=(Compression.GZIP,), records=(1, 10), tombstones=0.2),
    "snappy": Shape(compressions=(Compression.SNAPPY,), records=(1, 10), tombstones=0.2),
    "lz4": Shape(compressions=(Compression.LZ4,), records=(1, 10), tombstones=0.2),
    "zstd": Shape(compressions=(Compression.ZSTD,), records=(1, 10), tombstones=0.2),
    "all codecs": Shape(compressions=tuple(Compression), unkeyed=0.1, records=(1, 10)),
    "transactions": TRANSACTIONS,
    "interleaved transactions": attrs.evolve(TRANSACTIONS, producers=8, markers=0.15, batches=100),
    "open transactions": attrs.evolve(TRANSACTIONS, is_left_open=True, markers=0.4),
    "epochs of producers": attrs.evolve(TRANSACTIONS, epoch_bumps=0.4, stamped=0.3),
    "mostly markers": attrs.evolve(
        TRANSACTIONS, transactional=0.3, markers=0.6, epoch_bumps=0.2, stamped=0.3, keys=3
    ),
    "compressed transactions": attrs.evolve(TRANSACTIONS, compressions=COMPRESSED),
    "transactions and small maps": attrs.evolve(
        TRANSACTIONS, settings=_settings(map_slots=8), rounds=5, keys=40
    ),
    "restarts amid transactions": attrs.evolve(TRANSACTIONS, reopened=1.0, rounds=4),
    "idempotent producers": Shape(producers=4, idempotent=0.8, tombstones=0.3),
    "expired producers": attrs.evolve(
        TRANSACTIONS, idempotent=0.4, settings=_settings(producer_expiration_ms=RETENTION_MS)
    ),
    "markers of expired producers": Shape(
        keys=4,
        producers=6,
        idempotent=0.5,
        transactional=0.1,
        markers=0.3,
        epoch_bumps=0.05,
        waits_ms=(100, 300),
        settings=_settings(producer_expiration_ms=RETENTION_MS),
    ),
    "offset gaps": Shape(inner_gaps=0.4, skips=0.4),
    "wide offset gaps": Shape(
        skips=0.1, skipped_offsets=(2**29, 2**30), segments=(4, 9), records=(1, 2)
    ),
    "uneven segments": Shape(segments=(1, 25), settings=_settings(segment_bytes=3000)),
    "many small segments": Shape(segments=(20, 30), settings=_settings(segment_bytes=1200)),
    "no grouping": Shape(segments=(4, 8), settings=_settings(segment_bytes=61)),
    "small indexes": Shape(
        segments=(14, 20),
        settings=_settings(segment_index_bytes=60, index_interval_bytes=700),
    ),
    "small maps": Shape(keys=40, settings=_settings(map_slots=9), rounds=6, waits_ms=(0, 600)),
    "a map of one key": Shape(
        keys=5, batches=25, settings=_settings(map_slots=2), rounds=6, unkeyed=0.2
    ),
    "small maps and gaps and unkeyed": Shape(
        keys=40, skips=0.3, inner_gaps=0.3, unkeyed=0.3, settings=_settings(map_slots=6), rounds=6
    ),
    "small maps of large batches": Shape(
        keys=100, records=(10, 30), batches=25, settings=_settings(map_slots=30), rounds=6
    ),
    "horizons at hand": Shape(tombstones=0.4, stamped=0.4, rounds=4),
    "empty batches": Shape(empty=0.3, producers=3, idempotent=0.3, rounds=4),
    "an empty active segment": Shape(rolls_twice=True, empty=0.1),
    "append time": Shape(timestamp_type=TimestampType.LOG_APPEND_TIME, tombstones=0.3),
    "compressed append time": Shape(
        timestamp_type=TimestampType.LOG_APPEND_TIME, compressions=COMPRESSED, tombstones=0.3
    ),
    "no timestamps": Shape(timeless=0.5, tombstones=0.3),
    "headers and leader epochs": Shape(headers=0.5, leader_changes=0.3),
    "compaction lag": Shape(
        settings=_settings(min_compaction_lag_ms=2000), segments=(4, 8), waits_ms=(500, 600, 800)
    ),
    "small buffers": Shape(
        value_bytes=(0, 3000), settings=_settings(io_buffer_bytes=400, message_bytes_max=900)
    ),
    "more than a read takes": Shape(
        keys=500,
        batches=60,
        records=(20, 60),
        value_bytes=(0, 2500),
        segments=(1, 3),
        tombstones=0.02,
        unkeyed=0.01,
        compressions=(*NONE, *NONE, *NONE, Compression.ZSTD),
        rounds=2,
        settings=_settings(segment_bytes=1 << 23),
    ),
    "batches larger than a read": Shape(
        keys=4,
        batches=7,
        records=(1, 3),
        value_bytes=(100_000, 700_000),
        rounds=2,
        settings=_settings(segment_bytes=1 << 23, message_bytes_max=1 << 22),
    ),
    "no retention": Shape(tombstones=0.4, settings=CleanerSettings(delete_retention_ms=0)),
    "everything": EVERYTHING,
    "everything in small maps": attrs.evolve(
        EVERYTHING, settings=_settings(map_slots=9), rounds=6, keys=30
    ),
    "everything in small segments": attrs.evolve(
        EVERYTHING, segments=(12, 20), settings=_settings(segment_bytes=2500), rounds=5
    ),
}


# What Kafka's cleaner leaves below a log's raised start is not what ours leaves.
RAISED_SHAPES = {
    f"{name} and a raised start": attrs.evolve(SHAPES[name], is_start_raised=True, reopened=0)
    for name in ("transactions", "mostly markers", "epochs of producers", "everything")
}


def cases(seed: int, *, of_each_shape: int) -> list[Case]:
    """That many of each shape, named by shape and number; the same ones for the same seed."""
    return [
        drawn(name, SHAPES[name], number, seed)
        for name in SHAPES
        for number in range(of_each_shape)
    ]


def drawn(name: str, shape: Shape, number: int, seed: int) -> Case:
    random = Random(f"{seed} {name} {number}")
    draw = _Draw(shape=shape, random=random, log=LogWriter(offset_next=random.choice(BASE_OFFSETS)))
    draw.fill()
    log_start_offset = draw.start()
    return Case(
        name=f"{name}-{number}",
        segments=draw.log.segments,
        settings=shape.settings,
        rounds=draw.rounds(log_start_offset),
        log_start_offset=log_start_offset,
    )


@attrs.define(kw_only=True)
class _Draw:
    """One log of a shape."""

    shape: Shape
    random: Random
    log: LogWriter
    producers: list[Producer] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.producers = [Producer(id=1000 + n) for n in range(self.shape.producers)]
        self.log.timestamp_type = self.shape.timestamp_type

    def fill(self) -> None:
        shape, random = self.shape, self.random
        segments = random.randint(*shape.segments)
        rolls = set(random.sample(range(1, shape.batches), segments - 1))
        for place in range(shape.batches):
            if place in rolls:
                self.log.roll()
            self._put_one()
        if not shape.is_left_open:
            for producer in self.producers:
                if producer.transaction_at is not None:
                    self._end_transaction(producer)
        self.log.roll()
        if not shape.rolls_twice:
            self._put_one()

    def rounds(self, log_start_offset: int) -> list[Round]:
        """Each goes up to a later segment, and the last to the end."""
        shape, random = self.shape, self.random
        bases = [base for base in self.log.segment_bases[1:] if base > log_start_offset]
        earlier = random.sample(bases, min(len(bases), shape.rounds - 1))
        ends: list[int | None] = [*sorted(earlier), None]
        if shape.settings.map_slots < 50 or shape.settings.min_compaction_lag_ms:
            ends = [None] * shape.rounds
        now_ms = self.log.now_ms
        rounds = []
        for end in ends:
            now_ms += random.choice(shape.waits_ms)
            rounds.append(Round(now_ms=now_ms, end=end, reopened=self._is(shape.reopened)))
        return rounds

    def start(self) -> int:
        """Where the log begins: anywhere below the active segment, if it was told to."""
        if not self.shape.is_start_raised:
            return 0
        first, *_, active = self.log.segment_bases
        return self.random.randrange(first, active)

    def _is(self, share: float) -> bool:
        return self.random.random() < share

    def _put_one(self) -> None:
        """A batch of records, an empty one, or a marker."""
        shape, random, log = self.shape, self.random, self.log
        log.now_ms += random.choice((0, 1, 50))
        if self._is(shape.skips):
            log.skip(random.randint(*shape.skipped_offsets))
            if shape.skipped_offsets[1] > 2**20:
                log.roll()  # An index holds a distance of 31 bits.
        if self._is(shape.leader_changes):
            log.leader_epoch += 1
        if self.producers and self._is(shape.markers):
            self._end_transaction(random.choice(self.producers))
            return
        producer, is_transactional = self._producer()
        if self._is(shape.empty):
            log.put(
                producer=producer, is_transactional=is_transactional, unused=random.randrange(4)
            )
            return
        count = random.randint(*shape.records)
        gapped = self._is(shape.inner_gaps)
        log.put(
            *[self._key_value() for _ in range(count)],
            producer=producer,
            is_transactional=is_transactional,
            compression=random.choice(shape.compressions),
            timestamps_ms=self._timestamps_ms(count),
            gaps=[random.choice((0, 0, 1, 5)) for _ in range(count)] if gapped else None,
            unused=random.randrange(4) if gapped else 0,
            delete_horizon_ms=self._horizon_ms(),
            headers=(("name", b"value"), ("none", None)) if self._is(shape.headers) else (),
        )

    def _producer(self) -> tuple[Producer | None, bool]:
        kind = self.random.random()
        if not self.producers or kind >= self.shape.idempotent + self.shape.transactional:
            return None, False
        producer = self.random.choice(self.producers)
        # Within a transaction there is nothing else.
        is_transactional = producer.transaction_at is not None or kind < self.shape.transactional
        return producer, is_transactional

    def _end_transaction(self, producer: Producer) -> None:
        kind = ABORT if self._is(0.5) else COMMIT
        if self._is(self.shape.epoch_bumps):  # The marker has it already.
            producer.epoch += 1
            producer.sequence = 0
        self.log.mark(producer, kind, delete_horizon_ms=self._horizon_ms())
        if self._is(self.shape.epoch_bumps):
            producer.epoch += 1
            producer.sequence = 0

    def _key_value(self) -> KeyValue:
        number = int(self.shape.keys * self.random.random() ** 2)  # Some keys come more often.
        key = None if self._is(self.shape.unkeyed) else self._key(number)
        if self._is(self.shape.tombstones):
            return key, None
        return key, self.random.randbytes(self.random.randint(*self.shape.value_bytes))

    def _key(self, number: int) -> bytes:
        if not self.shape.key_step_bytes:
            return b"key-%d" % number
        size_bytes = number * self.shape.key_step_bytes
        return (b"%d " % number * size_bytes)[:size_bytes]

    def _timestamps_ms(self, count: int) -> list[int]:
        if self._is(self.shape.timeless):
            return [-1] * count
        return [self.log.now_ms - self.random.choice((0, 0, 1, 40)) for _ in range(count)]

    def _horizon_ms(self) -> int | None:
        if not self._is(self.shape.stamped):
            return None
        return START_MS + self.random.choice((0, 500, 2000, 4000, DAY_MS))
