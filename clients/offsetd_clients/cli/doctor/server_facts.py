"""What can be learned of a running server: by calls, from its metrics, from its machine."""

import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPException
from importlib.metadata import version
from pathlib import Path

import attrs

from offsetd_clients.admin_values import LogPartition
from offsetd_clients.errors import OffsetdError
from offsetd_clients.sync.client import OffsetClient
from offsetd_clients.values import ServerInfo

METRICS_TIMEOUT_S = 5.0
LOOPBACK = ("127.", "localhost", "[::1]", "unix:")
# The gRPC service of each health name.
HEALTH = {
    "the server": "",
    "the cleaner": "offsetd.cleaner",
    "the clock": "offsetd.clock",
    "the disk": "offsetd.disk",
}


@attrs.frozen(kw_only=True)
class Metrics:
    """A scrape. A sample with labels is named `name{label="value"}`, as Prometheus writes it.

    `skew_s`: how far the server's machine is ahead of this one. `problem`: why there are none.
    """

    values: Mapping[str, float] = attrs.field(factory=dict)
    skew_s: float = 0.0
    problem: str = ""

    def get(self, name: str) -> float | None:
        """A sample; None if it is not there."""
        return self.values.get(name)

    def total(self, name: str) -> float:
        """The sum of all samples of a metric."""
        return sum(value for key, value in self.values.items() if key.partition("{")[0] == name)


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

    def number(self, name: str) -> int:
        """A setting; 0 if it is unset, or not known."""
        value = self.settings.get(name, "")
        return int(value) if value.lstrip("-").isdigit() else 0


def server_facts(client: OffsetClient, address: str, metrics_address: str | None) -> ServerFacts:
    """Asks a server. Raises OffsetdError if it does not answer at all."""
    info = client.get_server_info()
    unseen: list[str] = []
    settings: dict[str, str] = {}
    partitions: Sequence[LogPartition] = ()
    problems: Sequence[str] = ()
    try:
        for topic in ("", "__consumer_offsets"):
            settings |= {each.name: each.value for each in client.describe_config(topic, ())}
    except OffsetdError as error:
        unseen.append(f"the settings: {error}")
    try:
        if info.cluster_id:
            problems = client.describe_cluster().problems
        elif info.state == "serving":
            partitions = client.describe_log("", ())
    except OffsetdError as error:
        unseen.append(f"the log: {error}")
    is_local = address.startswith(LOOPBACK)
    scraped = settings.get("metrics.address", "") if metrics_address is None else metrics_address
    return ServerFacts(
        info=info,
        is_healthy={name: client.is_serving(service) for name, service in HEALTH.items()},
        settings=settings,
        partitions=partitions,
        cluster_problems=problems,
        metrics=read_metrics(scraped, is_secure=settings.get("metrics.ssl.enable") == "true"),
        folder=_folder(settings) if is_local else None,
        client_version=version("offsetd"),
        now=datetime.now(UTC),
        unseen=unseen,
    )


def read_metrics(address: str, *, is_secure: bool) -> Metrics:
    """One scrape of HOST:PORT."""
    if not address:
        return Metrics(problem="metrics.address is empty")
    if is_secure:
        return Metrics(problem=f"{address} asks for TLS and a token, which doctor does not have")
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=METRICS_TIMEOUT_S) as got:
            text = got.read().decode()
            told = got.headers.get("Date")
    except (OSError, ValueError, HTTPException) as error:
        return Metrics(problem=f"{address} does not answer: {error}")
    now = datetime.now(UTC)
    skew_s = (parsedate_to_datetime(told) - now).total_seconds() if told else 0.0
    return Metrics(values=dict(_samples(text)), skew_s=skew_s)


def _samples(text: str) -> list[tuple[str, float]]:
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return [(name, float(value)) for name, _, value in lines if name]


def _folder(settings: Mapping[str, str]) -> Path | None:
    """The data folder, if its path leads to one here. A relative path says too little."""
    folder = Path(settings.get("data.dir", ""))
    return folder if folder.is_absolute() and folder.is_dir() else None
