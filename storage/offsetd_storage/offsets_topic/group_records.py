"""The newest records of each group that a shard has replayed, and the group's state from them.

A group is only its newest record for each key. So neither the order of records with different keys
matters, nor the older records that compaction has removed (KAFKA-17306, KAFKA-19862). A group that
has offsets but no group record is a simple group.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeVar

from offsetd_storage.offsets_topic.group_listing import (
    Group,
    GroupListing,
    GroupMember,
    GroupState,
    GroupType,
)
from offsetd_storage.offsets_topic.schemas.consumer_group import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    ConsumerGroupValue,
)
from offsetd_storage.offsets_topic.schemas.group_metadata import GroupMetadataValue
from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings
from offsetd_storage.offsets_topic.schemas.keys import ConsumerGroupKey, GroupKey, GroupSettingsKey
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord
from offsetd_storage.offsets_topic.schemas.protocol_metadata import (
    CONSUMER_PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
)
from offsetd_storage.offsets_topic.schemas.record_layouts import RecordType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GroupRecordKey = GroupKey | ConsumerGroupKey | GroupSettingsKey
GroupRecordValue = GroupMetadataValue | ConsumerGroupValue | GroupSettings

_Value = TypeVar("_Value", bound=ConsumerGroupValue)

# Kafka's loader fails unless a member's records are in this order, with the group's record last.
_TOMBSTONE_ORDER: Final = (
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    RecordType.CONSUMER_GROUP_MEMBER_METADATA,
    RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION,
    RecordType.CONSUMER_GROUP_PARTITION_METADATA,
    RecordType.CONSUMER_GROUP_METADATA,
)
_MEMBER_TOMBSTONE_ORDER: Final = (
    RecordType.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    RecordType.CONSUMER_GROUP_MEMBER_METADATA,
)
_RECONCILED: Final = 0  # Kafka's member state STABLE.


class TopicsRead(NamedTuple):
    """The topics that members of a group read; None if they may read any topic."""

    topics: frozenset[str] | None

    @classmethod
    def of(cls, subscriptions: Iterable[bytes]) -> Self:
        """The topics in these subscriptions, which are of the protocol "consumer"."""
        topics: set[str] = set()
        for subscription in set(subscriptions):
            try:
                topics.update(decode_subscription(subscription).topics)
            except UndecodableRecord:
                # As in Kafka: a subscription that cannot be read counts as one to every topic.
                return cls(None)
        return cls(frozenset(topics))

    def has(self, topic: str) -> bool:
        """Returns whether a member reads this topic."""
        return self.topics is None or topic in self.topics


class GroupRecords:
    """The newest records of one group, by key. A value is None if it cannot be read.

    `lease_deadline_ms` is not in the records, only in memory: the end of the group's lease by the
    monotonic clock, if the lease was granted or renewed since the load.
    """

    def __init__(self, group_id: bytes) -> None:
        self.group_id = group_id
        self.lease_deadline_ms: int | None = None
        self._records: dict[GroupRecordKey, GroupRecordValue | None] = {}
        self._topics_read: TopicsRead | None = None  # None if it is not computed yet.

    def __bool__(self) -> bool:
        return bool(self._records)

    def put(self, key: GroupRecordKey, value: GroupRecordValue | None) -> None:
        """Puts a record in place of the previous one with its key."""
        if isinstance(key, GroupSettingsKey) and _lease_epoch(value) != _lease_epoch(self.settings):
            self.lease_deadline_ms = None
        self._records[key] = value
        self._topics_read = None

    def remove(self, key: GroupRecordKey) -> None:
        """Removes a record, because a tombstone was written."""
        self._records.pop(key, None)
        self._topics_read = None

    @property
    def group_type(self) -> GroupType | None:
        """The type of the group; None if these are only left-over records of a deleted group."""
        if any(
            key.record_type is RecordType.CONSUMER_GROUP_METADATA or _is_member(key)
            for key in self._consumer_keys()
        ):
            return GroupType.CONSUMER
        is_classic = self._classic_key in self._records or self._settings_key in self._records
        return GroupType.CLASSIC if is_classic else None

    @property
    def is_readable(self) -> bool:
        """Returns whether all records of the group could be read."""
        return None not in self._records.values()

    @property
    def is_readable_but_for_settings(self) -> bool:
        """Returns whether all records except that of the group's settings could be read."""
        unreadable = {key for key, value in self._records.items() if value is None}
        return unreadable <= {self._settings_key}

    @property
    def has_members(self) -> bool:
        """Returns whether the group has members. Not reliable if the group is not readable."""
        return self.member_count > 0

    @property
    def member_count(self) -> int:
        """The number of its members. Not reliable if the group is not readable."""
        if self.group_type is GroupType.CONSUMER:
            return sum(map(_is_member, self._consumer_keys()))
        classic = self.classic
        return 0 if classic is None else len(classic.members)

    @property
    def protocol_type(self) -> str:
        """The type of the members' protocol; empty for a simple group."""
        if self.group_type is GroupType.CONSUMER:
            return CONSUMER_PROTOCOL_TYPE
        return "" if self.classic is None else self.classic.protocol_type

    @property
    def state(self) -> GroupState:
        """The state that Kafka gives the group after loading these records."""
        if not self.is_readable:
            return GroupState.UNSPECIFIED
        if not self.has_members:
            return GroupState.EMPTY
        if self.group_type is GroupType.CLASSIC:
            return GroupState.STABLE
        if self._epoch > self._assignment_epoch:
            return GroupState.ASSIGNING
        current = self._values(ConsumerGroupCurrentMemberAssignmentValue)
        for member_id in self._values(ConsumerGroupMemberMetadataValue):
            member = current.get(member_id)
            if (
                member is None
                or member.state != _RECONCILED
                or member.member_epoch != self._assignment_epoch
            ):
                return GroupState.RECONCILING
        return GroupState.STABLE

    @property
    def became_empty_ms(self) -> int | None:
        """The time of a classic group's last change of state; None if unknown (older records)."""
        classic = self.classic
        if classic is None or classic.current_state_timestamp_ms < 0:
            return None
        return classic.current_state_timestamp_ms

    def is_subscribed(self, topic: str) -> bool:
        """Returns whether a member reads the topic, by the records."""
        if self._topics_read is None:
            self._topics_read = self._look_at_topics()
        return self._topics_read.has(topic)

    def _look_at_topics(self) -> TopicsRead:
        if self.group_type is GroupType.CONSUMER:
            return TopicsRead(frozenset().union(*self._consumer_topics().values()))
        classic = self.classic
        if classic is None or classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return TopicsRead(frozenset())
        return TopicsRead.of(member.subscription for member in classic.members)

    def tombstone_keys(self) -> list[GroupRecordKey]:
        """The keys of all records, in the order in which Kafka accepts their tombstones.

        A classic group's key is always among them, as in Kafka for simple groups, unless this is a
        KIP-848 group that has no such record.
        """
        keys: list[GroupRecordKey] = []
        if self._settings_key in self._records:
            keys.append(self._settings_key)
        keys += self.consumer_tombstone_keys()
        if self.group_type is not GroupType.CONSUMER or self._classic_key in self._records:
            keys.append(self._classic_key)
        return keys

    def consumer_tombstone_keys(self) -> list[ConsumerGroupKey]:
        """The keys of all KIP-848 records, in the order of `tombstone_keys`.

        For such a group, the key of the target assignment's epoch is always among them: Kafka's
        loader fails if a group ends without that tombstone.
        """
        keys = list(self._consumer_keys())
        target_epoch = self._consumer_key(RecordType.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA)
        if self.group_type is GroupType.CONSUMER and target_epoch not in keys:
            keys.append(target_epoch)
        return [key for each in _TOMBSTONE_ORDER for key in keys if key.record_type is each]

    def consumer_member_ids(self) -> list[str]:
        """The members of a KIP-848 group, sorted."""
        return sorted(key.member_id or "" for key in self._consumer_keys() if _is_member(key))

    def end_of_consumer_members(
        self, member_ids: Iterable[str]
    ) -> list[tuple[ConsumerGroupKey, ConsumerGroupMetadataValue | None]]:
        """The records with which members of a KIP-848 group leave, as a broker writes them.

        They are three tombstones for each member, tombstones for the regular expressions that no
        member has any more, and the group's next epoch. If all members leave, the metadata of
        their topics is removed, too. There are no records if none of `member_ids` is a member.
        """
        members = self._values(ConsumerGroupMemberMetadataValue)
        going = sorted(set(member_ids).intersection(self.consumer_member_ids()))
        if not going:
            return []
        staying = [member for member_id, member in members.items() if member_id not in going]
        keys = [
            self._consumer_key(record_type, member_id)
            for member_id in going
            for record_type in _MEMBER_TOMBSTONE_ORDER
        ]
        expressions = {member.subscribed_regex for member in staying}
        keys += [
            key
            for key in self._consumer_keys()
            if key.record_type is RecordType.CONSUMER_GROUP_REGULAR_EXPRESSION
            and key.regular_expression not in expressions
        ]
        metadata_hash = 0
        if staying:
            group = self._values(ConsumerGroupMetadataValue).get(None)
            metadata_hash = 0 if group is None else group.metadata_hash
        else:
            keys += [
                key
                for key in self._consumer_keys()
                if key.record_type is RecordType.CONSUMER_GROUP_PARTITION_METADATA
            ]
        epoch = ConsumerGroupMetadataValue(epoch=self._epoch + 1, metadata_hash=metadata_hash)
        return [
            *((key, None) for key in keys),
            (self._consumer_key(RecordType.CONSUMER_GROUP_METADATA), epoch),
        ]

    def listing(self) -> GroupListing:
        """The group's line in a list. Only for a group with a type, or without any records."""
        return GroupListing(
            self.group_id, self.group_type or GroupType.CLASSIC, self.state, self.protocol_type
        )

    def describe(self, offset_count: int) -> Group:
        """The group with all details. Only for a readable group with a type, or without records."""
        classic = self.classic
        is_consumer = self.group_type is GroupType.CONSUMER
        if is_consumer or classic is None:
            protocol, generation, leader_id, state_timestamp_ms = "", self._epoch, "", -1
        else:
            protocol, leader_id = classic.protocol or "", classic.leader or ""
            generation = classic.generation
            state_timestamp_ms = classic.current_state_timestamp_ms
        return Group(
            group_id=self.group_id,
            type=self.group_type or GroupType.CLASSIC,
            state=self.state,
            protocol_type=self.protocol_type,
            protocol=protocol,
            generation=generation,
            leader_id=leader_id,
            members=tuple(self._consumer_members() if is_consumer else self._classic_members()),
            offset_count=offset_count,
            state_timestamp_ms=state_timestamp_ms,
        )

    @property
    def settings(self) -> GroupSettings | None:
        """The group's settings, if there are any and they can be read."""
        value = self._records.get(self._settings_key)
        return value if isinstance(value, GroupSettings) else None

    @property
    def _settings_key(self) -> GroupSettingsKey:
        return GroupSettingsKey(group=self.group_id.decode())

    @property
    def _classic_key(self) -> GroupKey:
        return GroupKey(group=self.group_id.decode())

    @property
    def classic(self) -> GroupMetadataValue | None:
        """The record of a classic group, if there is one and it can be read."""
        value = self._records.get(self._classic_key)
        return value if isinstance(value, GroupMetadataValue) else None

    def _consumer_key(
        self, record_type: RecordType, member_id: str | None = None
    ) -> ConsumerGroupKey:
        return ConsumerGroupKey(
            record_type=record_type, group=self.group_id.decode(), member_id=member_id
        )

    def _consumer_keys(self) -> Iterator[ConsumerGroupKey]:
        return (key for key in self._records if isinstance(key, ConsumerGroupKey))

    def _values(self, value_type: type[_Value]) -> dict[str | None, _Value]:
        """The readable values of one type, by the member's id (None if the key has no member)."""
        return {
            key.member_id: value
            for key, value in self._records.items()
            if isinstance(value, value_type) and isinstance(key, ConsumerGroupKey)
        }

    @property
    def _epoch(self) -> int:
        group = self._values(ConsumerGroupMetadataValue).get(None)
        return 0 if group is None else group.epoch

    @property
    def _assignment_epoch(self) -> int:
        assignment = self._values(ConsumerGroupTargetAssignmentMetadataValue).get(None)
        return -1 if assignment is None else assignment.assignment_epoch

    def _consumer_topics(self) -> dict[str | None, set[str]]:
        """The topics that each member of a KIP-848 group reads, also by regular expressions."""
        resolved = {
            key.regular_expression: value.topics
            for key, value in self._records.items()
            if isinstance(value, ConsumerGroupRegularExpressionValue)
            and isinstance(key, ConsumerGroupKey)
        }
        return {
            member_id: {
                *member.subscribed_topics,
                *resolved.get(member.subscribed_regex, ()),
            }
            for member_id, member in self._values(ConsumerGroupMemberMetadataValue).items()
        }

    def _consumer_members(self) -> Iterator[GroupMember]:
        current = self._values(ConsumerGroupCurrentMemberAssignmentValue)
        topics = self._consumer_topics()
        topic_names = {
            topic.topic_id: topic.topic
            for value in self._values(ConsumerGroupPartitionMetadataValue).values()
            for topic in value.topics
        }
        members = self._values(ConsumerGroupMemberMetadataValue)
        for member_id, member in sorted(members.items(), key=lambda item: item[0] or ""):
            assigned = current[member_id].assigned if member_id in current else ()
            yield GroupMember(
                member_id=member_id or "",
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                topics=tuple(sorted(topics[member_id])),
                assignment=tuple(
                    (topic_names.get(each.topic_id) or _topic_id_text(each.topic_id), partition)
                    for each in assigned
                    for partition in each.partitions
                ),
            )

    def _classic_members(self) -> Iterator[GroupMember]:
        if self.classic is None:
            return
        for member in self.classic.members:
            topics: tuple[str, ...] = ()
            assignment: tuple[tuple[str, int], ...] = ()
            if self.protocol_type == CONSUMER_PROTOCOL_TYPE:
                topics, assignment = read_protocol(member.subscription, member.assignment)
            yield GroupMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                topics=topics,
                assignment=assignment,
            )


def _lease_epoch(settings: GroupRecordValue | None) -> int | None:
    if not isinstance(settings, GroupSettings) or settings.lease is None:
        return None
    return settings.lease.epoch


def _is_member(key: ConsumerGroupKey) -> bool:
    return key.record_type is RecordType.CONSUMER_GROUP_MEMBER_METADATA


def _topic_id_text(topic_id: bytes) -> str:
    """A topic's id as Kafka prints it. It is used if the topic's name is not in the log."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def read_protocol(
    subscription: bytes, assignment: bytes
) -> tuple[tuple[str, ...], tuple[tuple[str, int], ...]]:
    """A member's topics and partitions. Those that cannot be read are empty."""
    topics: tuple[str, ...] = ()
    try:
        topics = decode_subscription(subscription).topics
        assigned = decode_assignment(assignment).assigned_partitions
    except UndecodableRecord:
        return topics, ()
    return topics, tuple((each.topic, number) for each in assigned for number in each.partitions)
