"""`offsetd log repair` that fails midway, or that the audit log cannot note."""

import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from damaged_folders import damaged_folder, offsets_partition, opened, repairs_in_audit_log
from log_commands import Outcome, offsetd_log, tree
from offsetd_clients.cli.printing.terminal import OutputFormat
from offsetd_coordinator.administration import repair_journal
from offsetd_coordinator.administration.audit import AuditEvent
from offsetd_coordinator.administration.repair_journal import (
    REPAIRS_NAME,
    complete_repairs,
    read_begun,
    write_begun,
)
from offsetd_coordinator.commands import log_repair
from offsetd_coordinator.configuration.internal_topic_configs import AUDIT_PARTITION
from offsetd_storage.clock import SystemClock
from offsetd_storage.disk.checksums import checksum
from offsetd_storage.disk.files import OsFiles
from promised import promised_by

promised = promised_by("docs/guides/copies-of-the-folder.md")


def repair(folder: Path, *arguments: str) -> Outcome:
    return offsetd_log("repair", "--data-dir", str(folder), *arguments, output=OutputFormat.JSON)


def noted(folder: Path) -> list[int]:
    return [each.what["partition"] for each in repairs_in_audit_log(folder)]


def test_a_repair_that_fails_midway_shows_what_was_done_and_the_next_one_notes_it(
    tmp_path: Path,
) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0, 1])
    in_the_way = folder / offsets_partition(1).folder_name / f"{0:020d}.log.tmp"
    in_the_way.mkdir()
    before = (in_the_way.parent / f"{0:020d}.log").read_bytes()
    outcome = repair(folder, "--execute")
    assert outcome.code == 1
    assert "__consumer_offsets-0: " in outcome.err
    assert [row["partition"] for row in json.loads(outcome.out)] == [0]
    assert (in_the_way.parent / f"{0:020d}.log").read_bytes() == before
    in_the_way.rmdir()
    shown = repair(folder)
    assert "the audit log lacks the entry of the repair of __consumer_offsets-0" in shown.err
    outcome = repair(folder, "--execute")
    assert outcome.code == 0, outcome.err
    assert "the audit log has the entry of the repair of __consumer_offsets-0, begun" in outcome.err
    assert noted(folder)[0] == 0
    assert noted(folder)[-1] == 1
    first = repairs_in_audit_log(folder)[0]
    assert first.what["groups"] == ["g0-1"]
    assert first.what["bytes_left_out"] > 0
    assert not (folder / REPAIRS_NAME).exists()


@promised(
    "A repair goes on if the audit log is damaged, and says so. Its entry is kept in"
    " `offsetd.repairs` in the folder, and is written by the first repair or start that can",
    "a note names the other topics that are damaged",
)
def test_an_entry_waits_until_the_audit_log_is_repaired(tmp_path: Path) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0], also=[AUDIT_PARTITION])
    opened(folder).close()
    outcome = repair(folder, "--execute")
    assert outcome.code == 0, outcome.err
    assert f"it is kept in {REPAIRS_NAME} until the audit log can take it" in outcome.err
    assert "offsetd log repair --topic __offsetd_audit" in outcome.err
    assert (folder / REPAIRS_NAME).exists()
    assert "__offsetd_audit is damaged too: offsetd log repair --topic __offsetd_a" in outcome.err
    outcome = repair(folder, "--topic", AUDIT_PARTITION.topic, "--execute")
    assert outcome.code == 0, outcome.err
    assert [each.topic for each in repairs_in_audit_log(folder)] == [
        "__consumer_offsets",
        "__offsetd_audit",
    ]
    assert not (folder / REPAIRS_NAME).exists()


def test_a_damaged_list_of_begun_repairs_stops_the_next_one(tmp_path: Path) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0])
    (folder / REPAIRS_NAME).write_bytes(b"format.version=1\nchecksum=00000000\n")
    before = tree(folder)
    outcome = repair(folder, "--execute")
    assert outcome.code == 1
    assert f"{REPAIRS_NAME} cannot be read (its checksum is wrong)" in outcome.err
    assert "move the file away" in outcome.err
    assert tree(folder) == before


def test_a_topic_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0])
    outcome = repair(folder, "--topic", "nosuch", "--execute")
    assert outcome.code == 1
    assert (
        f"{folder} has no topic nosuch: it has __consumer_offsets, __offsetd_audit,"
        " __offsetd_config" in outcome.err
    )


