"""The identities of one server's callers, and the rules of what they may do.

An `Access` is the caller of one call, with its rights, for as long as the call goes on.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog

from offsetd_coordinator.calls.caller import Caller
from offsetd_coordinator.calls.connections import metadata_text
from offsetd_coordinator.security.acl import ANY, CLUSTER_NAME, Operation, ResourceType
from offsetd_coordinator.security.security_errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    IdentityEnded,
    lacks_right,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_coordinator.calls.connections import Context
    from offsetd_coordinator.calls.identities import Identities
    from offsetd_coordinator.counters import AccessCounters
    from offsetd_coordinator.quotas.caller_quotas import CallerQuotas, Quotas
    from offsetd_coordinator.security.authorizer import Authorizer
    from offsetd_coordinator.security.identity import Identity

_log = structlog.get_logger(__name__)

_TOLD_AGAIN_SECONDS: Final = 60.0
_TOLD_MAX: Final = 1000
_BEHIND_EXPIRY_SECONDS: Final = 0.01
"""Added to each timer: expiries have whole milliseconds, and the loop has another clock."""
_CLIENT_ID_KEY: Final = "client-id"
_CLIENT_ID_CHARACTERS_MAX: Final = 256


class AccessControl:
    """Identifies callers and checks their rights. For the event loop.

    `authorizer` is None without rules.
    """

    def __init__(
        self,
        identities: Identities,
        authorizer: Authorizer | None,
        counters: AccessCounters,
        quotas: Quotas | None = None,
    ) -> None:
        self.authorizer = authorizer
        self.quotas = quotas
        self._identities = identities
        self._counters = counters
        self.has_loaded_rules = True
        self._on_change: set[Callable[[], None]] = set()
        # When refusals were logged, by principal, resource type and name.
        self._told: dict[tuple[str, str, str], float] = {}

    async def enter(self, context: Context) -> Access:
        """Finds the caller of a call. Raises AuthenticationFailed."""
        try:
            identity = await self._identities.identify(context)
        except AuthenticationFailed:
            self._counters.failed_authentications += 1
            raise
        return self._access(context, identity)

    def enter_now(self, context: Context) -> Access | None:
        """As `enter`; None for callers that only `enter` can find or refuse."""
        try:
            identity = self._identities.identify_now(context)
        except AuthenticationFailed:
            return None
        return None if identity is None else self._access(context, identity)

    def _access(self, context: Context, identity: Identity) -> Access:
        principal, client_id, quotas = identity.principal, "", None
        if self.quotas is not None:
            client_id = metadata_text(context, _CLIENT_ID_KEY)[:_CLIENT_ID_CHARACTERS_MAX]
            quotas = self.quotas.of(principal, client_id)
        return Access(self, Caller(principal, context.peer(), client_id), identity, quotas)

    def is_valid(self, identity: Identity) -> bool:
        """Whether an identity that was found before still holds."""
        return self._identities.is_valid(identity)

    def call_on_change(
        self, identity: Identity, callback: Callable[[], None]
    ) -> Callable[[], None]:
        """Calls `callback` after each change, and when the identity expires.

        Returns a function that ends these calls.
        """
        self._on_change.add(callback)
        left_seconds = self._identities.seconds_left(identity)
        if left_seconds is None:
            return lambda: self._on_change.discard(callback)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(left_seconds + _BEHIND_EXPIRY_SECONDS, callback)

        def forget() -> None:
            timer.cancel()
            self._on_change.discard(callback)

        return forget

    def note_change(self) -> None:
        """Notes that rules or tokens have changed: open streams check their rights again."""
        for callback in tuple(self._on_change):
            callback()

    def note_refusal(
        self, caller: Caller, operation: Operation, resource_type: ResourceType, name: str
    ) -> None:
        """Counts a refusal; logs it at most once a minute for a principal and a resource."""
        self._counters.refusals[operation.value] += 1
        key = caller.principal, resource_type.value, name
        now_seconds = time.monotonic()
        told_seconds = self._told.get(key)
        if told_seconds is not None and now_seconds - told_seconds < _TOLD_AGAIN_SECONDS:
            return
        if len(self._told) >= _TOLD_MAX:
            self._told.clear()
        self._told[key] = now_seconds
        assert self.authorizer is not None, "without rules nothing is refused"
        rule = self.authorizer.explain(
            caller.principal, caller.host, operation, resource_type, name
        ).acl
        _log.warning(
            "a call was refused",
            principal=caller.principal,
            peer=caller.address,
            operation=operation.value,
            resource=f"{resource_type.value} {name}",
            rule="none allows it" if rule is None else str(rule),
        )


class Access:
    """What one caller may do. Each question is answered by the rules of this moment."""

    __slots__ = ("_control", "_host", "_identity", "_principal", "caller", "quotas")

    def __init__(
        self,
        control: AccessControl,
        caller: Caller,
        identity: Identity,
        quotas: CallerQuotas | None = None,
    ) -> None:
        self.caller = caller
        self.quotas = quotas
        """None without quotas."""
        self._control = control
        self._identity = identity
        self._principal = caller.principal
        self._host = caller.host

    @property
    def is_anonymous(self) -> bool:
        """Whether the caller has no identity."""
        return self._identity.is_anonymous

    @property
    def rules_version(self) -> int:
        """Grows when rules change. Decisions of an earlier version may be wrong."""
        authorizer = self._control.authorizer
        return 0 if authorizer is None else authorizer.version

    def check_identity(self) -> None:
        """Raises IdentityEnded if the caller's token has expired or was revoked."""
        if not self._control.is_valid(self._identity):
            raise IdentityEnded("the token has expired, or was revoked: open the stream again")

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the caller may do this."""
        authorizer = self._control.authorizer
        return authorizer is None or authorizer.allows(
            self._principal, self._host, operation, resource_type, name
        )

    def allows_all(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the caller may surely do this with every resource of the type."""
        authorizer = self._control.authorizer
        return authorizer is None or authorizer.allows_all(
            self._principal, self._host, operation, resource_type
        )

    def require_all(self, operation: Operation, resource_type: ResourceType) -> None:
        """Raises AuthorizationFailed unless the caller may do this with all of the type."""
        if not self.allows_all(operation, resource_type):
            raise self._refusal(operation, resource_type, ANY)

    def require(
        self, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME
    ) -> None:
        """Raises AuthorizationFailed if the caller may not do this."""
        if not self.allows(operation, resource_type, name):
            raise self._refusal(operation, resource_type, name)

    def _refusal(
        self, operation: Operation, resource_type: ResourceType, name: str
    ) -> AuthorizationFailed:
        self._control.note_refusal(self.caller, operation, resource_type, name)
        return lacks_right(self._principal, operation, resource_type, name)

    def call_on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `AccessControl.call_on_change`."""
        return self._control.call_on_change(self._identity, callback)
