"""Settings of the node's Kafka clients: their sources, and that no secret shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd_coordinator.cluster import kafka_clients
from offsetd_coordinator.cluster.kafka_clients import KafkaClients
from offsetd_coordinator.configuration.settings_sources import SettingsError, load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from offsetd_coordinator.configuration.server_settings import Settings

SECRET = "open sesame"


def loaded(*assignments: str, **sources: Any) -> Settings:
    return load_settings(
        assignments=["data.dir=/nowhere", "cluster.bootstrap.servers=b:9092", *assignments],
        **sources,
    )


def test_a_name_of_kafka_comes_from_the_command_line_the_environment_and_the_file() -> None:
    toml = '[cluster.kafka]\nsecurity.protocol = "SSL"\nsasl.username = "file"\nlinger.ms = 3\n'
    environment = {
        "OFFSETD_CLUSTER_KAFKA_SASL_USERNAME": "environment",
        "OFFSETD_CLUSTER_KAFKA_SASL_MECHANISM": "PLAIN",
    }
    settings = loaded("cluster.kafka.sasl.mechanism=SCRAM", toml=toml, environment=environment)
    assert settings.cluster_kafka == {
        "security.protocol": "SSL",
        "sasl.username": "environment",
        "sasl.mechanism": "SCRAM",
        "linger.ms": "3",
    }
    assert settings.is_clustered
    assert not load_settings(assignments=["data.dir=/nowhere"]).is_clustered


def test_a_value_comes_from_a_file_that_the_command_line_or_the_environment_names(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secret"
    path.write_text(f"{SECRET}\n")
    variable = {"OFFSETD_CLUSTER_KAFKA_SASL_PASSWORD_FILE": str(path)}
    for settings in (
        loaded(f"cluster.kafka.sasl.password.file={path}"),
        loaded(environment=variable),
    ):
        assert settings.cluster_kafka == {"sasl.password": SECRET}


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_named_with_its_setting(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "secret"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError) as told:
        loaded(f"cluster.kafka.sasl.password.file={path}")
    assert "cluster.kafka.sasl.password.file" in str(told.value)
    assert str(path) in str(told.value)


@pytest.mark.parametrize("name", ["cluster.kafka.", "cluster.kafka"])
def test_a_setting_of_kafka_without_a_name_is_refused(name: str) -> None:
    with pytest.raises(SettingsError):
        loaded(f"{name}=1")


def test_a_secret_is_in_no_representation_and_in_no_description(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    settings = loaded(
        f"cluster.kafka.sasl.password={SECRET}", f"cluster.kafka.ssl.key.password.file={path}"
    )
    assert settings.cluster_kafka["ssl.key.password"] == SECRET
    assert SECRET not in repr(settings)
    assert SECRET not in repr(settings.said)
    described = [
        each for topic in (None, "__consumer_offsets") for each in entries(settings, topic)
    ]
    assert described
    assert SECRET not in repr(described)
    assert not any(each.name.startswith("cluster.kafka") for each in described)


def entries(settings: Settings, topic: str | None) -> list[Any]:
    """What `admin config describe` has."""
    return list(settings.configs.describe(topic))


class _Client:
    """Keeps the settings with which a client is made."""

    def __init__(self, config: dict[str, Any], **_: Any) -> None:
        self.config = config


def test_clients_get_the_settings_of_kafka_but_what_the_node_relies_on_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = loaded(
        "cluster.kafka.security.protocol=SSL",
        "cluster.kafka.acks=1",
        "cluster.kafka.enable.idempotence=false",
        "cluster.kafka.isolation.level=read_uncommitted",
        "cluster.kafka.enable.auto.commit=true",
        "cluster.kafka.transactional.id=mine",
        "cluster.kafka.bootstrap.servers=elsewhere:1",
        "cluster.id=c",
    )
    clients = KafkaClients(settings, node_id="n1")
    monkeypatch.setattr(clients._kafka, "Producer", _Client)
    monkeypatch.setattr(clients._kafka, "Consumer", _Client)
    producer, reader = clients.producer(3), clients.reader()
    member = clients.member("offsetd:n1@a:1")
    for each in (producer, reader, member):
        assert each.config["security.protocol"] == "SSL"
        assert each.config["bootstrap.servers"] == "b:9092"
    assert producer.config["acks"] == "all"
    assert producer.config["enable.idempotence"] is True
    assert producer.config["transactional.id"] == "c-n1-3"
    assert clients.producer(0, node_id="n2").config["transactional.id"] == "c-n2-0"
    for each in (reader, member):
        assert each.config["isolation.level"] == "read_committed"
        assert each.config["enable.auto.commit"] is False
    assert (member.config["group.id"], member.config["client.id"]) == (
        "__c_nodes",
        "offsetd:n1@a:1",
    )
    assert kafka_clients.ClusterNames(cluster_id="c").offsets_topic == "__c_offsets"


def test_with_the_protocol_of_kip_848_the_brokers_choose_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients = KafkaClients(loaded("cluster.group.protocol=consumer"), node_id="n1")
    monkeypatch.setattr(clients._kafka, "Consumer", _Client)
    config = clients.member("offsetd:n1@a:1").config
    assert config["group.protocol"] == "consumer"
    assert not {"session.timeout.ms", "partition.assignment.strategy"} & config.keys()
