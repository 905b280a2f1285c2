"""What the pages promise of settings, health and commits, tried with `offsetd serve` itself."""

from __future__ import annotations

import csv
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest
from offsetd_clients import OffsetClient, OffsetdError, OffsetToCommit, TopicPartition
from promised import promised_by
from server_process import START_SECONDS_MAX, ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from promises.conftest import Told

promised = promised_by("docs/guides/settings.md")
promised_of_operating = promised_by("docs/guides/operating.md")
promised_of_commits = promised_by("docs/guarantees.md")

_COMMAND: Final = "from offsetd_clients.cli.main import main; main()"
TOPIC: Final = "__consumer_offsets"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Settings from three places, some of them from more than one."""
    folder = tmp_path_factory.mktemp("settings")
    file = folder / "offsetd.toml"
    file.write_text(
        '"segment.ms" = 111111\n"log.retention.hours" = 5\n"expiry.grace.ms" = 222222\n'
    )
    with ServerProcess(
        folder / "data",
        settings={"expiry.grace.ms": 444444, "log.roll.hours": 7, "log.roll.ms": 3600001},
        environment={"OFFSETD_SEGMENT_MS": "333333", "OFFSETD_EXPIRY_GRACE_MS": "555555"},
        arguments=("--config", str(file)),
    ) as process:
        yield process.wait_until_serving()


def refused(tmp_path: Path, *arguments: str, file: str = "") -> subprocess.CompletedProcess[str]:
    """`offsetd serve` that does not start."""
    words = ["serve", "--data-dir", str(tmp_path / "data"), "--listen", "127.0.0.1:0", *arguments]
    if file:
        (tmp_path / "offsetd.toml").write_text(file)
        words += ["--config", str(tmp_path / "offsetd.toml")]
    ended = subprocess.run(
        [sys.executable, "-c", _COMMAND, *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS_MAX,
    )
    assert not (tmp_path / "data" / f"{TOPIC}-0").exists()
    return ended


@promised(
    "A value comes from `--set NAME=VALUE`, else the environment (`OFFSETD_SEGMENT_MS` for "
    "`segment.ms`), else the TOML file of `--config`, else its default.",
    "Milliseconds take precedence over minutes, and minutes over hours",
    "A topic's setting takes precedence over the server's, as with a broker.",
)
@pytest.mark.parametrize(
    ("topic", "name", "value"),
    [
        (TOPIC, "segment.ms", "333333"),
        ("", "expiry.grace.ms", "444444"),
        ("", "log.retention.hours", "5"),
        ("", "log.roll.ms", "3600001"),
        (TOPIC, "cleanup.policy", "compact"),
        ("", "offsets.retention.minutes", "10080"),
    ],
)
def test_which_value_counts(
    offsetd: Callable[[str], Told], topic: str, name: str, value: str
) -> None:
    of = f"--topic {topic}" if topic else ""
    [row] = csv.DictReader(offsetd(f"admin config {of} {name} -o csv").stdout.splitlines())
    assert row["value"] == value, row


@promised("Until then it takes precedence over `--set`, the environment and the file.")
@pytest.mark.parametrize(
    ("of", "name"),
    [
        ("", "expiry.grace.ms"),  # By --set.
        (f"--topic {TOPIC}", "segment.ms"),  # By the environment.
    ],
)
def test_a_value_that_was_set_while_running_goes_first(
    offsetd: Callable[[str], Told], of: str, name: str
) -> None:
    def value() -> str:
        [row] = csv.DictReader(offsetd(f"admin config {of} {name} -o csv").stdout.splitlines())
        return row["value"]

    before = value()
    assert offsetd(f"admin config {of} {name}=1234567").code == 0
    assert value() == "1234567" != before
    assert offsetd(f"admin config {of} --unset {name}").code == 0
    assert value() == before


@promised(
    "A name that does not exist is an error that names the nearest existing one.",
    "Numbers must lie within Kafka's bounds.",
    "`cleanup.policy` of the offsets topic cannot contain `delete`",
)
@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("offsets.retention.minute=5", "offsets.retention.minutes"),
        ("segmnt.ms=5", "segment.ms"),
        ("segment.bytes=65536", "segment.bytes"),
        ("offsets.retention.minutes=soon", "offsets.retention.minutes"),
        ("offsets.retention.minutes=0", "offsets.retention.minutes"),
        ("cleanup.policy=delete", "cleanup.policy"),
        ("cleanup.policy=compact,delete", "cleanup.policy"),
        ("log.cleaner.threads=many", "log.cleaner.threads"),
    ],
)
def test_a_setting_that_is_none_is_refused_wherever_it_stands(
    tmp_path: Path, setting: str, said: str
) -> None:
    name, _, value = setting.partition("=")
    is_in_file = name == "segmnt.ms"  # Each is a process: one of them stands for all.
    for ended in (
        refused(tmp_path, "--set", setting),
        *([refused(tmp_path, file=f'"{name}" = "{value}"\n')] if is_in_file else []),
    ):
        assert (ended.returncode, said in ended.stderr) == (2, True), ended
        assert "Traceback" not in ended.stderr


@promised(
    "Prefix a name with `internal.` to go below Kafka's minimum, as far as the engine allows: "
    "`internal.segment.bytes=65536`."
)
def test_an_internal_name_passes_by_kafkas_bounds(tmp_path: Path) -> None:
    settings = {"internal.segment.bytes": 65536}
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        server.wait_until_serving()
        server.stop_well()


@promised_of_operating(
    '`grpc.health.v1` has `""`, each service, `offsetd.cleaner`, and `offsetd.clock`.'
)
@pytest.mark.parametrize(
    "service",
    [
        "",
        "offsetd.v1.OffsetService",
        "offsetd.v1.GroupService",
        "offsetd.v1.AdminService",
        "offsetd.v1.AclService",
        "offsetd.v1.BackupService",
        "offsetd.cleaner",
        "offsetd.clock",
    ],
)
def test_health_tells_of_each_service(client: OffsetClient, service: str) -> None:
    assert client.is_serving(service)


@promised_of_commits(
    "Compare-and-set: `expected_offset`, `expected_revision`, `must_not_exist`, "
    "`monotonic`, each per partition, checked in the same step as the write.",
    "A commit is all or nothing, for any number of partitions of one group",
)
@pytest.mark.parametrize(
    "guard",
    [
        {"expected_offset": 4},
        {"expected_revision": 999},
        {"must_not_exist": True},
        {"monotonic": True},
    ],
)
def test_a_comparison_that_does_not_hold_keeps_all_of_the_commit(
    client: OffsetClient, group: str, guard: dict[str, Any]
) -> None:
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    client.commit(group, {first: 5})
    with pytest.raises(OffsetdError) as refused:
        client.commit(group, {second: 9, first: OffsetToCommit(3, **guard)})
    assert refused.value.code in ("ABORTED", "FAILED_PRECONDITION")
    assert {where: each.offset for where, each in client.fetch(group).items()} == {first: 5}
