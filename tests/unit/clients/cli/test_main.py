"""offsetd_clients.cli.main and .application: the command as it is installed, run as a process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long(minutes=1), pytest.mark.slow]

OFFSETD = Path(sys.executable).parent / "offsetd"


def offsetd(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [OFFSETD, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


def without(folder: Path, *packages: str) -> dict[str, str]:
    """An environment in which the packages cannot be imported."""
    for package in packages:
        (folder / f"{package}.py").write_text(
            f"raise ModuleNotFoundError('No such module', name={package!r})\n"
        )
    return {"PYTHONPATH": str(folder)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("no-such-command",),
        ("fetch",),
        ("commit", "billing"),
        ("commit", "billing", "orders=1"),
        ("commit", "billing", "orders:0=1", "orders:0=2"),
        ("commit", "billing", "orders:0=1", "--must-not-exist", "--expected-offset", "1"),
        ("fetch", "billing", "-o", "xml"),
        ("groups", "list", "--state", "sleepy"),
        ("commit", "billing", "orders:2147483648=1"),
        ("commit", "billing", "orders:0=9223372036854775808"),
        ("commit", "billing", "orders:0=" + "9" * 5000),
        ("commit", "billing", "orders:0=1", "--leader-epoch", "2147483648"),
        ("commit", "billing", "orders:0=1", "--expected-offset", "9223372036854775808"),
        ("log", "dump", "--partition", "2147483648"),
        ("log", "dump", "--partition", "-1"),
        ("fetch", "billing", "--timeout", "0"),
        ("fetch", "billing", "--timeout", "-1"),
        ("fetch", "billing", "--timeout", "nan"),
        ("fetch", "billing", "--timeout", "inf"),
        ("fetch", "billing", "--address", "localhost"),
        ("fetch", "billing", "--address", "localhost:http"),
        ("fetch", "billing", "--address", ""),
    ],
)
def test_wrong_use_is_exit_code_2_and_told_on_stderr(arguments: tuple[str, ...]) -> None:
    ended = offsetd(*arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("Usage: offsetd")


def test_every_command_is_listed_with_its_first_line() -> None:
    ended = offsetd("--help")
    assert ended.returncode == 0
    commands = ended.stdout.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    names = [line.split()[0] for line in commands if not line.startswith("   ")]
    assert names == [
        "acls",
        "admin",
        "backup",
        "cluster",
        "commit",
        "doctor",
        "fetch",
        "groups",
        "kernels",
        "log",
        "migrate",
        "serve",
        "size",
        "version",
        "watch",
        "web",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [(), ("log",), ("log", "clean"), ("serve",), ("kernels",), ("cluster", "init")]
)
def test_help_does_not_wait_for_the_servers_libraries(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    ended = offsetd(*command, "--help", **without(tmp_path, "numpy", "numba"))
    assert ended.returncode == 0, ended.stderr
    assert "Not available" not in ended.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", [("commit",), ("groups", "list"), ("kernels", "warm")])
def test_every_command_takes_the_output_format(command: tuple[str, ...]) -> None:
    ended = offsetd(*command, "--help")
    assert ended.returncode == 0
    assert "-o, --output" in ended.stdout


def test_the_version_is_printed_alone() -> None:
    ended = offsetd("--version")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.strip().replace(".", "").isdigit()


def test_a_server_that_does_not_answer_is_told_with_what_to_do_and_exit_code_1() -> None:
    ended = offsetd("fetch", "billing", "--address", "127.0.0.1:1", "--timeout", "0.2")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: no answer from 127.0.0.1:1: UNAVAILABLE: ")
    assert ended.stderr.endswith(
        "\n  Is an offsetd there? --address or OFFSETD_ADDRESS says where.\n"
    )
    assert ended.stderr.count("\n") == 2


@pytest.mark.parametrize(
    ("typed", "meant"), [(("grups", "list"), "groups"), (("groups", "lst"), "list")]
)
def test_a_command_that_is_mistyped_is_told_the_nearest(typed: tuple[str, ...], meant: str) -> None:
    ended = offsetd(*typed)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert f"Did you mean '{meant}'?" in ended.stderr


LONG_OUTPUTS = [
    ("--help",),
    ("--version",),
    ("serve", "--list-settings"),
    ("serve", "--list-settings", "-o", "json"),
    ("serve", "--list-settings", "-o", "jsonl"),
    ("serve", "--list-settings", "-o", "csv"),
]


@pytest.mark.slow
@pytest.mark.parametrize("arguments", LONG_OUTPUTS)
def test_output_that_a_full_disk_does_not_take_is_one_line_and_exit_code_1(
    arguments: tuple[str, ...],
) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [OFFSETD, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.stderr == "error: cannot print the output: No space left on device\n"
    assert ended.returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize("arguments", LONG_OUTPUTS)
def test_a_reader_that_goes_away_is_no_error(arguments: tuple[str, ...]) -> None:
    ours, its = os.pipe()
    os.close(ours)
    ended = subprocess.run(
        [OFFSETD, *arguments], stdout=its, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(its)
    assert ended.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-", "2>/dev/full"])
def test_a_stream_that_is_closed_or_full_is_no_defect(redirection: str) -> None:
    line = f"exec {OFFSETD} fetch billing --address 127.0.0.1:1 --timeout 0.1 {redirection}"
    ended = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr


def test_an_argument_that_is_no_text_is_wrong_use() -> None:
    ended = subprocess.run([OFFSETD, "fetch", b"\xff"], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == ("error: INVALID_REQUEST: fetch: '\\udcff' cannot be encoded as UTF-8\n")


def test_without_the_extra_cli_one_line_says_what_to_install(tmp_path: Path) -> None:
    ended = offsetd("fetch", "billing", **without(tmp_path, "typer"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: typer is not installed: ")
    assert ended.stderr.endswith("[cli]'\n")


def test_without_the_extra_server_one_line_says_what_to_install(tmp_path: Path) -> None:
    environment = without(tmp_path, "numba", "numpy", "structlog", "uvloop", "cramjam")
    ended = offsetd("serve", **environment)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert " is not installed: " in ended.stderr
    assert ended.stderr.endswith("[server]'\n")
    assert ended.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_clients_commands_need_no_server_libraries(tmp_path: Path) -> None:
    environment = without(tmp_path, "numba", "numpy", "structlog", "uvloop", "cramjam")
    assert offsetd("fetch", "--help", **environment).returncode == 0
    assert offsetd("--help", **environment).returncode == 0


COLLECTED = """
import gc, sys
from offsetd_clients.cli import application, main, offsets

def register_fetch(app, terminal):
    told.append(gc.isenabled())

    @app.command("fetch")
    def fetch() -> None:
        told.extend((gc.isenabled(), gc.get_freeze_count() > 0))

told = []
offsets.register_fetch = register_fetch
try:
    main.main()
except SystemExit as ended:
    print(*told, ended.code, gc.isenabled())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["fetch"], "False True True 0 True"),
        (["fetch", "--wrong"], "False 2 True"),
        (["no-such-command"], "2 True"),
    ],
)
def test_no_garbage_is_looked_for_until_a_command_begins(
    arguments: list[str], expected: str
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", COLLECTED, *arguments], capture_output=True, text=True, check=True
    )
    assert ended.stdout == f"{expected}\n"
