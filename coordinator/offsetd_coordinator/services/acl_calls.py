"""AclService: the rules that say what callers may do."""

from __future__ import annotations

from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Final

from offsetd.v1 import acl_service_pb2
from offsetd_storage.offsets_topic.schemas.primitives import UndecodableRecord

from offsetd_coordinator.configuration.acl_filter import acl_order
from offsetd_coordinator.configuration.acl_record import decode_acl_key, encode_acl_key
from offsetd_coordinator.configuration.acl_state import ChangeAcls
from offsetd_coordinator.configuration.internal_topic_configs import CONFIG_PARTITION
from offsetd_coordinator.cooperative_scheduling import Turns
from offsetd_coordinator.errors import InvalidRequest, PolicyViolation
from offsetd_coordinator.messages import validation
from offsetd_coordinator.messages.access_rules import (
    acl_message,
    audited_acl,
    read_acl,
    read_filter,
    read_question,
)
from offsetd_coordinator.messages.audit_events import change_event
from offsetd_coordinator.messages.page_tokens import (
    not_ours,
    page_token,
    read_page_size,
    read_page_token,
)
from offsetd_coordinator.messages.revisions import set_revision

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from offsetd_coordinator.administration.audit import AuditEvent
    from offsetd_coordinator.configuration.acl_filter import AclFilter
    from offsetd_coordinator.configuration.acl_state import AclsReply
    from offsetd_coordinator.node import Node
    from offsetd_coordinator.security.acl import Acl
    from offsetd_coordinator.security.authorizer import Authorizer

PAGE_SIZE_MAX: Final = 1000
_PAGE_BYTES_MAX: Final = 1 << 20
_SETTING: Final = "security.acl.file"


