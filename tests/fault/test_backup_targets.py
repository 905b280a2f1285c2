"""Targets of backups that cannot be used: a server says so at its start, a command at once."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from backup_commands import SECONDS_MAX, command, done
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_storage.backups.manifest import digest_of
from ports import free_ports
from promised import promised_by
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.single_server
promised = promised_by("docs/guides/backup.md")
SETTINGS = {"offsets.topic.num.partitions": 2, "backup.interval.ms": 1000}


@promised(
    "A target that cannot be used until somebody acts stops the start of the server, with exit"
    " code 2:"
)
@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nowhere://b", "backup.target: nowhere://b: Protocol not known"),
        ("memory://b", "backup.target: memory://b is no target: nothing would be kept"),
        ("FOLDER/file", "is no target: it is not a folder"),
        ("FOLDER/file/b", "file is not a folder"),
        ("FOLDER/source/b", "keep backups elsewhere"),
    ],
)
def test_a_wrong_target_stops_the_start(tmp_path: Path, target: str, told: str) -> None:
    pytest.importorskip("fsspec")
    (tmp_path / "file").touch()
    (tmp_path / "source").mkdir()
    if "source" in target:
        with ServerProcess(tmp_path / "source") as server:
            server.wait_until_serving()
            server.stop_well()
    settings = {**SETTINGS, "backup.target": target.replace("FOLDER", str(tmp_path))}
    with ServerProcess(tmp_path / "source", settings=settings) as refused:
        assert refused.wait_for_exit() == 2
        assert told in refused.log
        assert "serving" not in [each["event"] for each in refused.events]


@promised("An object store that does not answer does not stop it")
def test_a_store_that_does_not_answer_does_not_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("s3fs")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_ports(1)[0]}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    settings = {**SETTINGS, "backup.target": "s3://bucket/offsetd"}
    with ServerProcess(tmp_path / "source", settings=settings) as server:
        server.wait_until_serving()
        poll(lambda: "a backup failed; it is tried again" in server.log, SECONDS_MAX, server)
        assert server.stop() == 0


@promised(
    "so `memory://` is refused",
    "a backup of a newer version of offsetd is not called damaged: upgrade offsetd to use it",
    "a backup that lacks parts does not count",
    "Only the user that makes a backup can read a folder's files",
)
def test_the_commands_say_what_is_wrong_with_a_target(tmp_path: Path) -> None:
    target = tmp_path / "backups"
    with ServerProcess(tmp_path / "source", settings=SETTINGS) as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            client.commit("billing", {TopicPartition("orders", 0): 1})
        told = done(command(server.address, "create", "memory://b"), code=1)
        assert "memory://b is no target: nothing would be kept" in told
        [old] = done(command(server.address, "create", target))
        [new] = done(command(server.address, "create", target))
        server.stop_well()
    assert target.stat().st_mode & 0o777 == 0o700
    assert {each.stat().st_mode & 0o777 for each in target.rglob("*.json")} == {0o600}
    file = tmp_path / "file"
    file.touch()
    assert "is no target: it is not a folder" in done(command("", "list", file), code=1)
    manifest = target / "manifests" / f"{new['backup']}.json"
    document = json.loads(manifest.read_text().splitlines()[0])
    body = json.dumps({**document, "format": 9}) + "\n"
    manifest.write_text(f"{body}{digest_of(body.encode())}\n")
    told = done(command("", "verify", target), code=1)
    assert "1 of 2 of a newer version: upgrade offsetd to check them" in told
    assert "damaged" not in told
    restoring = command("", "restore", target, "--data-dir", tmp_path / "restored")
    assert "upgrade offsetd to use this backup" in done(restoring, code=1)
    body = json.dumps(_with_a_lost_chunk(document)) + "\n"
    manifest.write_text(f"{body}{digest_of(body.encode())}\n")
    pruning = command("", "prune", target, "--keep", "1")
    rows = {each["backup"]: each["action"] for each in done(pruning)}
    assert rows == {old["backup"]: "keep", new["backup"]: "keep"}
    shown = command("", "prune", target, "--keep", "1").communicate()[1]
    assert f"{new['backup']}: not whole, so not counted by --keep" in shown


def _with_a_lost_chunk(document: dict[str, object]) -> dict[str, object]:
    text = json.dumps(document)
    digest = next(
        chunk
        for log in json.loads(text)["logs"]
        for segment in log["segments"]
        for chunk in segment["sha256"]
    )
    found: dict[str, object] = json.loads(text.replace(digest, "0" * 64))
    return found
