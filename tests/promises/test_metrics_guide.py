"""What the guide on metrics promises of the port and of a scrape's series."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Final

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from promised import promised_by
from scrapes import Scrape
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

promised = promised_by("docs/guides/metrics.md")

GROUPS: Final = 60
LABELS: Final = {"partition", "method", "code", "operation", "task", "reason", "verdict", "le"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as process:
        yield process.wait_until_serving()


def series(scrape: Scrape) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    return {
        (sample.name, frozenset(sample.labels.items()))
        for family in scrape.families.values()
        for sample in family.samples
        if sample.name.startswith("offsetd_")
    }


@promised(
    "so the number of series is fixed by the number of log partitions, whatever clients send.",
    "There are no series per group or topic, except for the `metrics.group.commits.top` groups "
    "that [commit most](commit-storms.md), and for the lag of at most "
    "`metrics.lag.partitions.max` partitions ([default: none](lag.md#metrics)).",
)
def test_series_do_not_come_with_groups_and_topics(
    server: ServerProcess, client: OffsetClient
) -> None:
    address = str(server.wait_for_event("metrics served")["address"])
    client.commit("first", {TopicPartition("orders", 0): 1})
    before = series(Scrape.from_address(address))
    for number in range(GROUPS):
        client.commit(f"group-{number}", {TopicPartition(f"topic-{number}", number): 1})
    after = series(Scrape.from_address(address))
    new = after - before
    of_groups = [name for name, _ in new if name == "offsetd_group_commits_last_minute"]
    # A log partition that is written to for the first time may get one.
    others = [labels for name, labels in new if name not in of_groups]
    assert {label for labels in others for label, _ in labels} <= {"partition", "method", "code"}
    assert len(of_groups) <= 20
    assert {label for _, labels in after for label, _ in labels} <= LABELS | {"group"}
    values = {value for labels in others for _, value in labels}
    assert not [value for value in values if value.startswith(("topic-", "group-"))]


@promised("`GET /metrics` on `metrics.address`", "in Prometheus's text format.")
def test_nothing_else_is_served(server: ServerProcess) -> None:
    address = str(server.wait_for_event("metrics served")["address"])
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{address}/other", timeout=60)
    assert refused.value.code == 404
    refused.value.close()