def test_a_folder_whose_restore_has_not_ended_is_not_looked_into(tmp_path: Path) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0])
    (folder / "offsetd.restoring").touch()
    before = tree(folder)
    for command in (("verify",), ("repair", "--execute"), ("recreate", "--topic", "orders")):
        outcome = offsetd_log(*command, "--data-dir", str(folder))
        assert outcome.code == 1
        assert f"a restore into {folder} has not ended: run offsetd backup restore" in outcome.err
    assert tree(folder) == before


def test_a_list_of_a_newer_version_stops_a_repair(tmp_path: Path) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0])
    body = b"format.version=2\n"
    (folder / REPAIRS_NAME).write_bytes(body + f"checksum={checksum(body):08x}\n".encode())
    outcome = repair(folder, "--execute")
    assert outcome.code == 1
    assert "has format 2" in outcome.err


def begun(partition: int, *, groups: Sequence[str] = (), later_ms: int = 0) -> AuditEvent:
    now_ms = SystemClock().now_ms()
    what = {"partition": partition, "damage": "bad", "groups": list(groups)}
    return AuditEvent(
        time_ms=now_ms + later_ms, method="RepairPartition", topic="__consumer_offsets", what=what
    )


def test_entries_that_the_audit_log_cannot_take_stay_alone(tmp_path: Path) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0])
    events = [
        begun(0),
        begun(1),
        begun(2, later_ms=400 * 86_400_000),  # More than the audit log takes.
        begun(3, groups=["g" * 1000] * 2000),
        begun(4),
    ]
    write_begun(OsFiles(), folder, events)
    store = opened(folder)
    done = complete_repairs(store, folder)
    assert [each.what["partition"] for each in done.events] == [0, 1, 3, 4]
    assert "the repair of __consumer_offsets-2; it is kept in" in done.problem
    assert read_begun(OsFiles(), folder) == (events[2],)
    again = complete_repairs(store, folder)
    assert not again.events
    assert "the repair of __consumer_offsets-2; it is kept in" in again.problem
    store.close()
    assert noted(folder) == [0, 1, 3, 4]
    [large] = [each for each in repairs_in_audit_log(folder) if each.what["partition"] == 3]
    assert large.what == {"partition": 3, "damage": "bad", "lists_left_out": True}


def test_entries_may_repeat_if_the_disk_is_too_full_to_take_them_from_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0])
    write_begun(OsFiles(), folder, [begun(0), begun(1, later_ms=400 * 86_400_000)])

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = opened(folder)
    monkeypatch.setattr(repair_journal, "write_begun", full)
    done = complete_repairs(store, folder)
    store.close()
    assert [each.what["partition"] for each in done.events] == [0]
    assert "entries may repeat: No space left on device" in done.problem


def test_the_lists_of_an_entry_have_an_end() -> None:
    long = [f"{number} \N{SNOWMAN}" * 100 for number in range(3000)]
    listed = log_repair._listed(long)
    assert listed == long[: len(listed)]
    assert 50 < len(listed) < 1000
    assert len(json.dumps(listed, ensure_ascii=False).encode()) < 101_000
    assert log_repair._listed([str(number) for number in range(3000)])[-1] == "999"


@promised(
    "If you may not write to one of the folders, the repair is refused before anything is done."
)
def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0, 1])
    closed = folder / offsets_partition(1).folder_name
    may_write = OsFiles.may_write
    monkeypatch.setattr(
        OsFiles, "may_write", lambda files, path: path != closed and may_write(files, path)
    )
    before = tree(folder)
    outcome = repair(folder, "--execute")
    assert outcome.code == 1
    assert f"this user may not write to {closed}; nothing was changed" in outcome.err
    assert tree(folder) == before


def test_a_partition_that_cannot_be_repaired_beside_one_that_is_makes_it_partly_done(
    tmp_path: Path,
) -> None:
    folder = damaged_folder(tmp_path / "offsets", [0, 1])
    os.truncate(folder / offsets_partition(1).folder_name / f"{0:020d}.log", 2**31 + 1)
    outcome = repair(folder, "--execute")
    assert outcome.code == 3, outcome.err
    assert "__consumer_offsets-1" in outcome.err
    assert noted(folder) == [0]
    outcome = repair(folder, "--execute")
    assert outcome.code == 1, outcome.err
