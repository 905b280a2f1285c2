"""Disks that fail, fill up or lose their power under the real server."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import time
from typing import TYPE_CHECKING

import grpc
import pytest
from chance import seed_of
from commit_history import GroupHistory, History, Writers, read_group
from ext4_volumes import fill, mounted_ext4
from offsetd.v1 import group_service_pb2, offset_service_pb2
from refusals import details
from server_process import ServerProcess, Stubs, poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.long(minutes=2)

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
POWER_CUTS = int(os.environ.get("OFFSETD_TEST_POWER_CUTS", "50" if NIGHTLY else "5"))
WAIT_SECONDS = 60
COMMITS_MAX = 1000
# Small, so that segments roll, recovery points move and the journal turns over within the test.
SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "internal.offsets.topic.segment.bytes": 16_384,
    "journal.file.bytes": 262_144,
    "max.message.bytes": 65_536,
    "log.initial.task.delay.ms": 0,
    "log.flush.offset.checkpoint.interval.ms": 20,
}


def commit_until_refused(stubs: Stubs, history: History, group_id: str) -> grpc.RpcError | None:
    """Commits one after the other until one fails; None if all `COMMITS_MAX` went through."""
    history.groups.setdefault(group_id, GroupHistory(partitions=3))
    for _ in range(COMMITS_MAX):
        value = history.next_value(group_id)
        offsets = [
            offset_service_pb2.OffsetCommit(topic="orders", partition=partition, offset=value)
            for partition in range(3)
        ]
        request = offset_service_pb2.CommitOffsetsRequest(group_id=group_id, offsets=offsets)
        try:
            response = stubs.offsets.CommitOffsets(request, timeout=WAIT_SECONDS)
        except grpc.RpcError as error:
            return error
        history.note_acknowledged(group_id, value, response.revision.log_offset)
    return None


# Which call of each thread fails. Some hit the start, which then fails; most hit the commits.
FAILING_CALLS = [
    ("fdatasync", 1),
    ("fdatasync", 5),
    ("fdatasync", 200),
    ("fsync", 3),
    ("pwritev2", 1),
    ("pwritev2", 400),
]
if NIGHTLY:
    FAILING_CALLS += [
        (calls, when)
        for calls in ("fdatasync", "fsync", "pwritev2", "fallocate", "ftruncate", "rename")
        for when in (2, 3, 4, 8, 16, 32, 64, 128)
    ]


# fsync errors ------------------------------------------------------------------------------


def injecting(calls: str, when: int) -> list[str]:
    """A wrapper that fails the `when`th of these system calls of each thread with EIO."""
    traced = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}"]
    return [*traced, "-e", f"inject={calls}:error=EIO:when={when}"]


def can_strace() -> bool:
    """Whether processes may be traced here at all."""
    command = [*injecting("fdatasync", 1), "true"]
    return (
        shutil.which("strace") is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(not can_strace(), reason="needs strace and the right to trace")
@pytest.mark.parametrize(("calls", "when"), FAILING_CALLS)
def test_after_an_error_of_the_disk_nothing_is_acknowledged_and_the_process_ends(
    tmp_path: Path, calls: str, when: int
) -> None:
    history = History(tmp_path / "acknowledged.jsonl")
    with ServerProcess(tmp_path / "data", settings=SETTINGS) as server:
        server.wait_until_serving()
        with server.channel() as channel:
            commit_some(stubs=Stubs(channel), history=history, count=20)
        server.kill()  # So that the next start has something to recover.
    with ServerProcess(
        tmp_path / "data", settings=SETTINGS, wrapper=injecting(calls, when)
    ) as server:
        poll(lambda: server.process.poll() is not None or "serving" in server.log, 240, server)
        failed = server.process.poll() is not None
        if not failed:
            with server.channel() as channel:
                error = commit_until_refused(Stubs(channel), history, "g")
            failed = error is not None
            if error is not None:
                assert error.code() == grpc.StatusCode.UNAVAILABLE
                assert details(error)[1] in ("STORAGE_FAILED", "")
        if failed:
            assert server.wait_for_exit() == 1, server.log
            assert "Traceback" not in server.log
        # Else there were not so many such calls, and nothing failed.
    with ServerProcess(tmp_path / "data", settings=SETTINGS) as server:
        server.wait_until_serving()
        with server.channel() as channel:
            history.check(Stubs(channel))
            assert commit_until_refused(Stubs(channel), history, "after") is None
            history.check(Stubs(channel))


def commit_some(*, stubs: Stubs, history: History, count: int) -> None:
    """A few commits that have to go through."""
    for number in range(count):
        group_id = f"before-{number % 5}"
        history.groups.setdefault(group_id, GroupHistory(partitions=1))
        value = history.next_value(group_id)
        offset = offset_service_pb2.OffsetCommit(topic="orders", partition=0, offset=value)
        response = stubs.offsets.CommitOffsets(
            offset_service_pb2.CommitOffsetsRequest(group_id=group_id, offsets=[offset])
        )
        history.note_acknowledged(group_id, value, response.revision.log_offset)


# A full disk -------------------------------------------------------------------------------


@contextlib.contextmanager
def small_tmpfs(folder: Path, size_bytes: int) -> Iterator[Path]:
    """A file system of that size. Skips the test where it cannot be had."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs the right to mount: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.root
