"""`offsetd version`: of this program, of what it runs on, and of servers."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from io import StringIO
from typing import Any

import pytest
from google.rpc.status_pb2 import Status
from offsetd.v1 import admin_service_pb2 as pb
from offsetd_clients.cli.application import run
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_coordinator.commands.format_versions import format_versions


def called(
    monkeypatch: pytest.MonkeyPatch, *arguments: str
) -> tuple[int, list[dict[str, Any]], str]:
    """The exit code, the rows and standard error."""
    monkeypatch.setattr(sys, "argv", ["offsetd", *arguments, "-o", "json"])
    stdout, stderr = StringIO(), StringIO()
    code = run(Terminal(stdout, stderr))
    return code, json.loads(stdout.getvalue() or "[]"), stderr.getvalue()


@pytest.fixture(autouse=True)
def no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OFFSETD_ADDRESS", raising=False)


OWN = {"kind": "program", "name": "offsetd", "version": version("offsetd"), "address": None}


def test_without_an_address_no_server_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(monkeypatch, "version") == (0, [OWN], "")


def test_all_has_the_libraries_the_formats_and_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    code, rows, _ = called(monkeypatch, "version", "--all")
    assert code == 0
    found = {(row["kind"], row["name"]): row["version"] for row in rows}
    assert found["library", "python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["library", "grpc"] == version("grpcio")
    assert found["library", "protobuf"] == version("protobuf")
    assert found["library", "numba"] == version("numba")
    assert found["library", "librdkafka"].count(".") == 2
    assert found["format", "contract"] == "offsetd.v1"
    assert found["program", "build"].startswith("checkout ")
    for name, number in format_versions().items():
        assert found["format", name] == str(number)


def test_a_missing_library_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    _, rows, _ = called(monkeypatch, "version", "--all")
    assert {row["version"] for row in rows if row["name"] == "librdkafka"} == {None}


@pytest.mark.parametrize("before", [True, False])
def test_a_server_says_its_own(
    fake_server: Any, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    fake_server.will_answer(
        "GetServerInfo", pb.GetServerInfoResponse(version="0.1.0", node_id="n1")
    )
    given = ["--address", fake_server.address]
    code, rows, _ = called(
        monkeypatch, *(given if before else []), "version", *([] if before else given)
    )
    server = {"kind": "server", "name": "n1", "version": "0.1.0", "address": fake_server.address}
    assert (code, rows) == (0, [OWN, server])


def test_each_node_of_a_cluster_has_a_row_and_one_that_is_silent_is_named(
    fake_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = pb.GetServerInfoResponse(version="0.2.0", node_id="n1", cluster_id="offsetd")
    fake_server.will_answer("GetServerInfo", info, info)
    nodes = [
        pb.ClusterNode(node_id="n1", address=fake_server.address),
        pb.ClusterNode(node_id="n2", address="127.0.0.1:1"),
    ]
    cluster = pb.DescribeClusterResponse(nodes=nodes)
    fake_server.will_answer("DescribeCluster", cluster, cluster)
    code, rows, told = called(monkeypatch, "--address", fake_server.address, "version")
    assert code == 3
    assert [(row["name"], row["version"]) for row in rows[1:]] == [("n1", "0.2.0"), ("n2", None)]
    assert "n2 (127.0.0.1:1) does not answer" in told


def test_a_server_that_is_silent_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    address = ["--address", "127.0.0.1:1", "--timeout", "0.3"]
    code, rows, told = called(monkeypatch, "version", *address)
    assert (code, rows) == (1, [])
    assert "127.0.0.1:1" in told


def test_a_wrong_address_is_wrong_use(monkeypatch: pytest.MonkeyPatch) -> None:
    assert called(monkeypatch, "version", "--address", "nowhere")[0] == 2


def test_a_call_that_an_older_server_does_not_know_says_so(
    fake_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    promised = "The server does not know this call. Is it of an older version (offsetd version)?"
    unknown = Status(code=12, message="Method not found!")
    fake_server.will_answer("GetServerInfo", unknown)
    code, _, told = called(monkeypatch, "version", "--address", fake_server.address)
    assert code == 1
    assert promised in told
