"""Groups that are brought back from a backup, and times that a backup does not have."""

from __future__ import annotations

import json
import shlex
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from cli_calls import offsetd_of
from offsetd_clients import OffsetClient, TopicPartition
from promised import promised_by
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cli_calls import Ended

pytestmark = pytest.mark.single_server
promised = promised_by("docs/guides/backup.md")

ORDERS = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"offsets.topic.num.partitions": 4}
    with ServerProcess(tmp_path_factory.mktemp("data"), settings=settings) as process:
        yield process.wait_until_serving()
        process.stop_well()


@pytest.fixture
def offsetd(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    return offsetd_of(server.address, monkeypatch)


@promised(
    "A group that the server does not have gets its retention back, too; a group that it has keeps"
    " its own.",
    "as `ImportOffsets` with the reason `backup ID` (a retention as `UpdateGroup`)",
)
def test_a_deleted_group_gets_its_retention_back(
    server: ServerProcess, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    target = tmp_path / "backups"
    kept = {"month": timedelta(days=30), "ever": "never", "plain": None, "changed": "never"}
    with OffsetClient(server.address) as client:
        for group, retention in kept.items():
            client.commit(group, {ORDERS: 5})
            if retention is not None:
                client.update_group(group, retention=retention)
        assert offsetd("backup", "create", target).code == 0
        for group in ("month", "ever", "plain"):
            client.delete_group(group)
        client.update_group("changed", retention=timedelta(days=1))
        asked = ["backup", "restore", target, *(f"--group={each}" for each in kept)]
        shown = offsetd(*asked)
        assert shown.code == 0, shown.stderr
        assert "group month: would get its retention back: 30d" in shown.stderr
        assert not {"month", "ever"} & {each.group_id for each in client.list_groups()}
        done = offsetd(*asked, "--execute")
        assert done.code == 0, done.stderr
        assert "group ever: gets its retention back: never" in done.stderr
        assert {each: client.get_group(each).retention for each in kept} == {
            **kept,
            "changed": timedelta(days=1),
        }
        assert client.fetch("month")[ORDERS].offset == 5
        updates = [each for each in client.list_audit_events() if each.method == "UpdateGroup"]
        assert [each.reason[:7] for each in updates].count("backup ") == 2


@promised(
    "So is a group of which the backup has no offsets at that time. Such a group does not stop the"
    " others; the command names it, and ends with 3.",
)
def test_a_group_that_is_not_in_the_backup_does_not_stop_the_others(
    server: ServerProcess, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    target = tmp_path / "backups"
    with OffsetClient(server.address) as client:
        client.commit("known", {ORDERS: 5})
        assert offsetd("backup", "create", target).code == 0
        client.commit("known", {ORDERS: 9})
        ended = offsetd(
            "backup", "restore", target, "--group=none", "--group=known", "--execute", "-o", "json"
        )
        assert ended.code == 3
        assert [each["group"] for each in json.loads(ended.stdout)] == ["known"]
        assert "group none: backup " in ended.stderr
        assert "choose another state with --backup or --to-datetime" in ended.stderr
        assert client.fetch("known")[ORDERS].offset == 5
        assert offsetd("backup", "restore", target, "--group=none", "--execute").code == 1


@promised("A dry run prints the command with the `--backup` that it chose")
def test_the_printed_command_restores_what_the_dry_run_showed(
    server: ServerProcess, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    target = tmp_path / "backups"
    with OffsetClient(server.address) as client:
        client.commit("shown", {ORDERS: 5})
        assert offsetd("backup", "create", target).code == 0
        shown = offsetd("backup", "restore", target, "--group", "shown")
        client.commit("shown", {ORDERS: 9})
        assert offsetd("backup", "create", target).code == 0
        line = shlex.split(shown.stderr.splitlines()[-1])
        assert "--backup" in line
        done = offsetd(*line[line.index("backup") :])
        assert done.code == 0, done.stderr
        assert client.fetch("shown")[ORDERS].offset == 5


@promised("**Nothing expires for 24 hours.** The reason that is shown is `long_stop`.")
def test_after_a_restore_nothing_expires_for_a_while(
    server: ServerProcess, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    target, folder = tmp_path / "backups", tmp_path / "restored"
    with OffsetClient(server.address) as client:
        client.commit("known", {ORDERS: 5})
    assert offsetd("backup", "create", target).code == 0
    assert offsetd("backup", "restore", target, "--data-dir", folder).code == 0
    with ServerProcess(folder, settings={"offsets.topic.num.partitions": 4}) as restored:
        restored.wait_until_serving()
        with OffsetClient(restored.address) as client:
            suspension = client.get_server_info().expiry_suspension
        restored.stop_well()
    assert suspension is not None
    assert suspension.reason == "long_stop"


@promised("A time before the first record is refused too.")
def test_a_time_before_all_data_is_refused(
    server: ServerProcess, offsetd: Callable[..., Ended], tmp_path: Path
) -> None:
    target, folder = tmp_path / "backups", tmp_path / "restored"
    with OffsetClient(server.address) as client:
        client.commit("known", {ORDERS: 5})
    assert offsetd("backup", "create", target).code == 0
    before = ("--to-datetime", "2001-01-01T00:00")
    for asked in (("--data-dir", folder), ("--group", "known", "--execute")):
        ended = offsetd("backup", "restore", target, *before, *asked)
        assert ended.code == 2
        assert "there was nothing yet at 2001-01-01T00:00:00" in ended.stderr
        assert "this backup has all states from 20" in ended.stderr
    assert not folder.exists()


def test_empty_values_are_refused(
    offsetd: Callable[..., Ended],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    target = tmp_path / "backups"
    assert offsetd("backup", "create", target).code == 0
    for command in (
        ("backup", "restore", target, "--data-dir", ""),
        ("backup", "restore", target, "--data-dir", "new", "--backup", ""),
        ("doctor", "--data-dir", ""),
        ("log", "verify", "--data-dir", ""),
        ("log", "repair", "--data-dir", "", "--execute"),
        ("cluster", "export", "--data-dir", "", "--bootstrap-servers", "127.0.0.1:1"),
        ("serve", "--data-dir", ""),
    ):
        ended = offsetd(*command)
        assert ended.code == 2, command
        assert "it is empty: " in ended.stderr + capfd.readouterr().err, command
    assert not list(empty.iterdir())
