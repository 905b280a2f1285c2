"""gRPC's health service, which may ask callers for their identity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1.health import aio as health_aio

from offsetd_coordinator.errors import CoordinatorError
from offsetd_coordinator.security.security_errors import AuthenticationFailed

if TYPE_CHECKING:
    from offsetd_coordinator.calls.access_control import AccessControl


class HealthService(health_aio.HealthServicer):  # type: ignore[misc]  # It has no types.
    """Answers everybody, unless `control` is set: then it answers callers with an identity."""

    def __init__(self) -> None:
        super().__init__()
        self.control: AccessControl | None = None

    async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802  The contract's name.
        """One answer."""
        await self._enter(context)
        return await super().Check(request, context)

    async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802  The contract's name.
        """An answer for each change."""
        await self._enter(context)
        await super().Watch(request, context)

    async def _enter(self, context: Any) -> None:
        if self.control is None:
            return
        try:
            access = await self.control.enter(context)
            if access.is_anonymous:
                raise AuthenticationFailed("the server's health is for callers with an identity")
        except CoordinatorError as refusal:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(refusal))
