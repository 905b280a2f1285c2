"""`offsetd log clean` on the folder of a real server that was stopped, and starts again."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from offsetd.v1 import offset_service_pb2, types_pb2
from server_process import ServerProcess, Stubs

if TYPE_CHECKING:
    from pathlib import Path

SETTINGS = {"offsets.topic.num.partitions": 4, "internal.offsets.topic.segment.bytes": 65536}
GROUPS = [f"group-{number}" for number in range(12)]
ROUNDS = 40
COMMAND_SECONDS_MAX = 240


def log_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = "from offsetd_clients.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", command, "log", *arguments, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )


def overwrite(stubs: Stubs) -> None:
    """Every group commits the same offsets again and again; one of each is deleted then."""
    for value in range(ROUNDS):
        for group_id in GROUPS:
            offsets = [
                offset_service_pb2.OffsetCommit(
                    topic="orders", partition=each, offset=value, metadata=f"{group_id} {value}"
                )
                for each in range(3)
            ]
            stubs.offsets.CommitOffsets(
                offset_service_pb2.CommitOffsetsRequest(group_id=group_id, offsets=offsets)
            )
    for group_id in GROUPS:
        stubs.offsets.DeleteOffsets(
            offset_service_pb2.DeleteOffsetsRequest(
                group_id=group_id,
                partitions=[types_pb2.TopicPartition(topic="orders", partition=2)],
            )
        )


def answers(stubs: Stubs) -> list[Any]:
    """All that is stored, with revisions, times and metadata."""
    selections = [offset_service_pb2.GroupSelection(group_id=each) for each in GROUPS]
    response = stubs.offsets.FetchOffsets(offset_service_pb2.FetchOffsetsRequest(groups=selections))
    return list(response.groups)


def states(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, b"" if path.is_dir() else path.read_bytes())
        for path in (folder, *folder.rglob("*"))
    }


def log_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("__consumer_offsets-*/*.log"))


def test_a_stopped_servers_log_is_compacted_and_answers_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "offsets"
    asked = ("clean", "--data-dir", str(folder), "--roll-active")
    at_once = (*asked, "--set", "request.id.window.ms=0", "--set", "history.ms=0")
    with ServerProcess(folder, settings=SETTINGS) as server:
        server.wait_until_serving()
        with server.channel() as channel:
            overwrite(Stubs(channel))
            said = answers(Stubs(channel))
        beside = log_command(*asked)
        assert beside.returncode == 1
        assert beside.stderr.startswith("error: ")
        assert "is in use by another process" in beside.stderr
        assert server.stop() == 0
    size = log_bytes(folder)

    early = log_command(*asked)
    assert early.returncode == 0
    assert "records stay for 3600000 ms (history.ms)" in early.stderr
    assert log_bytes(folder) == size
    before = states(folder)

    dry = log_command(*at_once, "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert states(folder) == before

    done = log_command(*at_once)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert rows == json.loads(dry.stdout)
    assert sum(row["bytes_before"] for row in rows) == size
    assert sum(row["bytes_after"] for row in rows) == log_bytes(folder)
    assert log_bytes(folder) < size / 5
    assert log_command("verify", "--data-dir", str(folder)).returncode == 0

    with ServerProcess(folder, settings=SETTINGS) as server:
        server.wait_until_serving()
        with server.channel() as channel:
            assert answers(Stubs(channel)) == said
            overwrite(Stubs(channel))
        assert server.stop() == 0
    assert log_command("verify", "--data-dir", str(folder)).returncode == 0
