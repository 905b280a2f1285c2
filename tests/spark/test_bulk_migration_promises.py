"""What the guide on offsets in bulk promises of its job, command by command."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import OffsetClient, TopicPartition
from promised import promised_by
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli_calls import Ended
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long(minutes=1)

promised = promised_by("docs/guides/spark-migrate.md")

WHERE = TopicPartition("orders", 0)


def export(file: Path, **offsets: int) -> None:
    lines = [f"/consumers/{name}/offsets/orders/0:{each}\n" for name, each in offsets.items()]
    file.write_text("".join(lines))


@promised(
    "before the first `--execute`, the same command makes a new plan.",
    "Refused groups are named with the reason, and the other groups continue.",
    "A group is refused if - other offsets are stored at the server (`behind`, `ahead`, "
    "`conflict`; `--overwrite STATE` replaces them)",
    "The exit code is 3; the same command tries them again.",
    "it continues where it stopped, and offsets that consumers have committed in the meantime "
    "stay.",
    "Groups that were written to since the plan was made are refused: for a new plan, use a new "
    "`--state`.",
    "Migrated offsets do not expire at the server, because they did not expire in ZooKeeper.",
    "Groups that have a retention of their own keep it.",
    "Offsets that are larger than planned are then counted separately: they differ from the plan, "
    "but they are allowed.",
    "1 failed (also if `--verify` found a difference)",
)
def test_what_the_same_command_does_the_next_time(
    spark: SparkSession, job: Callable[..., Ended], tmp_path: Path
) -> None:
    file = tmp_path / "export.txt"
    settings = {"group.initial.rebalance.delay.ms": 0}
    with (
        ServerProcess(tmp_path / "data", settings=settings) as server,
        OffsetClient(server.wait_until_serving().address) as client,
    ):

        def migrate(*words: Any) -> Ended:
            return job(
                "migrate", file, "--to", server.address, "--state", tmp_path / "moving", *words
            )

        def offset(group: str) -> int | None:
            stored = client.fetch(group).get(WHERE)
            return stored and stored.offset

        export(file, plain=42, held=43, taken=44, own=45)
        client.commit("taken", {WHERE: 99})
        client.update_group("own", retention=timedelta(days=90), allow_missing=True)
        assert migrate().code in (0, 3)
        assert (offset("plain"), offset("own")) == (None, None)
        export(file, plain=50, held=43, taken=44, own=45)
        assert migrate().code in (0, 3)  # It is read again.
        lease = client.acquire_group("held", "host-1", ttl=timedelta(minutes=10))
        done = migrate("--execute")
        assert done.code == 3, done
        assert [offset(each) for each in ("plain", "held", "taken", "own")] == [50, None, 99, 45]
        for refused in ("held", "taken"):
            assert refused in done.stdout + done.stderr
        assert client.get_group("plain").retention == "never"
        assert client.get_group("own").retention == timedelta(days=90)
        client.release_group("held", lease.epoch)
        client.commit("plain", {WHERE: 60})
        client.commit("own", {WHERE: 40})
        again = migrate("--execute")
        assert again.code == 3, again  # `taken` still is.
        assert [offset(each) for each in ("plain", "held", "taken", "own")] == [60, 43, 99, 40]
        verified = migrate("--verify", "--allow-ahead")
        assert verified.code == 1, verified  # `own` went back.
        client.commit("own", {WHERE: 45})
        assert migrate("--verify").code == 1
        verified = migrate("--verify", "--allow-ahead")
        assert (verified.code, [offset("plain"), offset("taken")]) == (0, [60, 99]), verified
