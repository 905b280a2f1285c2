"""Unary calls without a transport, as those of one turn of the event loop that are joined."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
from offsetd_coordinator.calls.access_control import AccessControl
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.calls.identities import Identities
from offsetd_coordinator.counters import AccessCounters, CallCounters, QuotaCounters
from offsetd_coordinator.grpc.joined_calls import JoinedCalls
from offsetd_coordinator.messages.method_access import MethodAccess
from offsetd_coordinator.quotas.caller_quotas import Quotas
from offsetd_coordinator.quotas.quota_file import parse_quota_file
from offsetd_coordinator.security.acl import Acl, Operation, Permission, ResourceType
from offsetd_coordinator.security.authorizer import Authorizer
from serving_nodes import WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MESSAGE_BYTES_MAX = 1 << 20


class UnaryCall:
    """A call's context, as a transport has it."""

    def __init__(
        self,
        peer: str = "ipv4:127.0.0.1:5",
        *,
        certificate: bytes | None = None,
        token: str | None = None,
    ) -> None:
        self.remaining_seconds: float | None = None
        self.is_done = False
        self.code = grpc.StatusCode.OK
        self._peer = peer
        self._certificate = certificate
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self._answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._on_done: list[Callable[[Any], None]] = []

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def auth_context(self) -> dict[str, list[bytes]]:
        return {} if self._certificate is None else {"x509_pem_cert": [self._certificate]}

    def time_remaining(self) -> float | None:
        return self.remaining_seconds

    def done(self) -> bool:
        return self.is_done

    def set_code(self, code: grpc.StatusCode) -> None:
        self.code = code

    def set_details(self, details: str) -> None:
        pass

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        pass

    def answer(self, message: bytes) -> None:
        self._answered.set_result(message)

    @property
    def is_answered(self) -> bool:
        return self._answered.done()

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._on_done.append(callback)

    def note_read(self) -> None:
        """The client has read the answer."""
        for callback in self._on_done:
            callback(self)

    async def end(self) -> tuple[grpc.StatusCode, bytes]:
        """The code and the answer."""
        message = await asyncio.wait_for(self._answered, WAIT_SECONDS)
        return self.code, message


class JoinedTurns:
    """What takes the calls of one method by turns."""

    def __init__(
        self,
        method: str,
        *,
        in_flight_bytes_max: int = 1 << 20,
        method_access: MethodAccess | None = None,
    ) -> None:
        self.admission = Admission(in_flight_bytes_max)
        self.counters = CallCounters().method(method)
        self.calls = JoinedCalls(
            method,
            self.admission,
            self.counters,
            request_bytes_max=MESSAGE_BYTES_MAX,
            method_access=method_access,
        )
        self.joined: Any = None
        """Has the calls of the method."""

    def take(self, messages: Sequence[bytes]) -> tuple[list[UnaryCall], list[int]]:
        """New calls with these messages, and the places of those that are left."""
        calls = [UnaryCall(f"ipv4:127.0.0.1:{place}") for place in range(len(messages))]
        return calls, self.take_calls(calls, messages)

    def take_calls(self, calls: Sequence[UnaryCall], messages: Sequence[bytes]) -> list[int]:
        """The places of the calls that are left."""
        left = self.joined.take(list(zip(calls, messages, strict=True)))
        return [calls.index(each) for each in left]

    def assert_all_ended(self) -> None:
        """Nothing is counted any more."""
        assert (self.admission.bytes_taken, self.admission.requests) == (0, 0)
        assert self.admission.answers.bytes_held == 0
        connections = self.admission.connections.all()
        assert all(not each.calls and not each.unread_answers for each in connections)


def quotas_of(text: str) -> Quotas:
    """The quotas of a file, for as long as no time passes."""
    return Quotas(parse_quota_file(text), QuotaCounters(10), now_ns=lambda: 1 << 40)


def used(quotas: Quotas) -> dict[str, int]:
    """What is used of each limit, by the name of its quota."""
    limits = quotas.table.limits_by_name()
    return {each.quota.value: quotas.taken(each) for each in limits}


def door(method: str, operation: Operation, quotas: Quotas | None = None) -> MethodAccess:
    """The door of a method: alice and bob have a certificate, and a right to one group each.

    They have the right to all topics; carol only to one.
    """
    rule = partial(Acl, permission=Permission.ALLOW, operation=operation)
    group = partial(rule, resource_type=ResourceType.GROUP)
    topic = partial(rule, resource_type=ResourceType.TOPIC)
    acls = [
        *(group(principal=f"User:{name}", name=f"of-{name}") for name in ("alice", "bob", "carol")),
        *(topic(principal=f"User:{name}", name="*") for name in ("alice", "bob")),
        topic(principal="User:carol", name="another"),
    ]
    identities = Identities(
        now_ms=lambda: 0, principal_of=lambda certificate: f"User:{certificate.decode()}"
    )
    control = AccessControl(identities, Authorizer(acls=acls), AccessCounters(), quotas)
    return MethodAccess(control, method)
