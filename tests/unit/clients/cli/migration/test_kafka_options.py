"""offsetd_clients.cli.migration.kafka_options: which cluster is meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_clients.cli.migration.kafka_options import KafkaChoice, parse_config, some_cluster
from offsetd_clients.migration.plan_file import Plan, PlanSummary
from offsetd_clients.migration.selection import Selection
from offsetd_clients.migration.values import MigrationError, SourceDescription

if TYPE_CHECKING:
    from pathlib import Path


def plan_of(kind: str, folder: Path) -> Plan:
    return Plan(
        path=folder / "plan",
        plan_id="1",
        created_ms=0,
        source=SourceDescription(kind=kind, address="of-plan:9092"),
        selection=Selection(),
        summary=PlanSummary(group_count=0, offset_count=0, problem_count=0),
    )


@pytest.mark.parametrize(
    ("option", "in_file", "kind", "expected"),
    [
        ("option:9092", "file:9092", "kafka", "option:9092"),
        (None, "file:9092", "kafka", "file:9092"),
        (None, None, "kafka", "of-plan:9092"),
        (None, None, "offsetd", None),
        (None, None, "kafka-folders", None),
        (None, None, None, None),
    ],
)
def test_the_option_goes_before_the_file_and_that_before_the_plan(
    tmp_path: Path, option: str | None, in_file: str | None, kind: str | None, expected: str | None
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={in_file}\n" if in_file else "")
    plan = plan_of(kind, tmp_path) if kind else None
    choice = KafkaChoice(bootstrap_servers=option, config_file=file, timeout_s=30.0)
    cluster = choice.cluster(plan)
    assert (cluster and cluster.address) == expected
    if expected is None:
        with pytest.raises(MigrationError, match="--bootstrap-servers"):
            some_cluster(cluster)


def test_a_file_has_names_and_values_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# one\n! two\n\n  sasl.password = a=b \nlog_level=0\n")
    assert parse_config(file) == {"sasl.password": "a=b", "log_level": "0"}
    file.write_text("log_level=0\nnothing\n")
    with pytest.raises(MigrationError, match="line 2 is not NAME=VALUE"):
        parse_config(file)
