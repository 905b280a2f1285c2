"""The chart: what it makes of values is valid, and a server starts with it."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import tomllib
import urllib.request
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
import yaml
from certificates import Authority
from deployment.tools import DEPLOY, ROOT, SECONDS_MAX, did, ran
from offsetd_clients import OffsetClient, TlsOptions, TopicPartition
from offsetd_coordinator.configuration.settings_sources import load_settings
from promised import promised_by
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

promised = promised_by("docs/guides/deploying.md")

CHART: Final = DEPLOY / "helm" / "offsetd"
KUBERNETES: Final = "1.34.0"
CUSTOM_KINDS: Final = {"ServiceMonitor", "PrometheusRule"}
ACLS: Final = '[[acl]]\nprincipal = "User:CN=billing-app"\nallow = ["Read"]\ngroup = "*"\n\n'
TLS: Final = {"tls": {"secret": "offsetd-tls"}, "acls": ACLS + ACLS.replace("group", "topic")}
KAFKA: Final = {"bootstrapServers": "kafka-1:9092,kafka-2:9092"}
ALL: Final = {
    **TLS,
    "replicas": 3,
    "cluster": {
        **KAFKA,
        "kafka": {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"},
        "kafkaSecret": {"name": "kafka-login", "files": {"sasl.password": "password"}},
    },
    "tls": {"secret": "offsetd-tls", "clientAuth": "required"},
    "superUsers": "User:CN=admin",
    "tokens": {"secret": "offsetd-tokens"},
    "metrics": {
        "token": {"secret": "offsetd-metrics"},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "rules": {"enabled": True},
    },
    "dashboards": {"enabled": True},
    "settings": {"history.ms": 8_640_000_000, "log.cleaner.enable": True},
    "service": {"type": "LoadBalancer", "annotations": {"a.example.org/b": "c"}},
    "persistence": {"storageClass": "fast"},
    "backup": {"volume": {"size": "20Gi", "storageClass": "shared"}},
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "serviceAccount": {"create": False, "name": "mine"},
}
GUIDE: Final = ROOT / "docs" / "guides" / "deploying.md"
VALUES: Final[dict[str, dict[str, Any]]] = {
    "the guide's": yaml.safe_load(GUIDE.read_text().split("```yaml\n")[1].split("```")[0]),
    "one insecure server": {"insecure": True},
    "one server with TLS": TLS,
    "nodes": {"insecure": True, "replicas": 3, "cluster": KAFKA},
    "backups to a store": {
        "insecure": True,
        "backup": {"target": "s3://bucket/offsetd", "environmentSecret": "s3-login"},
    },
    "backups to a volume": {"insecure": True, "backup": {"volume": {"claim": "nfs"}}},
    "one node": {"insecure": True, "cluster": KAFKA},
    "nothing optional": {
        "insecure": True,
        "metrics": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "serviceAccount": {"create": False},
    },
    "all": ALL,
}
REFUSED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "neither TLS nor insecure": ({}, "say insecure: true"),
    "TLS without rules": ({"tls": {"secret": "a"}}, "set acls to rules"),
    "a token in plain text": (
        {"insecure": True, "metrics": {"token": {"secret": "a"}}},
        "needs tls.secret",
    ),
    "several servers without Kafka": ({"insecure": True, "replicas": 2}, "bootstrapServers"),
    "no replica": ({"insecure": True, "replicas": 0}, "replicas"),
    "an unknown name": ({"insecure": True, "replica": 1}, "replica"),
    "two targets of backups": (
        {"insecure": True, "backup": {"target": "s3://b", "volume": {"claim": "nfs"}}},
        "not both",
    ),
    "two volumes for backups": (
        {"insecure": True, "backup": {"volume": {"claim": "nfs", "size": "1Gi"}}},
        "not both",
    ),
    "a folder without a volume": (
        {"insecure": True, "backup": {"target": "/mnt/backups"}},
        "backup",
    ),
    "a setting that is a list": ({"insecure": True, "settings": {"a": [1]}}, "settings"),
}


def written(values: Mapping[str, Any], folder: Path) -> Path:
    file = folder / "values.yaml"
    file.write_text(json.dumps(values))
    return file


def rendered(values: Mapping[str, Any], folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The objects, by kind."""
    arguments = ("--namespace", "apps", "--kube-version", KUBERNETES)
    text = did("helm", "template", "offsetd", CHART, "-f", written(values, folder), *arguments)
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for each in yaml.safe_load_all(text):
        by_kind.setdefault(each["kind"], []).append(each)
    return by_kind


