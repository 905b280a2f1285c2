"""What a server shows of its quotas, to clients and on the command line."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import grpc
import pytest
from cli_calls import offsetd_of
from offsetd.v1 import admin_service_pb2 as pb
from offsetd.v1 import admin_service_pb2_grpc
from offsetd_clients import InvalidRequest, OffsetClient, QuotaUse, RetryPolicy, TopicPartition
from offsetd_clients.errors import OffsetdError
from offsetd_coordinator.security.token_file import create_token
from server_process import ServerProcess, poll

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECONDS_MAX: Final = 60
QUOTAS: Final = """
[[quota]]
principal = "User:a"
commit_rate = 3
leases_max = 2
[[quota]]
principal = "User:*"
watchers_max = 5
[[quota]]
client_id = "app"
offset_rate = 1000
"""
OFFSETS: Final = {TopicPartition("orders", 0): 1}


class Limited:
    """A server with quotas, and a token for each of two callers."""

    def __init__(self, folder: Path) -> None:
        now_ms = int(time.time() * 1000)
        tokens = folder / "tokens.toml"
        self.tokens = {
            name: create_token(tokens, f"User:{name}", now_ms=now_ms)[0] for name in "ab"
        }
        self.file = folder / "quotas.toml"
        self.file.write_text(QUOTAS)
        settings = {"security.tokens.file": tokens, "security.quotas.file": self.file}
        self.server = ServerProcess(folder / "data", settings=settings)

    def client(self, name: str, seconds: float = SECONDS_MAX, **more: Any) -> OffsetClient:
        retry = RetryPolicy(timeout_s=seconds)
        return OffsetClient(self.server.address, token=self.tokens[name], retry=retry, **more)

    def shown(self, principal: str = "") -> dict[tuple[str, str, str], QuotaUse]:
        with self.client("b") as client:
            listing = client.describe_quotas(principal)
        assert listing.in_force
        return {(each.principal, each.client_id, each.quota): each for each in listing.quotas}


def commit_at_once(client: OffsetClient, times: int) -> None:
    for _ in range(times):
        client.commit("g", OFFSETS)


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[Limited]:
    made = Limited(tmp_path)
    with made.server:
        made.server.wait_until_serving()
        yield made


@pytest.mark.single_server
def test_limits_and_their_use_are_shown(limited: Limited) -> None:
    assert list(limited.shown()) == [
        ("", "app", "offset_rate"),
        ("User:a", "", "commit_rate"),
        ("User:a", "", "leases_max"),
        ("User:b", "", "watchers_max"),
    ]
    with (
        limited.client("a", stream_commits=False) as client,
        limited.client("a", 0.05, stream_commits=False) as hasty,
    ):
        client.acquire_group("leased", "holder")
        with pytest.raises(OffsetdError, match="commit_rate = 3"):
            commit_at_once(hasty, 100)
        found = limited.shown("User:a")
    assert {each.principal for each in found.values()} == {"User:a"}
    assert found["User:a", "", "leases_max"].in_use == 1
    of_commits = found["User:a", "", "commit_rate"]
    assert (of_commits.limit, of_commits.refusals > 0) == (3, True)
    assert found["User:a", "", "watchers_max"].limit == 5


@pytest.mark.single_server
def test_pauses_of_streams_and_changed_files_are_shown(limited: Limited) -> None:
    with limited.client("a") as client:
        for _ in range(3):
            for each in [client.commit_soon(f"g{number}", OFFSETS) for number in range(4)]:
                each.result(SECONDS_MAX)
        found = limited.shown("User:a")
        assert {each.delay.total_seconds() > 0 for each in found.values()} == {True}
        limited.file.with_suffix(".new").write_text(
            QUOTAS.replace("commit_rate = 3", "call_rate = 9")
        )
        limited.file.with_suffix(".new").replace(limited.file)
        poll(lambda: ("User:a", "", "call_rate") in limited.shown(), SECONDS_MAX)
        assert ("User:a", "", "commit_rate") not in limited.shown()


@pytest.mark.single_server
def test_pages_have_each_limit_once(limited: Limited) -> None:
    metadata = [("authorization", f"Bearer {limited.tokens['b']}")]
    with grpc.insecure_channel(limited.server.address) as channel:
        stub = admin_service_pb2_grpc.AdminServiceStub(channel)
        names, token = [], ""
        while True:
            request = pb.DescribeQuotasRequest(page_size=1, page_token=token)
            answer = stub.DescribeQuotas(request, metadata=metadata)
            names += [(each.principal, each.client_id, each.quota) for each in answer.quotas]
            token = answer.next_page_token or token
            if not answer.next_page_token:
                break
        assert names == list(limited.shown())
        for request, told in (
            (pb.DescribeQuotasRequest(page_size=-1), "page_size: -1 is below 0"),
            (pb.DescribeQuotasRequest(page_token="x"), "page_token: not one that this server made"),
            (
                pb.DescribeQuotasRequest(principal="User:a", page_token=token),
                "page_token: made for a request with other fields",
            ),
        ):
            with pytest.raises(grpc.RpcError) as raised:
                stub.DescribeQuotas(request, metadata=metadata)
            assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert told in raised.value.details()


@pytest.mark.single_server
def test_the_command_prints_them(limited: Limited, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OFFSETD_TOKEN", limited.tokens["a"])
    offsetd = offsetd_of(limited.server.address, monkeypatch)
    ended = offsetd("admin", "quotas", "--principal", "User:a", "-o", "json")
    assert (ended.code, ended.stderr) == (0, "")
    rows = json.loads(ended.stdout)
    assert [each["quota"] for each in rows] == ["commit_rate", "leases_max", "watchers_max"]
    assert rows[0] == {
        "principal": "User:a",
        "client_id": None,
        "quota": "commit_rate",
        "limit": 3,
        "in_use": 0,
        "refusals": 0,
        "delay_s": 0.0,
    }
    [of_client] = [
        each
        for each in json.loads(offsetd("admin", "quotas", "-o", "json").stdout)
        if each["client_id"] == "app"
    ]
    assert [of_client[each] for each in ("principal", "refusals", "delay_s")] == [None] * 3
    ended = offsetd("admin", "quotas", "--principal", "a")
    assert ended.code == 2
    assert "principal: 'a' is not User:NAME" in ended.stderr


@pytest.mark.single_server
def test_a_server_without_quotas_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.wait_until_serving()
        with OffsetClient(server.address) as client:
            listing = client.describe_quotas()
            assert (listing.quotas, listing.in_force) == ((), False)
            with pytest.raises(InvalidRequest, match="'loader' is not User:NAME"):
                client.describe_quotas("loader")
        ended = offsetd_of(server.address, monkeypatch)("admin", "quotas")
    assert ended.code == 0
    assert ended.stderr == ("this server has no quotas (security.quotas.file): nobody is limited\n")
