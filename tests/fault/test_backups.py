"""Backups of a real server under load, killed at random moments, and what is restored of them."""

from __future__ import annotations

import os
import random
import shutil
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from backup_commands import SECONDS_MAX, command, done
from chance import seed_of
from offsetd_clients import (
    EpochFenced,
    InvalidRequest,
    OffsetClient,
    OffsetConflict,
    OffsetToCommit,
    PolicyViolation,
    TopicPartition,
    UnknownMember,
)
from offsetd_coordinator.offline.copied_offsets import read_groups
from promised import promised_by
from scrapes import Scrape
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

pytestmark = pytest.mark.single_server
promised = promised_by("docs/guides/backup.md")

ORDERS = TopicPartition("orders", 0)
HOUR = timedelta(hours=1)
KILLS = 60 if os.environ.get("OFFSETD_NIGHTLY") else 2


def backup_help(name: str) -> str:
    """The help of a subcommand, without the lines of its tables."""
    text = command("", name, "--help").communicate()[0]
    return text.replace("│", "")


def offsets_in(folder: Path) -> dict[str, dict[TopicPartition, int]]:
    """All offsets in a folder that no server has open, by group."""
    problems: list[str] = []
    groups = read_groups([folder], problem=problems.append, note=problems.append)
    found = {
        group.group_id: {
            TopicPartition(each.topic, each.partition): each.offset for each in group.offsets
        }
        for group in groups
    }
    assert not problems
    return found