@pytest.mark.parametrize("name", VALUES)
def test_it_makes_objects_that_kubernetes_knows(name: str, tmp_path: Path) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    file = written(VALUES[name], tmp_path)
    did("helm", "lint", "--strict", "--kube-version", KUBERNETES, CHART, "-f", file)
    objects = rendered(VALUES[name], tmp_path)
    for kind in objects.keys() - CUSTOM_KINDS:
        for each in objects[kind]:
            kubernetes_validate.validate(each, KUBERNETES.rpartition(".")[0], strict=True)
    if name == "all":
        assert objects.keys() >= {*CUSTOM_KINDS, "NetworkPolicy", "PodDisruptionBudget"}


def test_the_chart_has_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == project["version"]


@promised(
    "Unknown values are refused. So are more than one replica without `cluster.bootstrapServers`, "
    "and a server without TLS and rules unless `insecure` is true."
)
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused(name: str, tmp_path: Path) -> None:
    values, why = REFUSED[name]
    arguments = ("--kube-version", KUBERNETES, "-f", written(values, tmp_path))
    ended = ran("helm", "template", "offsetd", CHART, *arguments)
    assert ended.returncode != 0
    assert why in ended.stderr


@pytest.mark.parametrize("name", VALUES)
def test_volumes_are_mounted_and_settings_known(name: str, tmp_path: Path) -> None:
    placed = Placed.of(VALUES[name], tmp_path)
    mounts = {each["name"] for each in placed.container["volumeMounts"]}
    volumes = {each["name"] for each in placed.pod["volumes"]} | {"data"}
    assert mounts == volumes
    settings = load_settings(toml=placed.toml, environment=placed.environment)
    assert settings.is_clustered == ("cluster" in VALUES[name])
    if settings.is_clustered:
        assert settings.advertised_address.startswith("offsetd-0.offsetd-nodes.apps.svc.")
    ports = {port["containerPort"] for port in placed.container["ports"]}
    listened = [settings.listen_address, settings.metrics_address]
    assert ports == {int(each.rpartition(":")[2]) for each in listened if each}
    drain_s = (settings.drain_notice_ms + settings.drain_max_ms) / 1000
    assert placed.pod["terminationGracePeriodSeconds"] > drain_s + 30


