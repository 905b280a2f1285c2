"""Both sides of a migration in memory, and kills at every step of it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import attrs
from offsetd_clients import (
    Bounds,
    CommittedOffset,
    Group,
    GroupState,
    GroupType,
    Lease,
    OffsetConflict,
    OffsetdError,
    Revision,
    TopicPartition,
)
from offsetd_clients.errors import Failure
from offsetd_clients.migration.migration_journal import Journal
from offsetd_clients.migration.values import (
    FoundGroup,
    FoundOffset,
    Problem,
    SourceDescription,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pytest
    from offsetd_clients import Retention
    from offsetd_clients.migration.target import Put

T0_MS = 1_700_000_000_000


class Killed(BaseException):
    """The tool was killed here: nothing of it runs any more."""


class KillSwitch:
    """Kills at one of the points that a step passes; 0: at none."""

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.passed = 0

    def point(self) -> None:
        """Something lasting is done right before, or right behind this."""
        self.passed += 1
        if self.passed == self.at:
            raise Killed

    def watch_journal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Kills before a line of the journal, in its middle, and behind it."""
        append = Journal._append

        def killed_append(
            journal: Journal, document: dict[str, Any], *, is_durable: bool = True
        ) -> int:
            self.point()
            try:
                self.point()
            except Killed:
                file = journal._file
                os.pwrite(file._descriptor, b'12345678 {"step', file.size)
                raise
            position = append(journal, document, is_durable=is_durable)
            self.point()
            return position

        monkeypatch.setattr(Journal, "_append", killed_append)


def found(
    topic: str, partition: int, offset: int, *, time_ms: int = T0_MS, **more: Any
) -> FoundOffset:
    """An offset of a source."""
    return FoundOffset(
        topic=topic, partition=partition, offset=offset, commit_time_ms=time_ms, **more
    )


@attrs.define
class FakeSource:
    """Groups that a test makes up."""

    items: list[FoundGroup | Problem] = attrs.field(factory=list)

    @property
    def description(self) -> SourceDescription:
        return SourceDescription(kind="fake", address="nowhere", options={"a": 1})

    def groups(self) -> Iterator[FoundGroup | Problem]:
        yield from self.items

    def read_again(self, group_ids: Sequence[str]) -> Iterator[FoundGroup]:
        by_id = {each.group_id: each for each in self.items if isinstance(each, FoundGroup)}
        for group_id in group_ids:
            yield by_id[group_id]


@attrs.define
class FakeTarget:
    """As `Target`, over a dict: revisions grow, batches are whole, preconditions are checked."""

    kills: KillSwitch = attrs.field(factory=KillSwitch)
    groups: dict[str, dict[TopicPartition, CommittedOffset]] = attrs.field(factory=dict)
    retentions: dict[str, Retention] = attrs.field(factory=dict)
    known_bounds: dict[TopicPartition, Bounds] = attrs.field(factory=dict)
    refusals: dict[str, OffsetdError] = attrs.field(factory=dict)
    server_retention: Retention = "never"
    request_ids: list[str | None] = attrs.field(factory=list)
    lease_holder: str = ""
    """Of all groups."""
    revision: int = 0

    def commit(
        self, group_id: str, topic: str, partition: int, offset: int, *, time_ms: int = T0_MS
    ) -> None:
        """Somebody else's."""
        where = TopicPartition(topic, partition)
        self._store(group_id, where, found(topic, partition, offset, time_ms=time_ms))

    def stored(self, group_ids: Iterable[str]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        return {each: dict(self.groups.get(each, {})) for each in group_ids}

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        return {each: self.known_bounds[each] for each in partitions if each in self.known_bounds}

    def group(self, group_id: str) -> Group | None:
        if group_id not in self.groups and group_id not in self.retentions:
            return None
        return Group(
            group_id=group_id,
            type=GroupType.CLASSIC,
            state=GroupState.EMPTY,
            protocol_type="",
            protocol="",
            generation=0,
            leader_id="",
            members=(),
            log_partition=0,
            offset_count=len(self.groups.get(group_id, {})),
            state_time=None,
            retention=self.retentions.get(group_id),
            lease=self._lease(),
        )

    def _lease(self) -> Lease | None:
        if not self.lease_holder:
            return None
        until = datetime.fromtimestamp(T0_MS / 1000, UTC)
        ttl = timedelta(seconds=30)
        return Lease(
            epoch=1, holder=self.lease_holder, ttl=ttl, grant_time=until, expire_time=until
        )

    def default_retention(self) -> Retention:
        return self.server_retention

    def set_retention(self, group_id: str, retention: Retention, request_id: str) -> None:
        del request_id
        self.kills.point()
        self.retentions[group_id] = retention
        self.kills.point()

    def put(
        self,
        group_id: str,
        puts: Sequence[Put],
        *,
        request_id: str | None = None,
        validate_only: bool = False,
        is_audited: bool = True,
    ) -> Revision | None:
        del is_audited
        if group_id in self.refusals:
            raise self.refusals[group_id]
        stored = self.groups.get(group_id, {})
        for put in puts:
            now = stored.get(put.found.topic_partition)
            if (None if now is None else now.revision) != put.expected_revision:
                raise OffsetConflict(
                    Failure(code="ABORTED", reason="OFFSET_CONFLICT", message="no")
                )
        if validate_only:
            return None
        self.kills.point()
        self.request_ids.append(request_id)
        for put in sorted(puts, key=lambda each: each.found.topic_partition):
            self._store(group_id, put.found.topic_partition, put.found)
        self.kills.point()
        return Revision(0, self.revision)

    def put_many(
        self,
        puts: Mapping[str, Sequence[Put]],
        *,
        request_id: str | None = None,
        validate_only: bool = False,
        is_audited: bool = True,
    ) -> dict[str, OffsetdError | None]:
        errors: dict[str, OffsetdError | None] = dict.fromkeys(puts)
        for group_id, of_one in puts.items():
            try:
                self.put(
                    group_id,
                    of_one,
                    request_id=request_id,
                    validate_only=validate_only,
                    is_audited=is_audited,
                )
            except OffsetdError as error:
                errors[group_id] = error
        return errors

    def delete(self, group_id: str, partitions: Sequence[TopicPartition]) -> None:
        self.kills.point()
        for each in partitions:
            self.groups[group_id].pop(each, None)
        self.kills.point()

    def delete_group(self, group_id: str) -> None:
        self.kills.point()
        self.groups.pop(group_id, None)
        self.retentions.pop(group_id, None)
        self.kills.point()

    def offsets(self) -> dict[str, dict[str, tuple[int, str, int]]]:
        """All there is: offset, metadata and commit time by partition."""
        return {
            group_id: {
                str(where): (
                    each.offset,
                    each.metadata,
                    round(each.commit_time.timestamp() * 1000),
                )
                for where, each in sorted(stored.items())
            }
            for group_id, stored in sorted(self.groups.items())
            if stored
        }

    def _store(self, group_id: str, where: TopicPartition, offset: FoundOffset) -> None:
        self.revision += 1
        time_ms = T0_MS if offset.commit_time_ms is None else offset.commit_time_ms
        self.groups.setdefault(group_id, {})[where] = CommittedOffset(
            offset=offset.offset,
            leader_epoch=offset.leader_epoch,
            metadata=offset.metadata,
            commit_time=datetime.fromtimestamp(time_ms / 1000, UTC),
            expire_time=None,
            revision=self.revision,
            end_offset=None,
        )