SETTINGS = {"offsets.topic.num.partitions": 4, "group.initial.rebalance.delay.ms": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data"), settings=SETTINGS) as process:
        yield process.wait_until_serving()
        process.stop_well()


def restored_server(target: Path, folder: Path) -> ServerProcess:
    rows = done(command("", "restore", target, "--data-dir", folder))
    assert all(each["next_offset"] > each["restored_end"] for each in rows)
    return ServerProcess(folder, settings={"group.initial.rebalance.delay.ms": 0})


# Fencing ------------------------------------------------------------------------------------------


@promised(
    "A writer that was fenced stays fenced.",
    "A token from before is refused (`INVALID_REQUEST`)",
    "**Leases are released, and classic groups have no members.**",
    "Their writers acquire and join again",
)
def test_no_writer_that_was_fenced_after_the_backup_writes_again(tmp_path: Path) -> None:
    target = tmp_path / "backups"
    with (
        ServerProcess(tmp_path / "source", settings=SETTINGS) as server,
        OffsetClient(server.wait_until_serving().address) as client,
    ):
        before = client.acquire_group("billing", "one", ttl=HOUR)
        client.commit("billing", {ORDERS: 1}, epoch=before.epoch)
        client.commit("plain", {ORDERS: 1})
        member = client.join_group("team", {"range": b""}).membership
        client.sync_group(member, {member.member_id: b"a"})
        client.commit("team", {ORDERS: 1}, membership=member)
        done(command(server.address, "create", target))
        after = client.acquire_group("billing", "two", ttl=HOUR, force=True)
        client.commit("billing", {ORDERS: 2}, epoch=after.epoch)
        with pytest.raises(EpochFenced):
            client.commit("billing", {ORDERS: 3}, epoch=before.epoch)
        revision = client.commit("plain", {ORDERS: 2}).log_offset
        watch = client.watch_offsets(["plain"], from_oldest=True)
        assert next(iter(watch)).group_id == "plain"
        later = client.join_group("team", {"range": b"x"}, member_id=member.member_id).membership
        assert later.generation_id > member.generation_id
    with restored_server(target, tmp_path / "restored") as again:
        again.wait_until_serving()
        with OffsetClient(again.address) as client:
            for epoch in (before.epoch, after.epoch):
                with pytest.raises(EpochFenced):
                    client.commit("billing", {ORDERS: 9}, epoch=epoch)
            for each in (member, later):
                with pytest.raises(UnknownMember):
                    client.commit("team", {ORDERS: 9}, membership=each)
            stale = OffsetToCommit(9, expected_revision=revision)
            with pytest.raises(OffsetConflict):
                client.commit("plain", {ORDERS: stale})
            with pytest.raises(InvalidRequest):
                next(iter(client.watch_offsets(["plain"], token=watch.token)))
            for group in ("billing", "plain", "team"):
                assert client.fetch(group)[ORDERS].offset == 1
            assert client.acquire_group("billing", "three", ttl=HOUR).epoch > after.epoch
            assert client.commit("plain", {ORDERS: 4}).log_offset > revision
            joined = client.join_group("team", {"range": b""}).membership
            assert joined.generation_id > later.generation_id
            [event] = client.list_audit_events(methods=["RestoreBackup"])
            assert event.what["released_leases"] == 1
            assert event.what["groups_without_members"] == 1
        again.stop_well()


# Under load, and killed ---------------------------------------------------------------------------


class Writers:
    """Commits without a pause. Each writes n to one group, and after the answer to the next one."""

    def __init__(self, address: str, count: int = 4) -> None:
        self._client = OffsetClient(address)
        self._ends = threading.Event()
        self.acknowledged = [[0, 0] for _ in range(count)]
        self.issued = [[0, 0] for _ in range(count)]
        self._threads = [
            threading.Thread(target=self._write, args=(number,)) for number in range(count)
        ]
        for each in self._threads:
            each.start()

    def _write(self, writer: int) -> None:
        value = 0
        while not self._ends.is_set():
            value += 1
            for place in (0, 1):
                self.issued[writer][place] = value
                self._client.commit(f"{writer}-{place}", {ORDERS: value})
                self.acknowledged[writer][place] = value

    def end(self) -> None:
        self._ends.set()
        for each in self._threads:
            each.join(SECONDS_MAX)
        self._client.close()


def check(found: Mapping[str, Mapping[TopicPartition, int]], low: Any, high: Any) -> None:
    """One moment: nothing acknowledged before is missing, nothing from later is there, and the
    second group of a writer, which is in another log, is not ahead of the first."""
    for writer, (least, most) in enumerate(zip(low, high, strict=True)):
        first, second = (found[f"{writer}-{place}"][ORDERS] for place in (0, 1))
        assert least[0] <= first <= most[0]
        assert least[1] <= second <= most[1]
        assert first - 1 <= second <= first


def is_complete(folder: Path) -> bool:
    """Whether a restore was killed only after its end."""
    names = {each.name for each in folder.iterdir()} if folder.exists() else set()
    return "offsetd.properties" in names and "offsetd.restoring" not in names


@promised(
    "The backup is of one moment: everything that was acknowledged before the command is in it.",
    "A backup that is broken off is not listed, and the next one uses what it has written.",
)
@pytest.mark.slow
def test_whatever_is_killed_a_restored_folder_is_as_at_one_moment(
    server: ServerProcess, tmp_path: Path
) -> None:
    chance, target = random.Random(seed_of()), tmp_path / "backups"
    writers = Writers(server.address)
    try:
        poll(lambda: all(each[1] > 0 for each in writers.acknowledged), SECONDS_MAX, server)
        for number in range(KILLS):
            killed = command(server.address, "create", target, "--max-bytes-per-second", "65536")
            time.sleep(chance.random() * 2)
            killed.kill()
            killed.communicate()
            # Before the first whole backup, `list` says that there is none.
            has_backup = any(target.glob("manifests/*.json"))
            listed = done(command("", "list", target)) if has_backup else []
            assert not [each for each in listed if each["problem"]]
            low = [list(each) for each in writers.acknowledged]
            [made] = done(command(server.address, "create", target))
            high = [list(each) for each in writers.issued]
            folder = tmp_path / f"restored-{number}"
            dying = command("", "restore", target, "--data-dir", folder)
            time.sleep(chance.random() * 3)
            dying.kill()
            dying.communicate()
            if dying.returncode and not is_complete(folder):
                done(command("", "restore", target, "--data-dir", folder))
            check(offsets_in(folder), low, high)
            assert made["backup"] == done(command("", "list", target))[-1]["backup"]
        assert not done(command("", "verify", target))
    finally:
        writers.end()


@promised(
    "If the restore is broken off, no server opens the folder; run the command again.",
)
def test_a_folder_that_a_restore_left_is_refused_by_a_server(
    server: ServerProcess, tmp_path: Path
) -> None:
    folder = tmp_path / "restored"
    folder.mkdir()
    (folder / "offsetd.restoring").write_text("")
    with ServerProcess(folder) as refused:
        assert refused.wait_for_exit() == 1
        assert "a restore into" in refused.log
        assert "has not ended: run offsetd backup restore again" in refused.log
    assert sorted(each.name for each in folder.iterdir()) == ["offsetd.restoring"]


# By the server ------------------------------------------------------------------------------------


def metric(server: ServerProcess, name: str) -> float:
    address = str(server.wait_for_event("metrics served")["address"])
    return Scrape.from_address(address).value(name)


@promised(
    "after each backup, all but the newest N are removed",
)
def test_the_server_makes_backups_and_keeps_some(tmp_path: Path) -> None:
    target = tmp_path / "backups"
    settings = {
        "offsets.topic.num.partitions": 4,
        "backup.target": target,
        "backup.interval.ms": 1000,
        "backup.keep": 2,
    }
    with ServerProcess(tmp_path / "source", settings=settings) as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            client.commit("billing", {ORDERS: 5})
            poll(lambda: metric(server, "offsetd_backups_total") >= 4, SECONDS_MAX, server)
        assert metric(server, "offsetd_backup_failures_total") == 0
        assert metric(server, "offsetd_backup_last_size_bytes") > 0
        moment_s = metric(server, "offsetd_backup_last_moment_timestamp_seconds")
        assert abs(time.time() - moment_s) < SECONDS_MAX
        server.stop_well()
    assert len(done(command("", "list", target))) == 2
    done(command("", "restore", target, "--data-dir", tmp_path / "restored"))
    assert offsets_in(tmp_path / "restored") == {"billing": {ORDERS: 5}}


@promised(
    "A backup that fails is logged, counted (`offsetd_backup_failures_total`)",
    "tried again after at most a minute.",
)
def test_a_backup_that_fails_is_logged_counted_and_tried_again(tmp_path: Path) -> None:
    target = tmp_path / "backups"
    settings = {"backup.target": target, "backup.interval.ms": 1000}
    with ServerProcess(tmp_path / "source", settings=settings) as server:
        server.wait_until_serving()
        poll(lambda: metric(server, "offsetd_backups_total") >= 1, SECONDS_MAX, server)
        target.rename(tmp_path / "kept")
        target.write_bytes(b"a file in the way")
        poll(lambda: metric(server, "offsetd_backup_failures_total") >= 2, SECONDS_MAX, server)
        poll(lambda: metric(server, "offsetd_backup_last_failed") == 1, SECONDS_MAX, server)
        failed = server.wait_for_event("a backup failed; it is tried again")
        assert str(target) in failed["error"]
        target.unlink()
        (tmp_path / "kept").rename(target)
        made = metric(server, "offsetd_backups_total")
        poll(lambda: metric(server, "offsetd_backups_total") > made, SECONDS_MAX, server)
        assert server.stop() == 0


@promised(
    "If the last backup is not at the target any more, the next one fails, since a disk may not be"
    " mounted"
)
def test_a_target_that_vanishes_is_not_made_anew(tmp_path: Path) -> None:
    target = tmp_path / "backups"
    settings = {"backup.target": target, "backup.interval.ms": 1000}
    with ServerProcess(tmp_path / "source", settings=settings) as server:
        server.wait_until_serving()
        poll(lambda: metric(server, "offsetd_backups_total") >= 1, SECONDS_MAX, server)
        target.rename(tmp_path / "unmounted")
        poll(lambda: metric(server, "offsetd_backup_failures_total") >= 2, SECONDS_MAX, server)
        assert "is not there any more" in server.log
        # A backup that was being written then may have left its folder.
        shutil.rmtree(target, ignore_errors=True)
        (tmp_path / "unmounted").rename(target)
        made = metric(server, "offsetd_backups_total")
        poll(lambda: metric(server, "offsetd_backups_total") > made, SECONDS_MAX, server)
        assert server.stop() == 0


@promised(
    "A target without any backup is an error, so that a wrong path or a missing disk is noticed."
)
def test_a_target_without_backups_is_an_error(tmp_path: Path) -> None:
    for arguments in (("list",), ("verify",), ("prune", "--keep", "1", "--execute")):
        name, *others = arguments
        ended = command("", name, tmp_path / "nothing", *others)
        assert "has no backup" in done(ended, code=1)
    assert not (tmp_path / "nothing").exists()


@promised("A time without a zone is in UTC.")
def test_a_time_is_in_utc_unless_it_has_a_zone(server: ServerProcess, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    done(command(server.address, "create", target))
    for given in ("2100-01-01T10:00", "2100-01-01T11:00+01:00"):
        restoring = command(
            "", "restore", target, "--data-dir", tmp_path / "restored", "--to-datetime", given
        )
        assert "no backup reaches to 2100-01-01T10:00:00" in done(restoring, code=2)
    assert "UTC, unless it has a zone" in " ".join(backup_help("restore").split())


@promised(
    "If a backup has not ended, it says so, and until when that stops `prune`.",
    "a restore of the newest names the newest backup with a readable manifest instead",
)
def test_what_stops_a_prune_or_a_restore_says_what_to_do(
    server: ServerProcess, tmp_path: Path
) -> None:
    target, folder = tmp_path / "backups", tmp_path / "restored"
    [old] = done(command(server.address, "create", target))
    [new] = done(command(server.address, "create", target))
    (target / "running").mkdir(exist_ok=True)
    mark = target / "running" / "backup-killed"
    mark.write_text(str(int(datetime(2100, 1, 1, 9, tzinfo=UTC).timestamp() * 1000)))
    told = command("", "prune", target, "--keep", "1").communicate()[1]
    assert "a backup that began at 2100-01-01T09:00:00" in told
    assert "or until 2100-01-02T09:00:00" in told
    assert mark.exists()
    mark.unlink()
    manifest = f"manifests/{new['backup']}.json"
    (target / manifest).write_text("not a manifest")
    told = done(command("", "restore", target, "--data-dir", folder), code=1)
    assert f"take another one: --backup {old['backup']}" in told
    told = done(command("", "prune", target, "--keep", "1"), code=1)
    assert f"remove {manifest} of" in told
    (target / manifest).unlink()
    done(command("", "prune", target, "--keep", "1", "--execute"))
    done(command("", "restore", target, "--data-dir", folder))


# Commands -----------------------------------------------------------------------------------------


@promised(
    "Offsets that the backup does not have stay.",
    "A group with members, or with a lease that is held, is refused.",
    "your own `--reason` comes behind it, if both have room (1,024 UTF-16 units); otherwise nothing"
    " is done.",
)
def test_a_group_is_brought_back_to_a_running_server(server: ServerProcess, tmp_path: Path) -> None:
    target = tmp_path / "backups"
    with OffsetClient(server.address) as client:
        client.commit("billing", {ORDERS: OffsetToCommit(5, metadata="m", leader_epoch=3)})
        done(command(server.address, "create", target))
        client.commit("billing", {ORDERS: 9, TopicPartition("new", 0): 1})
        group = ("restore", target, "--group", "billing")
        [shown] = done(command(server.address, *group))
        assert (shown["offset"], shown["new_offset"]) == (9, 5)
        assert client.fetch("billing")[ORDERS].offset == 9
        [made] = done(command(server.address, *group, "--execute"))
        assert (made["group"], made["offsets"]) == ("billing", 1)
        [listed] = done(command("", "list", target))
        event = list(client.list_audit_events(methods=["ImportOffsets"]))[-1]
        assert event.reason == f"backup {listed['backup']}"
        before = f"backup {listed['backup']}: "
        long = "é" * (1024 - len(before) - 2) + "😀"  # It has two UTF-16 units.
        told = done(command(server.address, *group, "--reason", long + "x"), code=2)
        assert f"at most {1024 - len(before)} fit behind" in told.replace("\n", " ")
        done(command(server.address, *group, "--execute", "--reason", long))
        events = client.list_audit_events(methods=["ImportOffsets"])
        assert before + long in [each.reason for each in events]
        stored = client.fetch("billing")
        assert (stored[ORDERS].offset, stored[ORDERS].metadata) == (5, "m")
        assert stored[ORDERS].leader_epoch == 3
        assert stored[TopicPartition("new", 0)].offset == 1  # The backup does not have it.
        client.commit("held", {ORDERS: 1})
        done(command(server.address, "create", target))
        client.acquire_group("held", "one", ttl=HOUR)
        both = done(command(server.address, *group, "--group", "held", "--execute"), code=3)
        assert "LEASE_HELD" in both
    told = done(command(server.address, "restore", target, "--group", "other"), code=1)
    assert "has no offsets of other" in told


@promised(
    "This takes the first backup after that time, and ends each log before its first later record.",
)
def test_a_point_in_time_is_restored_from_the_first_backup_after_it(
    server: ServerProcess, tmp_path: Path
) -> None:
    target = tmp_path / "backups"
    with OffsetClient(server.address) as client:
        client.commit("timed", {ORDERS: 1})
        time.sleep(0.01)
        client.commit("timed", {ORDERS: 2})
        between = client.fetch("timed")[ORDERS].commit_time
        time.sleep(0.01)
        client.commit("timed", {ORDERS: 3})
        [first] = done(command(server.address, "create", target))
        done(command(server.address, "create", target))
    at = ("restore", target, "--to-datetime", between.isoformat())
    rows = done(command("", *at, "--data-dir", tmp_path / "restored"))
    assert rows
    assert offsets_in(tmp_path / "restored")["timed"] == {ORDERS: 2}
    shown = done(command(server.address, *at, "--group", "timed"))
    assert [each["new_offset"] for each in shown] == [2]
    future = (
        "restore",
        target,
        "--to-datetime",
        "2199-01-01T00:00:00",
        "--data-dir",
        tmp_path / "x",
    )
    assert "no backup reaches to 2199-01-01" in done(command("", *future), code=2)
    assert not (tmp_path / "x").exists()
    assert first["backup"] < done(command("", "list", target))[-1]["backup"]


@promised(
    "A server makes one backup at a time: another one is refused with `POLICY_VIOLATION`.",
)
def test_a_second_backup_at_the_same_time_is_refused(server: ServerProcess) -> None:
    with OffsetClient(server.address) as client:
        for number in range(40):
            offset = OffsetToCommit(number, metadata="m" * 4000)
            client.commit(f"long {number}", {ORDERS: offset})
        [(head, chunks)] = client.stream_backups(bytes_per_second_max=65_536)
        assert head.moment_ms
        with pytest.raises(PolicyViolation, match="is making a backup already"):
            client.stream_backups()
        chunks.cancel()  # Its files are let go, so that the next one can begin.
        poll(lambda: begins(client), SECONDS_MAX, server)


def begins(client: OffsetClient) -> bool:
    try:
        client.stream_backups()
    except PolicyViolation:
        return False
    return True
