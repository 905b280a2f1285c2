"""The history of offsets: list it, watch it, restore from it."""

from collections.abc import AsyncIterator, Iterable
from datetime import datetime
from typing import SupportsIndex

from offsetd_clients.aio.servers import Calls, new_id
from offsetd_clients.aio.watch import AsyncOffsetWatch
from offsetd_clients.history_values import OffsetEvent, RestoredGroup
from offsetd_clients.messages import history_messages
from offsetd_clients.values import TopicPartition


class HistoryCalls(Calls):
    """The calls of a client that read the history."""

    async def list_offset_history(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] = (),
        *,
        since: datetime | SupportsIndex | None = None,
        until: datetime | SupportsIndex | None = None,
        oldest_first: bool = False,
        page_size: int = 0,
    ) -> AsyncIterator[OffsetEvent]:
        """Yields commits and deletions of a group's offsets, page after page, newest first.

        `since` and `until` are times, or log offsets of the group's log partition. Without `since`
        it goes back to the start of the complete history. Raises `HistoryCompacted`.
        """
        request = history_messages.list_offset_history_request(
            group_id,
            partitions,
            since=since,
            until=until,
            oldest_first=oldest_first,
            page_size=page_size,
        )
        while True:
            response = await self._call("ListOffsetHistory", request)
            for event in response.events:
                yield history_messages.offset_event(event)
            request.page_token = response.next_page_token
            if not request.page_token:
                return

    async def restore_group(
        self,
        group_id: str,
        target: datetime | SupportsIndex,
        *,
        force: bool = False,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> RestoredGroup:
        """Restores a group's offsets to a time, or to the state right after a log offset.

        `force` allows it while the group has members, or its lease is held. Raises
        `HistoryCompacted`, `GroupNotEmpty` and `LeaseHeld`.
        """
        request = history_messages.restore_group_request(
            group_id,
            target,
            force=force,
            validate_only=validate_only,
            reason=reason,
            request_id=request_id or new_id(),
        )
        return history_messages.restored_group(await self._call("RestoreGroup", request))

    def watch_offsets(
        self,
        group_ids: Iterable[str] = (),
        *,
        group_id_prefix: str = "",
        topics: Iterable[str] = (),
        token: str = "",
        from_oldest: bool = False,
        progress_interval_s: float | None = None,
        until_token: str = "",
    ) -> AsyncOffsetWatch:
        """Watches events of some groups, or of all, as they become durable. Connects on iteration.

        It starts at `token`, which must come from a watcher with the same groups, prefix and
        topics. Without a token it starts at the oldest point from which the history is complete
        (`from_oldest`), or now. `until_token` is a token of such a watcher too: the watch ends
        after all events before it. Iterating raises `HistoryCompacted`, with the oldest token, if
        events were removed.
        """
        request = history_messages.watch_offsets_request(
            group_ids,
            group_id_prefix=group_id_prefix,
            topics=topics,
            token=token,
            from_oldest=from_oldest,
            progress_interval_s=progress_interval_s,
            until_token=until_token,
        )
        return AsyncOffsetWatch(self._servers, request, self._retry)
