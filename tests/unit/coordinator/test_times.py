"""Times of the log as protobuf timestamps."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from offsetd_coordinator.messages.timestamps import set_time


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "9999-12-31T23:59:59.999Z"),
        (2**63 - 1, "9999-12-31T23:59:59.999Z"),
        (-1, "1970-01-01T00:00:00Z"),
    ],
)
def test_any_time_of_a_record_is_a_timestamp(timestamp_ms: int, text: str) -> None:
    message = Timestamp()
    set_time(message, timestamp_ms)
    assert message.ToJsonString() == text
