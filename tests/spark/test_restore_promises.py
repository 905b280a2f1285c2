"""What the guides on archives and checkpoints promise to leave alone, by the jobs' own commands."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from promised import promised_by
from server_process import ServerProcess
from spark_events import SPARK

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli_calls import Ended
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long(minutes=1)

of_archives = promised_by("docs/guides/spark-archive.md")
of_queries = promised_by("docs/guides/spark-kafka.md")

SETTINGS = {"history.ms": 3_600_000, "group.initial.rebalance.delay.ms": 0}


def at(partition: int) -> TopicPartition:
    return TopicPartition("orders", partition)


def offsets(client: OffsetClient) -> dict[str, dict[int, int]]:
    return {
        listing.group_id: {
            where.partition: each.offset for where, each in client.fetch(listing.group_id).items()
        }
        for listing in client.list_groups()
    }


def outcomes(ended: Ended) -> dict[str, str]:
    return {row["group"]: row["outcome"] for row in json.loads(ended.stdout)}


def archive_four_groups(job: Callable[..., Ended], folder: Path, to: Path) -> None:
    """Each has one offset, 1. A second run adds nothing."""
    with ServerProcess(folder, settings=SETTINGS) as server:
        with OffsetClient(server.wait_until_serving().address) as client:
            for group in ("keep", "moved", "held", "gone"):
                client.commit(group, {at(0): 1})
        server.stop_well()
    assert job("archive", folder, "--to", to).code == 0
    before = sorted((to / "_manifests").iterdir())
    assert job("archive", folder, "--to", to).code == 0
    assert sorted((to / "_manifests").iterdir()) == before


@of_archives(
    "Without `--execute` it only shows what it would do: the server checks everything and changes "
    "nothing.",
    "Offsets that are not selected are not read or changed.",
    "Offsets that exist now and did not exist then are kept and reported. `--delete-others` "
    "deletes them, in the selected groups, or in all groups.",
    "Nothing of the group was restored, except if only the deletion of its other offsets failed",
    "it has what it had then, and `others` in addition; a group without others is only counted",
    "A second call finds everything `unchanged`",
    "A time in a gap, or before the archive begins, is an error",
    "`--execute` without the option is refused, so that `--delete-others` does not delete offsets "
    "that the archive never had.",
    "Exit codes: 0 done, 1 failed, 2 wrong use, 3 some groups failed",
    "A run that finds nothing new adds nothing.",
)
def test_a_restore_touches_what_it_was_told_to(
    spark: SparkSession, job: Callable[..., Ended], tmp_path: Path
) -> None:
    folder, to = tmp_path / "data", tmp_path / "archive"
    archive_four_groups(job, folder, to)
    with (
        ServerProcess(folder, settings=SETTINGS) as server,
        OffsetClient(server.wait_until_serving().address) as client,
    ):
        client.commit("moved", {at(0): 9})
        client.commit("keep", {at(1): 7})
        client.commit("later", {at(0): 5})
        client.delete_group("gone")
        lease = client.acquire_group("held", "host-1", ttl=timedelta(minutes=10))
        client.commit("held", {at(0): 9}, epoch=lease.epoch)
        now = {"keep": {0: 1, 1: 7}, "moved": {0: 9}, "held": {0: 9}, "later": {0: 5}}

        def restore(*words: Any) -> Ended:
            return job("restore", to, "--address", server.address, "-o", "json", *words)

        shown = restore()
        assert (shown.code, offsets(client)) == (3, now), shown
        assert outcomes(shown)["held"] == "failed"
        early = restore("--at", "2000-01-01", "--execute", "--delete-others")
        assert (early.code, offsets(client)) == (1, now), early
        assert restore("--at", "yesterday-ish", "--execute").code == 2
        chosen = restore("--group", "moved", "--execute")
        now |= {"moved": {0: 1}}
        assert (chosen.code, outcomes(chosen)) == (0, {"moved": "restored"}), chosen
        assert offsets(client) == now
        done = restore("--execute")
        now |= {"gone": {0: 1}}
        assert (done.code, offsets(client)) == (3, now), done
        assert outcomes(done) == {
            "gone": "restored",
            "held": "failed",
            "keep": "unchanged",  # But for `orders:1`.
            "later": "kept",
        }
        assert outcomes(restore("--execute", "--group", "gone", "--group", "moved")) == {}
        assert restore("--execute", "--group", "keep", "--delete-others").code == 0
        now |= {"keep": {0: 1}}
        assert offsets(client) == now
        last = restore("--execute", "--delete-others")
        del now["later"]
        assert (last.code, offsets(client)) == (3, now), last
    with (
        ServerProcess(tmp_path / "other", settings=SETTINGS) as server,
        OffsetClient(server.wait_until_serving().address) as client,
    ):
        client.commit("mine", {at(0): 5})
        words = ("restore", to, "--address", server.address)
        refused = job(*words, "--execute", "--delete-others")
        assert (refused.code, offsets(client)) == (1, {"mine": {0: 5}}), refused
        assert "--from-other-source" in refused.stderr
        assert job(*words).code == 0


@of_queries(
    "A group that has members, or whose lease is held, is refused.",
    "A partition where the group is further than the checkpoint stays as it is (`--allow-back`, "
    "`allow_back=True`: it goes back). The import is all or nothing",
)
@pytest.mark.parametrize("use", ["lease", "member"])
def test_a_checkpoint_is_not_imported_into_a_group_in_use(
    job: Callable[..., Ended], tmp_path: Path, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        ServerProcess(tmp_path / "data", settings=SETTINGS) as server,
        OffsetClient(server.wait_until_serving().address) as client,
    ):
        monkeypatch.setenv("OFFSETD_ADDRESS", server.address)
        client.commit("billing", {at(0): 4})
        if use == "lease":
            client.acquire_group("billing", "host-1", ttl=timedelta(minutes=10))
        else:
            client.join_group("billing", {"range": b""})
        path = str(SPARK / "two-sources")
        for words in ((), ("--execute",), ("--execute", "--allow-back")):
            refused = job("checkpoint", path, "--group", "billing", *words)
            reason = "LEASE_HELD" if use == "lease" else "NON_EMPTY_GROUP"
            assert (refused.code, reason in refused.stderr) == (1, True), refused
            assert client.fetch("billing")[at(0)].offset == 4
            assert len(client.fetch("billing")) == 1
