"""ImportOffsets: the file is read to its end, then its groups are written one by one."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final

import attrs
from offsetd.v1 import admin_service_pb2
from offsetd_storage.offsets_topic.offset_file_formats import NAMELESS, OffsetReader, Unreadable

from offsetd_coordinator.calls import answer_reservations, current_call
from offsetd_coordinator.changes.large_decisions import rows_of_puts
from offsetd_coordinator.cooperative_scheduling import SLICE_ROWS, Turns
from offsetd_coordinator.errors import (
    CoordinatorError,
    InvalidField,
    InvalidImport,
    InvalidRequest,
    StorageUnavailable,
    TooManyBytesInFlight,
)
from offsetd_coordinator.messages import statuses, validation
from offsetd_coordinator.messages.audit_events import listed_changes
from offsetd_coordinator.messages.fetch_parser import ITEMS_PER_GROUP
from offsetd_coordinator.messages.list_encoding import set_change
from offsetd_coordinator.messages.revisions import set_revision
from offsetd_coordinator.offset_changes import (
    OffsetsChangedReply,
    PutColumns,
    PutOffset,
    PutOffsets,
)
from offsetd_coordinator.quotas.quota_table import Quota
from offsetd_coordinator.runtime.commit_log import until_all_durable
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.services.durable_answers import submitted_change
from offsetd_coordinator.services.offset_exports import read_format

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping

    from offsetd_storage.offsets_topic.offset_file_formats import FileOffset, Line, OffsetFormat

    from offsetd_coordinator.committed_offsets import OffsetRows
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.offset_changes import Partition

OFFSETS_MAX: Final = 500_000
"""The limit for one import. Each offset takes about 250 bytes until it is written."""
NODE_OFFSETS_MAX: Final = 1_000_000
"""The limit for all running imports together."""
LINES_LISTED_MAX: Final = 100
CHANGES_LISTED_MAX: Final = 10_000
"""The limit for the answer to a dry run."""
_NONE_KEPT: Final = -1  # A `commit_timestamp_ms` that means now.


@attrs.frozen
class FileGroup:
    """A group's part of a file: offsets, and preconditions on the stored offsets.

    `expected` has the same form as in `PutOffsets`.
    """

    offsets: dict[Partition, PutOffset] = attrs.field(factory=dict)
    expected: dict[Partition, int | None] = attrs.field(factory=dict)


class ImportService:
    """The method, from a stream of requests to the bytes of its answer."""

    def __init__(self, node: Node, *, metadata_units_max: int) -> None:
        self._node = node
        self._metadata_units_max = metadata_units_max
        self._held = 0  # Offsets of all running imports.

    async def import_offsets(self, messages: AsyncIterator[bytes]) -> bytes:
        """Imports a file; answers once the whole import is durable.

        Nothing is written before the whole file is read and all lines are valid.
        """
        administration = self._node.administering()
        first = await anext(messages, None)
        message = _parsed(b"" if first is None else first)
        if not message.HasField("options"):
            raise InvalidRequest("options", "the first message must have them")
        options = message.options
        file_import = FileImport(
            options,
            metadata_units_max=self._metadata_units_max,
            now_ms=administration.clock.now_ms(),
        )
        held = 0
        turns = Turns()
        try:
            while True:
                await self._take(file_import, file_import.reader.feed(message.content), turns)
                held = self._hold(file_import, held)
                received = await anext(messages, None)
                if received is None:
                    break
                message = _parsed(received)
                if message.HasField("options"):
                    raise InvalidRequest("options", "only the first message may have them")
            await self._take(file_import, file_import.reader.end(), turns)
            held = self._hold(file_import, held)
            file_import.check()
            if (access := current_call.access()) is not None:
                async for group_id in turns.each(file_import.groups):
                    access.require(Operation.ALTER, ResourceType.GROUP, group_id.decode())
                async for topic in turns.each(file_import.topics):
                    access.require(Operation.READ, ResourceType.TOPIC, topic.decode())
            return await self._write(options, file_import.groups)
        finally:
            self._held -= held

    async def _take(self, file_import: FileImport, lines: Iterable[Line], turns: Turns) -> None:
        try:
            async for line in turns.each(lines):
                file_import.take(line)
        except Unreadable as error:
            raise InvalidRequest("content", "{cause}", cause=_sendable(str(error))) from error

    def _hold(self, file_import: FileImport, held: int) -> int:
        """Counts the offsets that an import holds now, and returns their number.

        Raises InvalidRequest above OFFSETS_MAX, TooManyBytesInFlight above NODE_OFFSETS_MAX.
        """
        count = file_import.offset_count
        if count > OFFSETS_MAX:
            raise InvalidRequest(
                "content",
                "the file has more than {offsets_max} offsets: split it",
                offsets_max=OFFSETS_MAX,
            )
        if self._held + count - held > NODE_OFFSETS_MAX:
            raise TooManyBytesInFlight(
                "running imports have {offset_count} offsets; the limit is {offsets_max}",
                offset_count=self._held,
                offsets_max=NODE_OFFSETS_MAX,
            )
        self._held += count - held
        return count

    async def _write(
        self, options: admin_service_pb2.ImportOffsetsOptions, groups: Mapping[bytes, FileGroup]
    ) -> bytes:
        runtime = self._node.serving()
        quotas = current_call.quotas()
        response = admin_service_pb2.ImportOffsetsResponse()
        tickets, changes_left = set[int](), CHANGES_LISTED_MAX
        turns = Turns()
        for group_id, group in groups.items():
            count = len(group.offsets)
            imported = response.groups.add(group_id=group_id.decode(), offset_count=count)
            request = PutOffsets(
                group_id=group_id,
                offsets=await _sorted_puts(group),
                call="ImportOffsets",
                expected=group.expected,
                request_id=validation.read_request_id(options.request_id),
                validate_only=options.validate_only,
            )
            await turns.spend(count + ITEMS_PER_GROUP)  # A large write gets a turn of its own.
            if quotas is not None and not options.validate_only:
                await quotas.pay({Quota.OFFSET_RATE: count})
            ticket, outcome = await self._write_group(options, request)
            tickets.add(ticket)
            if isinstance(outcome, CoordinatorError):
                imported.error.CopyFrom(statuses.status_of(outcome))
            else:
                partition = runtime.partition_of(group_id)
                set_revision(imported.revision, partition, outcome.last_offset)
                imported.replaced_offset_count = outcome.moved_count
                if options.validate_only:
                    for change in islice(outcome.changes, changes_left):
                        set_change(imported.changes.add(), partition, change)
                    changes_left -= len(imported.changes)
        await until_all_durable(runtime.log, tickets)
        return response.SerializeToString()

    async def _write_group(
        self, options: admin_service_pb2.ImportOffsetsOptions, request: PutOffsets
    ) -> tuple[int, OffsetsChangedReply | CoordinatorError]:
        """Writes a group, and returns the ticket and the reply or refusal.

        Raises StorageUnavailable if the disk fails or the server ends. Then it is unknown how many
        groups were written, and the caller may send the same request again to continue.
        """
        try:
            if options.is_unaudited:
                self._node.serving()
                changes, room = self._node.large_changes, answer_reservations.room_for_change
                ticket, outcome = await changes.submit(request, room=room)
                assert isinstance(outcome, OffsetsChangedReply | CoordinatorError)
                return ticket, outcome
            return await submitted_change(
                self._node,
                request.call,
                options,
                request,
                OffsetsChangedReply,
                lambda reply: {
                    "offset_count": len(reply.changes),
                    "offset_count_before": reply.stored_count,
                    "changes": listed_changes(reply.changes),
                },
            )
        except StorageUnavailable:
            raise
        except CoordinatorError as refusal:
            return 0, refusal.without_traces()


class FileImport:
    """A file while it is read: its groups, and the lines that cannot be imported."""

    def __init__(
        self,
        options: admin_service_pb2.ImportOffsetsOptions,
        *,
        metadata_units_max: int,
        now_ms: int,
    ) -> None:
        """Raises the Invalid… error of the first option that breaks a rule."""
        file_format = read_format(options.format, "options.format")
        validation.check_reason(options.reason)
        if options.is_unaudited and options.reason:
            raise InvalidRequest("options.reason", "it cannot be kept: the import is not audited")
        validation.read_request_id(options.request_id)
        self.reader = OffsetReader(file_format)
        self.groups: dict[bytes, FileGroup] = {}
        self.offset_count = 0
        self._group_id = _group_of_file(options, file_format)
        self._metadata_units_max = metadata_units_max
        self._needs_precondition = options.is_unaudited
        # Commit times in the future are replaced by the present time.
        self._kept_until_ms = now_ms if options.keep_commit_times else _NONE_KEPT
        # Each topic name is kept once in memory, however many lines have it.
        self._topics: dict[bytes, bytes] = {}
        self._problems: list[dict[str, object]] = []
        self._problem_count = 0

    @property
    def topics(self) -> Collection[bytes]:
        """All topics of the file."""
        return self._topics.keys()

    def take(self, line: Line) -> None:
        """Adds a line's offset to its group, or notes the line's problem."""
        if line.offset is None:
            self._note_problem(line.number, line.problem)
            return
        try:
            group_id = self._group_of(line.offset)
            put = self._put(line.offset)
        except InvalidField as error:
            self._note_problem(line.number, str(error))
            return
        except UnicodeEncodeError:
            self._note_problem(line.number, "text that is not UTF-8: half of a surrogate pair")
            return
        has_precondition = line.offset.must_not_exist or line.offset.expected_revision >= 0
        if self._needs_precondition and not has_precondition:
            self._note_problem(line.number, "without audit, the line needs a precondition")
            return
        group = self.groups.setdefault(group_id, FileGroup())
        partition = put.topic, put.partition
        if partition in group.offsets:
            named = f"{line.offset.topic}:{put.partition}"
            self._note_problem(line.number, f"{named} of group {group_id.decode()!r} is repeated")
            return
        group.offsets[partition] = put
        if line.offset.must_not_exist:
            group.expected[partition] = None
        elif line.offset.expected_revision >= 0:
            group.expected[partition] = line.offset.expected_revision
        self.offset_count += 1

    def check(self) -> None:
        """Raises InvalidImport if some lines cannot be imported."""
        if self._problem_count:
            raise InvalidImport(
                "content",
                "nothing was imported; wrong lines: {line_count}; line {line}: {problem}",
                tuple(self._problems),
                line_count=self._problem_count,
                line=self._problems[0]["line"],
                problem=self._problems[0]["problem"],
            )

    def _group_of(self, offset: FileOffset) -> bytes:
        if not offset.group:
            if self._group_id is None:
                raise InvalidRequest("group", "the line names none, and --group was not given")
            return self._group_id
        group_id = validation.written_group_id(offset.group)
        if self._group_id is not None and group_id != self._group_id:
            raise InvalidRequest(
                "group", "{group!r} is not the group of the request", group=group_id
            )
        return group_id

    def _put(self, offset: FileOffset) -> PutOffset:
        topic = validation.read_topic(offset.topic, "topic")
        return PutOffset(
            self._topics.setdefault(topic, topic),
            offset.partition,
            offset.offset,
            offset.leader_epoch,
            validation.read_metadata(offset.metadata, "metadata", self._metadata_units_max),
            offset.expire_timestamp_ms,
            min(offset.commit_timestamp_ms, self._kept_until_ms),
        )

    def _note_problem(self, number: int, problem: str) -> None:
        self._problem_count += 1
        if len(self._problems) < LINES_LISTED_MAX:
            self._problems.append({"line": number, "problem": _sendable(problem[:200])})


async def _sorted_puts(group: FileGroup) -> PutColumns | OffsetRows:
    """A group's offsets, sorted. Many offsets without preconditions become packed rows."""
    if len(group.offsets) > SLICE_ROWS and not group.expected:
        return await asyncio.to_thread(rows_of_puts, _taken(group.offsets))
    return PutColumns.of(sorted(group.offsets.values()))


def _taken(offsets: dict[Partition, PutOffset]) -> Iterator[PutOffset]:
    """Yields all offsets and removes them one by one: to free many at once would take long."""
    while offsets:
        yield offsets.popitem()[1]


def _sendable(text: str) -> str:
    """A file's text as valid UTF-8: half of a surrogate pair is escaped."""
    return text.encode(errors="backslashreplace").decode()


def _parsed(message: bytes) -> admin_service_pb2.ImportOffsetsRequest:
    return validation.parse(admin_service_pb2.ImportOffsetsRequest, message)


def _group_of_file(
    options: admin_service_pb2.ImportOffsetsOptions, file_format: OffsetFormat
) -> bytes | None:
    if options.group_id:
        return validation.read_group_id(options.group_id, "options.group_id")
    if file_format in NAMELESS:
        raise InvalidRequest(
            "options.group_id",
            "a file of format {format} does not name the group: give it with --group",
            format=file_format.name,
        )
    return None
