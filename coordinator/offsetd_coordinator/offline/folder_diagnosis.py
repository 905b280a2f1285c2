"""What is wrong with a data folder that no server has open: the folder's part of a diagnosis.

`offsetd doctor --data-dir` calls it through the entry point `offsetd.folder_checks`.
"""

from __future__ import annotations

import contextlib
import errno
import pwd
import time
from typing import TYPE_CHECKING, Final

import attrs
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import StorageError, words_of
from offsetd_storage.folder.folder_lock import LOCK_NAME
from offsetd_storage.folder.unfinished_restore import RESTORE_MARK
from offsetd_storage.recovery.quarantine import Damage, claims_of, list_quarantine_files
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import FolderView, read_folder

from offsetd_coordinator.expiry.uptime_marker import UNREADABLE, read_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from offsetd_storage.disk.files import Files

Told = tuple[str, str, str]
"""A grade (`warn` or `bad`), what is so, and what to do."""

_CLOCK_MS_MAX: Final = 60_000
_OURS: Final = "offsetd"
_NO_RIGHT: Final = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))
_GIVE_RIGHTS: Final = (
    "Give the folder to the user of the server (`chown -R USER DIR`), or ask as that user."
)


@attrs.frozen(kw_only=True)
class FolderFacts:
    """A folder as it is read. `view` is None if it cannot be read, for the reason `problem`."""

    folder: Path
    files: Files
    view: FolderView | None
    problem: str
    is_open: bool
    """Whether a server has it."""
    now_ms: int


def folder_checks(folder: Path) -> Iterator[tuple[str, str, str, str]]:
    """(check, grade, what, remedy) of each finding; one of the grade `ok` if there is none."""
    files, view, problem = OsFiles(), None, ""
    try:
        view = read_folder(files, folder)
    except PermissionError:
        pass  # The check of rights tells it.
    except (StorageError, OSError) as error:
        problem = words_of(error)
    facts = FolderFacts(
        folder=folder,
        files=files,
        view=view,
        problem=problem,
        is_open=_is_open(files, folder),
        now_ms=int(time.time() * 1000),
    )
    for name, check in FOLDER_CHECKS.items():
        try:
            found = list(check(facts))
        except PermissionError as error:
            found = [("warn", f"not checked: {words_of(error)}", _GIVE_RIGHTS)]
        for told in found or [("ok", "", "")]:
            yield (name, *told)


def _is_open(files: Files, folder: Path) -> bool:
    """Whether the lock is held. A folder without the file of the lock is not touched."""
    try:
        lock = files.lock(folder / LOCK_NAME) if files.exists(folder / LOCK_NAME) else None
    except PermissionError:
        return False
    if lock is not None:
        lock.release()
    return lock is None and files.exists(folder / LOCK_NAME)


def _restore(facts: FolderFacts) -> Iterator[Told]:
    if facts.files.exists(facts.folder / RESTORE_MARK):
        yield (
            "bad",
            "a restore into this folder has not ended, so no server opens it",
            "Run `offsetd backup restore` again, or remove the folder.",
        )


def _readable(facts: FolderFacts) -> Iterator[Told]:
    if facts.problem:
        yield (
            "bad",
            facts.problem,
            "Is this the data.dir of the server? Else: a newer offsetd, or a backup.",
        )


def _rights(facts: FolderFacts) -> Iterator[Told]:
    """The files that this user may not read or write, a finding for each folder.

    Only what a data folder has is opened: the path may lead to any folder.
    """
    files, folder = facts.files, facts.folder
    try:
        names = files.list_folder(folder)
    except PermissionError:
        yield "bad", f"this user may not read {folder}", _GIVE_RIGHTS
        return
    logs = [each for each in names if TopicPartition.of_folder(each) is not None]
    if not logs:
        return
    listed = {folder: [each for each in names if each == LOCK_NAME or each.startswith(_OURS)]}
    for path in (folder / each for each in logs if files.is_folder(folder / each)):
        try:
            listed[path] = files.list_folder(path)
        except PermissionError:
            yield "bad", f"this user may not read {path}", _GIVE_RIGHTS
    for path, found in listed.items():
        yield from _rights_to(files, path, found)
    yield from _owners(files, [path / each for path, found in listed.items() for each in found])


