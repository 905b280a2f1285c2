"""Limits of repeated fields in a request, checked before protobuf reads it.

Repeated fields without a limit here are read and processed in turns.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from google.protobuf.message import Message

NAMES_MAX: Final = 10_000
"""Groups, topics, members, or partitions in a history request."""
PROTOCOLS_MAX: Final = 100
KINDS_MAX: Final = 100
"""States, types, methods or topics in a filter."""
SETTINGS_MAX: Final = 1000
"""Settings in one request; more than exist."""
PARTITIONS_MAX: Final = 10_000
"""Log partitions in one request; the most that a folder can have."""
ACLS_MAX: Final = 1000
"""Access rules in one request."""
ACL_FILTERS_MAX: Final = 100
"""Filters of access rules in one request. Each rule of the server is compared with each of them."""

COUNTS_MAX: Final[Mapping[str, Mapping[str, int]]] = {
    "AddAclsRequest": {"acls": ACLS_MAX},
    "CloneGroupRequest": {"topics": NAMES_MAX},
    "CompactLogRequest": {"partitions": PARTITIONS_MAX},
    "DeleteOffsetsRequest": {"topics": NAMES_MAX},
    "DescribeConfigRequest": {"names": SETTINGS_MAX},
    "DescribeLogRequest": {"partitions": PARTITIONS_MAX},
    "ExportOffsetsRequest": {
        "group_ids": NAMES_MAX,
        "topics": NAMES_MAX,
        "log_partitions": PARTITIONS_MAX,
    },
    "FetchBoundsRequest": {"topics": NAMES_MAX},
    "JoinGroupRequest": {"protocols": PROTOCOLS_MAX},
    "LeaveGroupRequest": {"members": NAMES_MAX},
    "ListAuditEventsRequest": {"methods": KINDS_MAX},
    "ListOffsetHistoryRequest": {"partitions": NAMES_MAX},
    "ListGroupsRequest": {
        "states": KINDS_MAX,
        "types": KINDS_MAX,
        "lag_verdicts": KINDS_MAX,
        "topics": KINDS_MAX,
        "log_partitions": PARTITIONS_MAX,
    },
    "RemoveAclsRequest": {"filters": ACL_FILTERS_MAX, "acls": ACLS_MAX},
    "RemoveMembersRequest": {"members": NAMES_MAX},
    "ResetOffsetsRequest": {"topics": NAMES_MAX},
    "SyncGroupRequest": {"assignments": NAMES_MAX},
    "UpdateConfigRequest": {"set": SETTINGS_MAX, "remove": SETTINGS_MAX},
    "WatchOffsetsRequest": {
        "group_ids": NAMES_MAX,
        "topics": NAMES_MAX,
        "log_partitions": PARTITIONS_MAX,
    },
}
"""The largest count of a repeated field, by message and field."""

# Room for fields that do not repeat, and for fields of later versions of the contract.
_OTHER_FIELDS_MAX: Final = 1000
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES: Final = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BYTES_MAX: Final = 10


class Unreadable(Exception):
    """A message that is not valid protobuf, or that no client of offsetd can have made.

    The latter has protobuf groups, or thousands of unknown fields.
    """


class EncodedCounts:
    """Counts the fields of one message, one by one."""

    def __init__(self, message_class: type[Message]) -> None:
        descriptor = message_class.DESCRIPTOR
        self._counts_max = COUNTS_MAX.get(descriptor.name, {})
        self._names = {descriptor.fields_by_name[name].number: name for name in self._counts_max}
        self._counts: Counter[int] = Counter()

    def note(self, number: int) -> None:
        """Raises InvalidRequest for a field that repeats too often. Packed numbers count once."""
        name = self._names.get(number)
        if name is not None:
            self._counts[number] += 1
            _check(name, self._counts[number], self._counts_max[name])


def check_encoded(message_class: type[Message], message: bytes) -> None:
    """Raises InvalidRequest if a field repeats too often, and Unreadable.

    Packed numbers count as one field here; `check_parsed` counts each.
    """
    counts_max = COUNTS_MAX.get(message_class.DESCRIPTOR.name)
    if counts_max is None:
        return
    counts = EncodedCounts(message_class)
    fields_max = sum(counts_max.values()) + _OTHER_FIELDS_MAX
    for place, (number, _) in enumerate(encoded_fields(message)):
        counts.note(number)
        if place == fields_max:
            raise Unreadable


def check_parsed(request: Message) -> None:
    """Raises InvalidRequest for a field that repeats too often."""
    for name, count_max in COUNTS_MAX.get(request.DESCRIPTOR.name, {}).items():
        _check(name, len(getattr(request, name)), count_max)


def encoded_fields(message: bytes) -> Iterator[tuple[int, int]]:
    """Yields the number and the end of each field of a message, in order. Raises Unreadable."""
    position, size = 0, len(message)
    while position < size:
        key, position = _varint(message, position)
        kind = key & 7
        if kind == _LENGTH:
            length, position = _varint(message, position)
            position += length
        elif kind == _VARINT:
            _, position = _varint(message, position)
        elif kind in _FIXED_BYTES:
            position += _FIXED_BYTES[kind]
        else:
            raise Unreadable
        if position > size:
            raise Unreadable
        yield key >> 3, position


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and the position after it."""
    if position < len(message) and message[position] < 0x80:
        return message[position], position + 1
    number = 0
    for place, byte in enumerate(message[position : position + _VARINT_BYTES_MAX]):
        number |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return number, position + place + 1
    raise Unreadable


def _check(name: str, count: int, count_max: int) -> None:
    if count > count_max:
        raise InvalidRequest(
            name, "more than {count_max} entries: split the request", count_max=count_max
        )
