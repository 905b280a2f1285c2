"""What the guide "Resetting a group safely" promises, beside its steps."""

from __future__ import annotations

import csv
import json
import re
import shlex
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import pytest
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_clients.assignors import Subscription
from offsetd_clients.consumer_protocol import assignments_by, encode_subscription
from promised import promised_by
from server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from offsetd_clients import Joined
    from promises.conftest import Told

promised = promised_by("docs/guides/resetting-a-group-safely.md")

P0: Final = TopicPartition("orders", 0)
P1: Final = TopicPartition("orders", 1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = {"group.initial.rebalance.delay.ms": 0, "history.ms": None}
    with ServerProcess(tmp_path_factory.mktemp("server") / "data", settings=settings) as process:
        yield process.wait_until_serving()


def offsets(client: OffsetClient, group: str) -> dict[int, int]:
    return {where.partition: each.offset for where, each in client.fetch(group).items()}


def join(client: OffsetClient, group: str) -> Joined:
    subscription = encode_subscription(Subscription(topics=["orders"]))
    joined = client.join_group(group, {"range": subscription})
    client.sync_group(joined.membership, assignments_by(joined, partition_counts={"orders": 2}))
    return joined


@promised(
    "offsetd does not reset a group that has members (`NON_EMPTY_GROUP`)",
    "`offsetd groups remove-members billing --all` does not wait for that.",
    "`--force` resets a group even if it has members or a lease.",
)
def test_a_group_with_members_is_reset_by_force_or_without_them(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    joined = join(client, group)
    client.commit(group, {P0: 100}, membership=joined.membership)
    reset = f"groups reset {group} --topic orders --to-offset 5"
    for refused in (offsetd(reset), offsetd(f"{reset} --execute")):
        assert (refused.code, f"group {group}: NON_EMPTY_GROUP: " in refused.stderr) == (1, True), (
            refused
        )
    assert offsets(client, group) == {0: 100}
    assert offsetd(f"{reset} --execute --force").code == 0
    assert offsets(client, group) == {0: 5}
    client.commit(group, {P0: 101}, membership=joined.membership)  # Until it fetches again.
    assert offsets(client, group) == {0: 101}
    assert offsetd(f"groups remove-members {group} --all").code == 0
    assert offsetd(f"{reset} --execute").code == 0
    assert offsets(client, group) == {0: 5}


@promised("or whose lease is held (`LEASE_HELD`)")
def test_a_group_whose_lease_is_held_is_not_reset(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    lease = client.acquire_group(group, "host-1")
    client.commit(group, {P0: 100}, epoch=lease.epoch)
    refused = offsetd(f"groups reset {group} --topic orders --to-offset 5 --execute")
    assert (refused.code, f"group {group}: LEASE_HELD: " in refused.stderr) == (1, True), refused
    assert offsets(client, group) == {0: 100}
    line = f"groups reset {group} --topic orders --to-offset 5 --execute --force"
    assert offsetd(line).code == 0
    assert offsets(client, group) == {0: 5}


@promised("Without `--execute` nothing is changed.", "and the command that does it, quoted")
def test_the_command_that_is_shown_does_what_was_shown(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    client.commit(group, {P0: 100, P1: 80})
    reason = 'it\'s a "bad" release; $HOME'
    for target in ("--shift-by -20", "--to-offset 3", "--to-current"):
        before = client.fetch(group)
        line = f"groups reset {group} --topic orders:0,1 {target} --reason {shlex.quote(reason)}"
        shown = offsetd(f"{line} -o jsonl")
        assert (shown.code, client.fetch(group)) == (0, before)
        [command] = re.findall(r"^ +offsetd (.*)$", shown.stderr, re.MULTILINE)
        done = offsetd(command)
        assert done.code == 0, (command, done)
        after = {row["partition"]: row["new_offset"] for row in shown.rows}
        assert offsets(client, group) == after
        [audited] = offsetd(f"admin audit --group {group} --limit 1 -o jsonl").rows
        assert audited["reason"] == reason


@promised("with a new commit time, so that it expires later")
def test_to_current_writes_again_and_keeps_all_but_the_time(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    client.commit(group, {P0: OffsetToCommit(100, metadata="m", leader_epoch=3)})
    before = client.fetch(group)[P0]
    time.sleep(0.01)
    assert offsetd(f"groups reset {group} --topic orders --to-current --execute").code == 0
    after = client.fetch(group)[P0]
    assert after.offset == before.offset
    assert after.commit_time > before.commit_time
    assert after.expire_time is not None
    assert before.expire_time is not None
    assert after.expire_time > before.expire_time


@promised(
    "the offset that this group had committed at that time; the time is UTC unless it has a zone",
    "the offset that it had committed that long ago",
    "They reach as far back as [history](history.md) does",
)
def test_times_are_those_of_the_groups_own_commits(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    client.commit(group, {P0: 10})
    first = client.fetch(group)[P0].commit_time
    time.sleep(8)
    client.commit(group, {P0: 20})
    at = first.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    [row] = offsetd(f"groups reset {group} --topic orders --to-datetime {at} -o jsonl").rows
    assert row["new_offset"] == 10
    zoned = first.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "+02:00")
    refused = offsetd(f"groups reset {group} --topic orders --to-datetime {zoned}")
    assert (refused.code, refused.stderr != "") == (1, True), refused  # Two hours before that.
    assert offsetd(f"groups reset {group} --topic orders --by-duration PT3H").code == 1
    for form in ("PT{seconds:.3f}S", "{ms:.0f}ms"):
        # The command has time to begin before the second commit is in the span.
        seconds = (datetime.now(UTC) - first).total_seconds() - 0.5
        duration = form.format(seconds=seconds, ms=seconds * 1000)
        told = offsetd(f"groups reset {group} --topic orders --by-duration {duration} -o jsonl")
        assert [each["new_offset"] for each in told.rows] == [10], told
    assert offsets(client, group) == {0: 20}


@promised(
    "An offset outside the range of its partition is an error that names the partition "
    "(`OFFSET_OUT_OF_RANGE`). offsetd never moves to the nearest valid offset.",
    "or you give them with `--bounds orders:0=40..120`",
    "Consumers may also report the end with their commits.",
    "offsetd does not clamp an offset",
)
@pytest.mark.parametrize(
    ("target", "offset"),
    [
        ("--to-offset 39 --bounds orders:0=40..120", None),
        ("--to-offset 121 --bounds orders:0=40..120", None),
        ("--to-offset 40 --bounds orders:0=40..120", 40),
        ("--to-offset 120 --bounds orders:0=40..120", 120),
        ("--to-offset 121", None),  # Its end is 120, as the commit said.
        ("--shift-by 21", None),
        ("--shift-by 20", 120),
        ("--shift-by -101", None),
        ("--shift-by -61 --bounds orders:0=40..120", None),
        ("--to-earliest --bounds orders:0=40..120", 40),
        ("--to-latest --bounds orders:0=40..120", 120),
        ("--to-latest", 120),
        ("--to-earliest", None),
    ],
)
def test_a_target_that_a_partition_has_not_moves_nothing(
    client: OffsetClient,
    group: str,
    offsetd: Callable[[str], Told],
    target: str,
    offset: int | None,
) -> None:
    client.commit(group, {P0: OffsetToCommit(100, end_offset=120)})
    done = offsetd(f"groups reset {group} --topic orders:0 {target} --execute")
    assert offsets(client, group) == {0: 100 if offset is None else offset}
    if offset is None:
        assert (done.code, "orders" in done.stderr) == (1, True), done
        if target != "--to-earliest":
            assert "OFFSET_OUT_OF_RANGE: " in done.stderr, done
            assert "orders:0: " in done.stderr, done
    else:
        assert done.code == 0, done


@promised(
    "Such a report may be outdated: if `--to-latest` uses one, a line on standard error says so.",
    "If the end of a partition is unknown, the new offset is not checked against it, and a line "
    "says so",
)
@pytest.mark.parametrize("execute", ["", " --execute"])
@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("--topic orders:0 --to-latest", "1 of 1 new offset: the end as a consumer reported it"),
        ("--topic orders:0 --to-latest --bounds orders:0=..130", ""),
        ("--topic orders --to-offset 7", "1 of 2 new offsets: not checked against"),
        ("--topic orders --shift-by 1", "1 of 2 new offsets: not checked against"),
        ("--topic orders --shift-by 1 --bounds orders:1=..80", ""),
        ("--topic orders --to-current", ""),
    ],
)
def test_what_is_not_sure_of_ends_is_told(
    client: OffsetClient,
    group: str,
    offsetd: Callable[[str], Told],
    target: str,
    told: str,
    execute: str,
) -> None:
    client.commit(group, {P0: OffsetToCommit(100, end_offset=120), P1: 10})
    done = offsetd(f"groups reset {group} {target}{execute}")
    assert done.code == 0, done
    assert told in done.stderr
    assert (" of 1 new" in done.stderr or " of 2 new" in done.stderr) == bool(told)


@promised(
    "Bounds of a partition that is not reset, and two bounds for one partition, are an error."
)
@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("reset {0} --topic orders:0 --to-offset 6 --bounds ordrs:0=0..500", "ordrs:0"),
        ("reset {0} --topic orders:0 --to-offset 6 --bounds orders:1=0..5", "orders:1"),
        ("reset {0} --topic orders --to-offset 6 --bounds ordrs:1=0..5", "ordrs:1"),
        ("reset {0} --all-topics --to-offset 6 --bounds orders:7=0..9", "orders:7"),
        ("reset --all-groups --all-topics --to-current --bounds x:7=0..9", "x:7"),
        ("reset {0} --from-file {1} --bounds orders:1=0..9", "orders:1"),
        ("seek {0} --to end --bounds orders:7=0..9", "orders:7"),
        (
            "reset {0} --topic orders:0 --to-offset 6 --bounds orders:0=..9 --bounds orders:0=1..",
            "orders:0 is named twice",
        ),
    ],
)
def test_bounds_of_what_is_not_reset_are_wrong_use(
    client: OffsetClient,
    group: str,
    offsetd: Callable[[str], Told],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: str,
    wrong: str,
) -> None:
    client.commit(group, {P0: OffsetToCommit(100, end_offset=120)})
    plan = tmp_path / "plan.csv"
    plan.write_text("orders,0,6\n")
    done = offsetd(f"groups {words.format(group, plan)} --execute")
    assert (done.code, done.stdout) == (2, ""), done
    assert wrong in done.stderr + capsys.readouterr().err
    assert offsets(client, group) == {0: 100}


def test_bounds_of_what_is_reset_are_taken(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told], tmp_path: Path
) -> None:
    client.commit(group, {P0: 100})
    plan = tmp_path / "plan.csv"
    plan.write_text("orders,0,6\n")
    for words in (
        "--all-topics --to-offset 6",
        "--topic orders --to-offset 6",
        f"--from-file {plan}",
    ):
        done = offsetd(f"groups reset {group} {words} --bounds orders:0=0..9")
        assert [code for code in [done.code] if code] == [], done


