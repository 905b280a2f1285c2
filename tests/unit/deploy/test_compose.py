"""compose.yaml has the brokers and the nodes of `make cluster`, and settings that there are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from offsetd_coordinator.configuration.settings_sources import load_settings

from deploy.kafka.kafka_runtime import IMAGE

if TYPE_CHECKING:
    from collections.abc import Mapping

COMPOSE = Path(__file__).parents[3] / "deploy" / "compose"
REPLICATION = {
    "KAFKA_DEFAULT_REPLICATION_FACTOR": 3,
    "KAFKA_MIN_INSYNC_REPLICAS": 2,
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": 3,
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": 3,
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": 2,
}


@pytest.fixture
def services() -> dict[str, Any]:
    """By name."""
    content: dict[str, Any] = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
    return dict(content["services"])


def test_there_are_three_brokers_and_three_nodes(services: Mapping[str, Any]) -> None:
    assert set(services) == {"kafka-1", "kafka-2", "kafka-3", "n1", "n2", "n3"}
    brokers = [services[f"kafka-{number}"] for number in (1, 2, 3)]
    assert {broker["image"] for broker in brokers} == {IMAGE}
    for number, broker in enumerate(brokers, 1):
        assert broker["environment"]["KAFKA_NODE_ID"] == number
        assert REPLICATION.items() <= broker["environment"].items()


def test_each_node_has_a_name_and_an_address_of_its_own(services: Mapping[str, Any]) -> None:
    names = {name for name in services if name.startswith("n")}
    environments = [services[name]["environment"] for name in names]
    assert {each["OFFSETD_NODE_ID"] for each in environments} == names
    published = {services[name]["ports"][0].rpartition(":")[0] for name in names}
    assert {each["OFFSETD_ADVERTISED_ADDRESS"] for each in environments} == published
    assert len(published) == 3


def test_ports_are_open_to_this_machine_only(services: Mapping[str, Any]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert len(ports) == 6
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_the_nodes_settings_are_there(services: Mapping[str, Any]) -> None:
    for name in ("n1", "n2", "n3"):
        settings = load_settings(environment=services[name]["environment"])
        assert settings.is_clustered
        assert settings.node_id == name
