"""Which Kafka cluster, and how to get in: options that several commands have alike."""

from pathlib import Path
from typing import Annotated

import typer

from offsetd_clients.migration.kafka.cluster import TIMEOUT_S_DEFAULT, KafkaCluster
from offsetd_clients.migration.kafka.cluster_source import CLUSTER_KIND
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.values import MigrationError

KAFKA_TIMEOUT_S_DEFAULT = TIMEOUT_S_DEFAULT

_BOOTSTRAP = "bootstrap.servers"


def _checked_timeout(value: float) -> float:
    if not 1 <= value <= 600:  # Nor may it be NaN.
        raise typer.BadParameter(f"{value} is not from 1 to 600.")
    return value


BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        envvar="OFFSETD_KAFKA",
        metavar="HOST:PORT,…",
        help="The Kafka cluster; else that of the plan.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="Settings of librdkafka, lines of NAME=VALUE: how to get in.",
    ),
]
KafkaTimeoutOption = Annotated[
    float,
    typer.Option(
        "--kafka-timeout",
        metavar="SECONDS",
        help="For each answer of Kafka's.",
        callback=_checked_timeout,
    ),
]


def cluster_of(
    bootstrap_servers: str | None, config_file: Path | None, timeout_s: float, plan: Plan | None
) -> KafkaCluster | None:
    """The cluster that the options name, or else the file, or the plan; None: nothing does.

    Raises MigrationError, OSError.
    """
    config = {} if config_file is None else parse_config(config_file)
    of_plan = plan.source.address if plan and plan.source.kind == CLUSTER_KIND else ""
    servers = bootstrap_servers or config.get(_BOOTSTRAP) or of_plan
    if not servers:
        return None
    return KafkaCluster({**config, _BOOTSTRAP: servers}, timeout_s=timeout_s)


def some_cluster(cluster: KafkaCluster | None) -> KafkaCluster:
    """The cluster. Raises MigrationError if there is none."""
    if cluster is None:
        raise MigrationError("say which Kafka cluster: --bootstrap-servers HOST:PORT")
    return cluster


def parse_config(file: Path) -> dict[str, str]:
    """Lines of NAME=VALUE, with comments behind a # or ! at their start. Raises MigrationError."""
    config: dict[str, str] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, sign, value = text.partition("=")
        if not (sign and name.strip()):
            raise MigrationError(f"{file}: line {number} is not NAME=VALUE")
        config[name.strip()] = value.strip()
    return config
