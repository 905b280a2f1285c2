"""Each panel of the dashboards has data when a Prometheus scrapes servers under load."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

import attrs
import pytest
from certificates import Authority
from deployment.dashboard_queries import FOLDER, queries, wait_for_values
from deployment.prometheus_server import Target, scraping
from deployment.tools import tool
from offsetd_clients import (
    OffsetClient,
    OffsetdError,
    OffsetToCommit,
    RetryPolicy,
    TlsOptions,
    TopicPartition,
)
from server_process import ServerProcess

from deploy.dashboards.__main__ import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deployment.prometheus_server import Prometheus

pytestmark = pytest.mark.single_server

CLUSTER: Final = "cluster.json"  # tests/cluster runs its queries: it needs brokers.
# It counts whole minutes, for which only the nightly run waits.
LATE: Final = () if os.environ.get("OFFSETD_NIGHTLY") else ("Groups that commit most",)
FIRST: Final = TopicPartition("orders", 0)
TOKEN: Final = "a-token-of-prometheus"
ACLS: Final = '[[acl]]\nprincipal = "User:CN=app"\nallow = ["Read"]\ngroup = "*"\n'
QUOTAS: Final = '[[quota]]\nprincipal = "User:*"\ncall_rate = 5\n'
SETTINGS: Final = {
    "offsets.retention.check.interval.ms": 200,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.min.compaction.lag.ms": 0,
    "min.compaction.lag.ms": 0,
    "segment.idle.ms": 100,
    "group.commit.rate.max": 200,
    "metrics.lag.partitions.max": 100,
    "log.flush.offset.checkpoint.interval.ms": 200,
    "log.retention.check.interval.ms": 200,
}


def test_the_files_are_those_that_the_tables_make() -> None:
    kept = {each.name: each.read_text("utf-8") for each in FOLDER.iterdir()}
    assert kept == files(), "run `make dashboards`"


def test_no_panel_is_there_twice_and_each_has_a_query() -> None:
    for name in files():
        assert len(queries(name)) >= 9


@attrs.frozen
class Load:
    """Callers of a plain server, and of one whose callers lack rights."""

    plain: ServerProcess
    secured: ServerProcess
    tls: TlsOptions
    is_over: threading.Event = attrs.field(factory=threading.Event)

    def run(self) -> None:
        """Until it is over."""
        retry = RetryPolicy(timeout_s=5)
        with (
            OffsetClient(self.plain.address, retry=retry) as streaming,
            OffsetClient(self.plain.address, retry=retry, stream_commits=False) as calling,
            OffsetClient(self.secured.address, tls=self.tls, stream_commits=False) as refused,
            OffsetClient(self.secured.address, tls=self.tls, token="offsetd-wrong") as unknown,
        ):
            number = 0
            while not self.is_over.wait(0.01):
                number += 1
                offsets = {FIRST: OffsetToCommit(number, end_offset=number + 10)}
                for client in (streaming, calling):
                    client.commit(f"g{number % 50}", offsets)
                calling.fetch(f"g{number % 50}")
                for client in (refused, unknown):
                    with suppress(OffsetdError):
                        client.commit("billing", {FIRST: number})


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """One that scrapes two servers under load."""
    tool("prometheus")
    folder = tmp_path_factory.mktemp("scraped")
    authority = Authority("test")
    server, app = authority.issue("server"), authority.issue("app")
    for name, content in (
        ("server.pem", server.certificate_pem),
        ("server.key", server.key_pem),
        ("ca.pem", authority.pem),
        ("token", TOKEN.encode()),
        ("acls.toml", ACLS.encode()),
        ("tokens.toml", b"version = 1\n"),
        ("quotas.toml", QUOTAS.encode()),
    ):
        (folder / name).write_bytes(content)
    secured = {
        "ssl.certificate.file": folder / "server.pem",
        "ssl.key.file": folder / "server.key",
        "ssl.truststore.file": folder / "ca.pem",
        "ssl.client.auth": "required",
        "security.acl.file": folder / "acls.toml",
        "security.tokens.file": folder / "tokens.toml",
        "security.quotas.file": folder / "quotas.toml",
        "metrics.ssl.enable": "true",
        "metrics.token.file": folder / "token",
    }
    tls = TlsOptions(ca=authority.pem, certificate=app.certificate_pem, key=app.key_pem)
    plain = {**SETTINGS, "backup.target": folder / "backups", "backup.interval.ms": 1000}
    with ExitStack() as stack:
        first = stack.enter_context(ServerProcess(folder / "a", settings=plain))
        second = stack.enter_context(ServerProcess(folder / "b", settings=secured))
        load = Load(first.wait_until_serving(), second.wait_until_serving(), tls)
        caller = threading.Thread(target=load.run)
        caller.start()
        stack.callback(caller.join)
        stack.callback(load.is_over.set)
        targets = [
            Target(address=str(first.wait_for_event("metrics served")["address"])),
            Target(
                address=str(second.wait_for_event("metrics served")["address"]),
                authority=folder / "ca.pem",
                token=folder / "token",
            ),
        ]
        yield stack.enter_context(scraping(folder, targets))
        assert caller.is_alive(), "the load has ended early"


@pytest.mark.parametrize("name", sorted(files().keys() - {CLUSTER}))
def test_each_panel_has_values(name: str, prometheus: Prometheus) -> None:
    wait_for_values(prometheus, name, except_panels=LATE)


def test_queries_without_data_are_found(prometheus: Prometheus) -> None:
    assert not prometheus.has_values('offsetd_serving{job="nobody"}')
    with pytest.raises(AssertionError, match="parse error"):
        prometheus.query("sum(offsetd_serving")
