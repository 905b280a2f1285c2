"""`offsetd doctor` on real servers and folders: faults that are made, and none without one."""

from __future__ import annotations

import json
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cli_calls import offsetd_of
from ext4_volumes import fill, mounted_ext4
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_coordinator.expiry.uptime_marker import UptimeMarker, write_marker
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.offsets_topic.placement import partition_of
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable

P0 = TopicPartition("orders", 0)

# Where the tests' folder lies is not the server's fault.
OF_THE_MACHINE = {"machine", "file system", "disk", "huge pages"}


@pytest.fixture
def doctor(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Calls the command; returns its exit code, and what is wrong by check."""

    def call(*words: object, machine: bool = False) -> tuple[int, dict[str, list[dict[str, Any]]]]:
        ended = offsetd_of("127.0.0.1:1", monkeypatch)("doctor", "-o", "json", *map(str, words))
        wrong: dict[str, list[dict[str, Any]]] = {}
        for row in json.loads(ended.stdout):
            if row["grade"] != "ok" and (machine or row["check"] not in OF_THE_MACHINE):
                assert row["what"]
                assert row["remedy"]
                wrong.setdefault(row["check"], []).append(row)
        return ended.code, wrong

    return call


def test_a_server_that_is_well_has_no_finding_and_exits_with_0(
    tmp_path: Path, doctor: Callable[..., Any]
) -> None:
    with ServerProcess(tmp_path / "data") as process:
        process.wait_until_serving()
        metrics = process.wait_for_event("metrics served")["address"]
        with OffsetClient(process.address) as client:
            client.commit("g", {P0: OffsetToCommit(5, end_offset=9)})
        assert doctor("--address", process.address, "--metrics", metrics) == (0, {})
        code, wrong = doctor("--data-dir", tmp_path / "data")
        assert (code, list(wrong)) == (0, ["lock"])
        process.stop_well()
    assert doctor("--data-dir", tmp_path / "data") == (0, {})


def test_settings_and_limits_that_do_not_fit_are_told(
    tmp_path: Path, doctor: Callable[..., Any]
) -> None:
    settings = {
        "log.cleaner.enable": "false",
        "metrics.compatibility": "kafka_exporter",
        "request.id.window.ms": 1000,
    }
    with ServerProcess(tmp_path / "data", settings=settings) as process:
        process.wait_until_serving()
        metrics = process.wait_for_event("metrics served")["address"]
        code, wrong = doctor("--address", process.address, "--metrics", metrics)
        _, blind = doctor("--address", process.address, "--metrics", "127.0.0.1:1")
        used = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used + 4, used + 4))
        full, of_full = doctor("--address", process.address, "--metrics", metrics)
    assert code == 0
    assert {name: len(found) for name, found in wrong.items()} == {"cleaner": 1, "settings": 2}
    assert "metrics" in blind
    assert full == 1
    assert "descriptors are open" in of_full["descriptors"][0]["what"]


def test_a_damaged_log_partition_is_told_of_the_folder_and_of_the_server(
    tmp_path: Path, doctor: Callable[..., Any]
) -> None:
    folder = tmp_path / "data"
    with ServerProcess(folder) as process:
        with OffsetClient(process.wait_until_serving().address) as client:
            for offset in range(100):
                client.commit("g", {P0: offset})
        process.stop_well()
    partition = partition_of("g", 50)
    [segment] = (folder / f"__consumer_offsets-{partition}").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    with ServerProcess(folder) as process:
        process.wait_until_serving()
        metrics = process.wait_for_event("metrics served")["address"]
        code, wrong = doctor("--address", process.address, "--metrics", metrics)
        assert code == 1
        assert f"log partition {partition} is damaged" in wrong["log partitions"][0]["what"]
        process.stop()
    code, wrong = doctor("--data-dir", folder)
    assert code == 1
    assert list(wrong) == ["quarantine"]


def test_a_killed_server_and_a_clock_that_is_behind_are_told_of_the_folder(
    tmp_path: Path, doctor: Callable[..., Any]
) -> None:
    folder = tmp_path / "data"
    with ServerProcess(folder) as process:
        process.wait_until_serving()
        process.kill()
    future_ms = int(time.time() * 1000) + 3_600_000
    write_marker(OsFiles(), folder, UptimeMarker(up_ms=future_ms, grace_until_ms=0))
    code, wrong = doctor("--data-dir", folder)
    assert (code, sorted(wrong)) == (0, ["clock", "shutdown"])
    (folder / "offsetd.last-up").write_bytes(b"rot")
    assert "cannot be read" in doctor("--data-dir", folder)[1]["clock"][0]["what"]


def test_a_server_that_was_killed_before_its_start_says_so_until_its_next_clean_stop(
    tmp_path: Path, doctor: Callable[..., Any]
) -> None:
    for stopped_cleanly in (None, False, True):
        with ServerProcess(tmp_path / "data") as process:
            with OffsetClient(process.wait_until_serving().address) as client:
                assert client.get_server_info().stopped_cleanly is stopped_cleanly
            metrics = process.wait_for_event("metrics served")["address"]
            code, wrong = doctor("--address", process.address, "--metrics", metrics)
            assert code == 0
            assert list(wrong) == (["last stop"] if stopped_cleanly is False else [])
            if stopped_cleanly is None:
                process.kill()
            else:
                process.stop_well()


def test_a_folder_that_is_none_of_ours_is_told_and_is_not_changed(
    tmp_path: Path, doctor: Callable[..., Any]
) -> None:
    code, wrong = doctor("--data-dir", tmp_path)
    assert code == 1
    assert "is not a data folder" in wrong["folder"][0]["what"]
    assert not list(tmp_path.iterdir())


def test_a_full_disk_and_one_in_memory_are_told(tmp_path: Path, doctor: Callable[..., Any]) -> None:
    with mounted_ext4(tmp_path) as volume:
        folder = volume.folder / "data"
        folder.mkdir()
        _, wrong = doctor("--data-dir", folder, machine=True)
        assert not {"file system", "disk"} & set(wrong)
        fill(volume.folder / "ballast")
        _, wrong = doctor("--data-dir", folder, machine=True)
        assert "are free" in wrong["disk"][0]["what"]


def test_no_server_and_no_folder_are_failures(tmp_path: Path, doctor: Callable[..., Any]) -> None:
    assert doctor("--data-dir", "/proc")[1]["folder"]
    with pytest.raises(ValueError, match="Expecting value"):  # Nothing on standard output.
        doctor("--data-dir", tmp_path / "absent")
