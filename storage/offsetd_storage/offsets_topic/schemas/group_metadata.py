"""The value of a classic group: GroupMetadataValue, read in versions 0 to 4, written in 3."""

from typing import Final, Self, cast

import attrs

from offsetd_storage.offsets_topic.schemas.layout import Fields, read_versioned, write_versioned
from offsetd_storage.offsets_topic.schemas.record_layouts import GROUP_METADATA_VALUE

WRITE_VERSION: Final = 3


@attrs.frozen(kw_only=True)
class GroupMember:
    """A member of a classic group. `subscription` and `assignment` are bytes of its protocol
    (`protocol_metadata` reads those of consumers). Times are in ms; -1 if the version has none."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int = -1
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes

    @classmethod
    def of_fields(cls, fields: Fields) -> Self:
        """Makes a member from the values by Kafka's field names."""
        return cls(
            member_id=cast("str", fields["memberId"]),
            group_instance_id=cast("str | None", fields["groupInstanceId"]),
            client_id=cast("str", fields["clientId"]),
            client_host=cast("str", fields["clientHost"]),
            rebalance_timeout_ms=cast("int", fields["rebalanceTimeout"]),
            session_timeout_ms=cast("int", fields["sessionTimeout"]),
            subscription=cast("bytes", fields["subscription"]),
            assignment=cast("bytes", fields["assignment"]),
        )

    def to_fields(self) -> Fields:
        """The values as a mapping with Kafka's field names."""
        return {
            "memberId": self.member_id,
            "groupInstanceId": self.group_instance_id,
            "clientId": self.client_id,
            "clientHost": self.client_host,
            "rebalanceTimeout": self.rebalance_timeout_ms,
            "sessionTimeout": self.session_timeout_ms,
            "subscription": self.subscription,
            "assignment": self.assignment,
        }


@attrs.frozen(kw_only=True)
class GroupMetadataValue:
    """A classic group after its last rebalance.

    A simple group's `protocol_type` is empty. `current_state_timestamp_ms` is -1 if the version has
    none.
    """

    protocol_type: str
    generation: int
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp_ms: int = -1
    members: tuple[GroupMember, ...] = ()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads versions 0 to 4. Ignores unknown tags.

        Raises:
            UnknownValueVersion: a newer version.
            UndecodableRecord: bytes that do not follow the version.
        """
        fields = read_versioned(GROUP_METADATA_VALUE, value).fields
        members = cast("list[Fields]", fields["members"])
        return cls(
            protocol_type=cast("str", fields["protocolType"]),
            generation=cast("int", fields["generation"]),
            protocol=cast("str | None", fields["protocol"]),
            leader=cast("str | None", fields["leader"]),
            current_state_timestamp_ms=cast("int", fields["currentStateTimestamp"]),
            members=tuple(GroupMember.of_fields(member) for member in members),
        )

    def encode(self) -> bytes:
        """The bytes of version 3, which Kafka's coordinator writes."""
        fields: Fields = {
            "protocolType": self.protocol_type,
            "generation": self.generation,
            "protocol": self.protocol,
            "leader": self.leader,
            "currentStateTimestamp": self.current_state_timestamp_ms,
            "members": [member.to_fields() for member in self.members],
        }
        return write_versioned(GROUP_METADATA_VALUE, fields, WRITE_VERSION)
