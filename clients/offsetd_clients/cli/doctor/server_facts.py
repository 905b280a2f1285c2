"""What can be learned of a running server: by calls, from its metrics, from its machine."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import attrs

from offsetd_clients.admin_values import ConfigSource, LogPartition
from offsetd_clients.calling.security import is_loopback
from offsetd_clients.cli.doctor.scrapes import Metrics, MetricsAccess, read_metrics
from offsetd_clients.errors import OffsetdError
from offsetd_clients.sync.client import OffsetClient
from offsetd_clients.values import ServerInfo

# The gRPC service of each health name.
HEALTH = {
    "the server": "",
    "the cleaner": "offsetd.cleaner",
    "the clock": "offsetd.clock",
    "the disk": "offsetd.disk",
}


@attrs.frozen(kw_only=True)
class ServerFacts:
    """The facts that the checks judge. `settings`: values by name, the server's and the log's."""

    info: ServerInfo
    is_healthy: Mapping[str, bool]
    settings: Mapping[str, str]
    partitions: Sequence[LogPartition]
    cluster_problems: Sequence[str]
    metrics: Metrics
    folder: Path | None
    """The data folder, if the server runs on this machine."""
    client_version: str
    now: datetime
    unseen: Sequence[str] = ()
    """What the caller may not see, and why."""
    set_while_running: Collection[str] = ()
    """The settings whose values are from `admin config`: they go before those of the start."""

    def number(self, name: str) -> int:
        """A setting; 0 if it is unset, or not known."""
        value = self.settings.get(name, "")
        return int(value) if value.lstrip("-").isdigit() else 0


def server_facts(
    client: OffsetClient, address: str, metrics_address: str | None, access: MetricsAccess
) -> ServerFacts:
    """Asks a server. Raises OffsetdError if it does not answer at all."""
    info = client.get_server_info()
    unseen: list[str] = []
    settings: dict[str, str] = {}
    set_while_running: set[str] = set()
    partitions: Sequence[LogPartition] = ()
    problems: Sequence[str] = ()
    try:
        for topic in ("", "__consumer_offsets"):
            described = client.describe_config(topic, ())
            settings |= {each.name: each.value for each in described}
            set_while_running |= {
                each.name for each in described if each.source is ConfigSource.DYNAMIC_SERVER
            }
    except OffsetdError as error:
        unseen.append(f"the settings: {error}")
    try:
        if info.cluster_id:
            problems = client.describe_cluster().problems
        elif info.state == "serving":
            partitions = client.describe_log("", ())
    except OffsetdError as error:
        unseen.append(f"the log: {error}")
    is_secure = settings.get("metrics.ssl.enable") == "true"
    is_local = is_loopback(address.partition(",")[0])
    scraped = settings.get("metrics.address", "") if metrics_address is None else metrics_address
    return ServerFacts(
        info=info,
        is_healthy={name: client.is_serving(service) for name, service in HEALTH.items()},
        settings=settings,
        partitions=partitions,
        cluster_problems=problems,
        metrics=read_metrics(scraped, is_secure=is_secure, access=access),
        folder=_folder(settings) if is_local else None,
        client_version=version("offsetd"),
        now=datetime.now(UTC),
        unseen=unseen,
        set_while_running=set_while_running,
    )


def _folder(settings: Mapping[str, str]) -> Path | None:
    """The data folder, if its path leads to one here. A relative path says too little."""
    folder = Path(settings.get("data.dir", ""))
    return folder if folder.is_absolute() and folder.is_dir() else None
