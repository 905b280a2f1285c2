"""Makes requests from groups of rows. Attempts of the same write use the same request ids."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from offsetd.v1.offset_service_pb2 import CommitOffsetsRequest

from offsetd_pipeline.writing.columns import WriteMode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offsetd.v1.offset_service_pb2 import OffsetCommit
    from offsetd_clients import CommittedOffset

    from offsetd_pipeline.writing.written_groups import GroupRows

_PLAIN: Final = ("topic", "partition", "offset", "leader_epoch", "metadata", "end_offset")


class RequestMaker:
    """Makes the requests of one write, whose name is the job's, or that of a query and an epoch.

    A server repeats its first answer to a known request id, even if the request has other content.
    So an id depends on the name and on all content: another attempt with the same rows has the same
    id, even in other tasks. An attempt with other rows has another id.
    """

    def __init__(self, name: str, mode: WriteMode) -> None:
        self._mode = mode
        self._key = hashlib.blake2b(name.encode(), digest_size=32).digest()

    def commit(self, group: GroupRows) -> CommitOffsetsRequest:
        """A commit of a whole group."""
        request = CommitOffsetsRequest(group_id=group.group_id)
        add = request.offsets.add
        rows = zip(*map(group.column, _PLAIN), strict=True)
        for topic, partition, offset, leader_epoch, metadata, end_offset in rows:
            add(
                topic=topic,
                partition=partition,
                offset=offset,
                leader_epoch=leader_epoch,
                metadata=metadata,
                end_offset=end_offset,
            )
        self._set_conditions(request.offsets, group)
        request.request_id = self._id_of(request.SerializeToString())
        return request

    def file(self, groups: Iterable[GroupRows]) -> tuple[bytes, str]:
        """A file for an import, with a line for each row of several groups; and its request id."""
        content = b"".join(
            json.dumps(self._line(row), ensure_ascii=False).encode() + b"\n"
            for group in groups
            for row in group.rows()
        )
        return content, self._id_of(content)

    def conflicts(self, row: Mapping[str, Any], stored: CommittedOffset | None) -> bool:
        """Whether the stored offset, or None, forbids writing a row."""
        match self._mode:
            case WriteMode.OVERWRITE:
                return False
            case WriteMode.CREATE:
                return stored is not None
            case WriteMode.MONOTONIC:
                return stored is not None and stored.offset > row["offset"]
        offset, revision = row.get("expected_offset"), row.get("expected_revision")
        if stored is None or (offset is None and revision is None):
            return (stored is None) != (offset is None and revision is None)
        return bool(stored.offset != offset if revision is None else stored.revision != revision)

    def _set_conditions(self, offsets: Iterable[OffsetCommit], group: GroupRows) -> None:
        if self._mode is WriteMode.MONOTONIC:
            for each in offsets:
                each.monotonic = True
        elif self._mode is WriteMode.CREATE:
            for each in offsets:
                each.must_not_exist = True
        elif self._mode is WriteMode.COMPARE_AND_SET:
            expected = map(group.column, ("expected_offset", "expected_revision"))
            for each, offset, revision in zip(offsets, *expected, strict=True):
                if offset is not None:
                    each.expected_offset = offset
                elif revision is not None:
                    each.expected_revision = revision
                else:
                    each.must_not_exist = True

    def _line(self, row: dict[str, Any]) -> dict[str, Any]:
        time = row.pop("commit_time")
        row["commit_timestamp_ms"] = None if time is None else round(time.timestamp() * 1000)
        is_expected = row.get("expected_revision") is not None
        if self._mode is not WriteMode.OVERWRITE and not is_expected:
            row["must_not_exist"] = True
        return row

    def _id_of(self, content: bytes) -> str:
        return hashlib.blake2b(content, digest_size=16, key=self._key).hexdigest()
