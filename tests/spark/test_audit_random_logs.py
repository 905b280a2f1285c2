"""What an audit counts is what a plain loop over the same log counts."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np
from audited_logs import WrittenLog
from log_stores import seeded
from offsetd_coordinator.expiry.expiry_rules import (
    ExpiringGroup,
    ExpiryTerms,
    expires_at_ms,
    rule_of,
)
from offsetd_coordinator.expiry.expiry_rules import ExpiryBase as CoordinatorsBase
from offsetd_pipeline.audit import AuditScope, ExpiryBase, Thresholds, commits
from offsetd_pipeline.audit.cleaner_state import log_state
from offsetd_pipeline.audit.expiry import expiry_times
from offsetd_storage.configuration.log_config import OFFSETS_TOPIC_LOG_CONFIG
from offsetd_storage.offsets_topic.group_listing import GroupState, GroupType
from pyspark.sql import functions as sf

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from pyspark.sql import SparkSession

START_MS = 1_760_000_000_000
LIMITS = Thresholds(rewind_min=3, skip_min=50, skip_factor=4.0, skip_steps_min=2)
STATES = (
    *(GroupState.EMPTY, GroupState.EMPTY, GroupState.STABLE, GroupState.DEAD),
    *(GroupState.PREPARING_REBALANCE, GroupState.RECONCILING, GroupState.UNSPECIFIED),
)


class Written(WrittenLog):
    """With what was written, and what is left of it."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.rows: list[tuple[tuple[str, str, int], int | None, int, int]] = []
        time_ms = START_MS
        offsets: dict[tuple[str, str, int], int] = defaultdict(int)
        for number in range(1500):
            if number in (300, 800):
                self.roll()
            key = (f"g{chance.randrange(5)}", chance.choice("tu"), chance.randrange(2))
            time_ms += chance.choice((0, 1, 40, 999, 12_345))
            place = {"topic": key[1], "partition": key[2]}
            if chance.random() < 0.03:
                self.delete(key[0], time_ms, **place)
                self.rows.append((key, None, time_ms, number))
                continue
            offsets[key] += chance.choice((0, 0, 1, 5, 5, 400, -1, -4))
            offsets[key] = max(offsets[key], 0)
            self.commit(key[0], offsets[key], time_ms, **place)
            self.rows.append((key, offsets[key], time_ms, number))
        for number in range(chance.randrange(700)):  # As a cleaner leaves it.
            if chance.random() < 0.5:
                self.batches[number] = b""


def plain_figures(log: Written) -> tuple[dict[Any, dict[str, Any]], set[tuple[Any, ...]]]:
    """By group, topic and partition; and the rewinds and skips."""
    gone = [number for number, batch in enumerate(log.batches) if not batch]
    first = gone[-1] + 1 if gone else 0
    figures: dict[Any, dict[str, Any]] = {}
    moves = set()
    before: dict[Any, tuple[int, int] | None] = {}
    speeds: dict[Any, list[float]] = defaultdict(list)
    for key, offset, time_ms, number in log.rows[first:]:
        if offset is None:
            before[key] = None
            continue
        found = figures.setdefault(
            key, {"commits": 0, "repeats": 0, "repeat_bytes": 0, "gaps": [], "numbers": [0, 0, 0]}
        )
        found["commits"] += 1
        last = before.get(key)
        is_change = last is None or offset != last[0]
        if last is not None:
            gap_ms, step = time_ms - last[1], offset - last[0]
            found["gaps"].append(gap_ms)
            if step == 0:
                found["repeats"] += 1
                found["repeat_bytes"] += len(log.batches[number])
            if step <= -LIMITS.rewind_min:
                moves.add(("rewind", *key, number, last[0], offset, gap_ms))
            if step < 0:
                found["numbers"][2] = found["commits"]
            if step > 0:
                speed = step * 1000 / max(gap_ms, 1000)
                earlier = speeds[key]
                if (
                    step >= LIMITS.skip_min
                    and len(earlier) >= LIMITS.skip_steps_min
                    and speed > LIMITS.skip_factor * max(earlier)
                ):
                    moves.add(("skip", *key, number, last[0], offset, gap_ms))
                earlier.append(speed)
        found["numbers"][0] = found["commits"]
        if is_change:
            found["numbers"][1] = found["commits"]
        before[key] = (offset, time_ms)
    return figures, moves


