"""What the guide "History, restores, watchers" promises."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pytest
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from promised import promised_by
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from promises.conftest import Told

promised = promised_by("docs/guides/history.md")

P0: Final = TopicPartition("orders", 0)
P1: Final = TopicPartition("orders", 1)
RETENTION: Final = timedelta(days=2)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"history.ms": None, "watch.watchers.max": 2}
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", settings=settings) as process:
        yield process.wait_until_serving()


def offsets(client: OffsetClient, group: str) -> dict[int, int]:
    return {where.partition: each.offset for where, each in client.fetch(group).items()}


@promised(
    "The command shows commits and deletions (an expiry is a deletion), newest first, each with "
    "its revision: the log offset of its record.",
    "The history of a deleted group can be read for as long as the log has it. A group that "
    "neither exists nor is in the log is `GROUP_ID_NOT_FOUND`.",
)
def test_a_deleted_group_has_its_history(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    first = client.commit(group, {P0: 10})
    second = client.commit(group, {P0: 20})
    client.delete_group(group)
    rows = offsetd(f"groups history {group} -o jsonl").rows
    told = [(row["event"], row["offset"], row["revision"]) for row in rows]
    assert told[0][:2] == ("deleted", None)
    assert told[1:] == [
        ("committed", 20, second.log_offset),
        ("committed", 10, first.log_offset),
    ]
    assert told[0][2] > told[1][2]
    nobody = offsetd(f"groups history {group}-nobody")
    assert (nobody.code, "GROUP_ID_NOT_FOUND" in nobody.stderr, nobody.stdout) == (1, True, "")


@promised(
    "The target is the end of that millisecond, or the state directly after that revision, "
    "including everything in the same record batch. A time in the future, or a revision that is "
    "not written yet, is an error.",
    "The offsets become what they were then. Offsets that did not exist then are deleted.",
    "Each row shows the revision of its own record.",
    "The restore is recorded in the audit log.",
    "`offsetd groups reset --to-datetime` reads the same past, and deletes nothing.",
)
def test_a_restore_deletes_what_came_later_and_a_reset_does_not(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    # Committed at once: behind the first of them is behind both.
    client.commit(group, {P0: 10, P1: 11})
    oldest = offsetd(f"groups history {group} -o jsonl").rows[-1]["revision"]
    at = client.fetch(group)[P0].commit_time.astimezone(UTC).isoformat(timespec="milliseconds")
    time.sleep(0.01)
    client.commit(group, {P0: 20, TopicPartition("orders", 2): 22})
    now = {0: 20, 1: 11, 2: 22}
    for wrong in (f"--to-revision {oldest + 1000}", "--to-datetime 2999-01-01T00:00"):
        refused = offsetd(f"groups restore {group} {wrong} --execute")
        assert (refused.code in (1, 2), offsets(client, group)) == (True, now), refused
    for chosen in ("--all-topics", "--topic orders"):
        told = offsetd(f"groups reset {group} {chosen} --to-datetime {at}")
        assert (told.code, offsets(client, group)) == (0, now), told
        assert f"they had no offset at that time: {group} orders:2\n" in told.stderr
    refused = offsetd(f"groups reset {group} --topic orders:2 --to-datetime {at} --execute")
    assert (refused.code, "orders:2" in refused.stderr, offsets(client, group)) == (1, True, now)
    reset = f"groups reset {group} --all-topics --to-datetime {at} --execute"
    assert (offsetd(reset).code, offsets(client, group)) == (0, {0: 10, 1: 11, 2: 22})
    client.commit(group, {P0: 30, P1: 31})
    for target in (f"--to-datetime {at}", f"--to-revision {oldest}"):
        shown = offsetd(f"groups restore {group} {target}")
        assert (shown.code, 2 in offsets(client, group)) == (0, True)
        client.commit(group, {TopicPartition("orders", 2): 23})
        done = offsetd(f"groups restore {group} {target} --execute --reason back -o jsonl")
        assert (done.code, offsets(client, group)) == (0, {0: 10, 1: 11})
        events = offsetd(f"groups history {group} -o jsonl").rows
        revisions = {row["revision"]: (row["partition"], row["offset"]) for row in events}
        for row in done.rows:
            assert revisions[row["revision"]] == (row["partition"], row["new_offset"])
        [audited] = offsetd(f"admin audit --group {group} --limit 1 -o jsonl").rows
        assert (audited["method"], audited["reason"]) == ("RestoreGroup", "back")
        client.commit(group, {P0: 30, P1: 31, TopicPartition("orders", 2): 23})


@promised(
    "A deleted group comes back with its offsets, leader epochs and metadata",
    "An offset that had a retention of its own gets the same retention again, counted from now.",
)
def test_a_deleted_group_comes_back(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    client.commit(group, {P0: OffsetToCommit(10, leader_epoch=7, metadata="früh")})
    last = client.commit(group, {P1: 11}, retention=RETENTION)
    client.delete_group(group)
    revision = last.log_offset
    assert offsetd(f"groups restore {group} --to-revision {revision} --execute").code == 0
    stored = client.fetch(group)
    assert (stored[P0].offset, stored[P0].leader_epoch, stored[P0].metadata) == (10, 7, "früh")
    now = datetime.now(UTC)
    assert stored[P1].offset == 11
    assert stored[P1].expire_time is not None
    assert timedelta() <= stored[P1].expire_time - now + timedelta(minutes=5) - RETENTION
    assert stored[P1].expire_time - now < RETENTION + timedelta(minutes=5)
    assert stored[P0].expire_time is not None
    assert stored[P0].expire_time - now > RETENTION + timedelta(days=4)


@promised(
    "Members, lease and settings are not changed.",
    "A restore is refused while the group has members or its lease is held, unless you use "
    "`--force`.",
)
def test_a_lease_and_settings_outlive_a_restore_which_wants_force(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    first = client.commit(group, {P0: 10}).log_offset
    client.commit(group, {P0: 20})
    client.update_group(group, retention=RETENTION)
    lease = client.acquire_group(group, "host-1")
    refused = offsetd(f"groups restore {group} --to-revision {first} --execute")
    assert (refused.code, "LEASE_HELD" in refused.stderr) == (1, True), refused
    assert offsets(client, group) == {0: 20}
    assert offsetd(f"groups restore {group} --to-revision {first} --execute --force").code == 0
    assert offsets(client, group) == {0: 10}
    assert client.get_group(group).retention == RETENTION
    client.commit(group, {P0: 30}, epoch=lease.epoch)
    client.release_group(group, lease.epoch)
    client.join_group(group, {"range": b""})
    refused = offsetd(f"groups restore {group} --to-revision {first} --execute")
    assert (refused.code, "NON_EMPTY_GROUP" in refused.stderr) == (1, True), refused
    assert offsetd(f"groups restore {group} --to-revision {first} --execute --force").code == 0
    assert (offsets(client, group), len(client.get_group(group).members)) == ({0: 10}, 1)


@promised("`TOO_MANY_WATCHERS`: `watch.watchers.max` calls are already watching.")
def test_one_watcher_too_many_is_told_so(
    server: ServerProcess, client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    client.commit(group, {P0: 10})
    watches = [client.watch_offsets([group], from_oldest=True) for _ in range(2)]
    batches = [iter(each.batches()) for each in watches]
    for each in batches:
        next(each)
    refused = offsetd(f"watch {group}")
    assert (refused.code, "TOO_MANY_WATCHERS" in refused.stderr) == (1, True), refused
    for each in watches:
        each.cancel()


@promised(
    "A new call with the token, and the same groups, prefix and topics, continues directly after "
    "that message: no event is lost and none is sent twice, also after a restart or a kill.",
    "With an `until_token` the call ends once it has sent everything before that token.",
)
def test_a_watcher_goes_on_behind_its_token(tmp_path: Path) -> None:
    seen: list[int | None] = []
    token = ""
    for number in range(3):
        with ServerProcess(tmp_path / "data", settings={"history.ms": None}) as server:
            with OffsetClient(server.wait_until_serving().address) as client:
                for offset in range(number * 4, number * 4 + 4):
                    client.commit("g", {P0: offset})
                watch = client.watch_offsets(["g"], token=token, from_oldest=not token)
                for batch in watch.batches():
                    seen += [event.offset for event in batch.events]
                    token = batch.token
                    if len(seen) >= number * 4 + 3:
                        break
                watch.cancel()
            server.kill()
    assert seen[:10] == list(range(10))


@promised(
    "it is a floor of `min.compaction.lag.ms` of `__consumer_offsets`.",
    "A change of `history.ms` needs a restart; `min.compaction.lag.ms` raises the time while the "
    "server runs.",
)
def test_how_long_history_is_kept_may_be_raised_and_not_lowered(
    offsetd: Callable[[str], Told],
) -> None:
    refused = offsetd("admin config history.ms=5")
    assert (refused.code, "needs a restart" in refused.stderr) == (2, True), refused
    of_topic = "admin config --topic __consumer_offsets"
    name = "min.compaction.lag.ms"
    for value, counts in ((7_200_000, "7200000"), (5, "3600000")):
        assert offsetd(f"{of_topic} {name}={value}").code == 0
        [row] = offsetd(f"{of_topic} {name} -o jsonl").rows
        assert row["value"] == counts, row
    assert offsetd(f"{of_topic} --unset {name}").code == 0
