"""offsetd as a target: what is asked of it beside offsets; a real one is tested elsewhere."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from offsetd_clients import Bounds, ConfigSetting, ConfigSource, TopicPartition
from offsetd_clients.migration.differences import GONE
from offsetd_clients.migration.target import Target
from offsetd_clients.migration.values import MigrationError

HERE, NOWHERE = TopicPartition("t", 0), TopicPartition("gone", 0)


@attrs.define
class Client:
    """Knows the bounds of one partition, or no cluster."""

    bootstrap: str

    def fetch_bounds(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Bounds]:
        return {each: Bounds(3, 9) for each in partitions if each == HERE and self.bootstrap}

    def describe_config(self, *, names: list[str]) -> tuple[ConfigSetting, ...]:
        fields: dict[str, Any] = {field.name: "" for field in attrs.fields(ConfigSetting)}
        fields |= {"source": ConfigSource.DEFAULT, "is_dynamic": False}
        return tuple(ConfigSetting(**fields | {"name": n, "value": self.bootstrap}) for n in names)


def test_what_the_cluster_does_not_have_has_no_offset_at_all() -> None:
    target = Target(Client("kafka:9092"))  # type: ignore[arg-type]
    assert target.bounds([HERE, NOWHERE]) == {HERE: Bounds(3, 9), NOWHERE: GONE}
    assert target.bounds([NOWHERE]) == {NOWHERE: GONE}
    assert target.bounds([]) == {}


def test_without_a_cluster_to_ask_nothing_is_taken_for_good() -> None:
    with pytest.raises(MigrationError, match=r"kafka\.bootstrap\.servers"):
        Target(Client("")).bounds([HERE])  # type: ignore[arg-type]
