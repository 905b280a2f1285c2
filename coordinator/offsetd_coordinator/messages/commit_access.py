"""The rights that commits need, checked on what was read: by the group, and by each topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from offsetd_coordinator.kernels.columns import TOPIC_SIZE, TOPIC_START
from offsetd_coordinator.kernels.wire.commit_fields import FIRST_ROW, ROWS
from offsetd_coordinator.quotas.quota_table import Quota
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.security.security_errors import AuthorizationFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_coordinator.calls.access_control import Access
    from offsetd_coordinator.kernels.columns import Bytes, Int64s
    from offsetd_coordinator.requests import CommitOffsets
    from offsetd_coordinator.wire.commit_reader import ReadCommits

_READ, _GROUP, _TOPIC = Operation.READ, ResourceType.GROUP, ResourceType.TOPIC
_NAMES_KEPT: Final = 100_000
_NAME_BYTES_KEPT_MAX: Final = 256


def admit_commit(access: Access, commit: CommitOffsets) -> None:
    """Raises AuthorizationFailed or QuotaExceeded if the caller may not commit this."""
    require_commit(access, commit)
    if access.quotas is not None:
        access.quotas.take({Quota.COMMIT_RATE: 1, Quota.OFFSET_RATE: len(commit.columns)})


def require_commit(access: Access, commit: CommitOffsets) -> None:
    """Raises AuthorizationFailed if the caller may not commit this."""
    access.require(_READ, _GROUP, commit.group_id.decode())
    if not access.allows_all(_READ, _TOPIC):
        names = commit.names
        spans = commit.columns[:, TOPIC_START : TOPIC_SIZE + 1].tolist()
        for topic in {names[start : start + size].tobytes() for start, size in spans}:
            access.require(_READ, _TOPIC, topic.decode())


def refusals_of(accesses: Sequence[Access], read: ReadCommits) -> Mapping[int, AuthorizationFailed]:
    """The commits that their callers may not make, by their places. Each has its own caller."""
    refused: dict[int, AuthorizationFailed] = {}
    for place, (access, group_id) in enumerate(zip(accesses, read.all_group_ids, strict=True)):
        try:
            if access.allows_all(_READ, _TOPIC):
                access.require(_READ, _GROUP, group_id.decode())
            else:
                require_commit(access, read.commit(place))
        except AuthorizationFailed as refusal:
            refused[place] = refusal.without_traces()
    return refused


class CommitAccess:
    """The rights of one stream's caller. It remembers allowed names until the rules change."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._version = -1
        self._groups: set[bytes] = set()
        self._topics: set[bytes] = set()

    def refusals(self, read: ReadCommits) -> Mapping[int, AuthorizationFailed]:
        """The commits of a message that the caller may not make, by their places."""
        access = self._access
        self._forget_if_changed()
        refused: dict[int, AuthorizationFailed] = {}
        group_ids = read.all_group_ids
        if not self._groups.issuperset(group_ids):
            for place, group_id in enumerate(group_ids):
                if group_id not in self._groups:
                    self._check(_GROUP, group_id, place, self._groups, refused)
        if not access.allows_all(_READ, _TOPIC):
            self._check_topics(read, refused)
        return refused

    def check_identity(self) -> None:
        """Raises IdentityEnded if the caller's token has expired or was revoked."""
        self._access.check_identity()

    def require(self, commit: CommitOffsets) -> None:
        """Raises AuthorizationFailed if the caller may not make a commit that comes alone."""
        require_commit(self._access, commit)

    def _check_topics(self, read: ReadCommits, refused: dict[int, AuthorizationFailed]) -> None:
        message, first_rows = read.message, read.commits[:, FIRST_ROW]
        rows = int(first_rows[-1] + read.commits[-1, ROWS])
        columns = read.columns[:rows, TOPIC_START : TOPIC_SIZE + 1]
        start, size = columns[0].tolist()
        if _is_one_text(read.names, columns) and message[start : start + size] in self._topics:
            return
        spans = columns.tolist()
        topics = [message[start : start + size] for start, size in spans]
        if self._topics.issuperset(topics):
            return
        for row, topic in enumerate(topics):
            if topic not in self._topics:
                place = int(first_rows.searchsorted(row, side="right")) - 1
                if place not in refused:
                    self._check(_TOPIC, topic, place, self._topics, refused)

    def _check(
        self,
        resource_type: ResourceType,
        name: bytes,
        place: int,
        allowed: set[bytes],
        refused: dict[int, AuthorizationFailed],
    ) -> None:
        try:
            self._access.require(_READ, resource_type, name.decode())
        except AuthorizationFailed as refusal:
            refused[place] = refusal.without_traces()
            return
        if len(name) <= _NAME_BYTES_KEPT_MAX:
            if len(allowed) >= _NAMES_KEPT:
                allowed.clear()
            allowed.add(name)

    def _forget_if_changed(self) -> None:
        version = self._access.rules_version
        if version != self._version:
            self._version = version
            self._groups.clear()
            self._topics.clear()


def _is_one_text(content: Bytes, spans: Int64s) -> bool:
    """Whether all spans (start, size) have the same bytes, as the topics of most messages."""
    starts, sizes = spans.T
    size = int(sizes[0])
    if size > _NAME_BYTES_KEPT_MAX or (sizes != size).any():
        return False
    texts = content[starts[:, None] + np.arange(size)]
    return bool((texts == texts[0]).all())