def two_digits(value: int) -> int:
    if value < 100:
        return value
    digit = 10 ** (len(str(value)) - 2)
    return (value + digit // 2) // digit * digit


def test_commits_in_their_order_are_what_a_plain_loop_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = seeded()
    logs = [Written(chance), Written(chance)]
    for number, log in enumerate(logs):
        log.write(tmp_path / str(number))
        state = log_state(tmp_path / str(number), 0, config=OFFSETS_TOPIC_LOG_CONFIG, now_ms=0)
        complete_from = spark.createDataFrame(
            [(0, state["complete_from"])], "log_partition int, complete_from bigint"
        )
        scope = AuditScope(folder=str(tmp_path / str(number)))
        steps = commits.commit_steps(spark, scope, complete_from, LIMITS).cache()
        check(log, steps)
        steps.unpersist()


def check(log: Written, steps: Any) -> None:
    figures, moves = plain_figures(log)
    found = {
        (row.group, row.topic, row.partition): {
            "commits": row.commits,
            "repeats": row.repeats,
            "repeat_bytes": row.repeat_bytes,
            "numbers": [row.last_number, row.change_number, row.back_number or 0],
        }
        for row in commits.by_partition(steps).collect()
    }
    assert found == {
        key: {name: value for name, value in each.items() if name != "gaps"}
        for key, each in figures.items()
    }
    assert moves == {
        (
            *(row.event, row.group, row.topic, row.partition),
            *(row.log_offset, row.offset_before, row.offset, row.gap_ms),
        )
        for row in commits.events(steps).collect()
    }
    assert {each[0] for each in moves} == {"rewind", "skip"}
    for row in commits.by_group(steps).collect():
        gaps = [
            gap
            for (group, _, _), each in figures.items()
            if group == row.group
            for gap in each["gaps"]
        ]
        rounded = np.percentile([two_digits(gap) for gap in gaps], (50, 90, 99))
        expected = [min(int(each), max(gaps)) for each in rounded]
        # Between two gaps a double may lie just below a whole number, and is cut to the one before.
        found_ms = (row.gap_p50_ms, row.gap_p90_ms, row.gap_p99_ms)
        assert all(abs(each - wanted) <= 1 for each, wanted in zip(found_ms, expected, strict=True))
        assert row.gap_max_ms == max(gaps)


def test_offsets_expire_when_the_coordinator_says(spark: SparkSession) -> None:
    chance = seeded()
    rows = [offset_of_a_group(chance) for _ in range(500)]
    table = spark.createDataFrame(
        [
            (
                *(number, *row["times"], row["type"].name.lower(), state_name(row["state"])),
                *(row["protocol_type"], row["retention_ms"], row["never"], row["topic"]),
                [(list(topics),) for topics in row["read"]],
            )
            for number, row in enumerate(rows)
        ],
        "number int, commit_ms bigint, expire_ms bigint, state_ms bigint, type string,"
        " state string, protocol_type string, retention_ms bigint, never_expires boolean,"
        " topic string, members array<struct<topics: array<string>>>",
    )
    for name in ("commit", "expire", "state"):
        table = table.withColumn(f"{name}_time", sf.timestamp_millis(f"{name}_ms"))
    for base in ExpiryBase:
        told = expiry_times(table, 700, base)
        found = {
            row.number: row.at
            for row in told.select("number", sf.unix_millis("expires_at").alias("at")).collect()
        }
        terms = ExpiryTerms(retention_ms=700, base=CoordinatorsBase(base.value))
        expected = {number: coordinators_word(row, terms) for number, row in enumerate(rows)}
        assert found == expected
        assert None in expected.values()


def state_name(state: GroupState) -> str | None:
    return None if state is GroupState.UNSPECIFIED else state.name


def offset_of_a_group(chance: Random) -> dict[str, Any]:
    state = chance.choice(STATES)
    is_empty = state is GroupState.EMPTY
    members = 0 if is_empty else chance.randrange(3)
    return {
        "times": (
            chance.randrange(1, 1000),
            chance.choice((None, None, chance.randrange(1, 1000))),
            chance.choice((None, chance.randrange(1, 1000))),
        ),
        "type": chance.choice((GroupType.CLASSIC, GroupType.CLASSIC, GroupType.CONSUMER)),
        "state": state,
        "protocol_type": chance.choice(("", "consumer", "connect")),
        "retention_ms": chance.choice((None, 5)),
        "never": chance.random() < 0.1,
        "topic": chance.choice("tu"),
        "read": [chance.choice((("t",), ("t", "u"), ("x",))) for _ in range(members)],
    }


def coordinators_word(row: dict[str, Any], terms: ExpiryTerms) -> int | None:
    commit_ms, expire_ms, state_ms = row["times"]
    rule = rule_of(
        ExpiringGroup(
            type=row["type"],
            protocol_type=row["protocol_type"],
            state=row["state"],
            became_empty_ms=state_ms,
            is_subscribed=lambda topic: any(topic in topics for topics in row["read"]),
            retention_ms=row["retention_ms"],
            never_expires=row["never"],
        ),
        terms,
    )
    if rule.is_subscribed is not None and rule.is_subscribed(row["topic"]):
        return None
    return expires_at_ms(
        rule,
        commit_timestamp_ms=commit_ms,
        expire_timestamp_ms=-1 if expire_ms is None else expire_ms,
    )
