"""The command line against a real server, from a first commit to a deletion."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from interop.served_folder import OFFSETD, ServedFolder
from offsetd_clients import OffsetToCommit, TopicPartition

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

# Each command, its exit code, what it prints, and what it complains about.
STEPS = [
    (
        "commit billing orders:0=42 orders:1=7 --metadata=größe",
        0,
        "group,topic,partition,offset,revision\nbilling,orders,0,42,0\nbilling,orders,1,7,1\n",
        "",
    ),
    (
        "commit billing orders:0=50 --dry-run",
        0,
        "group,topic,partition,offset,stored_offset\nbilling,orders,0,50,42\n",
        "dry run: nothing was committed, and no precondition was checked\n",
    ),
    (
        "commit billing orders:0=50 orders:2=1 --expected-offset=41",
        1,
        "",
        (
            r"error: OFFSET_CONFLICT: .*\n"
            r"  orders:0: offset 42, revision 0 is stored\n"
            r"  orders:2: nothing is stored\n"
        ),
    ),
    (
        "commit billing orders:1=6 --monotonic",
        1,
        "",
        r"error: OFFSET_NOT_MONOTONIC: .*\n  orders:1: offset 7, revision 1 is stored\n",
    ),
    ("commit billing orders:1=7 --must-not-exist", 1, "", r"error: OFFSET_CONFLICT: .*\n.*\n"),
    (
        f"commit billing {'t' * 250}:0=1",
        2,
        "",
        r"error: INVALID_TOPIC: offsets\[0\]\.topic: .*\n",
    ),
    (
        "fetch billing nobody",
        3,
        (
            "group,topic,partition,offset,end_offset,leader_epoch,commit_time,expire_time,revision,"
            "metadata\n"
            "billing,orders,0,42,,,TIME,TIME,0,größe\n"
            "billing,orders,1,7,,,TIME,TIME,1,größe\n"
        ),
        r"error: group nobody: GROUP_ID_NOT_FOUND: .*\n",
    ),
    (
        "groups list --state empty",
        0,
        "group,type,state,protocol_type,retention,verdict,lag\nbilling,classic,empty,,,,\n",
        "",
    ),
    ("admin health no-such", 1, "", "error: the server has no service 'no-such' in its health\n"),
    ("groups list --prefix x", 0, "group,type,state,protocol_type,retention,verdict,lag\n", ""),
    (
        "groups describe billing nobody",
        3,
        (
            "group,topic,partition,current_offset,log_end_offset,lag,"
            "consumer_id,host,client_id,verdict\n"
            "billing,orders,0,42,,,,,,\n"
            "billing,orders,1,7,,,,,,\n"
        ),
        r"error: group nobody: GROUP_ID_NOT_FOUND: .*\n",
    ),
    (
        "groups delete billing --dry-run",
        0,
        "group,offsets,revision\nbilling,2,\n",
        "dry run: nothing was deleted\n",
    ),
    ("groups delete billing", 0, "group,offsets,revision\nbilling,2,4\n", ""),
    ("groups delete billing", 1, "", r"error: .*GROUP_ID_NOT_FOUND: .*\n"),
    ("groups list", 0, "group,type,state,protocol_type,retention,verdict,lag\n", ""),
]


def test_a_group_from_its_first_commit_to_its_end(
    serve: Callable[[Path], ServedFolder], tmp_path: Path
) -> None:
    server = serve(tmp_path / "new")
    with server.running():
        for line, code, printed, complaint in STEPS:
            ended = subprocess.run(
                [OFFSETD, *line.split(), "-o", "csv", "--address", server.address],
                capture_output=True,
                encoding="utf-8",
                check=False,
                timeout=60,
            )
            assert TIME.sub("TIME", ended.stdout) == printed, line
            assert re.fullmatch(complaint, ended.stderr), (line, ended.stderr)
            assert ended.returncode == code, line


@pytest.mark.parametrize("output_format", ["table", "json", "jsonl", "csv"])
def test_the_settings_are_listed_in_every_format(output_format: str) -> None:
    ended = subprocess.run(
        [OFFSETD, "serve", "--list-settings", "-o", output_format],
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "offsets.topic.num.partitions" in ended.stdout


def test_describe_beside_a_kafka_that_does_not_answer_is_partly_done(tmp_path: Path) -> None:
    server = ServedFolder(tmp_path / "new", settings=("kafka.bootstrap.servers=127.0.0.1:1",))
    with server.running() as client:
        client.commit("billing", {TopicPartition("orders", 0): OffsetToCommit(42, end_offset=50)})
        ended = subprocess.run(
            [OFFSETD, "groups", "describe", "billing", "-o", "csv", "--address", server.address],
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )
    assert ended.returncode == 3
    assert ended.stdout.splitlines()[1:] == ["billing,orders,0,42,50,8,,,,OK"]
    assert ended.stderr.startswith("error: ends of partitions are as last reported, if at all: ")
    assert ended.stderr.count("\n") == 1
