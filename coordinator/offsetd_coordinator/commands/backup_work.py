"""The work of `offsetd backup`. The command line finds it by the entry point `offsetd.backups`."""

from __future__ import annotations

import random
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

import attrs
from offsetd_storage.backups.backup_check import chunk_problems
from offsetd_storage.backups.backup_errors import BackupBlocked, BackupDamaged, BackupRefused
from offsetd_storage.backups.backup_writing import write_backup
from offsetd_storage.backups.repository import MARK_MS_MAX, Repository
from offsetd_storage.backups.targets import target_of
from offsetd_storage.clock import SystemClock
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import NewerFormat, StorageError, words_of

from offsetd_coordinator.commands.terminal import WRONG_USE, ProgressReport, Terminal
from offsetd_coordinator.messages.backup_messages import joined_answers
from offsetd_coordinator.offline.backup_groups import groups_in_backup
from offsetd_coordinator.offline.folder_restore import chosen_backup, restore_folder
from offsetd_coordinator.rfc3339 import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from offsetd.v1.backup_service_pb2 import BackupHead, StreamBackupResponse

    from offsetd_coordinator.offline.copied_offsets import FolderGroup

    Answers = Iterator[StreamBackupResponse]
    Stream = tuple[BackupHead, Answers]

CREATE_COLUMNS: Final = ("backup", "moment", "logs", "bytes", "new_bytes")
LIST_COLUMNS: Final = ("backup", "moment", "logs", "bytes", "server_version", "folder", "problem")
LIST_DROPPABLE: Final = ("folder", "server_version", "logs")
VERIFY_COLUMNS: Final = ("backup", "log", "problem")
PRUNE_COLUMNS: Final = ("backup", "action")
_SIGNAL_CODE: Final = 128
"""A shell's exit code for a signal is this and its number."""
RESTORE_COLUMNS: Final = ("topic", "partition", "restored_end", "next_offset", "bytes")


