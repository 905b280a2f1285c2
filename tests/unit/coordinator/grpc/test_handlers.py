"""The methods as they are registered."""

from __future__ import annotations

from offsetd.v1 import (
    acl_service_pb2,
    admin_service_pb2,
    backup_service_pb2,
    group_service_pb2,
    offset_service_pb2,
)
from offsetd_coordinator.calls.admission import Admission
from offsetd_coordinator.configuration.settings_sources import load_settings
from offsetd_coordinator.counters import CallCounters
from offsetd_coordinator.grpc import handlers
from offsetd_coordinator.node import Node
from offsetd_coordinator.security.authorizer import Authorizer


def test_each_method_is_counted_under_its_name_in_the_contract() -> None:
    counters = CallCounters()
    node = Node(node_id="n", address="a:1", start_ms=0)
    handlers.generic_handlers(
        node, Admission(1), load_settings(), counters, authorizer=Authorizer()
    )
    contract = {
        method.name
        for file in (
            acl_service_pb2,
            admin_service_pb2,
            backup_service_pb2,
            group_service_pb2,
            offset_service_pb2,
        )
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert counters.methods
    assert set(counters.methods) <= contract
