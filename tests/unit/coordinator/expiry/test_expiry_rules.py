"""When offsets expire: Kafka's cases, told in our words, and where we go another way."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from offsetd_coordinator.expiry.expiry_rules import (
    ExpiringGroup,
    ExpiryBase,
    ExpiryTerms,
    expires_at_ms,
    plain_rule,
    rule_of,
)
from offsetd_coordinator.kernels.columns import JUDGED_COLUMNS, NEVER
from offsetd_coordinator.kernels.table.expired_offsets import judge_entries
from offsetd_coordinator.state.offset_table import OffsetTable
from offsetd_storage.offsets_topic.group_listing import GroupState, GroupType

RETENTION_MS = 1000
COMMIT_MS = 10_000
LATEST = ExpiryTerms(retention_ms=RETENTION_MS)
KAFKA = ExpiryTerms(retention_ms=RETENTION_MS, base=ExpiryBase.KAFKA)
FOR_EVER = ExpiryTerms(retention_ms=None)
EMPTY = {"protocol_type": "consumer", "state": GroupState.EMPTY}
STABLE = {"protocol_type": "consumer", "state": GroupState.STABLE}
MANY_TERMS = [LATEST, KAFKA]


def expiry(
    terms: ExpiryTerms, group: dict[str, Any], commit_ms: int = COMMIT_MS, expire_ms: int = -1
) -> int | None:
    rule = rule_of(ExpiringGroup(**group), terms)
    return expires_at_ms(rule, commit_timestamp_ms=commit_ms, expire_timestamp_ms=expire_ms)


@pytest.mark.parametrize("terms", MANY_TERMS)
@pytest.mark.parametrize(
    ("group", "expected"),
    [
        # A simple group: from the commit on.
        ({}, COMMIT_MS + RETENTION_MS),
        # Its record may be there, too, and have been written at any time.
        ({"became_empty_ms": COMMIT_MS + 500}, COMMIT_MS + RETENTION_MS),
        # Empty: from when it became so.
        ({**EMPTY, "became_empty_ms": COMMIT_MS + 500}, COMMIT_MS + 500 + RETENTION_MS),
        # An old record does not say when: from the commit on.
        ({**EMPTY}, COMMIT_MS + RETENTION_MS),
        ({**EMPTY, "protocol_type": "connect"}, COMMIT_MS + RETENTION_MS),
        # Members: only what nobody reads, from the commit on.
        ({**STABLE, "became_empty_ms": COMMIT_MS + 500}, COMMIT_MS + RETENTION_MS),
        ({**STABLE, "protocol_type": "connect"}, None),
        ({**STABLE, "state": GroupState.PREPARING_REBALANCE}, None),
        ({**STABLE, "state": GroupState.COMPLETING_REBALANCE}, None),
        ({"state": GroupState.PREPARING_REBALANCE}, None),
        ({**STABLE, "state": GroupState.DEAD}, None),
        # A record that cannot be read may say anything.
        ({"state": GroupState.UNSPECIFIED}, None),
        # KIP-848: whatever the state, from the commit on.
        *(
            ({"type": GroupType.CONSUMER, "protocol_type": "consumer", "state": state}, 11_000)
            for state in (GroupState.EMPTY, GroupState.ASSIGNING, GroupState.RECONCILING)
        ),
        # What is set of the group goes before what is set of the server.
        ({"retention_ms": 5}, COMMIT_MS + 5),
        ({**EMPTY, "retention_ms": 5000, "became_empty_ms": COMMIT_MS}, COMMIT_MS + 5000),
        ({"never_expires": True}, None),
        ({"never_expires": True, "retention_ms": 5}, None),
        ({"has_lease": True}, None),
    ],
)
def test_an_offset_expires_by_its_group(
    group: dict[str, Any], expected: int | None, terms: ExpiryTerms
) -> None:
    assert expiry(terms, group) == expected


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        (LATEST, COMMIT_MS + RETENTION_MS),
        # As in Kafka 4.1.1, where a commit of a second ago goes.
        (KAFKA, 3000 + RETENTION_MS),
    ],
)
def test_a_commit_to_a_group_that_is_empty_for_long_counts_unless_it_is_to_be_as_in_kafka(
    terms: ExpiryTerms, expected: int
) -> None:
    assert expiry(terms, {**EMPTY, "became_empty_ms": 3000}) == expected


@pytest.mark.parametrize("terms", [*MANY_TERMS, FOR_EVER])
@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ({}, 10_001),
        ({**EMPTY, "became_empty_ms": 90_000}, 10_001),
        ({"retention_ms": 5_000_000}, 10_001),
        ({**STABLE, "protocol_type": "connect"}, None),
        ({"never_expires": True}, None),
        ({"has_lease": True}, None),
    ],
)
def test_a_time_that_was_given_with_a_commit_goes_before_any_retention(
    terms: ExpiryTerms, group: dict[str, Any], expected: int | None
) -> None:
    assert expiry(terms, group, expire_ms=10_001) == expected


def test_minus_one_is_no_expire_timestamp_and_nought_is_one() -> None:
    assert expiry(LATEST, {}, expire_ms=-1) == COMMIT_MS + RETENTION_MS
    assert expiry(LATEST, {}, expire_ms=0) == 0


@pytest.mark.parametrize(("group", "expected"), [({}, None), ({"retention_ms": 5}, COMMIT_MS + 5)])
def test_without_retention_offsets_stay_unless_their_group_has_one(
    group: dict[str, Any], expected: int | None
) -> None:
    assert expiry(FOR_EVER, group) == expected


def test_an_offset_of_which_no_time_is_known_stays_unless_it_is_to_be_as_in_kafka() -> None:
    assert expiry(LATEST, {}, commit_ms=-1) is None
    assert expiry(LATEST, {**EMPTY, "became_empty_ms": 500}, commit_ms=-1) == 500 + RETENTION_MS
    assert expiry(KAFKA, {}, commit_ms=-1) == RETENTION_MS


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ({}, True),
        (EMPTY, True),
        (STABLE, False),
        ({"state": GroupState.PREPARING_REBALANCE}, False),
        ({"type": GroupType.CONSUMER, "state": GroupState.EMPTY}, True),
        ({"type": GroupType.CONSUMER, "state": GroupState.ASSIGNING}, False),
        ({"state": GroupState.UNSPECIFIED}, False),
        ({"never_expires": True}, False),
        ({"has_lease": True}, False),
        ({"retention_ms": 5}, True),
    ],
)
def test_a_group_may_go_if_it_is_empty_and_nobody_keeps_it(
    group: dict[str, Any], expected: bool
) -> None:
    assert rule_of(ExpiringGroup(**group), LATEST).may_go is expected


def test_an_empty_group_reads_nothing() -> None:
    def reads_all(topic: str) -> bool:
        return bool(topic)

    assert rule_of(ExpiringGroup(**EMPTY, is_subscribed=reads_all), LATEST).is_subscribed is None
    assert rule_of(ExpiringGroup(**STABLE, is_subscribed=reads_all), LATEST).is_subscribed


def test_the_kernel_goes_by_the_same_rules() -> None:
    seed = Random().getrandbits(32)
    print(f"seed {seed}")
    random = Random(seed)
    table = OffsetTable(request_window_ms=0, request_ids_max=1, hash_seeds=(1, 2, 3, 4))
    times = [-(1 << 63), -2, -1, 0, 1, 500, 1000, 1001, 9999, (1 << 62) - 1, 1 << 62, NEVER]
    for _ in range(2000):
        commit_ms, expire_ms, empty_ms = (random.choice(times) for _ in range(3))
        group = ExpiringGroup(
            protocol_type=random.choice(["", "consumer"]),
            became_empty_ms=random.choice([None, empty_ms]),
            retention_ms=random.choice([None, 0, 1, 1000]),
        )
        terms = random.choice([LATEST, KAFKA, FOR_EVER])
        table.store(
            b"g",
            b"t",
            0,
            revision=1,
            offset=1,
            leader_epoch=-1,
            metadata=b"",
            commit_timestamp_ms=commit_ms,
            expire_timestamp_ms=expire_ms,
        )
        rule = rule_of(group, terms)
        expected = expires_at_ms(rule, commit_timestamp_ms=commit_ms, expire_timestamp_ms=expire_ms)
        for now_ms in (0, 1, 999, 1000, 1001, 1999, 2000, 2001, 10_999):
            due, judged = np.empty(1, np.int64), np.empty(JUDGED_COLUMNS, np.int64)
            numbers = np.array((rule.retention_ms, rule.empty_ms, rule.base, 0), np.int64)
            judge_entries(table.arrays, np.zeros(1, np.int64), numbers, now_ms, due, judged)
            is_due = expected is not None and now_ms >= expected
            assert judged[0] == is_due, (group, terms, commit_ms, expire_ms, now_ms)
            if not is_due and expected is not None and expected < 1 << 61:
                assert judged[2] == expected


def test_a_group_that_is_nothing_but_its_offsets_has_the_rule_of_a_simple_one() -> None:
    assert plain_rule(KAFKA) == rule_of(ExpiringGroup(), KAFKA)
