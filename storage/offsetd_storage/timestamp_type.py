"""The source of a record's timestamp: the writer's clock or the log's."""

import enum


class TimestampType(enum.IntEnum):
    """The clock that set the timestamps of a batch."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1
