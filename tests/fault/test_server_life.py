"""A real server's life: it starts, drains, refuses to share, and says what is wrong in one line."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from commit_history import History, Writers
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from offsetd.v1 import admin_service_pb2, group_service_pb2, offset_service_pb2
from offsetd_coordinator.expiry.uptime_marker import LAST_UP_NAME
from raw_http2 import ACK, SETTINGS, RawConnection, frame
from refusals import status_of
from server_process import ServerProcess, Stubs, poll

pytestmark = pytest.mark.long(minutes=3)

SERVICES = (
    "",
    "offsetd.v1.OffsetService",
    "offsetd.v1.GroupService",
    "offsetd.v1.AdminService",
    "offsetd.v1.AclService",
    "offsetd.v1.BackupService",
)
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
WAIT_SECONDS = 60
# Generated stubs have no types.
health_stub: Any = health_pb2_grpc.HealthStub
reflection_stub: Any = reflection_pb2_grpc.ServerReflectionStub


def commit(
    group_id: str, value: int, partitions: int = 1
) -> offset_service_pb2.CommitOffsetsRequest:
    """A commit of one value to some partitions."""
    offsets = [
        offset_service_pb2.OffsetCommit(topic="orders", partition=partition, offset=value)
        for partition in range(partitions)
    ]
    return offset_service_pb2.CommitOffsetsRequest(group_id=group_id, offsets=offsets)


def stored(stubs: Stubs, group_id: str) -> list[int]:
    """The offsets of a group."""
    response = stubs.offsets.FetchOffsets(
        offset_service_pb2.FetchOffsetsRequest(
            groups=[offset_service_pb2.GroupSelection(group_id=group_id)]
        )
    )
    return [each.offset for each in response.groups[0].offsets]


def health(channel: grpc.Channel) -> dict[str, int]:
    """What health says of every service."""
    stub = health_stub(channel)
    return {
        name: stub.Check(health_pb2.HealthCheckRequest(service=name)).status for name in SERVICES
    }


def refusal(error: grpc.RpcError) -> tuple[grpc.StatusCode, str, float]:
    """Code, reason, and after how many seconds to come again (-1: not said)."""
    info, retry = ErrorInfo(), RetryInfo()
    seconds = -1.0
    for packed in status_of(error).details:
        packed.Unpack(info)
        if packed.Unpack(retry):
            seconds = retry.retry_delay.ToTimedelta().total_seconds()
    return error.code(), info.reason, seconds


def test_a_server_starts_on_nothing_stops_cleanly_and_starts_again(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.wait_until_serving()
        with server.channel() as channel:
            stubs = Stubs(channel)
            assert set(health(channel).values()) == {SERVING}
            stubs.offsets.CommitOffsets(commit("g", 7))
            first = stubs.admin.GetServerInfo(admin_service_pb2.GetServerInfoRequest())
        assert server.stop() == 0, server.log
    with ServerProcess(tmp_path / "data") as server:
        server.wait_until_serving()
        opened = server.wait_for_event("folder open")
        assert opened["closed_clean"] is True
        with server.channel() as channel:
            assert stored(Stubs(channel), "g") == [7]
            second = Stubs(channel).admin.GetServerInfo(admin_service_pb2.GetServerInfoRequest())
        assert second.folder_id == first.folder_id
        assert (second.log_partitions, second.group_count, second.offset_count) == (50, 1, 1)


def test_from_the_second_start_on_a_server_does_without_numba(tmp_path: Path) -> None:
    """By the libraries that it has mapped, as Numba is made of some; its kernels are the same."""
    maps = []
    for is_configured in (True, False, False):  # Who configures Numba gets it.
        environment = {"NUMBA_DEBUG_ARRAY_OPT_STATS": "0"} if is_configured else {}
        with ServerProcess(tmp_path / "data", environment=environment) as server:
            server.wait_until_serving()
            with server.channel() as channel:
                stubs = Stubs(channel)
                stubs.offsets.CommitOffsets(commit("g", 7 + len(maps)))
                assert stored(stubs, "g") == [7 + len(maps)]
            maps.append(Path(f"/proc/{server.pid}/maps").read_text())
            assert server.stop() == 0, server.log
    assert ["numba/_dispatcher" in each for each in maps[::2]] == [True, False]


def test_a_stop_in_the_middle_of_everything_loses_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    history = History(tmp_path / "acknowledged.jsonl")
    with ServerProcess(tmp_path / "data") as server:
        server.wait_until_serving()
        channels = [server.channel() for _ in range(6)]
        writers = Writers(history, [Stubs(channel) for channel in channels], partitions=3)
        poll(
            lambda: (
                all(group.acknowledged >= 0 for group in history.groups.values())
                and history.acknowledgements > 300
            ),
            WAIT_SECONDS,
            server,
        )
        assert server.stop() == 0, server.log
        writers.stop()
        for channel in channels:
            channel.close()
    assert not writers.refused
    refusals = [refusal(error) for error in writers.ends]
    assert {code for code, _, _ in refusals} == {grpc.StatusCode.UNAVAILABLE}
    told = [seconds for _, why, seconds in refusals if why == "COORDINATOR_NOT_AVAILABLE"]
    assert len(told) >= 3, "every stream is told that the server stops"
    assert min(told) > 0
    with ServerProcess(tmp_path / "data") as server:
        assert server.wait_for_event("folder open")["closed_clean"] is True
        server.wait_until_serving()
        with server.channel() as channel:
            history.check(Stubs(channel))


def test_draining_is_announced_before_calls_are_refused(tmp_path: Path) -> None:
    settings = {"drain.notice.ms": 3000}
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        server.wait_until_serving()
        with server.channel() as channel:
            stubs = Stubs(channel)
            stubs.offsets.CommitOffsets(commit("g", 1))
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_event("draining")
            assert set(health(channel).values()) == {NOT_SERVING}
            stubs.offsets.CommitOffsets(commit("g", 2), timeout=WAIT_SECONDS)
        assert server.wait_for_exit() == 0


def test_a_watcher_of_health_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.wait_until_serving()
        with server.channel() as channel:
            stub = health_stub(channel)
            watched = stub.Watch(health_pb2.HealthCheckRequest(service=""))
            assert next(watched).status == SERVING
            server.process.send_signal(signal.SIGTERM)
            assert next(watched).status == NOT_SERVING
            assert server.wait_for_exit() == 0, server.log


def test_a_second_signal_stops_at_once(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", settings={"drain.notice.ms": 600_000}) as server:
        server.wait_until_serving()
        server.process.send_signal(signal.SIGINT)
        server.wait_for_event("draining")
        server.process.send_signal(signal.SIGINT)
        assert server.wait_for_exit() == 1


@pytest.mark.parametrize("address", ["127.0.0.1:0", "0.0.0.0:0"])
def test_an_insecure_port_for_other_machines_is_warned_of(tmp_path: Path, address: str) -> None:
    settings = {"listen.address": address, "security.allow.insecure": "true"}
    with ServerProcess(tmp_path, settings=settings) as server:
        server.wait_until_serving()
        assert server.stop() == 0
    warned = [each for each in server.events if "security.allow.insecure is set" in each["event"]]
    assert len(warned) == (address == "0.0.0.0:0")


@pytest.mark.parametrize("setting", ["listen.address", "metrics.address"])
def test_a_port_for_other_machines_needs_security(tmp_path: Path, setting: str) -> None:
    with ServerProcess(tmp_path, settings={setting: "0.0.0.0:0"}) as server:
        assert server.wait_for_exit() == 1
    assert f"other machines can reach 0.0.0.0:0 ({setting})" in server.log
    assert "security.allow.insecure=true" in server.log


def test_while_it_loads_calls_are_told_to_come_again_and_a_stop_stops_it(tmp_path: Path) -> None:
    # A pipe in the place of a file that recovery reads holds it up for as long as the test wants.
    folder = tmp_path / "data"
    with ServerProcess(folder) as server:
        server.wait_until_serving()
        assert server.stop() == 0
    properties = folder / "offsetd.properties"
    properties.unlink()
    os.mkfifo(properties)
    with ServerProcess(folder) as server:
        server.wait_for_event("listening")
        with server.channel() as channel:
            stubs = Stubs(channel)
            assert set(health(channel).values()) == {NOT_SERVING}
            state = stubs.admin.GetServerInfo(admin_service_pb2.GetServerInfoRequest()).state
            assert state == admin_service_pb2.SERVER_STATE_LOADING
            for call, request in (
                (stubs.offsets.CommitOffsets, commit("g", 1)),
                (stubs.offsets.FetchOffsets, offset_service_pb2.FetchOffsetsRequest()),
                (stubs.offsets.DeleteOffsets, offset_service_pb2.DeleteOffsetsRequest()),
                (stubs.groups.ListGroups, group_service_pb2.ListGroupsRequest()),
                (stubs.groups.GetGroup, group_service_pb2.GetGroupRequest()),
                (stubs.groups.DeleteGroup, group_service_pb2.DeleteGroupRequest()),
                (stubs.admin.DescribeLog, admin_service_pb2.DescribeLogRequest()),
            ):
                with pytest.raises(grpc.RpcError) as caught:
                    call(request)
                code, reason, retry_seconds = refusal(caught.value)
                assert (code, reason) == (
                    grpc.StatusCode.UNAVAILABLE,
                    "COORDINATOR_LOAD_IN_PROGRESS",
                )
                assert retry_seconds > 0
            with pytest.raises(grpc.RpcError) as caught:
                next(stubs.offsets.StreamCommits(iter(())))
            assert refusal(caught.value)[1] == "COORDINATOR_LOAD_IN_PROGRESS"
            assert server.stop() == 0
        assert "serving" not in {event["event"] for event in server.events}


def written(folder: Path) -> dict[Path, int]:
    """When each file was last written, but for what the server writes now and then by itself."""
    paths = [path for path in folder.rglob("*") if not path.name.startswith(LAST_UP_NAME)]
    return {path: path.stat().st_mtime_ns for path in paths if path.is_file()}


def test_a_second_process_on_the_folder_exits_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with ServerProcess(folder, settings={"disk.reserve.bytes": 0}) as first:
        first.wait_until_serving()
        before = written(folder)
        with ServerProcess(folder) as second:
            assert second.wait_for_exit() == 1
            errors = [line for line in second.lines if not line.startswith("{")]
            assert len(errors) == 1, second.log
            assert errors[0].startswith("error: ")
            assert str(folder) in errors[0]
        assert written(folder) == before
        with first.channel() as channel:
            Stubs(channel).offsets.CommitOffsets(commit("g", 1))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"segment.mss": 1}, "did you mean segment.ms?"),
        ({"segment.ms": "soon"}, "'soon' is not a whole number"),
        ({"listen.address": "localhost"}, "localhost is not HOST:PORT"),
        ({"journal.file.bytes": 65_536}, "is too small for max.message.bytes = 1048588"),
    ],
)
def test_a_wrong_setting_is_wrong_use(
    tmp_path: Path, settings: dict[str, object], complaint: str
) -> None:
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        assert server.wait_for_exit() == 2
        [line] = server.lines
        assert line.startswith("error: ")
        assert complaint in line
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            ["--listen", "foo:bar"],
            "listen.address (--listen): foo:bar is not HOST:PORT, port 0 to 65535",
        ),
        (["--config", "missing.toml"], "cannot read missing.toml: No such file or directory"),
        (["--config", "latin.toml"], "cannot read latin.toml: it is not UTF-8"),
    ],
)
def test_a_wrong_option_is_named(
    tmp_path: Path, arguments: list[str], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("latin.toml").write_bytes("# Schlüssel\n".encode("latin-1"))
    with ServerProcess(tmp_path / "data", arguments=arguments) as server:
        assert server.wait_for_exit() == 2
        assert server.lines == [f"error: {complaint}\n"]


def test_a_journal_that_is_too_small_for_the_folders_partitions_is_one_line(tmp_path: Path) -> None:
    # How many there are is known only when the folder is open.
    folder = tmp_path / "data"
    with ServerProcess(folder, settings={"offsets.topic.num.partitions": 200}) as server:
        server.wait_until_serving()
        assert server.stop() == 0
    small = {"journal.file.bytes": 80_000, "max.message.bytes": 1024}
    with ServerProcess(folder, settings=small) as server:
        assert server.wait_for_exit() == 1
        [line] = [line for line in server.lines if not line.startswith("{")]
        assert line.startswith("error: ")
        # The server's own two topics have one each.
        assert "too small for the recovery points of 202 partitions" in line


def test_settings_come_from_the_environment_and_the_file(tmp_path: Path) -> None:
    file = tmp_path / "offsetd.toml"
    file.write_text("offsets.topic.num.partitions = 3\n")
    command = [sys.executable, "-c", "from offsetd_clients.cli.main import main; main()"]
    listed = subprocess.run(
        [*command, "serve", "--list-settings", "-o", "json"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert {"name", "default", "unit", "allowed", "kafka", "reason"} <= set(
        json.loads(listed.stdout)[0]
    )
    environment = {"OFFSETD_NODE_ID": "n7"}
    with ServerProcess(
        tmp_path / "data", environment=environment, arguments=["--config", str(file)]
    ) as server:
        server.wait_until_serving()
        with server.channel() as channel:
            info = Stubs(channel).admin.GetServerInfo(admin_service_pb2.GetServerInfoRequest())
            assert (info.node_id, info.log_partitions) == ("n7", 3)
            found = Stubs(channel).admin.FindCoordinator(
                admin_service_pb2.FindCoordinatorRequest(group_id="group")
            )
            assert (found.node_id, found.address) == ("n7", server.address)
            assert 0 <= found.log_partition < 3


def test_a_client_that_is_gone_without_a_word_is_given_up(tmp_path: Path) -> None:
    settings = {"keepalive.interval.ms": 1000, "keepalive.reply.max.ms": 1000}
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        server.wait_until_serving()
        client = RawConnection(server.address)
        client.send(frame(SETTINGS, ACK, 0))
        received = b""
        while more := client.socket.recv(65_536):  # No ping is answered.
            received += more
        assert received
        client.close()


def test_reflection_is_on_where_only_this_machine_listens(tmp_path: Path) -> None:
    for setting, expected in (("auto", True), ("false", False)):
        with ServerProcess(tmp_path / "data", settings={"reflection.enable": setting}) as server:
            server.wait_until_serving()
            with server.channel() as channel:
                stub = reflection_stub(channel)
                ask = reflection_pb2.ServerReflectionRequest(list_services="")
                if expected:
                    answer = next(stub.ServerReflectionInfo(iter([ask])))
                    names = {each.name for each in answer.list_services_response.service}
                    assert set(SERVICES) - {""} <= names
                else:
                    with pytest.raises(grpc.RpcError) as caught:
                        next(stub.ServerReflectionInfo(iter([ask])))
                    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_a_server_without_enough_descriptors_does_not_start(tmp_path: Path) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("needs prlimit")
    few = ["prlimit", "--nofile=600:600"]
    with ServerProcess(tmp_path / "data", wrapper=few) as server:
        assert server.wait_for_exit() == 1
        assert "file descriptors" in server.log
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = ["prlimit", f"--nofile=600:{max(soft, 4096)}"]
    with ServerProcess(tmp_path / "data", wrapper=enough) as server:
        server.wait_until_serving()


def test_a_newer_format_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with ServerProcess(folder) as server:
        server.wait_until_serving()
        assert server.stop() == 0
    properties = folder / "offsetd.properties"
    properties.write_text(properties.read_text().replace("format.version=1", "format.version=2"))
    before = contents_of(folder)
    with ServerProcess(folder) as server:
        assert server.wait_for_exit() == 1
        assert "Traceback" not in server.log
    assert contents_of(folder) == before


def test_a_damaged_partition_answers_data_loss_and_the_others_serve(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    settings = {"offsets.topic.num.partitions": 4}
    groups = [f"g{number}" for number in range(20)]
    where: dict[str, int] = {}
    with ServerProcess(folder, settings=settings) as server:
        server.wait_until_serving()
        with server.channel() as channel:
            for value in range(3):
                for group in groups:
                    answer = Stubs(channel).offsets.CommitOffsets(commit(group, value))
                    where[group] = answer.revision.log_partition
        assert server.stop() == 0
    damaged = where["g0"]
    assert len(set(where.values())) > 1
    segment = folder / f"__consumer_offsets-{damaged}" / f"{0:020d}.log"
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    with ServerProcess(folder, settings=settings) as server:
        server.wait_until_serving()
        assert server.wait_for_event("partition quarantined")["level"] == "error"
        with server.channel() as channel:
            stubs = Stubs(channel)
            for group in groups:
                if where[group] != damaged:
                    assert stored(stubs, group) == [2]
                    stubs.offsets.CommitOffsets(commit(group, 3))
                    continue
                for call, request in (
                    (stubs.offsets.CommitOffsets, commit(group, 3)),
                    (stubs.groups.GetGroup, group_service_pb2.GetGroupRequest(group_id=group)),
                    (
                        stubs.groups.DeleteGroup,
                        group_service_pb2.DeleteGroupRequest(group_id=group),
                    ),
                ):
                    with pytest.raises(grpc.RpcError) as caught:
                        call(request)
                    assert refusal(caught.value)[:2] == (
                        grpc.StatusCode.DATA_LOSS,
                        "PARTITION_QUARANTINED",
                    )
                with pytest.raises(grpc.RpcError) as caught:
                    stored(stubs, group)
                assert caught.value.code() == grpc.StatusCode.DATA_LOSS
            listed = stubs.groups.ListGroups(group_service_pb2.ListGroupsRequest())
            assert {each.group_id for each in listed.groups} == {
                group for group in groups if where[group] != damaged
            }
            assert list(listed.unreachable_log_partitions) == [damaged]
            info = stubs.admin.GetServerInfo(admin_service_pb2.GetServerInfoRequest())
            assert list(info.quarantined_partitions) == [damaged]
            [described] = stubs.admin.DescribeLog(
                admin_service_pb2.DescribeLogRequest(partitions=[damaged])
            ).partitions
            assert described.quarantine_reason
        assert server.stop() == 0
    assert segment.read_bytes() == bytes(content), "nothing is cut from a damaged partition"


def contents_of(folder: Path) -> dict[str, bytes]:
    """Every file's bytes."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
