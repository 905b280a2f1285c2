"""The groups of an offsetd server as the source of a move to a Kafka cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from offsetd_clients import GroupState, OffsetClient, OffsetdError
from offsetd_clients.migration.target import milliseconds
from offsetd_clients.migration.values import (
    FoundGroup,
    FoundOffset,
    SourceDescription,
    SourceFailed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

HERE_KIND: Final = "offsetd"

_CHUNK_GROUPS_MAX: Final = 64
_AT_REST: Final = (GroupState.EMPTY, GroupState.DEAD)


class HereSource:
    """The groups that `takes` accepts."""

    def __init__(self, client: OffsetClient, *, takes: Callable[[str], bool]) -> None:
        self._client = client
        self._takes = takes

    @property
    def description(self) -> SourceDescription:
        """The server's address."""
        return SourceDescription(kind=HERE_KIND, address=self._client.address)

    def groups(self) -> Iterator[FoundGroup]:
        """Yields each group that has offsets. Raises SourceFailed."""
        chunk: dict[str, GroupState] = {}
        try:
            for listed in self._client.list_groups():
                if self._takes(listed.group_id):
                    chunk[listed.group_id] = listed.state
                if len(chunk) == _CHUNK_GROUPS_MAX:
                    yield from self._read(chunk)
                    chunk.clear()
            yield from self._read(chunk)
        except OffsetdError as error:
            raise SourceFailed(f"{self._client.address}: {error}") from error

    def read_again(self, group_ids: Sequence[str]) -> Iterator[FoundGroup]:
        """Yields those groups in their present state. Raises SourceFailed."""
        try:
            stored = self._client.fetch_many(group_ids)
        except OffsetdError as error:
            raise SourceFailed(f"{self._client.address}: {error}") from error
        for group_id in group_ids:
            yield FoundGroup(
                group_id=group_id,
                offsets=tuple(
                    FoundOffset(
                        topic=where.topic,
                        partition=where.partition,
                        offset=each.offset,
                        leader_epoch=each.leader_epoch,
                        metadata=each.metadata,
                        commit_time_ms=milliseconds(each.commit_time),
                    )
                    for where, each in sorted(stored[group_id].items())
                ),
            )

    def _read(self, states: dict[str, GroupState]) -> Iterator[FoundGroup]:
        for found in self.read_again(list(states)):
            state = states[found.group_id]
            owners = () if state in _AT_REST else (f"members: the group is {state}",)
            if found.offsets:
                yield FoundGroup(group_id=found.group_id, offsets=found.offsets, owners=owners)
