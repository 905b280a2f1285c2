"""offsetd_clients.cli.connection: TLS and a token come from the environment."""

import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from fake_server import FakeServer
from offsetd.v1 import group_service_pb2
from offsetd_clients.cli.application import run
from offsetd_clients.cli.connection import telling_sleep
from offsetd_clients.cli.terminal import Terminal

Offsetd = Callable[..., tuple[int, str]]
GROUPS = group_service_pb2.ListGroupsResponse()


@pytest.fixture
def offsetd(fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> Offsetd:
    monkeypatch.setenv("OFFSETD_ADDRESS", fake_server.address)
    fake_server.will_answer("ListGroups", GROUPS)

    def call(**environment: str) -> tuple[int, str]:
        for name, value in environment.items():
            monkeypatch.setenv(f"OFFSETD_{name}", value)
        arguments = ["groups", "list", "-o", "json", "--timeout", "1"]
        monkeypatch.setattr(sys, "argv", ["offsetd", *arguments])
        stdout, stderr = StringIO(), StringIO()
        return run(Terminal(stdout, stderr)), stderr.getvalue()

    return call


class Screen(StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stderr", "told"),
    [(Screen(), "waiting for an answer from host:1 …\n"), (StringIO(), "")],
    ids=["terminal", "pipe"],
)
def test_who_looks_on_is_told_once_what_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, stderr: StringIO, told: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    slept: list[float] = []
    sleep = telling_sleep("host:1", Terminal(StringIO(), stderr), slept.append)
    for seconds in (0.1, 0.2, 0.4):
        sleep(seconds)
    assert stderr.getvalue() == ""
    for seconds in (0.8, 2.0):
        sleep(seconds)
    assert stderr.getvalue() == told
    assert slept == [0.1, 0.2, 0.4, 0.8, 2.0]


def test_a_token_goes_with_each_call(fake_server: FakeServer, offsetd: Offsetd) -> None:
    assert offsetd(TOKEN="secret") == (0, "")
    assert [each["authorization"] for each in fake_server.metadata] == ["Bearer secret"]


def test_without_a_token_none_is_sent(fake_server: FakeServer, offsetd: Offsetd) -> None:
    assert offsetd(TOKEN="", TLS="", TLS_CA="") == (0, "")
    assert "authorization" not in fake_server.metadata[0]


def test_a_token_goes_to_no_other_machine_without_tls(offsetd: Offsetd) -> None:
    code, err = offsetd(TOKEN="secret", ADDRESS="offsets.example.org:7171")
    assert code == 2
    assert "a token is not sent to offsets.example.org:7171 without TLS" in err


def test_files_that_cannot_be_read_or_do_not_fit_are_wrong_use(
    offsetd: Offsetd, tmp_path: Path
) -> None:
    der, pem = tmp_path / "der", tmp_path / "pem"
    der.write_bytes(b"\x30")
    pem.write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    for file, complaint in ((tmp_path / "none", "No such file"), (der, "no PEM")):
        code, err = offsetd(TLS_CA=str(file))
        assert code == 2
        assert complaint in err
    code, err = offsetd(TLS_CA=str(pem), TLS_CERTIFICATE=str(pem))
    assert code == 2
    assert "a certificate and its key go together" in err


@pytest.mark.parametrize("setting", [{"TLS": "true"}, {"TLS_SERVER_NAME": "offsets"}])
def test_with_tls_a_server_without_it_is_not_spoken_with(
    fake_server: FakeServer, offsetd: Offsetd, setting: dict[str, str]
) -> None:
    code, err = offsetd(**setting)
    assert code == 1
    assert "UNAVAILABLE" in err
    assert fake_server.requests == []
