# Made from aio/changes.py by .ci/sync_from_aio: change that, then run `make sync`.
"""Administrative changes of many offsets (resets, clones, files), and the audit log."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from offsetd_clients.change_values import (
    AuditEvent,
    Bounds,
    ClonedGroup,
    ImportedGroup,
    OffsetFormat,
    ResetOffsets,
)
from offsetd_clients.messages import change_messages
from offsetd_clients.messages.change_messages import ResetTarget
from offsetd_clients.sync.cluster_changes import add_source_offsets, import_by_owners
from offsetd_clients.sync.cluster_lists import all_audit_events, exported_pieces
from offsetd_clients.sync.servers import Calls, new_id
from offsetd_clients.values import TopicPartition


class ChangeCalls(Calls):
    """The calls of a client that administrators need."""

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
        """Moves the offsets of a group: all chosen ones or, on any error, none.

        It chooses `partitions`, and the committed partitions of `topics`; if both are empty, all
        committed partitions. `target` is `ToOffset`, `ShiftBy`, `ResetTo`, an offset for each
        partition, or a point in time: a datetime, or a timedelta back from now. For a point in
        time, it restores the offsets that were committed at that time.

        `bounds` gives the earliest and latest offsets that the server cannot learn from commits or
        from Kafka. `force` allows it while the group has members. Raises `GroupNotEmpty`,
        `OffsetOutOfRange`, `OffsetBoundsUnknown` and `OffsetNotCommitted`.
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
        """The bounds of partitions, and of all partitions of `topics`, from the server's Kafka.

        A partition that the Kafka cluster does not have is left out. Empty if the server has no
        cluster to ask.
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
        """Copies a group's offsets, of all topics or of some, to another group.

        `overwrite` allows a target group that exists; its partitions that the source does not have
        stay. Without it, an existing target raises `GroupExists`.

        In a cluster, if two nodes own the groups, the source is read first, in a call of its own.
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
        add_source_offsets(self._servers, self._retry, request)
        return change_messages.cloned_group(self._call("CloneGroup", request))

    def export_offsets(
        self,
        file_format: OffsetFormat,
        group_ids: Iterable[str] = (),
        *,
        group_id_prefix: str = "",
        topics: Iterable[str] = (),
    ) -> Iterator[bytes]:
        """Yields a file with offsets, piece by piece. Without `group_ids`, all with the prefix.

        If it raises an error after the first piece, the pieces before it are an incomplete file. In
        a cluster, it exports one log partition after the other.
        """
        request = change_messages.export_offsets_request(
            file_format, group_ids=group_ids, group_id_prefix=group_id_prefix, topics=topics
        )
        for piece in exported_pieces(self._servers, self._retry, request):
            yield piece

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
        """Commits the offsets of a file, each group as a whole.

        An error in one group does not stop the other groups.

        `keep_commit_times`: keep the commit times of the file.
        `is_unaudited`: like ordinary commits, the import leaves no record in the audit log. Then
        each line needs a precondition, and `reason` must be empty. Raises `InvalidImport` if a line
        is invalid: then no group is imported.

        In a cluster, the file is sent to each node that owns some of its groups.
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
        return import_by_owners(self._servers, self._retry, requests)

    def list_audit_events(
        self,
        *,
        methods: Iterable[str] = (),
        group_id: str = "",
        principal: str = "",
        start_time: datetime | None = None,
        end_time: datetime | None = None,
        page_size: int = 0,
    ) -> Iterator[AuditEvent]:
        """Yields the administrative changes of the audit log, newest first, page after page.

        In a cluster, it merges the audit logs of all nodes by time.
        """
        request = change_messages.list_audit_events_request(
            methods=methods,
            group_id=group_id,
            principal=principal,
            start_time=start_time,
            end_time=end_time,
            page_size=page_size,
        )
        for event in all_audit_events(self._servers, self._retry, request):
            yield event
