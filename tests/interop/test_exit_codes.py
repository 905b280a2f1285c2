"""The table of exit codes in docs/reference/command-line.md: each row, run so that it ends so."""

from __future__ import annotations

import datetime as dt
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pytest
from cli_sessions import Shell
from interop.served_folder import ServedFolder
from interop.served_groups import serving_groups
from interop.test_documented_fields import TOKENS
from offsetd_clients import OffsetClient, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"
SILENT = "--address 127.0.0.1:1 --timeout 0.5"
ZOOKEEPER = "offsetd migrate zookeeper"
# By command and exit code: what to type. `readers` has members, `nobody` is not there.
CASES: Final[dict[str, dict[int, str]]] = {
    "commit": {0: "billing orders:0=5", 1: "billing orders:0=1 --expected-offset 77"},
    "fetch": {0: "billing", 1: "nobody", 3: "billing nobody"},
    "watch": {1: SILENT},
    "groups list": {0: "", 1: SILENT, 3: "--address HURT"},
    "groups describe": {0: "billing", 1: "nobody", 3: "billing nobody"},
    "groups history": {0: "billing", 1: "nobody", 3: "nobody billing"},
    "groups delete": {0: "spare", 1: "readers", 3: "trial readers --dry-run"},
    "groups update": {
        0: "billing --retention 9d",
        1: "nobody --retention 9d",
        3: "billing nobody --retention 9d",
    },
    "groups reset": {
        0: "billing --all-topics --shift-by 0",
        1: "readers --all-topics --shift-by 0",
        3: "billing readers --all-topics --shift-by 0",
    },
    "groups seek": {
        0: "trial --to-group billing",
        1: "readers --to-group billing",
        3: "trial readers --to-group billing",
    },
    "groups restore": {
        0: "billing --to-datetime NOW",
        1: "nobody --to-datetime NOW",
        3: "billing nobody --to-datetime NOW",
    },
    "groups offset-delete": {
        0: "trial --topic orders --dry-run",
        1: "readers --topic orders",
        3: "trial readers --topic orders --dry-run",
    },
    "groups remove-members": {
        0: "readers --all --dry-run",
        1: "readers --member nobody",
        3: "readers --instance host-1 --member nobody --dry-run",
    },
    "groups import": {0: "one.csv --group imported", 1: "readers.csv", 3: "both.csv"},
    "groups export": {0: "", 1: "--file one.csv"},
    "groups clone": {0: "billing trial --overwrite", 1: "nobody other"},
    "admin config": {0: "", 1: SILENT},
    "admin retry": {0: "9", 1: f"9 {SILENT}"},
    "admin delete-records": {
        0: "__offsetd_audit:0 --before 1 --dry-run",
        1: f"__offsetd_audit:0 --before 1 {SILENT}",
    },
    "admin audit": {0: "", 1: SILENT},
    "admin quotas": {0: "", 1: SILENT},
    "admin tokens create": {
        0: "--file tokens.toml --principal alice",
        1: "--file no.plan --principal alice",
    },
    "admin tokens list": {0: "--file none.toml", 1: "--file nowhere.toml"},
    "admin tokens revoke": {
        0: "--file some.toml 8a52d13c5ee80f17",
        1: "--file none.toml 8a52d13c5ee80f17",
    },
    "backup create": {0: "backups", 1: f"backups {SILENT}"},
    "backup list": {0: "backups", 1: "torn"},
    "backup verify": {0: "backups", 1: "torn"},
    "backup prune": {0: "backups --keep 9", 1: "torn --keep 9"},
    "backup restore": {0: "backups --data-dir restored", 1: "backups --data-dir stopped"},
    "acls list": {0: "", 1: SILENT},
    "acls add": {
        0: "--allow-principal User:a --group billing",
        1: f"--allow-principal User:a --group billing {SILENT}",
    },
    "acls remove": {0: "--group nobody", 1: f"--group nobody {SILENT}"},
    "acls test": {
        0: "--principal User:a --operation Read --group billing",
        1: "--principal User:b --operation Read --group billing",
    },
    "admin status": {0: "", 1: "--address HURT"},
    "doctor": {0: "", 1: "--address HURT"},
    "admin health": {0: "offsetd.cleaner", 1: SILENT},
    "admin clean": {
        0: "--dry-run",
        1: "--dry-run --address HURT --partition DAMAGED",
        3: "--dry-run --address HURT",
    },
    "log describe": {0: "--data-dir stopped", 1: "--data-dir nowhere"},
    "log dump": {0: "--data-dir stopped", 1: "--data-dir nowhere"},
    "log verify": {0: "--data-dir stopped", 1: "--data-dir damaged"},
    "log clean": {
        0: "--data-dir stopped --dry-run",
        1: "--data-dir nowhere",
        3: "--data-dir damaged --dry-run",
    },
    "log retain": {0: "--data-dir stopped --dry-run", 1: "--data-dir nowhere"},
    "log repair": {0: "--data-dir stopped", 1: "--data-dir nowhere"},
    "log transactions list": {0: "--data-dir stopped", 1: "--data-dir nowhere"},
    "log transactions abort": {1: "--data-dir stopped --producer-id 7"},
    "log recreate": {
        0: "--data-dir stopped --topic __consumer_offsets --partition 9",
        1: "--data-dir nowhere --topic __consumer_offsets --partition 9",
    },
    "cluster init": {1: "--from-data-dir nowhere --bootstrap-servers 127.0.0.1:1"},
    "cluster export": {1: "--data-dir stopped --bootstrap-servers 127.0.0.1:1"},
    "serve": {0: "--list-settings", 1: "--data-dir unused --listen HERE"},
    "version": {0: "--all", 1: SILENT},
    "web": {1: "--listen HERE"},
    "size": {0: "--groups 1 --partitions 1 --commits-per-second 1"},
    "kernels warm": {0: ""},
    "migrate zookeeper plan": {
        0: "--from-file good.txt",
        1: "--from-file no.plan",
        3: "--from-file mixed.txt",
    },
    "migrate kafka plan": {0: "--folder stopped", 1: "--folder nowhere"},
    "migrate zookeeper run": {0: "good.plan", 1: "no.plan", 3: "taken.plan"},
    "migrate zookeeper undo": {0: "good.plan", 1: "no.plan"},
    "migrate zookeeper cutover": {1: "no.plan"},
    "migrate zookeeper rollback": {1: "no.plan"},
    "migrate kafka run": {1: "no.plan"},
    "migrate kafka rollback": {1: "no.plan"},
    "migrate kafka undo": {1: "no.plan"},
    "migrate zookeeper diff": {0: "good.plan", 1: "no.plan", 3: "taken.plan"},
    "migrate kafka diff": {1: "no.plan"},
    "migrate zookeeper export": {0: "good.plan --file exported.txt", 1: "no.plan"},
    "migrate zookeeper mirror": {1: "no.plan"},
    "migrate zookeeper verify": {1: "good.plan --as-planned"},
    "migrate kafka verify": {1: "no.plan"},
}
# Cells of the table that are shown elsewhere: with a ZooKeeper, a Kafka cluster, a failing disk.
ELSEWHERE = {("watch", 0), ("log retain", 3), ("kernels warm", 1), ("migrate zookeeper mirror", 3)}
ELSEWHERE |= {("migrate zookeeper mirror", 0), ("migrate zookeeper verify", 0)}
ELSEWHERE |= {("backup restore", 3), ("version", 3), ("cluster init", 0), ("cluster export", 0)}
ELSEWHERE |= {("web", 0), ("log repair", 3)}


