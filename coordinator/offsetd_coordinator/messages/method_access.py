"""The check of each call by the table of required rights: its caller, its request, its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from google.protobuf.message_factory import GetMessageClass
from offsetd.v1 import (
    acl_service_pb2,
    admin_service_pb2,
    backup_service_pb2,
    group_service_pb2,
    offset_service_pb2,
)

from offsetd_coordinator.calls import current_call
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import CoordinatorLoadInProgress
from offsetd_coordinator.messages import validation
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.security.required_rights import METHOD_RIGHTS, MethodRights, Right

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

    from offsetd_coordinator.calls.access_control import Access, AccessControl
    from offsetd_coordinator.calls.connections import Connection, Context

_FILES: Final = (
    offset_service_pb2,
    group_service_pb2,
    admin_service_pb2,
    acl_service_pb2,
    backup_service_pb2,
)
METHODS: Final[dict[str, MethodDescriptor]] = {
    method.name: method
    for file in _FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
"""Every method of the contract, by its name, which no two services share."""


class _Shown(NamedTuple):
    """A place of an answer that shows what a right allows to see."""

    right: Right
    parents: Sequence[str]
    items: str  # The repeated field whose items are left out.
    name: str  # The field of an item that has the resource's name.


class MethodAccess:
    """The access check of one method. For the event loop's thread.

    Raises KeyError for a method without a row in the table.
    """

    def __init__(self, control: AccessControl, method: str) -> None:
        self.rights: MethodRights = METHOD_RIGHTS[method]
        self._control = control
        self._request_class = GetMessageClass(METHODS[method].input_type)
        self._response_class = GetMessageClass(METHODS[method].output_type)
        self._names = [(right, right.names.split(".")) for right in self.rights.needs]
        self._shown = [] if self.rights.hides_itself else list(_shown(self.rights.shows))

    async def enter(self, context: Context, connection: Connection, size: int = 0) -> Access:
        """Identifies the caller, and stores it in the task's context.

        `size` is that of its first message, in bytes. Raises AuthenticationFailed, QuotaExceeded.
        """
        access = await self._control.enter(context)
        current_call.note_access(access)
        if access.quotas is not None:
            access.quotas.begin_call(connection, size)
        return access

    def enter_now(self, context: Context) -> Access | None:
        """Identifies the caller without storing it in the task's context.

        Only for methods that need no `check`. Returns None if the call needs `enter`: if `enter`
        would have to wait or to refuse, if `visible` may have to hide something, or if the rules
        are not loaded yet. Nothing of the caller's quotas is taken.
        """
        if not (self.rights.reads_itself and self._control.has_loaded_rules):
            return None
        access = self._control.enter_now(context)
        return None if access is None or self._hidden(access) else access

    async def check(self, access: Access, message: bytes) -> None:
        """Raises AuthorizationFailed if the caller lacks a right that a request needs.

        Raises InvalidRequest if the bytes are not a request, and CoordinatorLoadInProgress before
        the rules have been loaded.
        """
        if not self._control.has_loaded_rules:
            raise CoordinatorLoadInProgress("the server is loading its rules")
        if self.rights.reads_itself or self._control.authorizer is None:
            return
        request, turns, names_topics = None, Turns(), False
        for right, path in self._names:
            if right.resource_type is ResourceType.CLUSTER:
                access.require(right.operation, right.resource_type)
                continue
            if request is None:
                request = await validation.parse_in_turns(self._request_class, message, turns)
            if right.names and not access.allows_all(right.operation, right.resource_type):
                async for name in turns.each(_names_at(request, path)):
                    names_topics |= right.resource_type is ResourceType.TOPIC
                    access.require(right.operation, right.resource_type, name)
        if self.rights.is_of_all_topics and not names_topics:
            access.require_all(Operation.READ, ResourceType.TOPIC)

    async def visible(self, access: Access, response: bytes) -> bytes:
        """An answer without what the caller may not see."""
        hidden = self._hidden(access)
        if not hidden:
            return response
        answer, turns = self._response_class.FromString(response), Turns()
        for shown in hidden:
            for parent in _messages_at(answer, shown.parents):
                await _leave_out(parent, shown, access, turns)
        return answer.SerializeToString()

    def _hidden(self, access: Access) -> list[_Shown]:
        return [
            shown
            for shown in self._shown
            if not access.allows_all(shown.right.operation, shown.right.resource_type)
        ]


async def _leave_out(parent: Any, shown: _Shown, access: Access, turns: Turns) -> None:
    """Removes the items that the caller may not see."""
    items = getattr(parent, shown.items)
    kept = []
    async for item in turns.each(items):
        name = getattr(item, shown.name)
        if access.allows(shown.right.operation, shown.right.resource_type, name):
            kept.append(item)
    if len(kept) < len(items):
        parent_class = type(parent)
        rest = parent_class()
        getattr(rest, shown.items).extend(kept)
        parent.ClearField(shown.items)
        parent.MergeFrom(rest)


def is_visible(access: Access, rights: Iterable[Right], message: Message) -> bool:
    """Whether a caller may see a message; each right's last field name is a field of it."""
    return all(
        access.allows(
            right.operation, right.resource_type, getattr(message, right.names.rpartition(".")[2])
        )
        for right in rights
    )


def _shown(rights: Iterable[Right]) -> Iterator[_Shown]:
    """The repeated fields of an answer that each right filters."""
    for right in rights:
        *parents, items, name = right.names.split(".")
        yield _Shown(right, parents, items, name)


def _names_at(message: Any, path: Sequence[str]) -> Iterator[str]:
    """The texts at the end of a path of fields; repeated fields have several."""
    for parent in _messages_at(message, path[:-1]):
        value = getattr(parent, path[-1])
        if isinstance(value, str):
            yield value
        else:
            yield from value


def _messages_at(message: Any, path: Sequence[str]) -> Iterator[Any]:
    if not path:
        yield message
        return
    value = getattr(message, path[0])
    for child in value if _is_repeated(message, path[0]) else (value,):
        yield from _messages_at(child, path[1:])


def _is_repeated(message: Any, field: str) -> bool:
    return bool(message.DESCRIPTOR.fields_by_name[field].is_repeated)
