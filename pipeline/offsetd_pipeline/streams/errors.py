"""The errors that end a stream."""

from __future__ import annotations

from offsetd_storage.errors import StorageError


class RecordsLost(StorageError):
    """Records that the stream had not read yet were cleaned away or deleted.

    `position`: the next log offset of the stream. `goes_on_at`: the log offset at which the stream
    would continue with `fail_on_data_loss=false`. Both are None if a server does not report them.
    """

    def __init__(
        self,
        reason: str,
        *,
        log_partition: int | None,
        position: int | None,
        goes_on_at: int | None,
    ) -> None:
        super().__init__(f"{reason}; `fail_on_data_loss=false` goes on with what is there")
        self.reason = reason
        self.log_partition = log_partition
        self.position = position
        self.goes_on_at = goes_on_at

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _records_lost, (self.reason, self.log_partition, self.position, self.goes_on_at)


def _records_lost(
    reason: str, log_partition: int | None, position: int | None, goes_on_at: int | None
) -> RecordsLost:
    return RecordsLost(
        reason, log_partition=log_partition, position=position, goes_on_at=goes_on_at
    )


class PositionAboveEnd(StorageError):
    """The log ends below the stream's position: the folder is an older copy, or another one."""
