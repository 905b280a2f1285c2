"""Whether nodes run: a move is only for a cluster that is at rest."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from offsetd_coordinator.cluster.moving.log_digest import MoveRefused

if TYPE_CHECKING:
    from offsetd_coordinator.cluster.kafka_clients import KafkaClients

_CALL_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 0.2


def refuse_running_nodes(clients: KafkaClients) -> None:
    """Raises MoveRefused if the nodes' group has members, and KafkaException."""
    if names := _members(clients):
        raise MoveRefused(
            "nodes of the cluster run ({names}): stop them first; one that was killed leaves the"
            " group {group} after cluster.session.timeout.ms",
            names=", ".join(names),
            group=clients.names.group,
        )


def _members(clients: KafkaClients) -> list[str]:
    """The client ids of the group's members. A coordinator that has just begun is asked again."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415

    not_yet = (
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    )
    deadline_s = time.monotonic() + _CALL_SECONDS
    admin = clients.admin()
    while True:
        try:
            found = _described(admin, clients.names.group)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.GROUP_ID_NOT_FOUND:
                return []
            if code not in not_yet or time.monotonic() > deadline_s:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return sorted(each.client_id for each in found.members)


def _described(admin: Any, group: str) -> Any:
    [future] = admin.describe_consumer_groups([group], request_timeout=_CALL_SECONDS).values()
    return future.result(_CALL_SECONDS)
