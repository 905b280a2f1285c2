"""Times of the log as protobuf timestamps."""

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from offsetd_coordinator.messages.timestamps import set_time
from offsetd_coordinator.rfc3339 import rfc3339


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


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_795_208_775_341, "2026-11-20T21:06:15.341Z"),
        (253_402_300_794_999, "9999-12-31T23:59:54.999Z"),  # As a float it is 1 ms less.
        (2**63 - 1, "9999-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_has_each_of_its_milliseconds(time_ms: int, text: str) -> None:
    assert rfc3339(time_ms) == text