class AclCalls:
    """The methods: each takes a request's bytes and returns the answer's bytes.

    `authorizer` has the rules, also while they are not `in_force`. `from_file`: they come from
    `security.acl.file`, and cannot be changed here.
    """

    def __init__(
        self, node: Node, authorizer: Authorizer, *, in_force: bool, from_file: bool
    ) -> None:
        self._node = node
        self._authorizer = authorizer
        self._in_force = in_force
        self._from_file = from_file
        # The rules, and the same rules in order.
        self._ordered: tuple[Collection[Acl], Sequence[Acl]] = (), ()

    async def list_acls(self, message: bytes) -> bytes:
        """One page of rules. All of them are durable."""
        self._node.serving()
        request = validation.parse(acl_service_pb2.ListAclsRequest, message)
        page_size = read_page_size(request.page_size, default=PAGE_SIZE_MAX, most=PAGE_SIZE_MAX)
        wanted = read_filter(request.filter, "filter")
        question = acl_service_pb2.ListAclsRequest(filter=request.filter)
        ordered = self._in_order()
        begin = _begin(ordered, read_page_token(question, request.page_token))
        response = acl_service_pb2.ListAclsResponse(
            in_force=self._in_force, from_file=self._from_file
        )
        last: bytes | None = None
        size_bytes, turns = 0, Turns()
        async for acl in turns.each(islice(ordered, begin, None)):
            if not wanted.matches(acl):
                continue
            if len(response.acls) == page_size or size_bytes > _PAGE_BYTES_MAX:
                assert last is not None, "a page has a rule before it ends"
                response.next_page_token = page_token(question, last)
                break
            last = encode_acl_key(acl)
            size_bytes += len(last)
            response.acls.append(acl_message(acl))
        return response.SerializeToString()

    async def add_acls(self, message: bytes) -> bytes:
        """Adds rules; answers once they are durable and, if rules are, in force."""
        self._node.serving()
        turns = Turns()
        request = await validation.parse_in_turns(acl_service_pb2.AddAclsRequest, message, turns)
        validation.check_reason(request.reason)
        if not request.acls:
            raise InvalidRequest("acls", "name at least one rule")
        acls = await _read_acls(request.acls, turns)
        self._check_changeable()
        change = ChangeAcls(
            acls=acls,
            request_id=validation.read_request_id(request.request_id),
            validate_only=request.validate_only,
        )
        reply = await self._change(change, "AddAcls", request.reason)
        response = acl_service_pb2.AddAclsResponse(
            added=map(acl_message, reply.changed), in_force=self._in_force
        )
        set_revision(response.revision, CONFIG_PARTITION.partition, reply.last_offset)
        return response.SerializeToString()

    async def remove_acls(self, message: bytes) -> bytes:
        """Removes rules; answers once that is durable and, if rules are, in force."""
        administration = self._node.administering()
        turns = Turns()
        request = await validation.parse_in_turns(acl_service_pb2.RemoveAclsRequest, message, turns)
        validation.check_reason(request.reason)
        if not request.filters and not request.acls:
            raise InvalidRequest("filters", "name at least one filter or rule")
        filters = [
            read_filter(each, f"filters[{place}]") for place, each in enumerate(request.filters)
        ]
        acls = await _read_acls(request.acls, turns)
        self._check_changeable()
        acls += await _matching(filters, await administration.newest_acls(), turns)
        change = ChangeAcls(
            acls=acls,
            is_removal=True,
            request_id=validation.read_request_id(request.request_id),
            validate_only=request.validate_only,
        )
        reply = await self._change(change, "RemoveAcls", request.reason)
        response = acl_service_pb2.RemoveAclsResponse(
            removed=map(acl_message, reply.changed), in_force=self._in_force
        )
        set_revision(response.revision, CONFIG_PARTITION.partition, reply.last_offset)
        return response.SerializeToString()

    async def test_acl(self, message: bytes) -> bytes:
        """Whether a caller may do something, and by which rule."""
        self._node.serving()
        request = validation.parse(acl_service_pb2.TestAclRequest, message)
        explanation = self._authorizer.explain(*read_question(request))
        response = acl_service_pb2.TestAclResponse(
            allowed=explanation.is_allowed,
            is_super_user=explanation.is_super_user,
            in_force=self._in_force,
        )
        if explanation.acl is not None:
            response.acl.CopyFrom(acl_message(explanation.acl))
        return response.SerializeToString()

    def _in_order(self) -> Sequence[Acl]:
        """The rules of the file, or those that are stored and durable."""
        stored = self._node.administering().applied_acls
        acls = self._authorizer.acls if self._from_file else stored
        if self._ordered[0] is not acls:
            self._ordered = acls, sorted(acls, key=acl_order)
        return self._ordered[1]

    def _check_changeable(self) -> None:
        """Raises PolicyViolation if the rules cannot be changed by calls."""
        if self._from_file:
            raise PolicyViolation(
                "the rules come from {setting}: change that file", setting=_SETTING
            )

    async def _change(self, change: ChangeAcls, method: str, reason: str) -> AclsReply:
        administration = self._node.administering()

        def event_of(reply: AclsReply) -> AuditEvent:
            return change_event(
                method,
                {"acls": [audited_acl(acl) for acl in reply.changed]},
                time_ms=administration.clock.now_ms(),
                reason=reason,
                request_id=change.request_id.decode(),
            )

        return await administration.change_acls(change, event_of)


def _begin(ordered: Sequence[Acl], position: bytes | None) -> int:
    """The place of the first rule of a page. Raises InvalidPageToken."""
    if position is None:
        return 0
    try:
        last = decode_acl_key(position)
    except UndecodableRecord as error:
        raise not_ours() from error
    return bisect_right(ordered, acl_order(last), key=acl_order)


async def _read_acls(messages: Iterable[acl_service_pb2.Acl], turns: Turns) -> list[Acl]:
    named = turns.each(enumerate(messages))
    return [read_acl(message, f"acls[{place}]") async for place, message in named]


async def _matching(filters: Sequence[AclFilter], acls: Iterable[Acl], turns: Turns) -> list[Acl]:
    """The rules that agree with one of the filters."""
    matching = []
    for acl in acls if filters else ():
        if any(each.matches(acl) for each in filters):
            matching.append(acl)
        await turns.spend(len(filters))
    return matching
