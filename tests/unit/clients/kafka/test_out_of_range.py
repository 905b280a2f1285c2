"""offsetd_clients.kafka.out_of_range: where a partition goes on, and which settings are refused."""

from __future__ import annotations

from typing import Any

import pytest
from offsetd_clients import TopicPartition
from offsetd_clients.kafka.out_of_range import (
    RULES,
    ConsumerMisconfigured,
    PositionGone,
    Why,
    librdkafka_config,
    reset_of,
)

WHERE = TopicPartition("orders", 3)


@pytest.mark.parametrize(
    ("position", "is_truncated", "why"),
    [
        (9, False, Why.BEFORE_BEGIN),
        (10, False, None),
        (20, False, None),
        (21, False, Why.BEHIND_END),
        (9, True, Why.BEFORE_BEGIN),
        (15, True, Why.TRUNCATED),
        (20, True, Why.TRUNCATED),
        (21, True, Why.BEHIND_END),
    ],
)
@pytest.mark.parametrize("rule", RULES)
def test_a_position_that_is_not_there_goes_where_the_rule_says(
    position: int, is_truncated: bool, why: Why | None, rule: Any
) -> None:
    reset = reset_of(WHERE, position, earliest=10, latest=20, rule=rule, is_truncated=is_truncated)
    if why is None:
        assert reset is None
        return
    assert reset is not None
    assert (reset.why, reset.position, reset.earliest, reset.latest) == (why, position, 10, 20)
    assert reset.offset == {"earliest": 10, "latest": 20, "error": None}[rule]


def test_what_is_raised_names_every_partition() -> None:
    found = [
        reset_of(TopicPartition("orders", number), 30, earliest=0, latest=20, rule="error")
        for number in range(2)
    ]
    resets = [each for each in found if each is not None]
    assert str(PositionGone(resets)) == (
        "orders:0: position 30 is behind-end, Kafka has 0 to 20;"
        " orders:1: position 30 is behind-end, Kafka has 0 to 20"
    )


@pytest.mark.parametrize(
    "config",
    [
        {"enable.auto.commit": True},
        {"enable.auto.commit": "true"},
        {"enable.auto.commit": "1"},
        {"enable.auto.commit": "yes"},
        {"auto.offset.reset": "earliest"},
        {"auto.offset.reset": "latest"},
        {"group.id": "another"},
    ],
)
def test_settings_that_would_have_kafka_keep_or_reset_offsets_are_refused(
    config: dict[str, object],
) -> None:
    with pytest.raises(ConsumerMisconfigured, match=next(iter(config))):
        librdkafka_config(config, "billing")


def test_all_else_is_handed_on() -> None:
    config = {"bootstrap.servers": "kafka:9092", "enable.auto.commit": "FALSE", "group.id": "g"}
    assert librdkafka_config(config, "g") == {
        "bootstrap.servers": "kafka:9092",
        "group.id": "g",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
    }
