"""BackupService: the server's logs, as they are at one moment, as a stream."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from offsetd.v1 import backup_service_pb2
from offsetd_storage.backups.backup_errors import BackupRefused
from offsetd_storage.backups.manifest import DIGEST_BYTES
from offsetd_storage.errors import StorageFailed

from offsetd_coordinator.configuration.backup_settings import BYTES_PER_SECOND_LEAST
from offsetd_coordinator.errors import InvalidRequest, PolicyViolation
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.backup_messages import chunk_message, head_message
from offsetd_coordinator.runtime.storage_refusals import unavailable
from offsetd_coordinator.services.cluster_calls import other_addresses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from offsetd_storage.backups.chunk_reading import Chunk

    from offsetd_coordinator.node import Node

_STEP_SECONDS: Final = 0.2


class BackupService:
    """The method: it takes a request's bytes and yields the bytes of its answers."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def stream_backup(self, message: bytes) -> AsyncIterator[bytes]:
        """Sends the head, then all chunks. Files are read on threads, one chunk at a time."""
        runtime = self._node.serving()
        source = self._node.backup_source
        assert source is not None, "a node that serves can be backed up"
        request = validation.parse(backup_service_pb2.StreamBackupRequest, message)
        rate = request.bytes_per_second_max
        if rate and rate < BYTES_PER_SECOND_LEAST:
            raise InvalidRequest(
                "bytes_per_second_max", "it is below {least}", least=BYTES_PER_SECOND_LEAST
            )
        if len(request.held_digests) % DIGEST_BYTES:
            raise InvalidRequest("held_digests", "a digest has 32 bytes")
        held = await asyncio.to_thread(_digests_in, request.held_digests)
        with ExitStack() as stack:
            try:
                pinned = await _finished(stack.enter_context, source.pinned())
                head = head_message(pinned.head, other_addresses(self._node))
                yield head.SerializeToString()
                chunks, limit = source.chunks(pinned, held), source.rate(rate)
                while (read := await _finished(_next_chunk, chunks)) is not None:
                    encoded, read_bytes = read
                    yield encoded
                    await self._rest(limit.seconds_after(read_bytes))
            except BackupRefused as error:
                raise PolicyViolation("{problem}", problem=str(error)) from error
            except StorageFailed as error:
                runtime.log.fail_soon(error)
                raise unavailable(error) from error

    async def _rest(self, seconds: float) -> None:
        """Waits. A server that stops does not wait for a backup: raises its refusal."""
        while seconds > _STEP_SECONDS:
            await asyncio.sleep(_STEP_SECONDS)
            seconds -= _STEP_SECONDS
            self._node.serving()
        await asyncio.sleep(seconds)
        self._node.serving()


def _digests_in(held: bytes) -> frozenset[str]:
    starts = range(0, len(held), DIGEST_BYTES)
    return frozenset(held[start : start + DIGEST_BYTES].hex() for start in starts)


def _next_chunk(chunks: Iterator[Chunk]) -> tuple[bytes, int] | None:
    """The next answer, and the bytes that were read for it. On a thread, as both take long."""
    chunk = next(chunks, None)
    return None if chunk is None else (chunk_message(chunk).SerializeToString(), chunk.read_bytes)


async def _finished(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function on a thread. If the call is cancelled, waits for the end of the thread.

    Until then, the thread uses the files of the pin.
    """
    running = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
