# Made from aio/changes.py by .ci/sync_from_aio: change that, then run `make sync`.
"""What administrators do with many offsets: resets, clones, files; and what was done."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from offsetd_clients import change_messages
from offsetd_clients.change_messages import ResetTarget
from offsetd_clients.change_values import (
    AuditEvent,
    Bounds,
    ClonedGroup,
    ImportedGroup,
    OffsetFormat,
    ResetOffsets,
)
from offsetd_clients.sync.calls import Calls, new_id
from offsetd_clients.sync.transport import Answers
from offsetd_clients.values import TopicPartition


class ChangeCalls(Calls):
    """The part of a client that administrators need."""

    def reset_offsets(
        self,
        group_id: str,
        target: ResetTarget,
        partitions: Iterable[TopicPartition] = (),
        *,
        topics: Iterable[str] = (),
        bounds: Mapping[TopicPartition, Bounds] | None = None,
        force: bool = False,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> ResetOffsets:
        """Moves offsets of a group: all that are chosen or, on any error, none.

        Chosen are `partitions`, and what is committed of `topics`; all, where neither is given.
        `target` is `ToOffset`, `ShiftBy`, `ResetTo`, a time or a span of time back to what was
        committed then, or the offset of each partition. `bounds` says what partitions have,
        where the server is not told by commits or by Kafka. `force`: also while the group has
        members. Raises `GroupNotEmpty`, `OffsetOutOfRange`, `OffsetBoundsUnknown`,
        `OffsetNotCommitted`.
        """
        request = change_messages.reset_offsets_request(
            group_id,
            target,
            partitions=partitions,
            topics=topics,
            bounds=bounds or {},
            force=force,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return change_messages.reset_offsets(self._call("ResetOffsets", request))

    def fetch_bounds(
        self, partitions: Iterable[TopicPartition] = (), *, topics: Iterable[str] = ()
    ) -> dict[TopicPartition, Bounds]:
        """What partitions, and all those of `topics`, have by the Kafka cluster the server asks.

        What that does not have is left out; empty where the server has no cluster to ask.
        """
        request = change_messages.fetch_bounds_request(partitions, topics)
        return change_messages.fetched_bounds(self._call("FetchBounds", request))

    def clone_group(
        self,
        source_group_id: str,
        target_group_id: str,
        *,
        topics: Iterable[str] = (),
        overwrite: bool = False,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> ClonedGroup:
        """Copies a group's offsets, of some topics or all, to another group.

        `overwrite`: to one that exists, where what the source does not have stays; else raises
        `GroupExists`.
        """
        request = change_messages.clone_group_request(
            source_group_id,
            target_group_id,
            topics=topics,
            overwrite=overwrite,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return change_messages.cloned_group(self._call("CloneGroup", request))

    def export_offsets(
        self,
        file_format: OffsetFormat,
        group_ids: Iterable[str] = (),
        *,
        group_id_prefix: str = "",
        topics: Iterable[str] = (),
    ) -> Iterator[bytes]:
        """Yields a file with offsets, piece by piece; no groups: all that begin with the prefix.

        Where it raises later than at the first piece, what came until then is not the whole.
        """
        request = change_messages.export_offsets_request(
            file_format, group_ids=group_ids, group_id_prefix=group_id_prefix, topics=topics
        )

        def begin(_timeout_s: float) -> tuple[Any, Answers]:
            """The first piece, or None, and the rest; of which each may take its time."""
            answers = self._servers.home.stream("ExportOffsets", request, self._retry.timeout_s)
            return next(answers, None), answers

        first, answers = self._retry.call(begin)
        if first is None:
            return
        try:
            yield first.content
            for response in answers:
                yield response.content
        finally:
            answers.cancel()

    def import_offsets(
        self,
        content: bytes,
        file_format: OffsetFormat,
        *,
        group_id: str = "",
        keep_commit_times: bool = False,
        is_unaudited: bool = False,
        validate_only: bool = False,
        reason: str = "",
        request_id: str | None = None,
    ) -> tuple[ImportedGroup, ...]:
        """Commits the offsets of a file, each group as a whole; an error of one stops no other.

        `keep_commit_times`: as they are in the file. `is_unaudited`: the audit log keeps nothing of
        it, as of commits; then each line has a precondition, and there is no `reason`.
        Raises `InvalidImport`, and then nothing was imported, if a line of it is not good.
        """
        requests = change_messages.import_offsets_requests(
            content,
            file_format,
            group_id=group_id,
            keep_commit_times=keep_commit_times,
            is_unaudited=is_unaudited,
            request_id=request_id or new_id(),
            validate_only=validate_only,
            reason=reason,
        )
        return change_messages.imported_groups(self._call("ImportOffsets", requests))

    def list_audit_events(
        self,
        *,
        methods: Iterable[str] = (),
        group_id: str = "",
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int = 0,
    ) -> Iterator[AuditEvent]:
        """Yields what administrators did, the newest first, page after page."""
        request = change_messages.list_audit_events_request(
            methods=methods,
            group_id=group_id,
            start_time=start_time,
            end_time=end_time,
            page_size=page_size,
        )
        while True:
            response = self._call("ListAuditEvents", request)
            for event in change_messages.audit_events(response):
                yield event
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token
