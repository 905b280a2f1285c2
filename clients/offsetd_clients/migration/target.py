"""offsetd as the target of a migration."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import attrs

from offsetd_clients import (
    Bounds,
    CommitConflict,
    CommittedOffset,
    Group,
    GroupNotFound,
    GroupRefused,
    ImportedGroup,
    InvalidRequest,
    OffsetClient,
    OffsetdError,
    OffsetFormat,
    OffsetsDamaged,
    Retention,
    Revision,
    TopicPartition,
)
from offsetd_clients.migration.differences import GONE
from offsetd_clients.migration.outcomes import listed
from offsetd_clients.migration.values import FoundOffset, MigrationError

Stored = dict[TopicPartition, CommittedOffset]

_CLUSTER_SETTING = "kafka.bootstrap.servers"
_RETENTION_SETTING = "offsets.retention.minutes"

# Errors that concern one group only. All others end a step.
GROUPS_OWN = (CommitConflict, GroupNotFound, GroupRefused, InvalidRequest, OffsetsDamaged)


@attrs.frozen
class Put:
    """An offset to store if the stored offset has the revision `expected_revision`.

    None means: store it only if no offset is stored."""

    found: FoundOffset
    expected_revision: int | None


class Target:
    """Reads and writes groups in offsetd. `reason` goes into the audit log with each change."""

    def __init__(self, client: OffsetClient, *, reason: str = "") -> None:
        self.client = client
        self._reason = reason
        self._default_retention: Retention = None

    def stored(self, group_ids: Iterable[str]) -> dict[str, Stored]:
        """The stored offsets of each group. Raises OffsetdError."""
        return self.client.fetch_many(group_ids)

    def bounds(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
        """The bounds of the partitions, as reported by the server's Kafka cluster.

        Raises MigrationError if the server has no cluster.
        """
        if not partitions:
            return {}
        found = self.client.fetch_bounds(partitions)
        if not found and not self._knows_cluster():
            raise MigrationError(f"the server has no Kafka cluster to ask: set {_CLUSTER_SETTING}")
        return dict.fromkeys(partitions, GONE) | found

    def group(self, group_id: str) -> Group | None:
        """The group; None if it does not exist."""
        try:
            return self.client.get_group(group_id)
        except GroupNotFound:
            return None

    def default_retention(self) -> Retention:
        """The server's retention for groups without their own. It is fetched once."""
        if self._default_retention is None:
            [setting] = self.client.describe_config(names=[_RETENTION_SETTING])
            minutes = int(setting.value)
            self._default_retention = "never" if minutes < 0 else timedelta(minutes=minutes)
        return self._default_retention

    def set_retention(self, group_id: str, retention: Retention, request_id: str) -> None:
        """Sets the retention of a group, which may be new."""
        self.client.update_group(
            group_id,
            retention=retention,
            allow_missing=True,
            reason=self._reason,
            request_id=request_id,
        )

    def put(
        self,
        group_id: str,
        puts: Sequence[Put],
        *,
        request_id: str | None = None,
        validate_only: bool = False,
        is_audited: bool = True,
    ) -> Revision | None:
        """Stores all offsets in one batch, with their commit times, or none.

        Returns the position of the last one, in the order of topic and partition; returns None with
        `validate_only`. Raises one of `GROUPS_OWN`, or another OffsetdError.
        """
        [imported] = self._import(
            {group_id: puts},
            request_id=request_id,
            validate_only=validate_only,
            is_audited=is_audited,
        )
        if imported.error is not None:
            raise imported.error
        return imported.revision

    def put_many(
        self,
        puts: Mapping[str, Sequence[Put]],
        *,
        request_id: str | None = None,
        validate_only: bool = False,
        is_audited: bool = True,
    ) -> dict[str, OffsetdError | None]:
        """Stores the offsets of several groups in one call, each group as `put` does.

        Returns the error of each group, or None. Raises an OffsetdError that is not one group's
        own.
        """
        try:
            imported = self._import(
                puts, request_id=request_id, validate_only=validate_only, is_audited=is_audited
            )
        except InvalidRequest as error:
            # One bad line makes the server refuse the whole call, before it stores anything. So
            # send each group by itself.
            if len(puts) == 1:
                return dict.fromkeys(puts, error)
            found: dict[str, OffsetdError | None] = {}
            for group_id, of_one in puts.items():
                found |= self.put_many(
                    {group_id: of_one},
                    request_id=request_id,
                    validate_only=validate_only,
                    is_audited=is_audited,
                )
            return found
        return {each.group_id: each.error for each in imported}

    def _import(
        self,
        puts: Mapping[str, Sequence[Put]],
        *,
        request_id: str | None,
        validate_only: bool,
        is_audited: bool,
    ) -> tuple[ImportedGroup, ...]:
        lines = (_line(group_id, put) for group_id, of_one in puts.items() for put in of_one)
        return self.client.import_offsets(
            "".join(lines).encode(),
            OffsetFormat.JSONL,
            keep_commit_times=True,
            is_unaudited=not is_audited,
            validate_only=validate_only,
            reason=self._reason if is_audited else "",
            request_id=request_id,
        )

    def _knows_cluster(self) -> bool:
        [setting] = self.client.describe_config(names=[_CLUSTER_SETTING])
        return bool(setting.value)

    def delete(self, group_id: str, partitions: Sequence[TopicPartition]) -> None:
        """Deletes offsets of the group."""
        self.client.delete_offsets(group_id, partitions, reason=self._reason)

    def delete_group(self, group_id: str) -> None:
        """Deletes the group, if it exists."""
        try:
            self.client.delete_group(group_id, reason=self._reason)
        except GroupNotFound:
            return


def alive_here(target: Target, group_id: str) -> str:
    """Names a group's members, or the holder of its lease: they may be writing to it. Else empty.

    Raises OffsetdError.
    """
    group = target.group(group_id)
    if group is None:
        return ""
    if group.members:
        names = [f"{each.client_id} at {each.client_host}" for each in group.members]
        return f"it has members here: {listed(names)}"
    if group.lease is not None and group.lease.expire_time is not None:
        return f"{group.lease.holder} holds its lease here"
    return ""


def is_groups_own(error: OffsetdError) -> bool:
    """Whether an error concerns one group only."""
    return isinstance(error, GROUPS_OWN)


def milliseconds(time: datetime) -> int:
    """Milliseconds since 1970."""
    return round(time.timestamp() * 1000)


def time_of(milliseconds_since_1970: int | None) -> datetime | None:
    """The time in UTC."""
    if milliseconds_since_1970 is None:
        return None
    return datetime.fromtimestamp(milliseconds_since_1970 / 1000, UTC)


def _line(group_id: str, put: Put) -> str:
    found = put.found
    line: dict[str, object] = {
        "group": group_id,
        "topic": found.topic,
        "partition": found.partition,
        "offset": found.offset,
        "leader_epoch": found.leader_epoch,
        "metadata": found.metadata,
        "commit_timestamp_ms": found.commit_time_ms,
    }
    if put.expected_revision is None:
        line["must_not_exist"] = True
    else:
        line["expected_revision"] = put.expected_revision
    return json.dumps(line, ensure_ascii=False) + "\n"