def _owners(files: Files, paths: Sequence[Path]) -> Iterator[Told]:
    """Files of several users: root may write them all, but the server may not."""
    examples: dict[int, Path] = {}
    for path in paths:
        with contextlib.suppress(OSError):  # A server has removed it meanwhile.
            examples.setdefault(files.owner(path), path)
    if len(examples) > 1:
        told = ", ".join(f"{_name_of(user)} ({path})" for user, path in sorted(examples.items()))
        yield "warn", f"its files belong to several users: {told}", _GIVE_RIGHTS


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _rights_to(files: Files, folder: Path, names: Sequence[str]) -> Iterator[Told]:
    """What this user may not write: a folder, or some files in it."""
    closed = [
        each
        for each in names
        if not files.is_folder(folder / each) and not _may_open(files, folder / each)
    ]
    if not files.may_write(folder):
        yield "bad", f"this user may not write to {folder}", _GIVE_RIGHTS
    elif closed:
        more = f" and {len(closed) - 1} more" if len(closed) > 1 else ""
        yield "bad", f"this user may not write {folder / closed[0]}{more}", _GIVE_RIGHTS


def _may_open(files: Files, path: Path) -> bool:
    """Whether a file can be opened to be read and written. Only a refusal of rights counts."""
    try:
        files.open(path).close()
    except FileNotFoundError:  # A server has removed it meanwhile.
        return True
    except OSError as error:
        return error.errno not in _NO_RIGHT
    return True


def _lock(facts: FolderFacts) -> Iterator[Told]:
    if facts.is_open:
        yield (
            "warn",
            "a server has this folder open",
            "Ask that server: `offsetd doctor --address HOST:PORT`.",
        )


def _shutdown(facts: FolderFacts) -> Iterator[Told]:
    if facts.view is not None and not facts.view.is_settled and not facts.is_open:
        yield (
            "warn",
            "the last server did not close it: it was killed, or its machine lost power",
            (
                "Nothing to do: the next start checks and recovers it, and takes longer. Why was it"
                " killed? See `dmesg` and `journalctl -u offsetd`."
            ),
        )


def _quarantine(facts: FolderFacts) -> Iterator[Told]:
    partitions = list_quarantine_files(facts.files, facts.folder)
    for each, claim in claims_of(facts.files, facts.folder, partitions).items():
        reason = claim.reason if isinstance(claim, Damage) else "its damage is in the server's log"
        yield (
            "bad",
            f"{each} is quarantined: {reason}",
            "`offsetd log repair` shows what can be saved, or restore a backup.",
        )
    for each in () if facts.view is None else facts.view.missing:
        yield (
            "bad",
            f"the folder of {each} is missing, and records were written to it",
            "Put it back from a backup; `offsetd log recreate` begins it anew, empty.",
        )


def _clock(facts: FolderFacts) -> Iterator[Told]:
    last_up = read_marker(facts.files, facts.folder)
    if last_up is UNREADABLE:
        yield "warn", "offsetd.last-up cannot be read", "Nothing expires for a day after a start."
    elif last_up is not None and last_up.up_ms > facts.now_ms + _CLOCK_MS_MAX:
        ahead_s = (last_up.up_ms - facts.now_ms) // 1000
        yield (
            "warn",
            f"the last server ran {ahead_s} s in the future of this machine's clock",
            "Set the clock before the start: the server goes on with the later time.",
        )


FOLDER_CHECKS: Final[dict[str, Callable[[FolderFacts], Iterator[Told]]]] = {
    "folder": _readable,
    "rights": _rights,
    "restore": _restore,
    "lock": _lock,
    "shutdown": _shutdown,
    "quarantine": _quarantine,
    "clock": _clock,
}
