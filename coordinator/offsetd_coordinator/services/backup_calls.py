"""BackupService: the server's logs, as they are at one moment, as a stream."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

from offsetd.v1 import backup_service_pb2
from offsetd_storage.backups.backup_errors import BackupRefused
from offsetd_storage.backups.manifest import DIGEST_BYTES
from offsetd_storage.errors import StorageFailed

from offsetd_coordinator.configuration.backup_settings import BYTES_PER_SECOND_LEAST
from offsetd_coordinator.errors import InvalidRequest, PolicyViolation
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.backup_messages import chunk_message, head_message
from offsetd_coordinator.runtime.failure_messages import unavailable
from offsetd_coordinator.services.cluster_calls import other_addresses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from offsetd_coordinator.node import Node


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
        held = frozenset(each.hex() for each in request.held_digests)
        if any(len(each) != DIGEST_BYTES for each in request.held_digests):
            raise InvalidRequest("held_digests", "a digest has 32 bytes")
        with ExitStack() as stack:
            try:
                pinned = await asyncio.to_thread(stack.enter_context, source.pinned())
                head = head_message(pinned.head, other_addresses(self._node))
                yield head.SerializeToString()
                chunks = source.chunks(pinned, held, bytes_per_second_max=rate)
                while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                    yield chunk_message(chunk).SerializeToString()
                    self._node.serving()  # A server that stops does not wait for a backup.
            except BackupRefused as error:
                raise PolicyViolation("{problem}", problem=str(error)) from error
            except StorageFailed as error:
                runtime.log.fail_soon(error)
                raise unavailable(error) from error
