"""Groups and offsets in copied `__consumer_offsets` folders, as plain values, for migrations.

The folders may be a broker's or offsetd's. Nothing is locked or changed. Clients must not import
this package, so they find `read_groups` by the entry point `offsetd.offset_folders`.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import attrs
from offsetd_storage.cleaner.offline_cleaning import viewed_log
from offsetd_storage.disk.files import OsFiles
from offsetd_storage.errors import StorageError
from offsetd_storage.log_store import OFFSETS_TOPIC
from offsetd_storage.offsets_topic.offset_file_formats import FileOffset
from offsetd_storage.recovery.quarantine import DamageFound
from offsetd_storage.topic_partition import TopicPartition
from offsetd_storage.views.folder_view import read_folder
from offsetd_storage.views.live_folder import seen_steadily

from offsetd_coordinator.configuration.server_settings import Settings
from offsetd_coordinator.state.offset_table import fresh_hash_seeds
from offsetd_coordinator.state.replayed_state import ReplayedState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from offsetd_storage.configuration.log_config import LogConfig
    from offsetd_storage.disk.files import Files
    from offsetd_storage.offsets_topic.schemas.group_settings import GroupSettings
    from offsetd_storage.views.folder_view import FolderView, LogView

    from offsetd_coordinator.committed_offsets import CommittedOffset

_CHUNK_BYTES: Final = 512 * 1024


class FolderGroup(NamedTuple):
    """A group in the folders, with its offsets sorted by topic and partition.

    `has_members` comes from the group's newest record; None if its records cannot be read.
    `problems` name the offsets that may be missing. `retention` is in milliseconds, "never", or
    None for the server's.
    """

    group_id: str
    has_members: bool | None
    offsets: tuple[FileOffset, ...]
    problems: tuple[str, ...] = ()
    retention: int | Literal["never"] | None = None


@attrs.frozen
class _Copy:
    """One folder's copy of a log partition."""

    view: FolderView
    log: LogView


def read_groups(
    folders: Sequence[Path],
    *,
    problem: Callable[[str], object],
    note: Callable[[str], object],
) -> Iterator[FolderGroup]:
    """Yields all groups that have offsets, log partition by log partition.

    Several folders are those of several brokers. If more than one has a log partition, the copy
    with the highest end offset is used. `problem` gets each problem that is not a group's own.
    `note` gets other remarks. Raises OSError, and ValueError if a folder has no partition of
    `__consumer_offsets`.
    """
    files = OsFiles()
    copies = _copies(files, folders)
    if any(not each.view.is_settled for of_one in copies.values() for each in of_one):
        note(
            "a server has a folder open, or did not close it: only what lies below its recovery"
            " points is read"
        )
    missing = sorted(set(range(max(copies) + 1)) - copies.keys())
    if missing:
        note(f"no folder has partition {', '.join(map(str, missing))} of {OFFSETS_TOPIC}")
    config = Settings().configs.log_config(OFFSETS_TOPIC)
    for partition in sorted(copies):
        state = _furthest(files, copies[partition], config, problem)
        if state is not None:
            log = TopicPartition(OFFSETS_TOPIC, partition)
            nameless = _nameless(log, state)
            for each in nameless:
                problem(each)
            if state.pending:
                note(f"{log}: offsets of open transactions are left out: {len(state.pending)}")
            for group in groups_of(log, state, nameless):
                if group.has_members is None:
                    problem(f"{log}: whether group {group.group_id} has members cannot be read")
                yield group


def _copies(files: Files, folders: Sequence[Path]) -> dict[int, list[_Copy]]:
    copies: dict[int, list[_Copy]] = {}
    for folder in folders:
        try:
            view = read_folder(files, folder)
        except StorageError as error:
            raise ValueError(str(error)) from error
        found = [log for log in view.logs if log.topic_partition.topic == OFFSETS_TOPIC]
        if not found:
            raise ValueError(f"{folder} has no partition of {OFFSETS_TOPIC}")
        for log in found:
            copies.setdefault(log.topic_partition.partition, []).append(_Copy(view, log))
    return copies


def _furthest(
    files: Files, copies: Sequence[_Copy], config: LogConfig, problem: Callable[[str], object]
) -> ReplayedState | None:
    """The state of the copy with the highest end offset; None if no copy can be read."""
    furthest: ReplayedState | None = None
    for each in copies:
        try:
            state = seen_steadily(
                files, each.view, each.log, lambda log: _replayed(files, log, config)
            )
        except DamageFound as damage:
            problem(f"{each.view.folder}: {damage.of(each.log.topic_partition)}")
            continue
        except StorageError as error:
            problem(f"{each.log.folder}: {error}")
            continue
        if furthest is None or state.offset_next > furthest.offset_next:
            furthest = state
    return furthest


def new_state() -> ReplayedState:
    """A state that remembers no requests."""
    return ReplayedState(
        request_window_ms=0, request_ids_max=0, deletion_bytes_max=0, hash_seeds=fresh_hash_seeds()
    )


def _replayed(files: Files, view: LogView, config: LogConfig) -> ReplayedState:
    state = new_state()
    with ExitStack() as stack:
        log = stack.enter_context(viewed_log(files, view, config))
        for buffer, end in log.read_chunks(_CHUNK_BYTES):
            state.replay(buffer, 0, end)
    return state


def _nameless(log: TopicPartition, state: ReplayedState) -> tuple[str, ...]:
    """The problem of a log partition with unreadable records of unknown groups, if it has any."""
    if not state.nameless_records:
        return ()
    return (
        f"{log}: {_counted(state.nameless_records, 'record')} of unknown groups cannot be read",
    )


def groups_of(
    log: TopicPartition, state: ReplayedState, nameless: tuple[str, ...]
) -> Iterator[FolderGroup]:
    """The groups of a replayed log that have offsets. Each gets the problems in `nameless`, too."""
    for group_id in sorted(state.offsets.group_ids()):
        records = state.group_records(group_id)
        offsets = sorted(state.offsets.read_group(group_id))
        unreadable = [each for each in offsets if not each.is_decodable]
        yield FolderGroup(
            group_id=_text(group_id),
            has_members=records.has_members if records.is_readable else None,
            offsets=tuple(_file_offset(group_id, each) for each in offsets if each.is_decodable),
            problems=_problems(log, unreadable) + nameless,
            retention=_retention(records.settings),
        )


def _retention(settings: GroupSettings | None) -> int | Literal["never"] | None:
    if settings is None:
        return None
    return "never" if settings.never_expires else settings.retention_ms


def _problems(log: TopicPartition, unreadable: Sequence[CommittedOffset]) -> tuple[str, ...]:
    if not unreadable:
        return ()
    first = f"{_text(unreadable[0].topic)}:{unreadable[0].partition}"
    return (f"{log}: {_counted(len(unreadable), 'offset')} cannot be read, the first for {first}",)


def _file_offset(group_id: bytes, stored: CommittedOffset) -> FileOffset:
    return FileOffset(
        group=_text(group_id),
        topic=_text(stored.topic),
        partition=stored.partition,
        offset=stored.offset,
        leader_epoch=stored.leader_epoch,
        metadata=_text(stored.metadata),
        commit_timestamp_ms=stored.commit_timestamp_ms,
        expire_timestamp_ms=stored.expire_timestamp_ms,
        revision=stored.revision,
    )


def _text(name: bytes) -> str:
    """Decodes UTF-8, which Kafka's clients write. Other bytes are shown as `\\xNN`."""
    return name.decode(errors="backslashreplace")


def _counted(count: int, one: str) -> str:
    return f"{count} {one if count == 1 else one + 's'}"
