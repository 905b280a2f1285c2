"""Sends groups of rows to a server: each as one commit, or in imports to keep commit times."""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, Final

from offsetd_clients import (
    AuthorizationFailed,
    CommitConflict,
    Conflict,
    GroupNotFound,
    GroupRefused,
    InvalidImport,
    InvalidRequest,
    OffsetConflict,
    OffsetdError,
    OffsetFormat,
    OffsetsDamaged,
    OverLimit,
    TopicPartition,
)

from offsetd_pipeline.writing.outcome import UnfinishedWrite
from offsetd_pipeline.writing.rejects import GROUP_REJECTED, Rejection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from concurrent.futures import Future

    from offsetd_clients import CommittedOffset, OffsetClient, Revision

    from offsetd_pipeline.writing.commit_requests import RequestMaker
    from offsetd_pipeline.writing.rejects import Rejects
    from offsetd_pipeline.writing.written_groups import GroupRows

IMPORT_OFFSETS_MAX: Final = 10_000
IMPORT_GROUPS_MAX: Final = 1_000
"""An import of this size takes a second or two: it has one deadline, and one answer at its end."""
_REFUSALS: Final = (
    AuthorizationFailed,
    InvalidRequest,
    GroupRefused,
    GroupNotFound,
    CommitConflict,
    OverLimit,
    OffsetsDamaged,
)
_FIELD: Final = re.compile(r"offsets\[(\d+)\]")


