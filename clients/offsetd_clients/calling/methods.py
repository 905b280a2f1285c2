"""The methods of the services by name. No name occurs in two services."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass
from offsetd.v1 import (
    acl_service_pb2,
    admin_service_pb2,
    backup_service_pb2,
    group_service_pb2,
    offset_service_pb2,
)

Serializer = Callable[[Any], bytes]
Deserializer = Callable[[bytes], Any]


@attrs.frozen
class Method:
    """A method: its path and its message classes; a class is None for plain bytes."""

    path: str
    serializer: Serializer | None = None
    deserializer: Deserializer | None = None
    client_streaming: bool = False
    server_streaming: bool = False


# `CommitQueue` builds these messages from commits that are already serialised.
_SENT_AS_BYTES = {"StreamCommits"}


def _method(descriptor: MethodDescriptor) -> Method:
    name = descriptor.name
    return Method(
        f"/{descriptor.containing_service.full_name}/{name}",
        None
        if name in _SENT_AS_BYTES
        else GetMessageClass(descriptor.input_type).SerializeToString,
        GetMessageClass(descriptor.output_type).FromString,
        descriptor.client_streaming,
        descriptor.server_streaming,
    )


METHODS: Mapping[str, Method] = {
    # gRPC's health service; only the server has its generated code.
    "Check": Method("/grpc.health.v1.Health/Check"),
    **{
        method.name: _method(method)
        for module in (
            offset_service_pb2,
            group_service_pb2,
            admin_service_pb2,
            acl_service_pb2,
            backup_service_pb2,
        )
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    },
}
