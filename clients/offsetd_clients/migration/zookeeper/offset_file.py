"""Files of Kafka's ExportZkOffsets and ImportZkOffsets: `<znode path>:<offset>` on each line.

The path is `…/<group>/offsets/<topic>/<partition>`. The offset follows the last colon of the line:
a group's id, or the chroot, may contain colons too. Empty lines, carriage returns and a byte order
mark are skipped. The lines of a group must be together: files may be larger than memory.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from offsetd_clients.migration.durable_files import read_lines
from offsetd_clients.migration.values import (
    FoundGroup,
    FoundOffset,
    Problem,
    ProblemKind,
    SourceDescription,
    SourceFailed,
)
from offsetd_clients.migration.zookeeper.layouts.kafka08 import BYTES_DETAIL
from offsetd_clients.migration.zookeeper.layouts.layout import parse_offset, parse_partition
from offsetd_clients.migration.zookeeper.tree import joined

KIND = "zookeeper-file"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@attrs.frozen(kw_only=True)
class OffsetFile:
    """The file as a source. It shows neither live consumers nor commit times."""

    path: Path

    @property
    def description(self) -> SourceDescription:
        return SourceDescription(kind=KIND, address=str(self.path))

    def groups(self) -> Iterator[FoundGroup | Problem]:
        """Yields each group, in the file's order."""
        seen: set[str] = set()
        group = _Lines("")
        try:
            for number, line in enumerate(read_lines(self.path), 1):
                text = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
                if not text.strip():
                    continue
                parsed = parsed_line(text, f"{self.path}:{number}")
                if parsed.group_id is None:
                    assert isinstance(parsed, Problem), "an offset has a group"
                    yield parsed
                    continue
                if parsed.group_id != group.group_id:
                    if group.group_id:
                        yield group.found()
                    seen.add(group.group_id)
                    group = _Lines(parsed.group_id, is_again=parsed.group_id in seen)
                group.lines.append(parsed)
        except OSError as error:
            raise SourceFailed(str(error)) from error
        if group.group_id:
            yield group.found()

    def read_again(self, group_ids: Sequence[str]) -> Iterator[FoundGroup]:
        """Reads the file again from its beginning. Its content does not change."""
        wanted = set(group_ids)
        found = {
            each.group_id: each
            for each in self.groups()
            if isinstance(each, FoundGroup) and each.group_id in wanted
        }
        for group_id in group_ids:
            yield found.get(group_id) or FoundGroup(group_id=group_id, offsets=(), owners=None)


@attrs.frozen
class OffsetLine:
    """An offset, and its group."""

    group_id: str
    offset: FoundOffset


@attrs.define
class _Lines:
    """Consecutive lines of one group."""

    group_id: str
    is_again: bool = False
    lines: list[OffsetLine | Problem] = attrs.field(factory=list)

    def found(self) -> FoundGroup:
        problems = [each for each in self.lines if isinstance(each, Problem)]
        offsets = [each.offset for each in self.lines if isinstance(each, OffsetLine)]
        if self.is_again:
            problems.append(
                Problem(
                    kind=ProblemKind.DUPLICATE,
                    where=offsets[0].place if offsets else problems[0].where,
                    detail="lines of this group stand further up, too: sort the file",
                    group_id=self.group_id,
                )
            )
        return FoundGroup(
            group_id=self.group_id, offsets=tuple(offsets), owners=None, problems=tuple(problems)
        )


def parsed_line(line: bytes, where: str) -> OffsetLine | Problem:
    """A line, or its problem. The group of a problem is None if it cannot be read."""
    try:
        text = line.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        return Problem(kind=ProblemKind.BAD_VALUE, where=where, detail="it is not UTF-8")
    path, colon, value = text.rpartition(":")
    parts = path.split("/")
    if not colon or len(parts) < 5 or parts[0] or parts[-3] != "offsets" or not parts[-4]:
        detail = f"{text[:80]!r} is not PATH/GROUP/offsets/TOPIC/PARTITION:OFFSET"
        return Problem(kind=ProblemKind.BAD_NAME, where=where, detail=detail)
    group_id, topic, partition = parts[-4], parts[-2], parts[-1]
    if "-" in partition and all(part.isdigit() for part in partition.split("-")):
        return Problem(
            kind=ProblemKind.BYTE_POSITION, where=where, detail=BYTES_DETAIL, group_id=group_id
        )
    try:
        offset = FoundOffset(
            topic=topic,
            partition=parse_partition(partition),
            offset=parse_offset(value.encode()),
            place=where,
        )
    except ValueError as error:
        return Problem(
            kind=ProblemKind.BAD_VALUE, where=where, detail=str(error), group_id=group_id
        )
    return OffsetLine(group_id, offset)


def lines_of(
    group_id: str, offsets: Iterable[tuple[str, int, int]], *, root: str = "/consumers"
) -> Iterator[str]:
    """Yields lines for ImportZkOffsets, from topics, partitions and offsets.

    Raises ValueError for a name that no znode can have.
    """
    for topic, partition, offset in offsets:
        for name in (group_id, topic):
            if "/" in name or name in ("", ".", "..") or not name.isprintable():
                raise ValueError(f"{name!r} can be no znode's name")
        yield f"{joined(root, group_id, 'offsets', topic, str(partition))}:{offset}\n"
