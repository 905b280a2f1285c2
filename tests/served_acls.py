"""A node with access rules, and the service that changes them: for tests of that service."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import attrs
from offsetd.v1 import acl_service_pb2 as pb
from offsetd_coordinator.configuration.internal_topic_configs import (
    AUDIT_PARTITION,
    CONFIG_PARTITION,
)
from offsetd_coordinator.security.acl import Operation, ResourceType
from offsetd_coordinator.security.authorizer import Authorizer
from offsetd_coordinator.services.acl_calls import AclCalls
from offsetd_storage.batch.record_batch import decode_batches
from serving_nodes import WAIT_SECONDS, ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.message import Message
    from offsetd_storage.disk.simulated_files import SimulatedFiles

ADMIN = "User:admin"


@attrs.frozen
class Rules:
    """A node, its authorizer, and the service."""

    serving: ServingNode
    authorizer: Authorizer
    calls: AclCalls

    async def _ask(self, method: Any, request: Message, answer: type[Any]) -> Any:
        message = await asyncio.wait_for(method(request.SerializeToString()), WAIT_SECONDS)
        return answer.FromString(message)

    async def listed(self, **fields: Any) -> Any:
        return await self._ask(
            self.calls.list_acls, pb.ListAclsRequest(**fields), pb.ListAclsResponse
        )

    async def add(self, *acls: pb.Acl, **fields: Any) -> Any:
        request = pb.AddAclsRequest(acls=acls, **fields)
        return await self._ask(self.calls.add_acls, request, pb.AddAclsResponse)

    async def remove(self, **fields: Any) -> Any:
        request = pb.RemoveAclsRequest(**fields)
        return await self._ask(self.calls.remove_acls, request, pb.RemoveAclsResponse)

    async def test(self, **fields: Any) -> Any:
        request = pb.TestAclRequest(**fields)
        return await self._ask(self.calls.test_acl, request, pb.TestAclResponse)

    def may_read(self, group_id: str, principal: str = "User:a") -> bool:
        """What the authorizer says."""
        return self.authorizer.allows(
            principal, "127.0.0.1", Operation.READ, ResourceType.GROUP, group_id
        )

    def ends(self) -> tuple[int, int]:
        """Where the topics of settings and of the audit end."""
        logs = self.serving.store.logs
        return logs[CONFIG_PARTITION].offset_next, logs[AUDIT_PARTITION].offset_next

    def audited(self) -> list[dict[str, Any]]:
        """The records of the audit log."""
        log = self.serving.store.logs[AUDIT_PARTITION]
        return [
            json.loads(record.value or b"")
            for buffer, end in log.read_chunks(1 << 16)
            for batch in decode_batches(buffer[:end].tobytes())
            for record in batch.records
        ]


@asynccontextmanager
async def rules(
    *,
    files: SimulatedFiles | None = None,
    in_force: bool = True,
    from_file: bool = False,
    flushing: bool = True,
) -> AsyncIterator[Rules]:
    """A node on an empty disk, or one that was served from before."""
    authorizer = Authorizer(super_users=frozenset({ADMIN}), acls=())
    apply = authorizer.set_acls
    async with serving_node(files=files, flushing=flushing, apply_acls=apply) as serving:
        calls = AclCalls(serving.node, authorizer, in_force=in_force, from_file=from_file)
        yield Rules(serving, authorizer, calls)


def acl(name: str = "billing", **fields: Any) -> pb.Acl:
    """A rule; what is not named is the plainest."""
    return pb.Acl(
        **{
            "principal": "User:a",
            "host": "*",
            "permission": "ACL_PERMISSION_ALLOW",
            "operation": "ACL_OPERATION_READ",
            "resource_type": "RESOURCE_TYPE_GROUP",
            "name": name,
            "pattern_type": "PATTERN_TYPE_LITERAL",
            **fields,
        }
    )
