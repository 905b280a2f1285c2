"""A real Prometheus that scrapes servers, and answers queries."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import attrs
from deployment.tools import tool
from ports import free_ports
from server_process import poll

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SECONDS_MAX: Final = 60
SCRAPE_SECONDS: Final = 0.5
JOB: Final = "offsetd"


@attrs.frozen(kw_only=True)
class Target:
    """A metrics port. With `authority`, a file, it speaks TLS and asks for the token of a file."""

    address: str
    authority: Path | None = None
    token: Path | None = None

    def config(self) -> dict[str, Any]:
        """As a job of Prometheus."""
        job = {"job_name": self.address, "static_configs": [{"targets": [self.address]}]}
        job["relabel_configs"] = [{"target_label": "job", "replacement": JOB}]
        if self.authority is None:
            return job
        return job | {
            "scheme": "https",
            "tls_config": {"ca_file": str(self.authority)},
            "authorization": {"credentials_file": str(self.token)},
        }


@attrs.frozen
class Prometheus:
    """It listens on `address`."""

    address: str

    def query(self, text: str) -> list[dict[str, Any]]:
        """The result now. Fails if the query is wrong."""
        values = urllib.parse.urlencode({"query": text}).encode()
        url = f"http://{self.address}/api/v1/query"
        try:
            with urllib.request.urlopen(url, values, timeout=SECONDS_MAX) as answer:
                result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
                return result
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return []  # It is not ready yet.
            raise AssertionError(f"{text}: {error.read().decode()}") from error

    def has_values(self, text: str) -> bool:
        """Whether there is a number."""
        return any(each["value"][1] != "NaN" for each in self.query(text))


@contextmanager
def scraping(folder: Path, targets: Sequence[Target]) -> Iterator[Prometheus]:
    """Yields one that has scraped each target."""
    program = tool("prometheus")
    (port,) = free_ports(1)
    interval = f"{round(SCRAPE_SECONDS * 1000)}ms"
    config = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "scrape_configs": [each.config() for each in targets],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML.
    prometheus = Prometheus(f"127.0.0.1:{port}")
    with (folder / "prometheus.log").open("w+") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address={prometheus.address}",
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            poll(lambda: _scraped(prometheus) == len(targets), SECONDS_MAX)
            yield prometheus
        finally:
            process.kill()
            process.wait()


def _scraped(prometheus: Prometheus) -> int:
    try:
        return sum(each["value"][1] == "1" for each in prometheus.query("up"))
    except OSError:
        return 0  # It has not begun to listen.