@promised("A volume that the chart makes stays after `helm uninstall`")
def test_backups_have_a_place(tmp_path: Path) -> None:
    for name in ("store", "claim", "made", "shared"):
        (tmp_path / name).mkdir()
    store = Placed.of(VALUES["backups to a store"], tmp_path / "store")
    assert load_settings(toml=store.toml).backup_target == "s3://bucket/offsetd"
    assert store.container["envFrom"] == [{"secretRef": {"name": "s3-login"}}]
    placed = Placed.of(VALUES["backups to a volume"], tmp_path / "claim")
    [volume] = [each for each in placed.pod["volumes"] if each["name"] == "backups"]
    assert volume["persistentVolumeClaim"] == {"claimName": "nfs"}
    target = load_settings(toml=placed.toml).backup_target
    mounts = {each["name"]: each["mountPath"] for each in placed.container["volumeMounts"]}
    assert target == str(tmp_path / "claim") + "-backups"
    assert mounts["backups"] == "/var/lib/offsetd-backups"
    assert "PersistentVolumeClaim" not in rendered(VALUES["backups to a volume"], tmp_path)
    size = {"insecure": True, "backup": {"volume": {"size": "20Gi"}}}
    [claim] = rendered(size, tmp_path / "made")["PersistentVolumeClaim"]
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    [claim] = rendered(ALL, tmp_path / "shared")["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]


@pytest.mark.single_server
def test_a_server_makes_its_backups_where_the_chart_has_a_volume(tmp_path: Path) -> None:
    folder = tmp_path / "pod"
    folder.mkdir()
    placed = Placed.of(VALUES["backups to a volume"], folder)
    with placed.serving() as server:
        assert server.wait_for_event("backup made")["target"] == f"{folder}-backups"
        server.stop_well()


def test_rules_and_dashboards_are_those_of_the_folder(tmp_path: Path) -> None:
    objects = rendered(ALL, tmp_path)
    rules = yaml.safe_load((DEPLOY / "prometheus-rules.yml").read_text())
    assert objects["PrometheusRule"][0]["spec"] == rules
    maps = {each["metadata"]["name"]: each["data"] for each in objects["ConfigMap"]}
    files = {each.name: each.read_text() for each in (DEPLOY / "grafana").glob("*.json")}
    assert maps["offsetd-dashboards"] == files


@pytest.mark.single_server
def test_a_server_starts_with_what_the_chart_makes(tmp_path: Path) -> None:
    placed = Placed.of(VALUES["one insecure server"], tmp_path)
    with placed.serving() as server:
        with OffsetClient(server.address) as client:
            client.commit("billing", {TopicPartition("orders", 0): 42})
        server.stop_well()


@promised("so with TLS they run `offsetd admin health`.")
@pytest.mark.single_server
def test_a_server_starts_with_tls_and_answers_its_probe(tmp_path: Path) -> None:
    tls = {"secret": "offsetd-tls", "clientAuth": "required"}
    metrics = {"token": {"secret": "offsetd-metrics"}}
    placed = Placed.of({**TLS, "tls": tls, "metrics": metrics}, tmp_path)
    authority = placed.add_certificates()
    (placed.folder / "metrics").mkdir()
    (placed.folder / "metrics" / "token").write_text("secret-of-prometheus-0123456789")
    with placed.serving() as server:
        assert placed.probe(server.address) == 0
        app = authority.issue("billing-app")
        options = TlsOptions(
            ca=authority.pem,
            certificate=app.certificate_pem,
            key=app.key_pem,
            server_name="offsetd.apps.svc",
        )
        with OffsetClient(server.address, tls=options) as client:
            client.commit("billing", {TopicPartition("orders", 0): 42})
        address = server.wait_for_event("metrics served")["address"]
        request = urllib.request.Request(f"https://{address}/metrics")
        request.add_header("Authorization", "Bearer secret-of-prometheus-0123456789")
        context = ssl.create_default_context(cadata=authority.pem.decode())
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            assert b"offsetd_serving 1" in answer.read()
        server.stop_well()
        assert placed.probe(server.address) == 1


@attrs.frozen
class Placed:
    """A pod whose files are in a folder of this machine."""

    pod: dict[str, Any]
    folder: Path
    toml: str

    @classmethod
    def of(cls, values: Mapping[str, Any], folder: Path) -> Placed:
        """Renders the chart, and lays the settings down."""
        objects = rendered(values, folder)
        pod = objects["StatefulSet"][0]["spec"]["template"]["spec"]
        data = next(each["data"] for each in objects["ConfigMap"] if "offsetd.toml" in each["data"])
        (folder / "settings").mkdir()
        for name, text in data.items():
            (folder / "settings" / name).write_text(cls._moved(text, folder))
        (folder / "kafka").mkdir()
        (folder / "kafka" / "password").write_text("secret")
        return cls(pod, folder, (folder / "settings" / "offsetd.toml").read_text())

    @staticmethod
    def _moved(text: str, folder: Path) -> str:
        return text.replace("/etc/offsetd", str(folder)).replace("/var/lib/offsetd", str(folder))

    @property
    def container(self) -> dict[str, Any]:
        return dict(self.pod["containers"][0])

    @property
    def environment(self) -> dict[str, str]:
        """Of the first pod."""
        found = {}
        for each in self.container.get("env", ()):
            value = each.get("value", "offsetd-0").replace("$(OFFSETD_NODE_ID)", "offsetd-0")
            found[each["name"]] = self._moved(value, self.folder)
        return found

    def add_certificates(self) -> Authority:
        """The secret of `tls.secret`, as cert-manager makes it."""
        authority = Authority("test")
        issued = authority.issue("offsetd", dns=["offsetd.apps.svc"])
        folder = self.folder / "tls"
        folder.mkdir()
        for name, pem in (
            ("tls.crt", issued.certificate_pem),
            ("tls.key", issued.key_pem),
            ("ca.crt", authority.pem),
        ):
            (folder / name).write_bytes(pem)
        return authority

    def serving(self) -> ServerProcess:
        """A server with the arguments and variables of the container, on other ports."""
        arguments = [self._moved(each, self.folder) for each in self.container["args"]]
        assert arguments[0] == "serve"
        assert tomllib.loads(self.toml)["listen.address"] == "0.0.0.0:7171"
        settings = {"data.dir": None, "history.ms": None}
        server = ServerProcess(
            self.folder,
            settings=settings,
            arguments=arguments[1:],
            environment={**os.environ, **self.environment},
        )
        return server.wait_until_serving()

    def probe(self, address: str) -> int:
        """The exit code of the probe's command."""
        program, *arguments = self.container["readinessProbe"]["exec"]["command"]
        assert program == "offsetd"
        code = "from offsetd_clients.cli.main import main; main()"
        ended = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, **self.environment, "OFFSETD_ADDRESS": address},
            capture_output=True,
            check=False,
            timeout=SECONDS_MAX,
        )
        return ended.returncode
