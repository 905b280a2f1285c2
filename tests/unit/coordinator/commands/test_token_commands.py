"""`offsetd admin tokens`: what it prints, what it refuses, and how `admin` finds it."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import time
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

import pytest
import typer
from cli_calls import Ended, calls_of
from cli_sessions import Shell
from cli_tree import commands
from offsetd_clients.cli import application
from offsetd_clients.cli.application import OFFSETD
from offsetd_coordinator.security.identity import Identity
from offsetd_coordinator.security.token_file import create_token, read_token_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Tokens = Callable[..., Ended]

DAY_MS = 86_400_000
TOKEN = re.compile(r"offsetd_([0-9a-f]{16})_[\w-]{43}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


@pytest.fixture
def tokens(path: Path, monkeypatch: pytest.MonkeyPatch) -> Tokens:
    """Calls `offsetd admin tokens COMMAND --file PATH` with further arguments."""
    call = calls_of(OFFSETD, monkeypatch)
    return lambda command, *arguments: call("admin", "tokens", command, "--file", path, *arguments)


def test_a_new_token_is_alone_on_stdout_and_valid(tokens: Tokens, path: Path) -> None:
    ended = tokens("create", "--principal", "alice")
    found = TOKEN.fullmatch(ended.stdout.removesuffix("\n"))
    assert found is not None, ended
    assert ended.code == 0
    assert ended.stderr == f"token {found[1]} of User:alice: it is not shown again\n"
    identity = read_token_file(path).identify(found[0], now_ms())
    assert identity == Identity("User:alice", found[1], None)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_program_gets_the_token_with_its_id_and_times(tokens: Tokens, path: Path) -> None:
    before_ms = now_ms()
    options = ("--principal", "User:bob", "--expires", "90d", "--note", "billing")
    ended = tokens("create", *options, "-o", "json")
    [row] = json.loads(ended.stdout)
    assert list(row) == ["token", "token_id", "principal", "create_time", "expire_time", "note"]
    assert (row["principal"], row["note"]) == ("User:bob", "billing")
    assert TIME.fullmatch(row["create_time"])
    identity = read_token_file(path).identify(row["token"], now_ms())
    assert identity is not None
    assert identity.token_id == row["token_id"]
    assert identity.expires_ms is not None
    assert before_ms <= identity.expires_ms - 90 * DAY_MS <= now_ms()
    assert row["token"] not in ended.stderr


@pytest.mark.parametrize("output", ["table", "json", "jsonl", "csv"])
def test_the_list_has_no_secret_and_marks_what_has_expired(
    tokens: Tokens, path: Path, output: str
) -> None:
    made = [
        create_token(path, "User:alice", now_ms=0, expires_ms=1, note="old"),
        create_token(path, "User:bob", now_ms=now_ms(), expires_ms=now_ms() + DAY_MS),
        create_token(path, "User:carol", now_ms=now_ms()),
    ]
    ended = tokens("list", "-o", output)
    assert (ended.code, ended.stderr) == (0, "")
    for token, stored in made:
        assert stored.token_id in ended.stdout
        for secret in (token, token.split("_", 2)[2], stored.secret_hash.hex(), stored.salt.hex()):
            assert secret not in ended.stdout
    if output == "jsonl":
        rows = [json.loads(line) for line in ended.stdout.splitlines()]
        assert [row["state"] for row in rows] == ["expired", "valid", "valid"]
        assert [row["note"] for row in rows] == ["old", None, None]
        assert rows[0]["expire_time"] == "1970-01-01T00:00:00.001Z"
        assert rows[2]["expire_time"] is None


def test_a_revoked_token_is_told_and_gone(tokens: Tokens, path: Path) -> None:
    (alice, stored), (bob, _) = (
        create_token(path, f"User:{name}", now_ms=now_ms()) for name in ("alice", "bob")
    )
    ended = tokens("revoke", stored.token_id, stored.token_id, "-o", "jsonl")
    row = json.loads(ended.stdout)
    assert (ended.code, row["token_id"], row["principal"]) == (0, stored.token_id, "User:alice")
    table = read_token_file(path)
    assert table.identify(alice, now_ms()) is None
    assert table.identify(bob, now_ms()) is not None


def test_an_unknown_id_is_an_error_and_changes_nothing(tokens: Tokens, path: Path) -> None:
    _, stored = create_token(path, "User:alice", now_ms=now_ms())
    before = path.read_bytes()
    ended = tokens("revoke", stored.token_id, "0" * 16)
    told = f"error: {path} has no token {'0' * 16}: nothing was changed\n"
    assert (ended.code, ended.stdout, ended.stderr) == (1, "", told)
    assert path.read_bytes() == before


def test_a_whole_token_as_an_id_is_wrong_use_and_not_repeated(tokens: Tokens, path: Path) -> None:
    token, _ = create_token(path, "User:alice", now_ms=now_ms())
    before = path.read_bytes()
    ended = tokens("revoke", token)
    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr.startswith("error: argument 1 is no token's id: ")
    assert token.split("_", 2)[2] not in ended.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--principal", ""], "'User:' is not User:NAME"),
        (["--principal", "User:"], "'User:' is not User:NAME"),
        (["--principal", "ANONYMOUS"], "not one caller"),
        (["--principal", "*"], "not one caller"),
        (["--principal", "Group:g"], "write User:Group:g"),
        (["--principal", "user:alice"], "write User:user:alice"),
        (["--principal", "\udcff"], "it is not UTF-8"),
        (["--principal", "alice", "--expires", "soon"], "'soon' is not a time like 45s"),
        (["--principal", "alice", "--expires", "0d"], "'0d' is not a time like 45s"),
        (["--principal", "alice", "--expires", "-1d"], "'-1d' is not a time like 45s"),
        (["--principal", "alice", "--expires", "3000000d"], "'3000000d' is too long"),
    ],
)
def test_wrong_use_makes_no_file(tokens: Tokens, path: Path, options: list[str], told: str) -> None:
    ended = tokens("create", *options)
    assert (ended.code, ended.stdout) == (2, "")
    assert told in ended.stderr
    assert not path.exists()


def test_a_broken_file_is_told_with_its_table_and_stays(tokens: Tokens, path: Path) -> None:
    for name in ("alice", "bob"):
        create_token(path, f"User:{name}", now_ms=now_ms())
    path.write_text(path.read_text().replace('"User:bob"', '"User:bob'))
    before = path.read_bytes()
    for command, *arguments in (("list",), ("create", "--principal", "c"), ("revoke", "0" * 16)):
        ended = tokens(command, *arguments)
        assert (ended.code, ended.stdout) == (1, "")
        assert ended.stderr.startswith(f"error: {path}: table 2: ")
        assert path.read_bytes() == before


def test_a_file_that_is_not_there_is_told(tokens: Tokens, path: Path) -> None:
    told = f"error: No such file or directory: {path}\n"
    for command, *arguments in (("list",), ("revoke", "0" * 16)):
        ended = tokens(command, *arguments)
        assert (ended.code, ended.stdout, ended.stderr) == (1, "", told)
    assert list(path.parent.iterdir()) == []


def test_a_file_that_others_can_read_is_told(tokens: Tokens, path: Path) -> None:
    create_token(path, "User:alice", now_ms=now_ms())
    path.chmod(0o644)
    ended = tokens("list")
    assert (ended.code, ended.stderr) == (0, f"warning: {path}: all users can read it\n")
    created = tokens("create", "--principal", "bob")
    assert created.stderr.endswith(ended.stderr)


def test_the_commands_call_no_server(
    path: Path, tokens: Tokens, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tokens("list", "--address", "127.0.0.1:1").code == 2
    called = calls_of(OFFSETD, monkeypatch)("--address", "h:1", "admin", "tokens", "list")
    assert called.code == 2
    assert "--address" in capsys.readouterr().err


def test_a_terminal_of_80_columns_shows_the_whole_token_and_a_list_that_fits(
    tmp_path: Path,
) -> None:
    shell = Shell(folder=tmp_path, columns=80)
    create = "offsetd admin tokens create --file t.toml --principal alice --note"
    shown = shell.on_a_terminal(f"{create} 'the job of the billing team' --expires 90d")
    [token] = [line for line in shown.stdout.splitlines() if TOKEN.fullmatch(line)]
    assert read_token_file(tmp_path / "t.toml").identify(token, now_ms()) is not None
    for line in (
        "offsetd admin tokens list --file t.toml",
        "offsetd admin tokens revoke --file t.toml 0000000000000000",
        f"offsetd admin tokens revoke --file t.toml {token}",
        f"{create} x --expires soon",
        "offsetd admin tokens list --file t.toml --wide",
    ):
        printed = re.sub("\x1b\\[[0-9;]*m", "", shell.on_a_terminal(line).stdout).splitlines()
        assert max(map(len, printed)) <= 80, printed
        assert token.split("_")[1] in "".join(printed) or "error: " in printed[0]


@pytest.mark.parametrize("name", ["create", "list", "revoke"])
def test_the_help_fits_80_columns(name: str) -> None:
    command = dict(commands())["admin", "tokens", name]
    context = typer.Context(command, info_name=name, terminal_width=80)
    assert max(map(len, command.get_help(context).splitlines())) <= 80


def test_admin_finds_the_commands_of_other_packages_only_when_they_are_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A package without its dependencies is told with what to install; `status` runs."""
    (tmp_path / "half_installed").mkdir()
    (tmp_path / "half_installed" / "commands.py").write_text("import no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(application.EXTRA_OF_PACKAGE, "half_installed", "server")
    asked: list[str] = []

    def found(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        point = EntryPoint("tokens", "half_installed.commands:register", group)
        return [point] if group == "offsetd.admin_commands" else []

    monkeypatch.setattr(application, "entry_points", found)
    call = calls_of(OFFSETD, monkeypatch)
    own = call("admin", "status", "--address", "127.0.0.1:1", "--timeout", "0.2")
    assert (own.code, asked) == (1, ["offsetd.commands"])
    lacking = call("admin", "tokens", "list")
    assert (lacking.code, lacking.stdout) == (1, "")
    assert re.fullmatch(r"error: no_such_library is not installed: .*\[server\]'\n", lacking.stderr)
    assert "offsetd.admin_commands" in asked
    assert call("admin", "--help").code == 0


def test_a_mistyped_name_is_told_the_nearest(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    call = calls_of(OFFSETD, monkeypatch)
    for typed, meant in (("tokns", "tokens"), ("statsu", "status")):
        assert call("admin", typed).code == 2
        assert f"Did you mean '{meant}'?" in capsys.readouterr().err


IMPORTED = """
import sys
from offsetd_clients.cli import main
sys.argv = ["offsetd", *sys.argv[1:]]
try:
    main.main()
except SystemExit:
    print(*sorted(name for name in sys.modules if name.startswith("offsetd_coordinator")))
"""


@pytest.mark.parametrize(
    "line", ["fetch g", "admin status", "admin config", "admin audit", "groups list"]
)
def test_other_commands_do_not_import_it(line: str) -> None:
    command = [sys.executable, "-c", IMPORTED, *line.split(), "--address", "127.0.0.1:1"]
    ended = subprocess.run(
        [*command, "--timeout", "0.1"], capture_output=True, text=True, check=True
    )
    assert ended.stdout == "\n"


def test_the_command_itself_imports_neither_numpy_nor_grpc(path: Path) -> None:
    script = IMPORTED.replace('startswith("offsetd_coordinator")', 'split(".")[0] in HEAVY')
    command = [sys.executable, "-c", f"HEAVY = ('numba', 'numpy', 'cryptography')\n{script}"]
    ended = subprocess.run(
        [*command, "admin", "tokens", "create", "--file", path, "--principal", "alice"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(read_token_file(path).tokens) == 1
    assert ended.stdout.splitlines()[1:] == [""]


def test_the_entry_point_is_that_of_the_package() -> None:
    [point] = entry_points(group="offsetd.admin_commands", name="tokens")
    assert point.value == "offsetd_coordinator.commands.token_commands:register"
