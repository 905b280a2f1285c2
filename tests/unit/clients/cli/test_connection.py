"""offsetd_clients.cli.connection: TLS and a token come from the environment."""

import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest
from cli_calls import calls_of
from fake_server import FakeServer
from offsetd.v1 import group_service_pb2
from offsetd_clients.cli.application import OFFSETD, run
from offsetd_clients.cli.connection import explain, telling_sleep
from offsetd_clients.cli.printing.terminal import Terminal
from offsetd_clients.errors import Failure, InvalidImport

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
    assert offsetd(TOKEN="") == (0, "")
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
    none = tmp_path / "none"
    missing = f"error: TLS: OFFSETD_TLS_CA: {none} cannot be read: No such file or directory\n"
    for file, complaint in ((none, missing), (der, "not PEM")):
        code, err = offsetd(TLS_CA=str(file))
        assert code == 2
        assert complaint in err
    code, err = offsetd(TLS_CA=str(pem), TLS_CERTIFICATE=str(pem))
    assert code == 2
    assert "a certificate and its key go together" in err
    code, err = offsetd(TLS_CERTIFICATE=str(pem), TLS_KEY=str(pem))
    assert code == 2
    assert "error: TLS: certificate: it has no certificate in PEM" in err


@pytest.mark.parametrize(
    "setting",
    [
        *({"TLS": word} for word in ("true", "1", "yes", "TRUE", "on", "Y", "t")),
        {"TLS_SERVER_NAME": "offsets"},
    ],
)
def test_with_tls_a_server_without_it_is_not_spoken_with(
    fake_server: FakeServer, offsetd: Offsetd, setting: dict[str, str]
) -> None:
    code, err = offsetd(**setting)
    assert code == 1
    assert "UNAVAILABLE" in err
    assert fake_server.requests == []


@pytest.mark.parametrize("word", ["false", "0", "No", "off", "F", "n"])
def test_without_tls_a_server_is_spoken_with_in_plain_text(offsetd: Offsetd, word: str) -> None:
    assert offsetd(TLS=word) == (0, "")


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"TLS": "maybe"}, "OFFSETD_TLS is true or false"),
        ({"TLS": "2"}, "OFFSETD_TLS is true or false"),
        ({"TLS": " true"}, "OFFSETD_TLS is true or false"),
        ({"TLS": ""}, "OFFSETD_TLS is empty"),
        *(
            ({f"TLS_{part}": ""}, f"OFFSETD_TLS_{part} is empty")
            for part in ("CA", "CERTIFICATE", "KEY", "SERVER_NAME")
        ),
        ({"TLS_CERT": "file"}, "OFFSETD_TLS_CERT is not known"),
        ({"TLS": "no", "TLS_SERVER_NAME": "offsets"}, "OFFSETD_TLS is false, but OFFSETD_TLS_S"),
    ],
)
def test_what_cannot_be_understood_of_tls_is_wrong_use_and_no_plain_text(
    fake_server: FakeServer, offsetd: Offsetd, setting: dict[str, str], complaint: str
) -> None:
    code, err = offsetd(**setting)
    assert code == 2
    assert complaint in err
    assert fake_server.requests == []


@pytest.mark.parametrize("name", ["--address", "--bootstrap-server"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_the_server_is_named_before_or_behind_the_command(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, name: str, place: int
) -> None:
    monkeypatch.setenv("OFFSETD_ADDRESS", "127.0.0.1:1")
    fake_server.will_answer("ListGroups", GROUPS)
    words = ["groups", "list", "--timeout", "5"]
    places = (0, 2, 4)
    words[places[place] : places[place]] = [name, fake_server.address]
    assert calls_of(OFFSETD, monkeypatch)(*words).code == 0


def test_a_commands_own_address_wins(
    fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_server.will_answer("ListGroups", GROUPS)
    offsetd = calls_of(OFFSETD, monkeypatch)
    words = ("--address", "127.0.0.1:1", "groups", "list", "--address", fake_server.address)
    assert offsetd(*words).code == 0


@pytest.mark.parametrize(
    "line",
    [
        "--address nowhere groups list",
        "--address 127.0.0.1:1 serve --list-settings",
        "migrate kafka plan --bootstrap-server 127.0.0.1:1",
    ],
)
def test_an_address_that_no_call_can_take_is_wrong_use(
    monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    assert calls_of(OFFSETD, monkeypatch)(*line.split()).code == 2


def test_wrong_lines_of_an_import_are_printed_once() -> None:
    lines = [{"line": 1, "problem": "no JSON"}, {"line": 3, "problem": "'topic' is missing"}]
    failure = Failure(
        reason="INVALID_IMPORT",
        message="content: nothing was imported; wrong lines: 2; line 1: no JSON",
        code="INVALID_ARGUMENT",
        details={"lines": json.dumps(lines)},
    )
    assert explain(InvalidImport(failure), "host:1").split("\n") == [
        "INVALID_IMPORT: content: nothing was imported; wrong lines: 2",
        "  line 1: no JSON",
        "  line 3: 'topic' is missing",
    ]