@promised("A reset of one group is one record batch: all of it is on the disk, or nothing.")
def test_one_partition_out_of_bounds_keeps_all_of_its_group(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    client.commit(group, {P0: OffsetToCommit(100, end_offset=120), P1: 10})
    done = offsetd(f"groups reset {group} --all-topics --shift-by 30 --execute")
    assert (done.code, offsets(client, group)) == (1, {0: 100, 1: 10})
    assert "orders:0: offset 130" in done.stderr


@promised(
    "are reset one after the other; the exit code is 3 if some were refused, and each refused "
    "group is named.",
    "1: refused, and nothing was changed; 2: wrong use, or a bad line of a file; "
    "3: some groups were reset, others were refused.",
)
@pytest.mark.parametrize("chosen", ["--group {0} --group {1}", "{0} {1}"])
def test_of_several_groups_those_that_were_refused_are_named(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told], chosen: str
) -> None:
    held, free = f"{group}-held", f"{group}-free"
    lease = client.acquire_group(held, "host-1")
    client.commit(held, {P0: 100}, epoch=lease.epoch)
    client.commit(free, {P0: 100})
    done = offsetd(
        f"groups reset {chosen.format(held, free)} --topic orders --to-offset 1 --execute -o jsonl"
    )
    assert (done.code, [row["group"] for row in done.rows]) == (3, [free])
    assert (held in done.stderr, free in done.stderr.replace(f"{free}: ", "")) == (True, False)
    assert (offsets(client, held), offsets(client, free)) == ({0: 100}, {0: 1})
    assert offsetd(f"groups reset {held} --topic orders --to-offset 1 --execute").code == 1


