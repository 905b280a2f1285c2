"""The settings of one topic's log: Kafka's topic-level names, bounds and defaults."""

from __future__ import annotations

from typing import Any, Final

import attrs

_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


def _setting(default: int, kafka_name: str | None, *, least: int, most: int) -> Any:
    """An integer between `least` and `most`, known to Kafka as `kafka_name`."""
    return attrs.field(
        default=default,
        validator=[attrs.validators.ge(least), attrs.validators.le(most)],
        metadata={"kafka_name": kafka_name, "least": least, "most": most},
    )


@attrs.frozen(kw_only=True)
class LogConfig:
    """How a log rolls, indexes and bounds its batches. A value out of bounds is a `ValueError`.

    Defaults are Kafka 4.1.1's. Its lower bounds are not repeated here (`segment.bytes` may be
    small in tests); whoever reads settings from an operator applies those.
    """

    segment_bytes_max: int = _setting(2**30, "segment.bytes", least=61, most=_INT32_MAX)
    segment_ms: int = _setting(604_800_000, "segment.ms", least=1, most=_INT64_MAX)
    segment_jitter_ms: int = _setting(0, "segment.jitter.ms", least=0, most=_INT64_MAX)
    segment_index_bytes_max: int = _setting(
        10_485_760, "segment.index.bytes", least=24, most=_INT32_MAX
    )
    index_interval_bytes: int = _setting(4096, "index.interval.bytes", least=0, most=_INT32_MAX)
    message_bytes_max: int = _setting(1_048_588, "max.message.bytes", least=0, most=_INT32_MAX)
    # Ours: blocks are reserved this far ahead of the log's end, so that a full disk shows when a
    # batch is taken, not when it is written; small, since 50 partitions each hold that much.
    preallocate_step_bytes: int = _setting(65_536, None, least=1, most=_INT32_MAX)


OFFSETS_TOPIC_LOG_CONFIG: Final = LogConfig(segment_bytes_max=104_857_600)
