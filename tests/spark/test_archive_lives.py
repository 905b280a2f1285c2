"""What a server had is what an archive brings back, whatever was cleaned or killed meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from log_stores import seeded
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_pipeline.archive import (
    Outcome,
    RestoreOptions,
    TimeNotArchived,
    archive,
    read_archive,
    restore,
)
from offsetd_pipeline.archive.archive_table import state_of
from offsetd_pipeline.source import OffsetdSource
from server_process import poll
from spark.archived_servers import GROUPS, Life, exported, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

ROUNDS = 3
STEPS = 150
MOMENTS = 4
KILLED_AT = ("planned", "written", "vanished", "complete", "committed")
CLEANED_SECONDS_MAX = 60


class Killed(BaseException):
    """In the midst of a run."""


def killed_at(step: str) -> Callable[[str], None]:
    def reached(now: str) -> None:
        if now == step:
            raise Killed

    return reached


def offsets_of(state: DataFrame) -> dict[tuple[str, str, int], int]:
    return {(row.group, row.topic, row.partition): row.offset for row in state.collect()}


def raw_rows(folder: Path) -> Iterator[dict[str, Any]]:
    source = OffsetdSource({"path": str(folder), "mode": "raw"})
    reader = source.reader(source.schema())
    for work in reader.partitions():
        for batch in reader.read(work):
            yield from batch.to_pylist()


def test_an_archive_brings_back_what_a_server_has_and_had(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance = seeded()
    folder, to = tmp_path / "live", tmp_path / "archive"
    life = Life(chance)
    there: dict[Any, Any] = {}
    for _ in range(ROUNDS):
        with serving(folder) as server, OffsetClient(server.address) as client:
            life.live(client, steps=STEPS)
            there = exported(client)
            life.take_down()
            server.stop_well()
        for step in chance.sample(KILLED_AT, 2):
            with pytest.raises(Killed):
                archive(spark, [folder], to, reached=killed_at(step))
            if step == "committed":
                break
        archive(spark, [folder], to)
        rows = read_archive(spark, to)
        places = Counter(
            (row.log_partition, row.log_offset)
            for row in rows.where("kind <> 'vanished'")
            .select("log_partition", "log_offset")
            .collect()
        )
        assert max(places.values()) == 1
        assert offsets_of(state_of(rows)) == life.state

    with serving(tmp_path / "new") as server, OffsetClient(server.address) as client:
        restored = restore(spark, to, client)
        assert exported(client) == {}
        execute = RestoreOptions(validate_only=False, from_other_source=True)
        restored = restore(spark, to, client, options=execute)
        assert exported(client) == there
        assert {each.outcome for each in restored.groups} == {Outcome.RESTORED}
        restored = restore(spark, to, client, options=execute)
        assert {each.outcome for each in restored.groups} == {Outcome.UNCHANGED}
        check_moments(spark, to, client, life, chance.sample(life.moments[:-1], MOMENTS))
        server.stop_well()


def check_moments(
    spark: SparkSession, to: Path, client: OffsetClient, life: Life, moments: list[Any]
) -> None:
    """Each moment is brought back, or it is said that it cannot be."""
    exact = RestoreOptions(validate_only=False, delete_others=True, from_other_source=True)
    known = 0
    for at, state in [*moments, life.moments[-1]]:
        try:
            restored = restore(spark, to, client, at, exact)
        except TimeNotArchived:
            continue
        known += 1
        assert not [each for each in restored.groups if each.outcome is Outcome.FAILED]
        found = {key: line["offset"] for key, line in exported(client).items()}
        assert found == state, at
    assert known >= 1


def test_a_deletion_that_was_cleaned_away_before_it_was_archived_is_none_the_less_one(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, to = tmp_path / "live", tmp_path / "archive"
    life = Life(seeded())
    with serving(folder) as server, OffsetClient(server.address) as client:
        life.live(client, steps=40)
        client.commit("forgotten", {TopicPartition("t", 0): 1, TopicPartition("t", 1): 2})
        server.stop_well()
    first = archive(spark, [folder], to)
    assert not first.gaps
    with serving(folder) as server, OffsetClient(server.address) as client:
        client.delete_offsets("forgotten", [TopicPartition("t", 0)])

        def is_cleaned() -> bool:
            life.live(client, steps=20)
            return not [
                row
                for row in raw_rows(folder)
                if row["group"] == "forgotten" and row["partition"] == 0
            ]

        poll(is_cleaned, CLEANED_SECONDS_MAX, server)
        server.stop_well()
    second = archive(spark, [folder], to)
    assert second.gaps
    rows = read_archive(spark, to)
    expected = life.state | {("forgotten", "t", 1): 2}
    assert offsets_of(state_of(rows)) == expected
    vanished = rows.where("kind = 'vanished'").collect()
    assert ("forgotten", "t", 0) in [(row.group, row.topic, row.partition) for row in vanished]
    assert {row.group for row in vanished} <= {"forgotten", *GROUPS}
    # Nothing is told again.
    assert archive(spark, [folder], to).manifest is None
