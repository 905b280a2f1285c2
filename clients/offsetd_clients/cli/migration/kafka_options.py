"""The options of several commands for a Kafka cluster and the connection to it."""

from pathlib import Path
from typing import Annotated, Any

import attrs
import typer

from offsetd_clients.cli.arguments.option_groups import with_options
from offsetd_clients.cli.arguments.user_files import read_file
from offsetd_clients.migration.kafka.cluster import TIMEOUT_S_DEFAULT, KafkaCluster
from offsetd_clients.migration.kafka.cluster_source import CLUSTER_KIND
from offsetd_clients.migration.plan_file import Plan
from offsetd_clients.migration.values import MigrationError

_BOOTSTRAP = "bootstrap.servers"


def _checked_timeout(value: float) -> float:
    if not 1 <= value <= 600:  # NaN must fail too.
        raise typer.BadParameter(f"{value} is not from 1 to 600.")
    return value


@attrs.frozen(kw_only=True)
class KafkaChoice:
    """The options of a Kafka cluster.

    Without `servers`, the servers of the config file or of the plan are used.
    """

    bootstrap_servers: str | None
    config_file: Path | None
    timeout_s: float

    def cluster(self, plan: Plan | None = None) -> KafkaCluster | None:
        """The cluster; None if neither the options nor the plan name one.

        Raises MigrationError, OSError.
        """
        config = {} if self.config_file is None else parse_config(self.config_file)
        of_plan = plan.source.address if plan and plan.source.kind == CLUSTER_KIND else ""
        servers = self.bootstrap_servers or config.get(_BOOTSTRAP) or of_plan
        if not servers:
            return None
        servers.encode()  # Raises UnicodeEncodeError, which explains more than the library's error.
        return KafkaCluster({**config, _BOOTSTRAP: servers}, timeout_s=self.timeout_s)


def some_cluster(cluster: KafkaCluster | None) -> KafkaCluster:
    """Returns the cluster. Raises MigrationError if there is none."""
    if cluster is None:
        raise MigrationError("name the Kafka cluster: --bootstrap-servers HOST:PORT")
    return cluster


def parse_config(file: Path) -> dict[str, str]:
    """Reads lines of NAME=VALUE. Lines that begin with # or ! are comments.

    Raises MigrationError, OSError.
    """
    config: dict[str, str] = {}
    for number, line in enumerate(read_file(file).decode().splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        name, sign, value = text.partition("=")
        if not (sign and name.strip()):
            raise MigrationError(f"{file}: line {number} is not NAME=VALUE")
        config[name.strip()] = value.strip()
    return config


def _choice(
    *, bootstrap_servers: str | None, command_config: Path | None, kafka_timeout: float
) -> KafkaChoice:
    return KafkaChoice(
        bootstrap_servers=bootstrap_servers, config_file=command_config, timeout_s=kafka_timeout
    )


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "bootstrap_servers": (
        Annotated[
            str | None,
            typer.Option(
                "--bootstrap-servers",
                envvar="OFFSETD_KAFKA",
                metavar="HOST:PORT,…",
                help="The Kafka cluster; default: that of the plan.",
            ),
        ],
        None,
    ),
    "command_config": (
        Annotated[
            Path | None,
            typer.Option(
                "--command-config",
                metavar="FILE",
                help="Settings of librdkafka, lines of NAME=VALUE, to connect and to authenticate.",
            ),
        ],
        None,
    ),
    "kafka_timeout": (
        Annotated[
            float,
            typer.Option(
                "--kafka-timeout",
                metavar="SECONDS",
                help="Time for each answer of Kafka.",
                callback=_checked_timeout,
            ),
        ],
        TIMEOUT_S_DEFAULT,
    ),
}

with_kafka = with_options("kafka", _choice, _OPTIONS)
"""Gives a command the options that make up its parameter `kafka`."""
