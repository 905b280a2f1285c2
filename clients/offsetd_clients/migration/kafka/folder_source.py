"""Copies of a Kafka cluster's `__consumer_offsets` folders as the source of a migration."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol

from offsetd_clients.installation import install_command
from offsetd_clients.migration.values import (
    FoundGroup,
    FoundOffset,
    Problem,
    ProblemKind,
    SourceDescription,
    SourceFailed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

FOLDERS_KIND: Final = "kafka-folders"
READERS: Final = "offsetd.offset_folders"
"""Entry points of the readers of folders, which the server's package has.

This package does not import it.
"""

_MEMBERS_THEN: Final = ("members, when it was copied",)


class FolderOffset(Protocol):
    """An offset as the reader returns it. -1 stands for none."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def metadata(self) -> str: ...
    @property
    def commit_timestamp_ms(self) -> int: ...


class FolderGroup(Protocol):
    """A group as the reader returns it. `has_members` is None if it cannot be read.

    `problems` say, as `PLACE: WHAT`, which offsets may be missing.
    """

    @property
    def group_id(self) -> str: ...
    @property
    def has_members(self) -> bool | None: ...
    @property
    def offsets(self) -> Iterable[FolderOffset]: ...
    @property
    def problems(self) -> Iterable[str]: ...


class FolderSource:
    """Data folders of brokers, or parts of them. For each log partition, the newest copy is read.

    `note` receives messages other than problems.
    """

    def __init__(self, folders: Sequence[Path], *, note: Callable[[str], object]) -> None:
        self._folders = tuple(folders)
        self._note = note

    @property
    def description(self) -> SourceDescription:
        """The paths of the folders."""
        folders = [str(each.absolute()) for each in self._folders]
        return SourceDescription(
            kind=FOLDERS_KIND, address=", ".join(folders), options={"folders": folders}
        )

    def groups(self) -> Iterator[FoundGroup | Problem]:
        """Yields each group that has offsets, and what cannot be read. Raises SourceFailed."""
        problems: list[str] = []
        read_groups = _reader()
        try:
            for group in read_groups(self._folders, problem=problems.append, note=self._note):
                yield from _told(problems)
                yield _found(group)
        except (OSError, ValueError) as error:
            raise SourceFailed(str(error)) from error
        yield from _told(problems)

    def read_again(self, group_ids: Sequence[str]) -> Iterator[FoundGroup]:
        """Yields those groups.

        Groups that are missing in the folders have no offsets. Raises SourceFailed.
        """
        found: dict[str, FoundGroup] = {}
        wanted = frozenset(group_ids)
        for each in self.groups():
            if isinstance(each, FoundGroup) and each.group_id in wanted:
                found[each.group_id] = each
        for group_id in group_ids:
            yield found.get(group_id) or FoundGroup(group_id=group_id, offsets=())


def _reader() -> Callable[..., Iterator[FolderGroup]]:
    points = entry_points(group=READERS)
    if not points:
        raise SourceFailed(f"folders are read by the server's package: {install_command('server')}")
    read_groups: Any = next(iter(points)).load()
    return read_groups  # type: ignore[no-any-return]


def _found(group: FolderGroup) -> FoundGroup:
    return FoundGroup(
        group_id=group.group_id,
        offsets=tuple(map(_found_offset, group.offsets)),
        owners=None if group.has_members is None else _MEMBERS_THEN * group.has_members,
        problems=tuple(_unreadable(each, group.group_id) for each in group.problems),
    )


def _found_offset(stored: FolderOffset) -> FoundOffset:
    has_time = stored.commit_timestamp_ms >= 0
    return FoundOffset(
        topic=stored.topic,
        partition=stored.partition,
        offset=stored.offset,
        leader_epoch=stored.leader_epoch if stored.leader_epoch >= 0 else None,
        metadata=stored.metadata,
        commit_time_ms=stored.commit_timestamp_ms if has_time else None,
    )


def _told(problems: list[str]) -> Iterator[Problem]:
    """Removes the problems from the list and yields them."""
    while problems:
        yield _unreadable(problems.pop(0))


def _unreadable(told: str, group_id: str | None = None) -> Problem:
    where, _, detail = told.partition(": ")
    return Problem(kind=ProblemKind.UNREADABLE, where=where, detail=detail, group_id=group_id)
