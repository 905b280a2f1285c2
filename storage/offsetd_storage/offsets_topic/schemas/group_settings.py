"""The settings of a group, and its lease: record type 20292. The layout is ours, not Kafka's.

A key is the int16 type and the group. A value is an int16 version, the retention (int64 ms; -1 is
the server's, -2 is never) and the holder of the lease, or null. If there is a holder, three int64
follow: the epoch, the time of the grant (ms), and the ttl (ms). An epoch of -1 means the offset of
this record. An acquisition of the lease writes -1. `docs/formats/group-settings.md` has more.
"""

from __future__ import annotations

from typing import Final

import attrs

from offsetd_storage.offsets_topic.schemas.primitives import (
    Reader,
    UndecodableRecord,
    UnknownValueVersion,
    Writer,
)

VERSION: Final = 0
OWN_OFFSET: Final = -1
_RETENTION_OF_SERVER: Final = -1
_RETENTION_NEVER: Final = -2


@attrs.frozen(kw_only=True)
class Lease:
    """The lease of a group, and its holder; `granted_ms` is wall time."""

    holder: str
    epoch: int
    granted_ms: int
    ttl_ms: int


@attrs.frozen(kw_only=True)
class GroupSettings:
    """The settings. A `retention_ms` of None means the server's, unless `never_expires`."""

    retention_ms: int | None = None
    never_expires: bool = False
    lease: Lease | None = None

    @property
    def is_default(self) -> bool:
        """Returns whether there is nothing to record."""
        return self == GroupSettings()

    def encode(self) -> bytes:
        """The value's bytes."""
        retention_ms = _RETENTION_OF_SERVER if self.retention_ms is None else self.retention_ms
        writer = Writer()
        writer.int16(VERSION)
        writer.int64(_RETENTION_NEVER if self.never_expires else retention_ms)
        writer.string(None if self.lease is None else self.lease.holder)
        if self.lease is not None:
            writer.int64(self.lease.epoch)
            writer.int64(self.lease.granted_ms)
            writer.int64(self.lease.ttl_ms)
        return writer.result()

    @classmethod
    def decode(cls, value: bytes, *, offset: int) -> GroupSettings:
        """Reads the value of the record at `offset`. Bytes after the last field are ignored.

        Raises:
            UnknownValueVersion: a newer version.
            UndecodableRecord: bytes that do not follow the version.
        """
        reader = Reader(value)
        version = reader.int16()
        if version != VERSION:
            raise UnknownValueVersion(f"GroupSettings has no version {version}")
        retention_ms = reader.int64()
        if retention_ms == 0 or retention_ms < _RETENTION_NEVER:
            raise UndecodableRecord(f"the retention of {retention_ms} ms is invalid")
        holder = reader.string()
        lease = None
        if holder is not None:
            epoch = reader.int64()
            lease = Lease(
                holder=holder,
                epoch=offset if epoch == OWN_OFFSET else epoch,
                granted_ms=reader.int64(),
                ttl_ms=reader.int64(),
            )
        return cls(
            retention_ms=retention_ms if retention_ms > 0 else None,
            never_expires=retention_ms == _RETENTION_NEVER,
            lease=lease,
        )
