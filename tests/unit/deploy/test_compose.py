"""The compose files: what they mount exists, what they publish is listened on, settings exist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from offsetd_coordinator.configuration.settings_sources import load_settings

from deploy.kafka.kafka_runtime import IMAGE

if TYPE_CHECKING:
    from offsetd_coordinator.configuration.server_settings import Settings

DEPLOY: Final = Path(__file__).parents[3] / "deploy"
COMPOSE: Final = DEPLOY / "compose"
TOML: Final = (DEPLOY / "container" / "offsetd.toml").read_text()
SERVERS: Final = {"compose.yaml": {"offsetd"}, "compose.cluster.yaml": {"n1", "n2", "n3"}}
BROKERS: Final = {"kafka-1", "kafka-2", "kafka-3"}
MONITORING: Final = {"prometheus", "grafana"}
REPLICATION: Final = {
    "KAFKA_DEFAULT_REPLICATION_FACTOR": 3,
    "KAFKA_MIN_INSYNC_REPLICAS": 2,
    "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": 3,
    "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": 3,
    "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": 2,
}
FILES: Final = pytest.mark.parametrize("file", SERVERS)


def read(file: str) -> dict[str, Any]:
    """The content of a file, with what its services extend."""
    content: dict[str, Any] = yaml.safe_load((COMPOSE / file).read_text())
    for service in content["services"].values():
        if (extended := service.pop("extends", None)) is not None:
            base = read(extended["file"])["services"][extended["service"]]
            service["volumes"] = base.pop("volumes") + service.pop("volumes", [])
            service.update(base)
    return content


def settings_of(service: dict[str, Any]) -> Settings:
    """What a server would start with."""
    return load_settings(toml=TOML, environment=service["environment"])


@FILES
def test_the_services_are_there(file: str) -> None:
    brokers = BROKERS if "cluster" in file else set()
    assert set(read(file)["services"]) == SERVERS[file] | brokers | MONITORING


def test_the_brokers_are_those_of_the_tests_and_replicate() -> None:
    services = read("compose.cluster.yaml")["services"]
    for number in (1, 2, 3):
        broker = services[f"kafka-{number}"]
        assert broker["image"] == IMAGE
        assert broker["environment"]["KAFKA_NODE_ID"] == number
        assert REPLICATION.items() <= broker["environment"].items()


def test_each_node_has_a_name_and_an_address_of_its_own() -> None:
    services = read("compose.cluster.yaml")["services"]
    nodes = {name: services[name] for name in SERVERS["compose.cluster.yaml"]}
    environments = [each["environment"] for each in nodes.values()]
    assert {each["OFFSETD_NODE_ID"] for each in environments} == nodes.keys()
    published = {each["ports"][0].rpartition(":")[0] for each in nodes.values()}
    assert {each["OFFSETD_ADVERTISED_ADDRESS"] for each in environments} == published
    assert len(published) == 3
    for each in nodes.values():
        assert settings_of(each).is_clustered


@FILES
def test_ports_are_open_to_this_machine_only_and_listened_on(file: str) -> None:
    services = read(file)["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    for name in SERVERS[file]:
        listened = settings_of(services[name]).listen_address
        assert [each.rpartition(":")[2] for each in services[name]["ports"]] == [
            listened.rpartition(":")[2]
        ]


@FILES
def test_prometheus_scrapes_each_server_where_it_serves_metrics(file: str) -> None:
    services = read(file)["services"]
    mounted = dict(each.split(":")[1::-1] for each in services["prometheus"]["volumes"])
    config = yaml.safe_load((COMPOSE / mounted["/etc/prometheus/prometheus.yml"]).read_text())
    [job] = config["scrape_configs"]
    wanted = {
        f"{name}:{settings_of(services[name]).metrics_address.rpartition(':')[2]}"
        for name in SERVERS[file]
    }
    assert set(job["static_configs"][0]["targets"]) == wanted
    assert set(config["rule_files"]) <= mounted.keys()


@FILES
def test_what_is_mounted_exists(file: str) -> None:
    content = read(file)
    named = set(content["volumes"])
    used = set()
    for service in content["services"].values():
        for volume in service["volumes"]:
            source, target = volume.split(":")[:2]
            assert target.startswith("/")
            if source in named:
                used.add(source)
            else:
                assert source.startswith(".")
                assert (COMPOSE / source).exists(), source
    assert used == named


@FILES
def test_servers_may_write_to_their_volume_only_and_have_time_to_stop(file: str) -> None:
    services = read(file)["services"]
    for name in SERVERS[file]:
        service = services[name]
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        settings = settings_of(service)
        [volume] = service["volumes"]
        assert settings.data_dir.startswith(volume.partition(":")[2])
        drain_s = (settings.drain_notice_ms + settings.drain_max_ms) / 1000
        assert float(service["stop_grace_period"].removesuffix("s")) > drain_s + 30
        assert (COMPOSE / service["build"]["context"] / service["build"]["dockerfile"]).exists()


def test_grafana_finds_the_dashboards() -> None:
    grafana = read("compose.yaml")["services"]["grafana"]
    mounted = {each.split(":")[1] for each in grafana["volumes"]}
    [provider] = yaml.safe_load((COMPOSE / "grafana" / "dashboards.yml").read_text())["providers"]
    assert provider["options"]["path"] in mounted
