"""The rights of a watcher, for as long as it watches."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self

import attrs
from offsetd.v1 import history_pb2

from offsetd_coordinator.messages.method_access import is_visible
from offsetd_coordinator.quotas.quota_table import Quota

if TYPE_CHECKING:
    from offsetd_coordinator.calls.access_control import Access
    from offsetd_coordinator.calls.connections import Connection
    from offsetd_coordinator.grpc.unary_calls import Context
    from offsetd_coordinator.messages.method_access import MethodAccess


@attrs.define
class WatcherRights:
    """The rights of a watcher's caller. Rules may change while it watches."""

    access: Access
    _method_access: MethodAccess
    _request: bytes
    _rules_version: int = -1

    @classmethod
    async def open(
        cls,
        method_access: MethodAccess,
        context: Context,
        connection: Connection,
        request: bytes,
    ) -> Self:
        """Raises AuthenticationFailed, AuthorizationFailed, QuotaExceeded, InvalidRequest."""
        access = await method_access.enter(context, connection, len(request))
        view = cls(access, method_access, request)
        await view.check()
        return view

    async def check(self) -> None:
        """Raises IdentityEnded or AuthorizationFailed once the caller may not watch."""
        self.access.check_identity()
        version = self.access.rules_version
        if version != self._rules_version:
            await self._method_access.check(self.access, self._request)
            self._rules_version = version

    def one_watcher(self) -> contextlib.AbstractContextManager[None]:
        """Counts the watcher for as long as the context lasts. Raises QuotaExceeded."""
        quotas = self.access.quotas
        if quotas is None:
            return contextlib.nullcontext()
        return quotas.one_of(Quota.WATCHERS_MAX)

    async def pay(self, size: int, ended: asyncio.Future[None]) -> None:
        """Takes a sent message from the caller's quotas. Returns when it may get more, or at the
        end.
        """
        quotas = self.access.quotas
        if quotas is None:
            return
        quotas.spend({Quota.RESPONSE_BYTE_RATE: size})
        while not ended.done() and (seconds := quotas.pause_seconds((Quota.RESPONSE_BYTE_RATE,))):
            await asyncio.wait({ended}, timeout=seconds)

    def visible(
        self, response: history_pb2.WatchOffsetsResponse
    ) -> history_pb2.WatchOffsetsResponse:
        """The events that the caller may see. Raises IdentityEnded."""
        self.access.check_identity()
        shows = self._method_access.rights.shows
        events = [each for each in response.events if is_visible(self.access, shows, each)]
        if len(events) == len(response.events):
            return response
        return history_pb2.WatchOffsetsResponse(events=events)