@attrs.define
class BackupWork:
    """The commands, without their options."""

    terminal: Terminal

    def create(self, target: str, open_streams: Callable[[list[bytes]], list[Stream]]) -> None:
        """Makes a backup of what servers send.

        `open_streams` takes the digests that the target holds. It returns the head and the other
        answers of each server, that of the command's address first.
        """
        with self._told(), self.terminal.progress("backup") as report:
            repository = Repository(target_of(target))
            held = repository.reusable_chunks()
            streams = open_streams([bytes.fromhex(each) for each in held])
            head, chunks = joined_answers(streams)
            written = write_backup(
                repository,
                head,
                chunks,
                held=held,
                random=random.SystemRandom(),
                now_ms=SystemClock().now_ms(),
                on_bytes=lambda done: report(done, head.size_bytes, "bytes"),
            )
        row = {
            "backup": written.backup_id,
            "moment": rfc3339(written.manifest.moment_ms),
            "logs": len(written.manifest.logs),
            "bytes": written.manifest.size_bytes,
            "new_bytes": written.new_bytes,
        }
        self.terminal.rows(CREATE_COLUMNS, [row])

    def list_backups(self, source: str) -> None:
        """Prints all backups, the oldest first. Fails if one is damaged."""
        with self._told():
            repository = Repository(target_of(source))
            repository.newest_id()
            backups = repository.backups()
        rows = [
            {"backup": backup_id, "problem": problem or None}
            if manifest is None
            else {
                "backup": backup_id,
                "moment": rfc3339(manifest.moment_ms),
                "logs": len(manifest.logs),
                "bytes": manifest.size_bytes,
                "server_version": manifest.server_version,
                "folder": manifest.folder_id,
            }
            for backup_id, manifest, problem in backups
        ]
        self.terminal.rows(LIST_COLUMNS, rows, droppable=LIST_DROPPABLE)
        if any(each.manifest is None for each in backups):
            self.terminal.fail("a backup cannot be used")

    def verify(self, source: str, backup_id: str | None) -> None:
        """Reads every byte of one backup, or of all; prints what is wrong, and fails then."""
        with self._told(), self.terminal.progress("verify") as report:
            repository = Repository(target_of(source))
            if backup_id is None:
                repository.newest_id()
            else:
                repository.manifest(backup_id)
            ids = repository.backup_ids() if backup_id is None else [backup_id]
            found: list[dict[str, str]] = []
            checked: set[str] = set()
            newer: set[str] = set()
            for each in ids:
                found += _problems(repository, each, checked, newer, report)
        self.terminal.rows(VERIFY_COLUMNS, found)
        if found:
            self.terminal.fail(_told_counts({each["backup"] for each in found}, newer, len(ids)))
        self.terminal.note(
            f"intact: {_counted(len(ids), 'backup')}, {_counted(len(checked), 'chunk')}"
        )

    def prune(self, source: str, keep: int, *, execute: bool) -> bool:
        """Removes old backups, or shows what would go. Returns whether that is something."""
        with self._told():
            repository = Repository(target_of(source))
            repository.require_any()
            begun_ms = None
            if execute:
                pruned = repository.prune(keep, now_ms=SystemClock().now_ms())
            else:
                begun_ms = repository.unended_since(now_ms=SystemClock().now_ms())
                pruned = repository.planned_prune(keep)
        goes, stays = ("removed", "kept") if execute else ("remove", "keep")
        rows = [
            *({"backup": each, "action": goes} for each in pruned.backup_ids),
            *({"backup": each, "action": stays} for each in pruned.kept_ids),
        ]
        self.terminal.rows(PRUNE_COLUMNS, rows)
        self.terminal.note(
            f"{'removed' if execute else 'needed by no kept backup'}:"
            f" {_counted(len(pruned.chunks), 'chunk')}, {pruned.chunk_bytes} bytes"
        )
        if pruned.lacking_ids:
            self.terminal.note(
                f"{', '.join(pruned.lacking_ids)}: not whole, so not counted by --keep; verify"
                " says what is missing"
            )
        if begun_ms is not None:
            self.terminal.note(
                f"a backup that began at {rfc3339(begun_ms)} has not ended: until it has,"
                " --execute is refused; if it was killed, until the next backup of the same"
                f" folder has ended, or until {rfc3339(begun_ms + MARK_MS_MAX)}"
            )
        return bool(pruned.backup_ids or pruned.chunks or pruned.leftovers)

    def restore(self, source: str, folder: Path, backup_id: str | None, to_ms: int | None) -> None:
        """Restores all logs to an empty folder, up to a time or to the moment of the backup."""
        clock = SystemClock()
        with self._told(), self.terminal.progress("restore") as report:
            repository = Repository(target_of(source))
            chosen = chosen_backup(repository, backup_id, time_ms=to_ms, now_ms=clock.now_ms())
            total_bytes = chosen.manifest.size_bytes
            logs, ended = restore_folder(
                OsFiles(),
                folder.absolute(),
                repository,
                chosen,
                clock=clock,
                random=random.SystemRandom(),
                on_bytes=lambda done: report(done, total_bytes, "bytes"),
            )
        rows = [
            {
                "topic": each.topic_partition.topic,
                "partition": each.topic_partition.partition,
                "restored_end": each.end_offset,
                "next_offset": each.next_offset,
                "bytes": each.size_bytes,
            }
            for each in logs
        ]
        self.terminal.rows(RESTORE_COLUMNS, rows)
        if not any(each.end_offset for each in logs):
            self.terminal.note("the restored logs are empty: there was nothing to back up")
        state_ms = chosen.manifest.moment_ms if to_ms is None else to_ms
        self.terminal.note(
            f"restored from backup {chosen.backup_id}, as of {rfc3339(state_ms)};"
            f" {_counted(ended.leases, 'lease')} and the members of"
            f" {_counted(ended.groups, 'group')} were ended: their writers acquire and join again"
        )

    def groups(
        self, source: str, backup_id: str | None, to_ms: int | None, group_ids: Sequence[str]
    ) -> tuple[str, list[FolderGroup], dict[str, str]]:
        """A backup's id, the groups as they are in it, and why others cannot be brought back."""
        with self._told():
            repository = Repository(target_of(source))
            chosen = chosen_backup(
                repository,
                backup_id,
                time_ms=to_ms,
                now_ms=SystemClock().now_ms(),
                group_ids=group_ids,
            )
            found = list(groups_in_backup(repository, chosen, group_ids))
        state = rfc3339(chosen.manifest.moment_ms if to_ms is None else to_ms)
        refused = {each.group_id: "; ".join(each.problems) for each in found if each.problems}
        for missing in sorted(set(group_ids) - {each.group_id for each in found}):
            refused[missing] = (
                f"backup {chosen.backup_id} has no offsets of it as of {state}; choose another"
                " state with --backup or --to-datetime"
            )
        self.terminal.note(f"from backup {chosen.backup_id}, as of {state}")
        whole = [each for each in found if each.group_id not in refused]
        return chosen.backup_id, whole, refused

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Ends the command with one line for a failure, and in good order for a signal."""
        try:
            with _ended_in_order():
                yield
        except BackupBlocked as error:
            self.terminal.fail(str(error))
        except BackupRefused as error:
            self.terminal.fail(str(error), code=WRONG_USE)
        except StorageError as error:
            self.terminal.fail(str(error))
        except OSError as error:
            self.terminal.fail(words_of(error))


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM raises SystemExit in what goes on, as Ctrl-C raises KeyboardInterrupt.

    So marks at the target are removed. A second SIGTERM ends the process at once.
    """
    if threading.current_thread() is not threading.main_thread():  # It gets no signals.
        yield
        return

    def end(number: int, _: object) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        raise SystemExit(_SIGNAL_CODE + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _told_counts(found: set[str], newer: set[str], count: int) -> str:
    damaged = len(found - newer)
    told = [f"{damaged} of {count} damaged"] if damaged else []
    if newer:
        told.append(f"{len(newer)} of {count} of a newer version: upgrade offsetd to check them")
    return "; ".join(told)


def _counted(count: int, one: str) -> str:
    return f"{count} {one if count == 1 else one + 's'}"


def _problems(
    repository: Repository,
    backup_id: str,
    checked: set[str],
    newer: set[str],
    report: ProgressReport,
) -> Iterator[dict[str, str]]:
    """The problems of a backup. A backup of a newer version is also added to `newer`."""
    try:
        manifest = repository.manifest(backup_id)
    except (BackupDamaged, NewerFormat) as error:
        if isinstance(error, NewerFormat):
            newer.add(backup_id)
        yield {"backup": backup_id, "log": "", "problem": str(error)}
        return
    for log, problem in chunk_problems(
        repository,
        manifest,
        checked=checked,
        on_bytes=lambda done: report(done, manifest.size_bytes, backup_id),
    ):
        yield {"backup": backup_id, "log": log, "problem": problem}
