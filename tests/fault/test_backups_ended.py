"""`offsetd backup` that a signal ends, and restores of what is damaged, or is in use."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from backup_commands import SECONDS_MAX, command, done
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_storage.offsets_topic.placement import partition_of
from promised import promised_by
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.single_server
promised = promised_by("docs/guides/backup.md")
told_of_codes = promised_by("docs/reference/command-line.md")

ORDERS = TopicPartition("orders", 0)
PARTITIONS = 4
SETTINGS = {"offsets.topic.num.partitions": PARTITIONS}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("data"), settings=SETTINGS) as process:
        process.wait_until_serving()
        with OffsetClient(process.address) as client:
            for number in range(40):
                long = OffsetToCommit(number, metadata="m" * 4000)
                client.commit(f"long {number}", {ORDERS: long})
        yield process
        process.stop_well()


def begun(server: ServerProcess, target: Path) -> Any:
    """A slow backup that has put its mark and has written chunks."""
    making = command(server.address, "create", target, "--max-bytes-per-second", "65536")
    poll(lambda: any(target.glob("running/backup-*")), SECONDS_MAX)
    poll(lambda: any(target.glob("chunks/*/*")), SECONDS_MAX)
    return making


@promised("SIGTERM and Ctrl-C end `create` in good order: no mark stays behind.")
@told_of_codes("On SIGTERM the commands end with 143, and on Ctrl-C with 130")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_backup_without_a_mark(
    server: ServerProcess, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    target = tmp_path / "backups"
    making = begun(server, target)
    making.send_signal(number)
    assert "Traceback" not in done(making, code=code)
    assert not list(target.glob("running/*"))
    [made] = done(command(server.address, "create", target))
    assert made["new_bytes"] < made["bytes"]
    assert not done(command("", "verify", target))


@promised("the next one uses what it has written")
def test_a_backup_after_a_killed_one_writes_only_what_is_missing(
    server: ServerProcess, tmp_path: Path
) -> None:
    target = tmp_path / "backups"
    making = begun(server, target)
    making.kill()
    making.communicate()
    [made] = done(command(server.address, "create", target))
    assert made["new_bytes"] < made["bytes"]
    assert not list(target.glob("chunks/*/*.unfinished"))
    assert not done(command("", "verify", target))


def damaged_log(target: Path, backup: str, group: str) -> None:
    """Removes one chunk of the log of a group."""
    text = (target / "manifests" / f"{backup}.json").read_text().splitlines()[0]
    partition = partition_of(group, PARTITIONS)
    [log] = [
        each
        for each in json.loads(text)["logs"]
        if (each["topic"], each["partition"]) == ("__consumer_offsets", partition)
    ]
    [*_, digest] = [digest for each in log["segments"] for digest in each["sha256"]]
    (target / "chunks" / digest[:2] / digest).unlink()


@promised(
    "Only the log partitions of these groups are read: damage elsewhere in the backup does not"
    " stop it."
)
def test_damage_in_other_partitions_does_not_stop_the_restore_of_a_group(
    server: ServerProcess, tmp_path: Path
) -> None:
    target = tmp_path / "backups"
    names = ["whole", *(f"damaged {number}" for number in range(20))]
    other = next(
        each
        for each in names
        if partition_of(each, PARTITIONS) != partition_of("whole", PARTITIONS)
    )
    with OffsetClient(server.address) as client:
        client.commit("whole", {ORDERS: 5})
        client.commit(other, {ORDERS: 5})
        at = client.fetch("whole")[ORDERS].commit_time
        time.sleep(0.01)
        client.commit("whole", {ORDERS: 6})
    [made] = done(command(server.address, "create", target))
    damaged_log(target, made["backup"], other)
    [row] = done(command(server.address, "restore", target, "--group", "whole"))
    assert row["new_offset"] == 6
    timed = ("restore", target, "--group", "whole", "--to-datetime", at.isoformat())
    [row] = done(command(server.address, *timed))
    assert row["new_offset"] == 5
    told = done(command(server.address, "restore", target, "--group", other), code=1)
    assert "is missing" in told
    done(command("", "restore", target, "--data-dir", tmp_path / "restored"), code=1)


@told_of_codes("`prune --execute`: a backup goes on", "there is no backup", "the disk has no room")
def test_what_is_in_the_way_is_a_failure_and_not_wrong_use(
    server: ServerProcess, tmp_path: Path
) -> None:
    target = tmp_path / "backups"
    done(command(server.address, "create", target))
    (target / "running" / "backup-other").write_text(str(time.time_ns() // 1_000_000))
    told = done(command("", "prune", target, "--keep", "1", "--execute"), code=1)
    assert "a backup goes on" in told
    nothing = tmp_path / "nothing"
    for arguments in (("--data-dir", tmp_path / "restored"), ("--group", "whole")):
        assert "has no backup" in done(command("", "restore", nothing, *arguments), code=1)
    unknown = ("restore", target, "--backup", "20261128T101500.000Z-0a1b2c3d", "--data-dir")
    assert "has no backup 2026" in done(command("", *unknown, tmp_path / "restored"), code=2)
    assert not (tmp_path / "restored").exists()


@promised(
    "A folder that a server or another restore has is refused, and so is one within the target.",
    "another one is refused and not changed",
)
def test_a_restore_is_alone_in_its_folder(server: ServerProcess, tmp_path: Path) -> None:
    target, folder = tmp_path / "backups", tmp_path / "restored"
    done(command(server.address, "create", target))
    both = [command("", "restore", target, "--data-dir", folder) for _ in range(2)]
    told = [each.communicate(timeout=SECONDS_MAX)[1] for each in both]
    assert sorted(each.returncode for each in both) == [0, 1], told
    assert any("is in use by another process" in each or "is not empty" in each for each in told)
    within = ("restore", target, "--data-dir", target / "restored")
    assert "where the backups are" in done(command("", *within), code=2)
    assert not (target / "restored").exists()
    with ServerProcess(folder) as restored:
        restored.wait_until_serving()
        (folder / "offsetd.restoring").touch()  # As if a restore had not ended there.
        again = ("restore", target, "--data-dir", folder)
        assert "is in use by another process" in done(command("", *again), code=1)
        (folder / "offsetd.restoring").unlink()
        restored.stop_well()


@promised(
    "The run removes what the first one wrote, and refuses the folder if anything else is in it."
)
def test_a_folder_that_a_killed_restore_left_is_not_emptied_of_other_files(
    server: ServerProcess, tmp_path: Path
) -> None:
    target, folder = tmp_path / "backups", tmp_path / "restored"
    done(command(server.address, "create", target))
    folder.mkdir()
    (folder / "offsetd.restoring").touch()
    (folder / "notes.txt").write_text("mine")
    restore = ("restore", target, "--data-dir", folder)
    assert "notes.txt is not from it" in done(command("", *restore), code=1)
    assert (folder / "notes.txt").read_text() == "mine"
    (folder / "notes.txt").unlink()
    done(command("", *restore))
