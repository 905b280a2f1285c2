"""The value of a committed offset: OffsetCommitValue, versions 0 to 4."""

from typing import Final, Self, cast

import attrs

from offsetd_storage.offsets_topic.schemas.layout import (
    Field,
    Kind,
    read_versioned,
    write_versioned,
)
from offsetd_storage.offsets_topic.schemas.record_layouts import OFFSET_COMMIT_VALUE, ZERO_UUID

WRITE_VERSIONS: Final = (1, 3, 4)
EXPIRE_TAG: Final = 20_292
"""Our tagged field of version 4: the time of expiry, int64 ms. Kafka ignores it."""

_LAYOUT: Final = attrs.evolve(
    OFFSET_COMMIT_VALUE,
    fields=(
        *OFFSET_COMMIT_VALUE.fields,
        Field("taggedExpireTimestamp", Kind.INT64, since=4, tag=EXPIRE_TAG, default=-1),
    ),
)


@attrs.frozen(kw_only=True)
class OffsetCommitValue:
    """An offset as a group committed it.

    `leader_epoch` is -1 if none was given, and in versions below 3. `expire_timestamp_ms` is -1 if
    none was given. Version 1 has it, and -1 there is not an expiry (KAFKA-7403); version 4 has it
    in a tag of ours. `topic_id` is None if there is none.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: bytes | None = None

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads versions 0 to 4. Ignores unknown tags.

        Raises:
            UnknownValueVersion: a newer version.
            UndecodableRecord: bytes that do not follow the version.
        """
        message = read_versioned(_LAYOUT, value)
        fields = message.fields
        expires = "taggedExpireTimestamp" if message.version >= 4 else "expireTimestamp"
        topic_id = cast("bytes", fields["topicId"])
        return cls(
            offset=cast("int", fields["offset"]),
            leader_epoch=cast("int", fields["leaderEpoch"]),
            metadata=cast("str", fields["metadata"]),
            commit_timestamp_ms=cast("int", fields["commitTimestamp"]),
            expire_timestamp_ms=cast("int", fields[expires]),
            topic_id=None if topic_id == ZERO_UUID else topic_id,
        )

    def encode(self, version: int) -> bytes:
        """The bytes of `version`, one of `WRITE_VERSIONS`. Fields not in that version are lost."""
        assert version in WRITE_VERSIONS, "versions 0 and 2 add nothing to 1 and 3"
        fields: dict[str, object] = {
            "offset": self.offset,
            "leaderEpoch": self.leader_epoch,
            "metadata": self.metadata,
            "commitTimestamp": self.commit_timestamp_ms,
            "expireTimestamp": self.expire_timestamp_ms,
            "taggedExpireTimestamp": self.expire_timestamp_ms,
            "topicId": ZERO_UUID if self.topic_id is None else self.topic_id,
        }
        return write_versioned(_LAYOUT, fields, version)
