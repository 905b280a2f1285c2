"""What the guide on lag promises of a real server, its command line and its metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import (
    InvalidRequest,
    LagVerdict,
    OffsetClient,
    OffsetToCommit,
    PartitionLag,
    PolicyViolation,
    TopicPartition,
)
from promised import promised_by
from scrapes import Scrape
from server_process import START_SECONDS_MAX, ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

promised = promised_by("docs/guides/lag.md")

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as process:
        yield process.wait_until_serving()


@promised(
    "The verdict is null if no commit since the start of the server has reported an end,",
    "in Python `get_group(…).lag_verdict` and `get_group_lags(…)`.",
)
def test_the_client_and_the_command_line_tell_the_verdict(
    client: OffsetClient, group: str, offsetd: Callable[..., Any]
) -> None:
    client.commit(group, {P1: 7})
    assert client.get_group(group).lag_verdict is None
    assert client.get_group_lags(group) == {}
    client.commit(group, {P0: OffsetToCommit(5, end_offset=9)})
    assert client.get_group(group).lag_verdict is LagVerdict.OK
    assert client.get_group_lags(group) == {
        P0: PartitionLag(offset=5, end_offset=9, lag=4, verdict=LagVerdict.OK)
    }
    rows = offsetd(f"groups describe {group} -o jsonl").rows
    assert [row["verdict"] for row in rows] == ["OK", None]
    assert offsetd(f"groups describe {group} --state -o jsonl").rows[0]["verdict"] == "OK"


@promised(
    "offsetd groups list --verdict WARN --verdict ERR",
    "in Python `list_groups(lag_verdicts=[LagVerdict.ERR])`",
    "With `include_lag_verdicts`, each listed group comes with its verdict and its lag, summed",
    "offsetd groups list --sort -lag",
)
def test_groups_are_listed_by_their_verdict(
    client: OffsetClient, group: str, offsetd: Callable[..., Any]
) -> None:
    client.commit(group, {P0: OffsetToCommit(5, end_offset=9)})
    client.commit(group, {TopicPartition("clicks", 1): OffsetToCommit(0, end_offset=30)})
    for verdicts, expected in (("OK", [group]), ("err --verdict Ok", [group]), ("ERR", [])):
        rows = offsetd(f"groups list --prefix {group} --verdict {verdicts} -o jsonl").rows
        assert [row["group"] for row in rows] == expected
    for chosen, count in ((LagVerdict.OK, 1), (LagVerdict.WARN, 0)):
        found = list(client.list_groups(group_id_prefix=group, lag_verdicts=[chosen]))
        assert len(found) == count
    [listing] = client.list_groups(group_id_prefix=group, include_lag_verdicts=True)
    assert (listing.lag_verdict, listing.lag) == (LagVerdict.OK, 34)
    [listing] = client.list_groups(group_id_prefix=group)
    assert listing.lag_verdict is None
    rows = offsetd(f"groups list --prefix {group} --sort -lag -o jsonl").rows
    assert [(row["verdict"], row["lag"]) for row in rows] == [("OK", 34)]
    assert "VERDICT" in offsetd(f"groups list --prefix {group}").stdout
    with pytest.raises(InvalidRequest, match="a group is OK, WARN or ERR"):
        list(client.list_groups(lag_verdicts=[LagVerdict.STOP]))


@promised("After a start of the server that takes ten minutes.", "no commit since the start")
def test_samples_end_with_the_server(tmp_path: Path) -> None:
    for end_offset in (9, None):
        with ServerProcess(tmp_path / "data") as process:
            with OffsetClient(process.wait_until_serving().address) as client:
                client.commit("g", {P0: OffsetToCommit(5, end_offset=end_offset)})
                has_verdict = client.get_group("g").lag_verdict is not None
            process.stop_well()
        assert has_verdict is (end_offset is not None)


@promised(
    "`lag.window.ms=0` gives no verdicts, and keeps no samples.",
    "A list of groups by their verdict is then refused (`POLICY_VIOLATION`).",
    "The setting may be changed while "
    "the server runs: `offsetd admin config lag.window.ms=1200000`.",
    "With `metrics.lag.partitions.max` (0: off; at most 10,000)",
    "`offsetd_groups_by_verdict{verdict}` and `offsetd_partitions_by_verdict{verdict}` count all "
    "of them, and name none.",
    "`metrics.compatibility=kafka_exporter` shows the same groups also under the names and labels",
)
@pytest.mark.single_server  # A scrape has the groups of one node.
def test_the_settings_take_effect_while_the_server_runs(tmp_path: Path) -> None:
    settings = {"metrics.lag.partitions.max": 1, "metrics.compatibility": "kafka_exporter"}
    with ServerProcess(tmp_path / "data", settings=settings) as process:
        address = str(process.wait_for_event("metrics served")["address"])
        with OffsetClient(process.wait_until_serving().address) as client:
            for group_id in ("a", "b"):
                client.commit(group_id, {P0: OffsetToCommit(5, end_offset=9)})

            found: list[Scrape] = []

            def is_surveyed() -> bool:
                found[:] = [Scrape.from_address(address)]
                family = found[0].families.get("offsetd_groups_by_verdict")
                return family is not None and any(each.value for each in family.samples)

            poll(is_surveyed, START_SECONDS_MAX, process)
            labels = {"group": "a", "topic": "orders", "partition": "0"}
            assert found[0].value("offsetd_groups_by_verdict", verdict="OK") == 2
            assert found[0].value("offsetd_group_lag_records", **labels) == 4
            assert found[0].value("offsetd_lag_groups_left_out") == 1
            labels = {"consumergroup": "a", "topic": "orders", "partition": "0"}
            assert found[0].value("kafka_consumergroup_lag", **labels) == 4

            client.update_config({"lag.window.ms": "0"})
            assert client.get_group("a").lag_verdict is None
            with pytest.raises(PolicyViolation, match=r"by lag.window.ms=0"):
                list(client.list_groups(lag_verdicts=[LagVerdict.ERR]))
            client.update_config({"lag.window.ms": "1200000"})
            client.commit("a", {P0: OffsetToCommit(6, end_offset=9)})
            assert client.get_group("a").lag_verdict is LagVerdict.OK
            with pytest.raises(InvalidRequest):
                client.update_config({"metrics.lag.partitions.max": "10001"})