class CommitSender:
    """Sends the groups of one write.

    Counts what is written, and adds refused rows to the rejects.
    """

    def __init__(self, client: OffsetClient, maker: RequestMaker, rejects: Rejects) -> None:
        self.group_count = 0
        self.offset_count = 0
        self._client = client
        self._maker = maker
        self._rejects = rejects
        self._unanswered: deque[tuple[GroupRows, Future[Revision]]] = deque()
        self._failure: OffsetdError | None = None
        self._unknown = 0  # The number of groups with an unknown outcome.

    def commit(self, groups: Iterable[GroupRows]) -> None:
        """Commits each group, many at a time, and waits for all answers.

        Raises UnfinishedWrite if the server does not answer, or if a later attempt may succeed.
        That is not a fault of a row, so nothing more is sent.
        """
        for group in groups:
            request = self._maker.commit(group)
            try:
                future = self._client.commit_request_soon(request)
            except OffsetdError as error:
                self._failure = self._failure or error
                break
            self._unanswered.append((group, future))
            while self._unanswered and self._unanswered[0][1].done():
                self._settle(*self._unanswered.popleft())
            if self._failure is not None:
                break
        while self._unanswered:
            self._settle(*self._unanswered.popleft())
        self._check()

    def import_with_times(self, groups: Iterable[GroupRows]) -> None:
        """Imports groups, some at a time, with their commit times. Raises UnfinishedWrite."""
        some: list[GroupRows] = []
        size = 0
        for group in groups:
            some.append(group)
            size += len(group)
            if size >= IMPORT_OFFSETS_MAX or len(some) >= IMPORT_GROUPS_MAX:
                self._import(some)
                some, size = [], 0
        if some:
            self._import(some)

    def _settle(self, group: GroupRows, future: Future[Revision]) -> None:
        error = future.exception()
        if error is None:
            self._note_written(group)
        elif not isinstance(error, OffsetdError):
            raise error
        else:
            self._note_error(group, error)

    def _note_written(self, group: GroupRows) -> None:
        self.group_count += 1
        self.offset_count += len(group)

    def _note_error(self, group: GroupRows, error: OffsetdError) -> None:
        if not isinstance(error, _REFUSALS) or error.retriable:
            self._failure = self._failure or error
            self._unknown += error.outcome_unknown
        elif isinstance(error, OffsetConflict) and self._is_stored(group, error):
            self._note_written(group)
        else:
            self._reject(group, error)

    def _is_stored(self, group: GroupRows, error: OffsetConflict) -> bool:
        """Whether all offsets of a group are already stored with the values to write.

        This happens if an earlier attempt stored them, and the server no longer knows its request
        id.
        """
        columns = map(group.column, ("offset", "leader_epoch", "metadata"))
        values = [(*rest, metadata or "") for *rest, metadata in zip(*columns, strict=True)]
        wanted = dict(zip(group.partitions(), values, strict=True))
        if any(each.offset != wanted[each.topic_partition][0] for each in error.conflicts):
            return False
        stored = self._fetch(group)
        return wanted == {
            where: (each.offset, each.leader_epoch, each.metadata) for where, each in stored.items()
        }

    def _fetch(self, group: GroupRows) -> dict[TopicPartition, CommittedOffset]:
        try:
            return self._client.fetch(group.group_id, group.partitions())
        except OffsetdError as error:
            self._failure = self._failure or error
            return {}

    def _conflicts(self, group: GroupRows, error: CommitConflict) -> Iterator[Conflict]:
        """The conflicts in the answer, and the present conflicts for which it had no room."""
        listed = {each.topic_partition: each for each in error.conflicts}
        yield from listed.values()
        if len(listed) >= int(error.details.get("conflict_count", "0")):
            return
        stored = self._fetch(group)
        for where, row in zip(group.partitions(), group.rows(), strict=True):
            found = stored.get(where)
            if where not in listed and self._maker.conflicts(row, found):
                yield Conflict(
                    topic_partition=where,
                    offset=None if found is None else found.offset,
                    revision=None if found is None else found.revision,
                )

    def _reject(self, group: GroupRows, error: OffsetdError) -> None:
        own: dict[int, Rejection] = {}
        if isinstance(error, CommitConflict):
            places = {where: place for place, where in enumerate(group.partitions())}
            for each in self._conflicts(group, error):
                own[places[each.topic_partition]] = Rejection(
                    error.reason, str(each), each.offset, each.revision
                )
        elif isinstance(error, InvalidRequest):
            for violation in error.field_violations:
                if found := _FIELD.match(violation.field):
                    own[int(found[1])] = Rejection(error.reason, violation.description)
        message = error.failure.message
        if own:
            rest = Rejection(GROUP_REJECTED, f"with others of its group: {error.reason}: {message}")
        else:
            rest = Rejection(error.reason or error.code, message)
        self._rejects.add_group(group, rest, own)

    def _import(self, groups: list[GroupRows]) -> None:
        while groups:
            content, request_id = self._maker.file(groups)
            try:
                imported = self._client.import_offsets(
                    content, OffsetFormat.JSONL, keep_commit_times=True, request_id=request_id
                )
            except InvalidImport as error:
                groups = self._without_wrong(groups, error)
                continue
            except OffsetdError as error:
                self._failure = error
                self._unknown = len(groups) if error.outcome_unknown else 0
                break
            by_id = {each.group_id: each for each in imported}
            for group in groups:
                refusal = by_id[group.group_id].error
                if refusal is None:
                    self._note_written(group)
                else:
                    self._note_error(group, refusal)
            break
        self._check()

    def _without_wrong(self, groups: list[GroupRows], error: InvalidImport) -> list[GroupRows]:
        """Rejects the groups with a line that the server named; returns the other groups.

        Among these, more groups may have wrong lines.
        """
        problems = {int(str(each["line"])): str(each["problem"]) for each in error.lines}
        good: list[GroupRows] = []
        line = 1
        for group in groups:
            own: Mapping[int, Rejection] = {
                place: Rejection(error.reason, problems[line + place])
                for place in range(len(group))
                if line + place in problems
            }
            line += len(group)
            if own:
                rest = Rejection(GROUP_REJECTED, "with others of its group")
                self._rejects.add_group(group, rest, own)
            else:
                good.append(group)
        if len(good) == len(groups):  # The server would refuse the same import every time.
            self._failure = error
            self._check()
        return good

    def _check(self) -> None:
        if self._failure is None:
            return
        raise UnfinishedWrite(
            f"the write is not finished: groups that are written: {self.group_count:,},"
            f" {len(self._rejects.groups):,} rejected, {self._unknown:,} may be written or not,"
            f" and the others were not tried: {self._failure.reason or self._failure.code}:"
            f" {self._failure}"
        ) from self._failure
