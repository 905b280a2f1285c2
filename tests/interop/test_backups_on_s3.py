"""Backups in an object store: a server that speaks S3 (moto's), reached through fsspec and s3fs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from backups import back_up, restore
from log_stores import P0, commit, contents, opened
from offsetd_clients import OffsetClient, TopicPartition
from offsetd_coordinator.offline.copied_offsets import read_groups
from offsetd_storage.backups.backup_check import chunk_problems
from offsetd_storage.backups.backup_errors import TargetFailed
from offsetd_storage.backups.repository import Repository
from offsetd_storage.backups.targets import target_of
from offsetd_storage.disk.simulated_files import SimulatedFiles
from partition_logs import NOW_MS
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("s3fs")
moto_server = pytest.importorskip("moto.server")

pytestmark = pytest.mark.single_server

BUCKET = "offsets"
SECONDS_MAX = 240
ORDERS = TopicPartition("orders", 0)
_COMMAND = "from offsetd_clients.cli.main import main; main()"


@pytest.fixture(scope="module")
def environment() -> Iterator[dict[str, str]]:
    """What leads to the store, for this process and for others. The store has one bucket."""
    import boto3

    store = moto_server.ThreadedMotoServer(port=0)
    store.start()
    host, port = store.get_host_and_port()
    values = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield values
    store.stop()


def backup(environment: dict[str, str], *arguments: str) -> Any:
    """What `offsetd backup` prints."""
    ended = subprocess.run(
        [sys.executable, "-c", _COMMAND, "backup", *arguments, "-o", "json"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout or "null")


def test_a_store_is_backed_up_pruned_and_restored(environment: dict[str, str]) -> None:
    files = SimulatedFiles()
    store = opened(files)
    for _ in range(20):
        commit(store, P0)
    repository = Repository(target_of(f"s3://{BUCKET}/of-a-store"))
    back_up(store, repository)
    commit(store, P0)
    written = back_up(store, repository, moment_ms=NOW_MS + 1)
    assert written.new_bytes < written.manifest.size_bytes
    repository.put_chunk("0" * 64, b"of a backup that was broken off")
    pruned = repository.prune(1, now_ms=NOW_MS)
    assert "0" * 64 in pruned.chunks
    assert repository.backup_ids() == [written.backup_id]
    assert not list(chunk_problems(repository, written.manifest, checked=set()))
    restored = restore(files, repository, repository.manifest(written.backup_id))
    assert contents(restored) == contents(store)
    [digest] = [min(written.manifest.digests)]
    repository.put_chunk(digest, b"damaged")
    [found] = chunk_problems(repository, written.manifest, checked=set())
    assert "differs from its checksum" in found.problem


def test_a_bucket_that_does_not_exist_is_told(environment: dict[str, str]) -> None:
    target = target_of("s3://nowhere/prefix")
    with pytest.raises(TargetFailed, match="s3://nowhere/prefix"):
        target.put("chunks/0a/x", b"1")


def test_a_server_backs_itself_up_and_a_command_restores_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    url = f"s3://{BUCKET}/of-a-server"
    settings = {
        "offsets.topic.num.partitions": 2,
        "backup.target": url,
        "backup.interval.ms": 1000,
        "backup.keep": 2,
    }
    with ServerProcess(tmp_path / "source", settings=settings, environment=environment) as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            client.commit("billing", {ORDERS: 7})
        before = len([each for each in server.events if each["event"] == "backup made"])
        poll(
            lambda: (
                len([each for each in server.events if each["event"] == "backup made"]) > before + 1
            ),
            SECONDS_MAX,
            server,
        )
        server.stop_well()
    assert not backup(environment, "verify", url)
    backup(environment, "restore", url, "--data-dir", str(tmp_path / "restored"))
    notes: list[str] = []
    [group] = read_groups([tmp_path / "restored"], problem=notes.append, note=notes.append)
    assert [each.offset for each in group.offsets] == [7]