@pytest.mark.parametrize("file_system", ["tmpfs", "ext4"])
def test_a_full_disk_refuses_commits_and_serves_the_rest_until_there_is_room(
    tmp_path: Path, file_system: str
) -> None:
    history = History(tmp_path / "acknowledged.jsonl")
    with contextlib.ExitStack() as stack:
        if file_system == "tmpfs":
            disk = stack.enter_context(small_tmpfs(tmp_path / "disk", 8 << 20))
        else:
            disk = stack.enter_context(mounted_ext4(tmp_path, size_bytes=16 << 20)).folder
        folder = disk / "data"
        with ServerProcess(folder, settings=SETTINGS) as server:
            server.wait_until_serving()
            with server.channel() as channel:
                stubs = Stubs(channel)
                commit_some(stubs=stubs, history=history, count=10)
                fill(disk / "filler")
                error = commit_until_refused(stubs, history, "g")
                assert error is not None, "the disk did not get full"
                assert details(error) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "DISK_FULL", [])
                history.check(stubs)
                listed = stubs.groups.ListGroups(group_service_pb2.ListGroupsRequest())
                assert len(listed.groups) == len(history.groups)
                (disk / "filler").unlink()
                # The disk is looked at once a second.
                poll(lambda: commit_until_refused(stubs, history, "g") is None, WAIT_SECONDS)
                history.check(stubs)
            assert server.stop() == 0, server.log
        with ServerProcess(folder, settings=SETTINGS) as server:
            server.wait_until_serving()
            with server.channel() as channel:
                history.check(Stubs(channel))
            assert server.stop() == 0, server.log


# A power cut -------------------------------------------------------------------------------


@pytest.mark.root
def test_a_power_cut_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    seed = seed_of()
    print(f"seed {seed}, {POWER_CUTS} power cuts")
    rng = random.Random(seed)
    history = History(tmp_path / "acknowledged.jsonl")
    with mounted_ext4(tmp_path) as volume:
        folder = volume.folder / "data"
        for _ in range(POWER_CUTS):
            with ServerProcess(folder, settings=SETTINGS) as server:
                server.wait_until_serving()
                channels = [server.channel() for _ in range(4)]
                history.check(Stubs(channels[0]))
                writers = Writers(history, [Stubs(each) for each in channels], partitions=3)
                time.sleep(rng.uniform(0.05, 0.6))
                volume.shut_down()
                writers.stop()
                # They may have ended between two commits: a server notices when it writes.
                assert commit_until_refused(Stubs(channels[0]), history, "last") is not None
                for channel in channels:
                    channel.close()
                assert server.wait_for_exit() == 1, server.log
                codes = {end.code() for end in writers.ends}
                assert codes <= {grpc.StatusCode.UNAVAILABLE}
            volume.unmount()
            volume.mount()
        with ServerProcess(folder, settings=SETTINGS) as server:
            server.wait_until_serving()
            with server.channel() as channel:
                history.check(Stubs(channel))
                groups = [read_group(Stubs(channel), each) for each in history.groups]
            assert any(groups)
            assert server.stop() == 0
    assert history.acknowledgements > 10 * POWER_CUTS
