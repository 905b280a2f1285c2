"""The chunks of pinned logs, in the order of the manifest, for a target that lacks some of them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import attrs

from offsetd_storage.backups.manifest import CHUNK_BYTES, chunk_sizes, digest_of
from offsetd_storage.errors import CorruptBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from offsetd_storage.backups.pinned_logs import PinnedLogs, PinnedSegment
    from offsetd_storage.log.segment import Segment


class Chunk(NamedTuple):
    """A chunk. `content` is None if the receiver has it already.

    `read_bytes` is what was read of the disk for it: 0 if its digest was known.
    """

    digest: str
    content: bytes | None
    read_bytes: int = 0


class ByteRate:
    """A limit on reads, in bytes per second; 0 is none."""

    def __init__(
        self, bytes_per_second: int, *, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._now_s = now_s
        self._due_s = now_s()

    def seconds_after(self, read_bytes: int) -> float:
        """The seconds to wait after `read_bytes` were read."""
        if not self._bytes_per_second:
            return 0.0
        now_s = self._now_s()
        # A time without reads is not made up for.
        self._due_s = max(self._due_s, now_s) + read_bytes / self._bytes_per_second
        return self._due_s - now_s


@attrs.define
class KnownDigests:
    """The digests of sealed segments, which do not change: each is read once in a server's life."""

    _by_segment: dict[int, tuple[Segment, tuple[str, ...]]] = attrs.field(factory=dict)

    def keep(self, segments: Iterable[PinnedSegment]) -> None:
        """Forgets all other segments: they have left their logs."""
        pinned = {id(each.sealed) for each in segments}
        self._by_segment = {k: each for k, each in self._by_segment.items() if k in pinned}

    def get(self, segment: PinnedSegment) -> tuple[str, ...]:
        """The digests of a pinned segment's chunks; empty if they are not known."""
        return self._by_segment.get(id(segment.sealed), (None, ()))[1]

    def note(self, segment: PinnedSegment, digests: tuple[str, ...]) -> None:
        """Remembers the digests of a segment, if it is sealed."""
        if segment.sealed is not None:
            # The segment is kept with them, so that no other object gets its id.
            self._by_segment[id(segment.sealed)] = segment.sealed, digests


def chunks_of(pinned: PinnedLogs, held: Collection[str], *, known: KnownDigests) -> Iterator[Chunk]:
    """Yields every chunk, with its bytes if it is not in `held`. Blocks while it reads.

    Raises CorruptBatch if a file is shorter than it was, and OSError.
    """
    known.keep(pinned.segments)
    for segment in pinned.segments:
        expected = known.get(segment)
        digests = []
        for place, size in enumerate(chunk_sizes(segment.size_bytes)):
            if expected and expected[place] in held:
                digests.append(expected[place])
                yield Chunk(expected[place], None)
                continue
            content = segment.reader.file.pread(size, place * CHUNK_BYTES)
            if len(content) < size:
                raise CorruptBatch(
                    f"{segment.topic_partition} {segment.reader.file_name} ends early",
                    position=place * CHUNK_BYTES,
                )
            digests.append(digest_of(content))
            yield Chunk(digests[-1], None if digests[-1] in held else content, size)
        known.note(segment, tuple(digests))
