"""The calls that commit, fetch and delete offsets."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import SupportsIndex

from offsetd.v1.offset_service_pb2 import CommitOffsetsRequest

from offsetd_clients.aio.concurrency import Future, in_parallel, result_of
from offsetd_clients.aio.servers import Calls, new_id
from offsetd_clients.calling.commit_queue import COMMIT_BYTES_MAX
from offsetd_clients.calling.group_owners import SeveralOwners
from offsetd_clients.calling.tracing import commit_span
from offsetd_clients.membership_values import Membership
from offsetd_clients.messages import offset_messages
from offsetd_clients.messages.conversions import revision_of, several
from offsetd_clients.messages.membership_messages import note_member
from offsetd_clients.values import (
    CommittedOffset,
    DeletedOffsets,
    OffsetToCommit,
    Revision,
    TopicPartition,
)


class OffsetCalls(Calls):
    """The calls of a client that consumers need."""

    async def commit(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, SupportsIndex | OffsetToCommit],
        *,
        membership: Membership | None = None,
        epoch: SupportsIndex | None = None,
        retention: timedelta | None = None,
        request_id: str | None = None,
    ) -> Revision:
        """Commits all of `offsets` or, on any error, none. Returns the position of the last record.

        `membership`: commit as this member of the group; it counts as a sign of life.
        `epoch`: commit as the holder of the group's lease. Raises `EpochFenced` if the lease has a
        newer epoch, or is over.
        `retention`: how long these offsets are kept, instead of the group's retention.
        `request_id`: names the commit, for your own retries. If it is None, the client makes a new
        one.
        """
        request = offset_messages.commit_request(
            group_id,
            offsets,
            request_id=request_id or new_id(),
            epoch=epoch,
            retention=retention,
        )
        note_member(request, membership)
        commits, encoded = self._servers.commits(group_id), request.SerializeToString()
        if commits.streams and len(encoded) <= COMMIT_BYTES_MAX:
            with commit_span(self._tracing, group_id):
                return await result_of(
                    await self._servers.hand_in(request, encoded, self._retry.timeout_s)
                )
        return revision_of((await self._call("CommitOffsets", request)).revision)

    async def commit_soon(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, SupportsIndex | OffsetToCommit],
        *,
        membership: Membership | None = None,
        epoch: SupportsIndex | None = None,
        retention: timedelta | None = None,
        request_id: str | None = None,
    ) -> Future[Revision]:
        """Hands in a commit, with the arguments of `commit`. Returns the future of its outcome.

        It waits only while 10,000 commits, or 16 MiB of them, are without an answer. Commits are
        sent in order, also if they are sent again. But a commit that the server puts off (over a
        limit, for example) may be stored after a later one; use `monotonic` to prevent that.

        Callbacks of the future run in the task or thread that reads answers. They must not wait for
        calls of this client. `flush` and `close` wait for the answers. An error that is never read
        from the future is logged.
        """
        request = offset_messages.commit_request(
            group_id,
            offsets,
            request_id=request_id or new_id(),
            epoch=epoch,
            retention=retention,
        )
        note_member(request, membership)
        return await self.commit_request_soon(request)

    async def commit_request_soon(self, request: CommitOffsetsRequest) -> Future[Revision]:
        """Does what `commit_soon` does, for a message of the contract.

        It is for callers that move millions of offsets.

        Do not change the message afterwards: it may be sent again. So it needs a `request_id`.
        Raises ValueError without one.
        """
        if not request.request_id:
            raise ValueError("a commit that may be sent again needs a request id")
        encoded = request.SerializeToString()
        if self._tracing is None:
            return await self._servers.hand_in(request, encoded, self._retry.timeout_s)
        with self._tracing.commit_soon(request.group_id) as ended:
            future = await self._servers.hand_in(request, encoded, self._retry.timeout_s)
        future.add_done_callback(ended)
        return future

    async def fetch(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
    ) -> dict[TopicPartition, CommittedOffset]:
        """The stored offsets of a group, or of its `partitions`. Others are left out.

        `require_stable`: while a transaction has pending offsets for these partitions, retries
        until the deadline and then raises `UnstableOffsets`.
        """
        chosen = () if partitions is None else several("partitions", partitions)
        if partitions is not None and not chosen:
            return {}
        request = offset_messages.fetch_request({group_id: chosen}, require_stable=require_stable)
        return offset_messages.stored_offsets(await self._servers.fetch(request, self._retry))

    async def fetch_many(
        self, group_ids: Iterable[str], *, require_stable: bool = False
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """The stored offsets of many groups. A group without any has an empty value.

        It makes one call for each server, as far as the client knows the owners of the groups.
        """

        async def fetched(chosen: list[str]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
            selections = dict.fromkeys(chosen, ())
            request = offset_messages.fetch_request(selections, require_stable=require_stable)
            try:
                response = await self._servers.call(
                    "FetchOffsets", request, self._retry, subject=chosen[0]
                )
                return offset_messages.fetched_offsets(response)
            except SeveralOwners:
                alone = await in_parallel(fetched, [[each] for each in chosen])
                return {group: each[group] for each in alone for group in each}

        distinct = list(dict.fromkeys(several("group_ids", group_ids)))
        parts = await in_parallel(fetched, self._servers.by_owner(distinct))
        found = {group_id: offsets for part in parts for group_id, offsets in part.items()}
        return {group_id: found[group_id] for group_id in distinct if group_id in found} | found

    async def delete_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] = (),
        *,
        topics: Iterable[str] = (),
        epoch: SupportsIndex | None = None,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> DeletedOffsets:
        """Deletes offsets, by partition and by whole topic: all of them or, on any error, none.

        `epoch`: delete as the holder of the group's lease.
        """
        request = offset_messages.delete_offsets_request(
            group_id,
            partitions=partitions,
            topics=topics,
            epoch=epoch,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return offset_messages.deleted_offsets(await self._call("DeleteOffsets", request))
