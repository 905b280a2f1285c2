"""What a real server lets others see: metrics over HTTP, health of the cleaner, its reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from offsetd.v1 import offset_service_pb2
from scrapes import Scrape, rule_problems
from server_process import ServerProcess, Stubs, poll
from serving_nodes import commit_request

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import grpc

WAIT_SECONDS = 120
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
EAGER = {
    "internal.offsets.topic.segment.bytes": 65_536,
    "offsets.topic.num.partitions": 2,
    "request.id.window.ms": 0,
    "log.cleaner.backoff.ms": 50,
    "log.initial.task.delay.ms": 100,
    "log.flush.offset.checkpoint.interval.ms": 100,
    "file.delete.delay.ms": 0,
}


def health_of(channel: grpc.Channel, service: str) -> int:
    stub = health_pb2_grpc.HealthStub(channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_SECONDS)
    return int(answer.status)


def metrics_address(server: ServerProcess) -> str:
    return str(server.wait_for_event("metrics served")["address"])


def test_commits_show_in_the_next_scrape(tmp_path: Path) -> None:
    with ServerProcess(tmp_path).wait_until_serving() as server:
        before = Scrape.from_address(metrics_address(server))
        with server.channel() as channel:
            stubs = Stubs(channel)
            for value in range(5):
                stubs.offsets.CommitOffsets(commit_request("g", value, partitions=3))
            results = stubs.offsets.StreamCommits(
                iter(
                    [
                        offset_service_pb2.StreamCommitsRequest(
                            commits=[
                                offset_service_pb2.SequencedCommit(
                                    sequence=value, commit=commit_request("h", value)
                                )
                            ]
                        )
                        for value in range(7)
                    ]
                )
            )
            assert sum(len(response.results) for response in results) == 7
        address = metrics_address(server)
        delays = "offsetd_event_loop_delay_seconds_count"
        poll(lambda: Scrape.from_address(address).value(delays) > 0, WAIT_SECONDS)
        after = Scrape.from_address(address)
        assert server.stop() == 0
    assert list(rule_problems(after)) == []
    committed = {"method": "CommitOffsets", "code": "OK"}
    assert before.value("offsetd_rpcs_total", **committed) == 0
    assert after.value("offsetd_rpcs_total", **committed) == 5
    assert after.value("offsetd_rpc_duration_seconds_count", method="CommitOffsets") == 5
    assert after.value("offsetd_stream_results_total", code="OK") == 7
    offsets = "offsetd_offsets"
    assert sum(sample.value for sample in after.families[offsets].samples) == 4
    fsyncs = "offsetd_journal_fsync_duration_seconds_count"
    assert after.value(fsyncs) > before.value(fsyncs)
    assert after.value("offsetd_load_seconds") > 0
    assert after.value("offsetd_disk_low") == 0
    assert after.value("offsetd_disk_free_bytes") > 0


def test_a_metrics_port_that_is_taken_is_one_clear_line(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "a").wait_until_serving() as server:
        settings = {"metrics.address": metrics_address(server)}
        with ServerProcess(tmp_path / "b", settings=settings) as second:
            assert second.wait_for_exit() == 1
            [line] = [line for line in second.lines if line.startswith("error:")]
    assert "metrics.address" in line
    assert "in use" in line


def test_without_an_address_there_is_no_port(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, settings={"metrics.address": ""}).wait_until_serving() as server:
        assert server.stop() == 0
    assert "metrics served" not in {event["event"] for event in server.events}


@pytest.fixture
def eager(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, settings=EAGER).wait_until_serving() as server:
        yield server


def overwrite(stubs: Stubs, times: int) -> None:
    for value in range(times):
        stubs.offsets.CommitOffsets(commit_request("g", value, partitions=200))


def test_rounds_are_reported_in_kafkas_lines_and_in_metrics(
    eager: ServerProcess, tmp_path: Path
) -> None:
    with eager.channel() as channel:
        stubs = Stubs(channel)
        overwrite(stubs, 30)
        event = eager.wait_for_event("log cleaned")
        assert health_of(channel, "offsetd.cleaner") == SERVING
    scrape = Scrape.from_address(metrics_address(eager))
    assert scrape.value("offsetd_cleaner_rounds_total") >= 1
    assert scrape.value("offsetd_cleaner_read_bytes_total") > 0
    assert eager.stop() == 0
    report = (tmp_path / "log-cleaner.log").read_text()
    assert f"Log cleaner thread 0 cleaned log {event['partition']} (dirty section = [" in report
    with ServerProcess(tmp_path, settings=EAGER).wait_until_serving() as again:
        assert again.stop() == 0, "the file is nothing to a start"


def test_a_damaged_segment_is_told_everywhere_and_holds_up_nothing_else(
    eager: ServerProcess, tmp_path: Path
) -> None:
    address = metrics_address(eager)
    with eager.channel() as channel:
        stubs = Stubs(channel)
        overwrite(stubs, 5)
        damage_first_batch(tmp_path, eager)
        overwrite(stubs, 30)
        event = eager.wait_for_event("partition uncleanable")
        poll(
            lambda: Scrape.from_address(address).value("offsetd_cleaner_uncleanable_partitions"),
            WAIT_SECONDS,
            eager,
        )
        assert health_of(channel, "offsetd.cleaner") == SERVING
        assert health_of(channel, "") == SERVING
        overwrite(stubs, 1)
    scrape = Scrape.from_address(address)
    partition = event["partition"]
    assert scrape.value("offsetd_cleaner_failures_in_row", partition=partition) >= 1
    assert scrape.value("offsetd_cleaner_uncleanable_bytes") > 0
    assert scrape.value("offsetd_cleaner_dead_threads") == 0


def is_written(segment: Path) -> bool:
    """Whether batches are in it; one that the cleaner has just replaced may be gone."""
    try:
        content = segment.read_bytes()
    except FileNotFoundError:
        return False
    return len(content) > 10_000 and bool(content[100:1000].strip(b"\0"))


def damage_first_batch(folder: Path, server: ServerProcess) -> None:
    """Changes a byte of what is in a log's first segment, once it is written there."""

    def first_segment() -> Path | None:
        found = [
            path
            for path in folder.glob("__consumer_offsets-*/00000000000000000000.log")
            if is_written(path)
        ]
        return found[0] if found else None

    poll(first_segment, WAIT_SECONDS, server)
    path = first_segment()
    assert path is not None
    with path.open("r+b") as file:
        file.seek(500)
        byte = file.read(1)
        file.seek(500)
        file.write(bytes([byte[0] ^ 0xFF]))


def test_a_cleaner_that_is_off_is_not_serving_and_takes_nothing_else_with_it(
    tmp_path: Path,
) -> None:
    settings = {"log.cleaner.enable": "false"}
    with ServerProcess(tmp_path, settings=settings).wait_until_serving() as server:
        with server.channel() as channel:
            poll(lambda: health_of(channel, "offsetd.cleaner") == NOT_SERVING, WAIT_SECONDS, server)
            assert health_of(channel, "") == SERVING
            assert health_of(channel, "offsetd.v1.OffsetService") == SERVING
            Stubs(channel).offsets.CommitOffsets(commit_request("g", 1))
        assert Scrape.from_address(metrics_address(server)).value("offsetd_cleaner_threads") == 0
