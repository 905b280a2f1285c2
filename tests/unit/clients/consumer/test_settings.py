"""Settings that cannot work are refused when they are made."""

from __future__ import annotations

from typing import Any

import pytest
from offsetd_clients import ConsumerSettings, LeaseTerms


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"start": "somewhere"}, "somewhere"),
        ({"start": 7}, "start = 7"),
        ({"acknowledgement": "sometimes"}, "acknowledgement"),
        ({"auto_commit_interval_s": 0}, "auto_commit_interval_s"),
        ({"idle_wait_s": float("nan")}, "idle_wait_s"),
        ({"assignors": ()}, "assignors"),
        ({"assignors": ["range", "best"]}, "best"),
        ({"session_timeout_s": 5, "heartbeat_interval_s": 3}, "heartbeat_interval_s"),
        ({"read_items_max": 0}, "read_items_max"),
        ({"lease": LeaseTerms(holder="h"), "instance_id": "i"}, "one or the other"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ConsumerSettings(**given)


def test_what_can_work_is_taken() -> None:
    settings = ConsumerSettings(start=lambda _: 7, assignors=("range", "sticky"))
    assert settings.assignors == ("range", "sticky")
    assert ConsumerSettings(auto_commit_interval_s=None).auto_commit_interval_s is None
