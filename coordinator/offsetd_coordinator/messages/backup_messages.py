"""The messages of backups: pinned logs to a head, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from offsetd.v1 import backup_service_pb2
from offsetd_storage.backups.backup_errors import BackupBlocked, BackupDamaged
from offsetd_storage.backups.chunk_reading import Chunk
from offsetd_storage.backups.manifest import LogEntry, Manifest, SegmentEntry
from offsetd_storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Stream = tuple[Manifest, Iterator[Chunk]]


def head_message(
    head: Manifest, other_addresses: Iterable[str]
) -> backup_service_pb2.StreamBackupResponse:
    """The first answer of a backup."""
    message = backup_service_pb2.BackupHead(
        moment_ms=head.moment_ms,
        server_version=head.server_version,
        folder_id=head.folder_id,
        log_partitions=head.offsets_partitions,
        is_from_elsewhere=head.is_from_elsewhere,
        cluster_id=head.cluster_id,
        other_addresses=other_addresses,
    )
    for log in head.logs:
        added = message.logs.add(
            topic=log.topic_partition.topic,
            partition=log.topic_partition.partition,
            start_offset=log.start_offset,
            end_offset=log.end_offset,
            exact_from_offset=log.exact_from,
        )
        for segment in log.segments:
            added.segments.add(base_offset=segment.base_offset, size_bytes=segment.size_bytes)
    return backup_service_pb2.StreamBackupResponse(head=message)


def head_of(message: backup_service_pb2.BackupHead) -> Manifest:
    """The head in a server's answer. Raises BackupDamaged if it names impossible partitions."""
    try:
        return Manifest(
            moment_ms=message.moment_ms,
            server_version=message.server_version,
            folder_id=message.folder_id,
            offsets_partitions=message.log_partitions,
            is_from_elsewhere=message.is_from_elsewhere,
            cluster_id=message.cluster_id,
            logs=tuple(map(_log_of, message.logs)),
        )
    except ValueError as error:
        raise BackupDamaged(f"the server's answer cannot be used: {error}") from error


def _log_of(log: backup_service_pb2.BackupLog) -> LogEntry:
    return LogEntry(
        topic_partition=TopicPartition.checked(log.topic, log.partition),
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        exact_from=log.exact_from_offset,
        segments=tuple(
            SegmentEntry(base_offset=each.base_offset, size_bytes=each.size_bytes)
            for each in log.segments
        ),
    )


def chunk_message(chunk: Chunk) -> backup_service_pb2.StreamBackupResponse:
    """An answer with a chunk."""
    message = backup_service_pb2.BackupChunk(
        digest=bytes.fromhex(chunk.digest), content=chunk.content
    )
    return backup_service_pb2.StreamBackupResponse(chunk=message)


def chunk_of(message: backup_service_pb2.BackupChunk) -> Chunk:
    """The chunk in an answer."""
    content = message.content if message.HasField("content") else None
    return Chunk(message.digest.hex(), content)


def joined_answers(
    streams: Iterable[
        tuple[backup_service_pb2.BackupHead, Iterator[backup_service_pb2.StreamBackupResponse]]
    ],
) -> Stream:
    """The backup of a whole cluster, of the head and the other answers of each node.

    Raises BackupBlocked if no node has a log partition now, and as `joined`.
    """
    head, chunks = joined(
        [
            (head_of(each), (chunk_of(answer.chunk) for answer in answers))
            for each, answers in streams
        ]
    )
    if missing := head.missing_partitions:
        raise BackupBlocked(
            f"no node serves log partition {missing[0]} now ({len(missing)} in all): try again"
        )
    return head, chunks


def joined(streams: Sequence[Stream]) -> Stream:
    """The backup of a whole cluster, of the parts of its nodes.

    If several nodes have a log of one name, such as their settings, the first one is taken. Raises
    BackupDamaged if the nodes are of different clusters; the chunks raise it if they do not fit.
    """
    first = streams[0][0]
    taken: set[TopicPartition] = set()
    plans: list[tuple[Iterator[Chunk], list[tuple[LogEntry, bool]]]] = []
    for head, chunks in streams:
        if (head.folder_id, head.offsets_partitions) != (first.folder_id, first.offsets_partitions):
            raise BackupDamaged("the nodes are not of one cluster")
        plans.append((chunks, [(each, each.topic_partition not in taken) for each in head.logs]))
        taken.update(each.topic_partition for each in head.logs)
    joint = attrs.evolve(
        first,
        # The earliest moment counts, because the offsets of a restored folder follow from it.
        moment_ms=min(head.moment_ms for head, _ in streams),
        logs=tuple(log for _, plan in plans for log, is_first in plan if is_first),
    )
    return joint, _chunks_of_first(plans)


def _chunks_of_first(
    plans: Sequence[tuple[Iterator[Chunk], list[tuple[LogEntry, bool]]]],
) -> Iterator[Chunk]:
    for chunks, plan in plans:
        for log, is_first in plan:
            for _ in range(sum(each.chunk_count for each in log.segments)):
                chunk = next(chunks, None)
                if chunk is None:
                    raise BackupDamaged("fewer chunks came than the segments have")
                if is_first:
                    yield chunk
        if next(chunks, None) is not None:
            raise BackupDamaged("more chunks came than the segments have")
