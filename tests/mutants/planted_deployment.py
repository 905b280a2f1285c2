"""Planted bugs of what service managers and health checks ask."""

from __future__ import annotations

from mutants.planted import Mutant

_NOTIFY = "offsetd_coordinator.commands.service_notification:notify_when_serving"
_NOTIFY_TESTS = "tests/deployment/test_service_notification.py"
_HEALTH = "offsetd_clients.cli.health:register"
_HEALTH_TESTS = "tests/unit/clients/cli/test_health.py"

DEPLOYMENT_MUTANTS = (
    Mutant(
        name="systemd is told that the server serves before it does",
        where=_NOTIFY,
        replace="await serving.wait()",
        by="await asyncio.sleep(0)",
        caught_by=_NOTIFY_TESTS,
    ),
    Mutant(
        name="abstract sockets of service managers are taken for files",
        where=_NOTIFY,
        replace='address = "\\0" + address[1:]',
        by="pass",
        caught_by=_NOTIFY_TESTS,
    ),
    Mutant(
        name="a service manager that is gone ends the server's task silently",
        where=_NOTIFY,
        replace=(
            '_log.warning("cannot tell the service manager that the server serves: %s", error)'
        ),
        by="pass",
        caught_by=_NOTIFY_TESTS,
    ),
    Mutant(
        name="a server that does not serve passes the health check",
        where=_HEALTH,
        replace="if not serves",
        by="if serves is None",
        caught_by=_HEALTH_TESTS,
    ),
    Mutant(
        name="a health check asks for the whole server only",
        where=_HEALTH,
        replace='for name in services or [""]',
        by='for name in [""]',
        caught_by=_HEALTH_TESTS,
    ),
)
