"""Changes of groups that several nodes of a cluster own."""

from typing import Any

from offsetd.v1.group_service_pb2 import CloneGroupRequest
from offsetd.v1.offset_service_pb2 import FetchOffsetsRequest, GroupSelection

from offsetd_clients.aio.concurrency import sleep
from offsetd_clients.aio.servers import Servers
from offsetd_clients.calling.commit_queue import is_of_ownership
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.change_values import ImportedGroup
from offsetd_clients.errors import NotCoordinator, OffsetdError
from offsetd_clients.messages.change_messages import imported_groups
from offsetd_clients.messages.conversions import find_coordinator_request


async def add_source_offsets(
    servers: Servers, policy: RetryPolicy, request: CloneGroupRequest
) -> None:
    """Reads the source of a clone into the request, if another node owns the target."""
    addresses = [
        (await servers.call("FindCoordinator", find_coordinator_request(each), policy)).address
        for each in (request.source_group_id, request.target_group_id)
    ]
    if addresses[0] == addresses[1]:
        return
    selection = GroupSelection(group_id=request.source_group_id)
    request.source_offsets.CopyFrom(
        await servers.fetch(FetchOffsetsRequest(groups=[selection]), policy)
    )


async def import_by_owners(
    servers: Servers, policy: RetryPolicy, requests: list[Any]
) -> tuple[ImportedGroup, ...]:
    """Sends a file to one server after the other, until the owner of each group has answered.

    Each server gets the whole file. A group that moves meanwhile may be imported by its former
    owner and then sent to the next owner, which knows the request id and answers the same again.
    """
    deadline_s = policy.monotonic_s() + policy.timeout_s
    first = imported_groups(await servers.call("ImportOffsets", requests, policy))
    found = {each.group_id: each for each in first}
    failures, unreachable = 0, ""
    while error := next(filter(None, map(_elsewhere, found.values())), None):
        owner = error.address if isinstance(error, NotCoordinator) else ""
        is_known = owner not in ("", unreachable)
        failures += not is_known
        wait_s = 0.0 if is_known else policy.wait_s(failures, error)
        left_s = deadline_s - policy.monotonic_s() - wait_s
        if left_s <= 0:
            break
        await sleep(wait_s)
        asked = owner if is_known else servers.home.address
        attempt = policy.within(min(left_s, policy.try_time_s))
        try:
            answer = await servers.call_at(asked, "ImportOffsets", requests, attempt)
        except OffsetdError as raised:
            if not raised.retriable:
                raise
            unreachable = asked
            servers.leave(asked)
            continue
        unreachable = ""
        for group in imported_groups(answer):
            if _elsewhere(found[group.group_id]):
                found[group.group_id] = group
    return tuple(found.values())


def _elsewhere(group: ImportedGroup) -> OffsetdError | None:
    """The refusal of a group that the asked server does not own."""
    return group.error if group.error is not None and is_of_ownership(group.error) else None
