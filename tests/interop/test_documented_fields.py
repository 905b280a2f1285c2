"""docs/reference/command-line.md says which fields commands print, and of which types."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
from cli_sessions import Shell
from cli_tree import commands
from interop.served_groups import serving_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long(minutes=1)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

# Each documented command, as it is called so that it prints rows; `-o` is added.
RUNS: Final = {
    "offsetd commit": "offsetd commit billing orders:0=42 orders:1=7 --end-offset 50",
    "offsetd fetch": "offsetd fetch billing readers",
    "offsetd watch": "offsetd watch --from oldest",
    "offsetd groups list": "offsetd groups list",
    "offsetd groups describe": "offsetd groups describe billing readers",
    "offsetd groups describe --members": "offsetd groups describe readers --members",
    "offsetd groups describe --state": "offsetd groups describe --all-groups --state",
    "offsetd groups reset": "offsetd groups reset billing --topic orders --shift-by -1 --execute",
    "offsetd groups seek": "offsetd groups seek billing --to-group trial",
    "offsetd groups restore": "offsetd groups restore billing --to-revision 1",
    "offsetd groups history": "offsetd groups history billing",
    "offsetd groups clone": "offsetd groups clone billing trial --overwrite",
    "offsetd groups import": "offsetd groups import offsets.csv --group imported",
    "offsetd groups import --dry-run": (
        "offsetd groups import offsets.csv --group imported --dry-run"
    ),
    "offsetd groups update": "offsetd groups update billing --retention 90d",
    "offsetd groups delete": "offsetd groups delete trial --dry-run",
    "offsetd groups offset-delete": "offsetd groups offset-delete trial --topic orders --dry-run",
    "offsetd groups remove-members": "offsetd groups remove-members readers --all --dry-run",
    "offsetd admin status": "offsetd admin status --partition 9",
    "offsetd admin health": "offsetd admin health",
    "offsetd doctor": "offsetd doctor",
    "offsetd size": "offsetd size --groups 10 --partitions 4 --commits-per-second 2",
    "offsetd version": "offsetd version --all",
    "offsetd admin config": "offsetd admin config --changed",
    "offsetd admin config --long": "offsetd admin config --long",
    "offsetd admin clean": "offsetd admin clean --roll-active --dry-run",
    "offsetd admin retry": "offsetd admin retry 9",
    "offsetd admin delete-records": (
        "offsetd admin delete-records __offsetd_audit:0 --before 1 --dry-run"
    ),
    "offsetd admin audit": "offsetd admin audit",
    "offsetd admin quotas": "offsetd admin quotas",
    "offsetd admin tokens create": "offsetd admin tokens create --file made.toml --principal alice",
    "offsetd admin tokens list": "offsetd admin tokens list --file tokens.toml",
    "offsetd admin tokens revoke": (
        "offsetd admin tokens revoke --file revoked.toml 8a52d13c5ee80f17"
    ),
    "offsetd backup create": "offsetd backup create backups",
    "offsetd backup list": "offsetd backup list backups",
    "offsetd backup verify": "offsetd backup verify backups",
    "offsetd backup prune": "offsetd backup prune backups --keep 1",
    "offsetd backup restore": "offsetd backup restore backups --data-dir restored",
    "offsetd backup restore --group": "offsetd backup restore backups --group billing",
    "offsetd backup restore --group --execute": (
        "offsetd backup restore backups --group billing --execute"
    ),
    "offsetd acls list": "offsetd acls list",
    "offsetd acls add": "offsetd acls add --allow-principal User:b --group billing --dry-run",
    "offsetd acls remove": "offsetd acls remove --group billing --dry-run",
    "offsetd acls test": "offsetd acls test --principal User:a --operation Read --group billing",
    "offsetd log describe": "offsetd log describe --data-dir stopped --partition 9",
    "offsetd log describe --cleaning": (
        "offsetd log describe --data-dir stopped --partition 9 --cleaning"
    ),
    "offsetd log verify": "offsetd log verify --data-dir broken",
    "offsetd log clean": (
        "offsetd log clean --data-dir stopped --dry-run --roll-active"
        " --set history.ms=0 --set request.id.window.ms=0"
    ),
    "offsetd log retain": (
        "offsetd log retain --data-dir stopped --dry-run --topic __offsetd_audit"
        " --set retention.ms=1"
    ),
    "offsetd log repair": "offsetd log repair --data-dir damaged --dry-run",
    "offsetd log repair --by-group": "offsetd log repair --data-dir damaged --by-group",
    "offsetd log transactions list": "offsetd log transactions list --data-dir stopped",
    "offsetd log recreate": (
        "offsetd log recreate --data-dir stopped --topic __consumer_offsets --partition 9 --dry-run"
    ),
    "offsetd serve --list-settings": "offsetd serve --list-settings",
}
BATCH_HEADER_BYTES: Final = 61
TOKENS: Final = f"""version = 1
[[token]]
id = "8a52d13c5ee80f17"
principal = "User:alice"
salt = "{"0" * 32}"
hmac_sha256 = "{"0" * 64}"
created = 2026-11-20T21:06:15.341Z
"""
# They have rows only where something is broken.
MAY_BE_EMPTY: Final = (
    "offsetd admin quotas",  # The server has none; tests/security/test_quotas_described.py has.
    "offsetd admin retry",
    "offsetd admin clean",
    "offsetd log retain",
    "offsetd backup verify",
    "offsetd log transactions list",
    "offsetd log repair --by-group",
)
# The last one has those of `log transactions list`, which test_log_transactions.py compares.
WITHOUT_ROWS: Final = (
    *("groups export", "log dump", "serve", "kernels warm", "web"),
    "log transactions abort",
)


@attrs.frozen
class Field:
    name: str
    types: tuple[str, ...]

    def problem(self, value: Any) -> str:
        if any(_is(value, each) for each in self.types):
            return ""
        return f"{self.name} is {value!r}, and documented as {' or '.join(self.types)}"


def _is(value: Any, type_name: str) -> bool:
    match type_name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "time":
            return isinstance(value, str) and bool(TIME.fullmatch(value))
        case "list":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "object":
            return isinstance(value, dict)
    raise AssertionError(f"a type that the page does not name: {type_name}")


def documented() -> dict[str, list[Field]]:
    """The fields of each command, in order."""
    sections = re.split(r"^### `(.*)`$", PAGE.read_text("utf-8"), flags=re.MULTILINE)[1:]
    return {
        command: [
            Field(name, tuple(types.split(" or ")))
            for name, types in re.findall(r"^\| `(\w+)` \| ([\w ]+?) \|", text, re.MULTILINE)
        ]
        for command, text in zip(sections[::2], sections[1::2], strict=True)
    }


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("documented")
    (folder / "offsets.csv").write_text("orders,0,5\n")
    for name in ("tokens.toml", "revoked.toml"):
        (folder / name).write_text(TOKENS)
        (folder / name).chmod(0o600)
    break_folder(folder / "broken")
    with serving_groups(folder / "stopped") as server:
        commit_and_reset(Shell(folder=folder, environment={"OFFSETD_ADDRESS": server.address}))
    shutil.copytree(folder / "stopped", folder / "damaged")
    damage_folder(folder / "damaged")
    with serving_groups(folder / "data") as server:
        shell = Shell(folder=folder, environment={"OFFSETD_ADDRESS": server.address})
        commit_and_reset(shell)
        shell.piped(RUNS["offsetd backup create"])
        yield shell


def break_folder(folder: Path) -> None:
    """A log with a batch that is none."""
    log = folder / "__consumer_offsets-0"
    log.mkdir(parents=True)
    (log / "00000000000000000000.log").write_bytes(b"no batch at all" * 10)


def damage_folder(folder: Path) -> None:
    """One wrong bit in a batch of a log that a server has left."""
    logs = folder.glob("__consumer_offsets-*/*.log")
    largest = max(logs, key=lambda each: each.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[BATCH_HEADER_BYTES] ^= 1
    largest.write_bytes(content)


def commit_and_reset(shell: Shell) -> None:
    """So that there is something to restore, to clone, to clean, to show."""
    for line in (
        RUNS["offsetd commit"],
        RUNS["offsetd groups reset"],
        "offsetd groups clone billing trial",
        "offsetd admin config log.cleaner.threads=2",
        "offsetd acls add --allow-principal User:a --group billing",
    ):
        ended = shell.piped(line)
        assert ended.code == 0, ended.stderr


def printed(shell: Shell, command: str, output: str) -> str:
    line = f"{RUNS[command]} -o {output}"
    if command != "offsetd watch":
        ended = shell.piped(line)
        assert ended.code == (1 if "broken" in line else 0), (line, ended.stderr)
        return ended.stdout
    with shell.started([*line.split()[1:]]) as running:
        running.wait_for(lambda: running.stdout.count(b"\n") > 3)
        return running.stdout.decode().rpartition("\n")[0] + "\n"


@pytest.mark.parametrize("command", sorted(RUNS))
def test_a_command_prints_the_fields_that_are_documented(shell: Shell, command: str) -> None:
    fields = documented()[command]
    names = [field.name for field in fields]
    rows = [json.loads(line) for line in printed(shell, command, "jsonl").splitlines()]
    if not rows:
        assert command in MAY_BE_EMPTY
        assert printed(shell, command, "csv") == f"{','.join(names)}\n"
    for row in rows:
        assert list(row) == names
        problems = [field.problem(row[field.name]) for field in fields]
        assert not any(problems), problems


def test_every_command_is_on_the_page() -> None:
    assert sorted(documented()) == sorted(RUNS)
    text = PAGE.read_text("utf-8")

    known = {command.removeprefix("offsetd ").partition(" --")[0] for command in RUNS}
    for path, _ in commands():
        name = " ".join(path)
        if path[0] in ("migrate", "cluster"):
            continue  # On a page of its own; with a Kafka cluster only.
        assert name in known or name in WITHOUT_ROWS, name
        assert f"`offsetd {name}" in text, name