def documented() -> list[tuple[list[str], set[int]]]:
    """The commands of each row, and the codes with which they end."""
    table = PAGE.read_text("utf-8").split("| commands | 1 | 3 |")[1].split("\n\n")[0]
    rows = [line.split("|")[1:4] for line in table.splitlines()[2:]]
    return [
        (
            re.findall(r"`([^`]+)`", names),
            {0, *([1] if one.strip() else []), *([3] if three.strip() else [])},
        )
        for names, one, three in rows
    ]


@pytest.mark.parametrize(("names", "codes"), documented(), ids=lambda each: str(each)[:40])
def test_each_cell_of_the_table_is_run(names: list[str], codes: set[int]) -> None:
    assert {*names} <= CASES.keys()
    run = {code for name in names for code in CASES[name]}
    run |= {code for name, code in ELSEWHERE if name in names}
    assert run == codes


@attrs.frozen
class World:
    """Where commands run, and what stands for words in their lines."""

    shell: Shell
    words: dict[str, str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("exits")
    write_files(folder)
    tear_backup(folder / "torn")
    with serving_groups(folder / "stopped") as server, OffsetClient(server.address) as client:
        client.commit("billing", {TopicPartition("orders", 0): 1})
        client.commit("billing", {TopicPartition("orders", 0): 2})
    shutil.copytree(folder / "stopped", folder / "hurt")
    damaged = damage(folder / "hurt")
    shutil.copytree(folder / "hurt", folder / "damaged")
    hurt = ServedFolder(folder / "hurt")
    with serving_groups(folder / "data") as server, hurt.running():
        shell = Shell(folder=folder, environment={"OFFSETD_ADDRESS": server.address})
        prepare(shell)
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        words = {"HURT": hurt.address, "HERE": server.address, "DAMAGED": damaged, "NOW": now}
        yield World(shell, words)


def write_files(folder: Path) -> None:
    good = "/consumers/moved/offsets/orders/0:5\n"
    texts = {
        "one.csv": "orders,0,5\n",
        "readers.csv": "readers,orders,0,5\n",
        "both.csv": "readers,orders,0,5\nboth,orders,0,5\n",
        "good.txt": good,
        "taken.txt": f"{good}/consumers/billing/offsets/orders/0:999\n",
        "mixed.txt": f"{good}/consumers/bad/offsets/orders/0:wort\n",
        "no.plan": "hello\n",
        "none.toml": "version = 1\n",
        "some.toml": TOKENS,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)


def damage(folder: Path) -> str:
    """Makes a partition of the group `billing` one with a wrong batch; returns its number."""
    for log in sorted(folder.glob("__consumer_offsets-*/*.log")):
        content = bytearray(log.read_bytes())
        if b"billing" in content:
            content[content.index(b"billing")] ^= 1
            log.write_bytes(content)
            return log.parent.name.rpartition("-")[2]
    raise AssertionError("no log has the group")


def tear_backup(folder: Path) -> None:
    """A target with a manifest that is none."""
    (folder / "manifests").mkdir(parents=True)
    (folder / "manifests" / "20261128T101500.000Z-0a1b2c3d.json").write_text("hello\n")


def prepare(shell: Shell) -> None:
    for line in (
        "offsetd commit billing orders:0=1",
        "offsetd groups clone billing trial",
        "offsetd groups clone billing spare",
        "offsetd backup create backups",
        f"{ZOOKEEPER} plan --from-file good.txt --file good.plan",
        f"{ZOOKEEPER} plan --from-file taken.txt --file taken.plan",
    ):
        ended = shell.piped(line)
        assert ended.code == 0, (line, ended.stderr)


@pytest.mark.parametrize(
    ("name", "code"), [(name, code) for name, cases in CASES.items() for code in cases]
)
def test_a_command_ends_with_the_code_that_is_documented(
    world: World, name: str, code: int
) -> None:
    arguments = CASES[name][code]
    for word, value in world.words.items():
        arguments = arguments.replace(word, value)
    ended = world.shell.piped(f"offsetd {name} {arguments}")
    assert ended.code == code, ended.stdout[-500:] + ended.stderr[-1000:]
    told = "left out" if (name, code) == ("groups list", 3) else "error: "
    assert code == 0 or told in ended.stderr