@promised("2: wrong use, or a bad line of a file")
@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "--topic orders",
        "--to-offset 5",
        "--topic orders --to-offset 5 --to-earliest",
        "--topic orders --to-offset -5",
        "--topic orders --to-datetime yesterday",
        "--topic orders --by-duration soon",
        "--topic orders --to-offset 5 --execute --dry-run",
        "--topic orders --to-offset 5 --bounds orders:0=9..3",
        "--topic orders --all-topics --to-offset 5",
        "--all-groups --topic orders --to-offset 5",
        "--from-file no-such.csv --topic orders",
    ],
)
def test_wrong_use_is_told_and_changes_nothing(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told], wrong: str
) -> None:
    client.commit(group, {P0: 100})
    line = f"groups reset {group} {wrong}" + ("" if "--dry-run" in wrong else " --execute")
    done = offsetd(line)
    assert (done.code, offsets(client, group)) == (2, {0: 100}), done


@promised(
    "`--all-groups --topic orders` skips groups that have no offset of the topic, whether they "
    "are in use or not. It fails if no group has one."
)
def test_all_groups_are_those_that_have_the_topic(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    client.commit(f"{group}-a", {TopicPartition(group, 0): 100})
    client.commit(f"{group}-b", {TopicPartition("other", 0): 100})
    client.acquire_group(f"{group}-b", "host-1")
    join(client, f"{group}-c")
    for target in ("--by-duration 1ms", "--shift-by -1", "--to-offset 1"):
        line = f"groups reset --all-groups --topic {group} {target} --execute -o jsonl"
        done = offsetd(line)
        assert (done.code, [row["group"] for row in done.rows]) == (0, [f"{group}-a"]), done
    assert offsets(client, f"{group}-b") == {0: 100}
    assert offsetd(line.replace(f"--topic {group}", "--topic no-such-topic")).code == 1


@promised(
    "a bad line of a file stops the whole reset.",
    "or `group,topic,partition,offset` if it has several groups",
)
@pytest.mark.parametrize("bad", ["orders,1", "orders,1,x", "orders,-1,5", "orders,1,-5"])
def test_a_bad_line_of_a_file_stops_all_of_it(
    client: OffsetClient,
    group: str,
    offsetd: Callable[[str], Told],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    bad: str,
) -> None:
    client.commit(group, {P0: 100, P1: 80})
    client.commit(f"{group}-b", {P0: 100})
    file = tmp_path / "plan.csv"
    file.write_text(f"orders,0,5\n{bad}\n")
    done = offsetd(f"groups reset {group} --from-file {file} --execute")
    assert (done.code, offsets(client, group)) == (2, {0: 100, 1: 80}), done
    assert "line 2" in capsys.readouterr().err
    file.write_text(f"{group},orders,0,5\n{group}-b,{bad}\n")
    done = offsetd(f"groups reset {group} {group}-b --from-file {file} --execute")
    assert done.code == 2, done
    assert (offsets(client, group), offsets(client, f"{group}-b")) == ({0: 100, 1: 80}, {0: 100})
    file.write_text(f"{group},orders,0,5\n{group}-b,orders,0,6\n")
    assert offsetd(f"groups reset {group} {group}-b --from-file {file} --execute").code == 0
    assert offsets(client, group) == {0: 5, 1: 80}
    assert offsets(client, f"{group}-b") == {0: 6}


@promised(
    "`offsetd groups export billing --file before.jsonl`, and later "
    "`offsetd groups import before.jsonl`."
)
def test_a_file_from_before_brings_everything_back(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told], tmp_path: Path
) -> None:
    client.commit(group, {P0: OffsetToCommit(100, metadata="früh", leader_epoch=3), P1: 80})
    before = client.fetch(group)
    file = tmp_path / "before.jsonl"
    assert offsetd(f"groups export {group} --file {file}").code == 0
    assert offsetd(f"groups reset {group} --topic orders --to-offset 1 --execute").code == 0
    assert offsetd(f"groups import {file}").code == 0
    after = client.fetch(group)
    for where, each in before.items():
        stored = after[where]
        assert (stored.offset, stored.metadata, stored.leader_epoch) == (
            each.offset,
            each.metadata,
            each.leader_epoch,
        )


@promised(
    "`-o json` or `-o csv` for the result; the notes go to standard error",
    "times are the times of commits",
)
def test_notes_stay_out_of_the_result(
    client: OffsetClient, group: str, offsetd: Callable[[str], Told]
) -> None:
    client.commit(group, {P0: 100})
    line = f"groups reset {group} --topic orders --shift-by -1"
    [row] = json.loads(offsetd(f"{line} -o json").stdout)
    told = offsetd(f"{line} -o csv")
    [cells] = csv.DictReader(told.stdout.splitlines())
    assert cells == {name: "" if cell is None else str(cell) for name, cell in row.items()}
    assert "dry run" in told.stderr
