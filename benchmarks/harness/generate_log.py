"""Writes logs of committed offsets, of any size, as partition folders that Kafka can read too.

    python benchmarks/harness/generate_log.py FOLDER --records 8500000 --batch 1 --keys 1000000
    python benchmarks/harness/generate_log.py FOLDER --records 21000000 --batch 10 --keys 250000

The hash of a group determines its partition. Each batch commits partitions of one group, chosen at
random, so that in the end nearly every key was written and most records are superseded. The kernel
that writes a server's commits writes the batches. It writes no indexes: the program that opens the
log makes them.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import numpy as np
from offsetd_coordinator.kernels import columns
from offsetd_coordinator.kernels.columns import COMMIT_COLUMNS, COMMIT_OFFSET, Commit
from offsetd_coordinator.kernels.records.commit_batch import CommitTimes, put_commit
from offsetd_storage.kernels import padded_buffer, padded_copy
from offsetd_storage.kernels.registry import kernel
from offsetd_storage.offsets_topic.placement import partition_of

if TYPE_CHECKING:
    from offsetd_coordinator.kernels.columns import Bytes, Int64s

TOPICS = ("orders.events.v1", "payments.ledger", "clickstream.eu-1", "inventory.delta", "audit.log")
SEGMENT_BYTES = 104_857_600
CHUNK_BYTES = 4 << 20
START_MS = 1_700_000_000_000

# Columns of the groups' array, and of the writer's state.
GROUP_START, GROUP_SIZE, FIRST_ROW, ROWS, GROUP_COLUMNS = 0, 1, 2, 3, 4
OFFSET_NEXT, NOW_MS, RANDOM, BATCHES_LEFT, STATE_COLUMNS = 0, 1, 2, 3, 4


@attrs.frozen(kw_only=True)
class Shape:
    """The parameters of a log. `partitions_per_group` is a multiple of `batch`."""

    records: int
    batch: int
    keys: int
    partitions_per_group: int
    partitions: int = 50
    value_version: int = 4
    segment_bytes: int = SEGMENT_BYTES
    seed: int = 1


@kernel(
    "int64(uint8[::1], int64, uint8[::1], int64[:, ::1], int64[:, ::1], int64, int64, int64[::1])"
)
def write_batches(
    out: Bytes,
    limit: int,
    names: Bytes,
    groups: Int64s,
    rows: Int64s,
    batch: int,
    value_version: int,
    state: Int64s,
) -> int:
    """Writes batches of `batch` records until `out` is full or none are left; returns their end."""
    position = 0
    while state[BATCHES_LEFT] > 0:
        chosen = state[RANDOM]
        # Marsaglia's xorshift, kept positive.
        chosen ^= (chosen << 13) & ((1 << 62) - 1)
        chosen ^= chosen >> 7
        chosen ^= (chosen << 17) & ((1 << 62) - 1)
        group = chosen % groups.shape[0]
        slices = groups[group, ROWS] // batch
        first = groups[group, FIRST_ROW] + (chosen >> 32) % slices * batch
        for row in range(first, first + batch):
            rows[row, COMMIT_OFFSET] += 1 + (chosen >> 40) % 1000
        commit = Commit(
            names,
            rows[first : first + batch],
            groups[group, GROUP_START],
            groups[group, GROUP_SIZE],
            0,
            0,
        )
        end = put_commit(
            commit,
            CommitTimes(state[NOW_MS], -1),
            state[OFFSET_NEXT],
            0,
            value_version,
            out,
            position,
            limit,
        )
        if end < 0:
            return position
        position = end
        state[RANDOM] = chosen
        state[OFFSET_NEXT] += batch
        state[NOW_MS] += 1
        state[BATCHES_LEFT] -= 1
    return position


def generate(folder: Path, shape: Shape) -> int:
    """Writes the folders; returns their bytes."""
    by_partition: dict[int, list[str]] = {number: [] for number in range(shape.partitions)}
    for number in range(shape.keys // shape.partitions_per_group):
        group_id = f"consumer-group-{number:07d}"
        by_partition[partition_of(group_id, shape.partitions)].append(group_id)
    group_count = sum(map(len, by_partition.values()))
    written = 0
    for partition, group_ids in by_partition.items():
        path = folder / f"__consumer_offsets-{partition}"
        path.mkdir(parents=True)
        (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        batches = shape.records // shape.batch * len(group_ids) // group_count
        written += write_log(path, group_ids, batches, shape, seed=shape.seed * 1000 + partition)
    return written


def write_log(path: Path, group_ids: list[str], batches: int, shape: Shape, *, seed: int) -> int:
    """Writes one partition's segments; returns their bytes."""
    names, groups, rows = name_table(group_ids, shape.partitions_per_group)
    state = np.zeros(STATE_COLUMNS, np.int64)
    state[[NOW_MS, RANDOM, BATCHES_LEFT]] = (
        START_MS,
        (seed + 1) * 88172645463325252 % (1 << 62),
        batches,
    )
    out = padded_buffer(CHUNK_BYTES)
    written = segment_bytes = 0
    segment = (path / f"{0:020d}.log").open("wb")
    while state[BATCHES_LEFT] > 0:
        if segment_bytes + CHUNK_BYTES > shape.segment_bytes:
            segment.close()
            segment = (path / f"{state[OFFSET_NEXT]:020d}.log").open("wb")
            segment_bytes = 0
        end = write_batches(
            out, CHUNK_BYTES, names, groups, rows, shape.batch, shape.value_version, state
        )
        segment.write(out[:end].data)
        segment_bytes += end
        written += end
    segment.close()
    return written


def name_table(group_ids: list[str], partitions_per_group: int) -> tuple[Bytes, Int64s, Int64s]:
    """Returns all names in one buffer, the groups, and a commit row for each partition of each."""
    text = bytearray()
    topic_spans = []
    for topic in TOPICS:
        topic_spans.append((len(text), len(topic)))
        text += topic.encode()
    groups = np.zeros((max(len(group_ids), 1), GROUP_COLUMNS), np.int64)
    rows = np.zeros((max(len(group_ids), 1) * partitions_per_group, COMMIT_COLUMNS), np.int64)
    rows[:, columns.COMMIT_LEADER_EPOCH] = -1
    for index, group_id in enumerate(group_ids):
        first = index * partitions_per_group
        groups[index] = len(text), len(group_id), first, partitions_per_group
        text += group_id.encode()
        topic_start, topic_size = topic_spans[index % len(TOPICS)]
        mine = rows[first : first + partitions_per_group]
        mine[:, columns.TOPIC_START] = topic_start
        mine[:, columns.TOPIC_SIZE] = topic_size
        mine[:, columns.PARTITION] = np.arange(partitions_per_group)
    return padded_copy(text), groups, rows


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description="Write a log of committed offsets.")
    parser.add_argument("folder", type=Path, help="made; gets one folder a partition")
    parser.add_argument("--records", type=int, default=8_500_000)
    parser.add_argument("--batch", type=int, default=1, help="records a batch")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--partitions-per-group", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=50, help="of __consumer_offsets")
    parser.add_argument("--value-version", type=int, default=4, choices=(1, 3, 4))
    parser.add_argument("--seed", type=int, default=1)
    arguments = vars(parser.parse_args())
    folder = arguments.pop("folder")
    started = time.monotonic()
    written = generate(folder, Shape(**arguments))
    print(f"{written / 1e6:.0f} MB in {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    main()
