"""What a server says of itself, and where groups are."""

from __future__ import annotations

import pytest
from offsetd.v1 import admin_service_pb2
from offsetd_coordinator import errors
from offsetd_coordinator.configuration.dynamic_settings import ExpiryConfig
from offsetd_coordinator.node import Node
from offsetd_coordinator.services.config_admin import ConfigAdmin
from offsetd_coordinator.services.log_admin import LogAdmin
from offsetd_coordinator.services.server_admin import AdminService
from offsetd_storage.errors import StorageFull
from offsetd_storage.offsets_topic.placement import partition_of
from serving_nodes import PARTITIONS, ServingNode, serving_node

DAY_MS = 86_400_000


async def test_a_server_counts_what_it_holds() -> None:
    async with serving_node() as serving:
        await serving.commit("a", 1, partitions=3)
        await serving.commit("b", 1)
        answer = await AdminService(serving.node).get_server_info(b"")
        info = admin_service_pb2.GetServerInfoResponse.FromString(answer)
        assert info.state == admin_service_pb2.SERVER_STATE_SERVING
        assert (info.group_count, info.offset_count) == (2, 4)
        assert info.log_partitions == PARTITIONS
        assert info.folder_id == serving.store.folder_id
        assert info.node_id == "n1"
        assert info.start_time.ToMilliseconds() == serving.node.start_ms
        assert list(info.quarantined_partitions) == []
        serving.node.drain()
        answer = await AdminService(serving.node).get_server_info(b"")
        info = admin_service_pb2.GetServerInfoResponse.FromString(answer)
        assert info.state == admin_service_pb2.SERVER_STATE_DRAINING


async def server_info(serving: ServingNode) -> admin_service_pb2.GetServerInfoResponse:
    answer = await AdminService(serving.node).get_server_info(b"")
    return admin_service_pb2.GetServerInfoResponse.FromString(answer)


async def test_a_server_tells_what_keeps_offsets_from_expiring_and_until_when() -> None:
    async with serving_node() as serving:
        assert not (await server_info(serving)).HasField("expiry_suspension")
        for enable, reason in (("auto", "foreign_folder"), ("false", "disabled")):
            serving.store.is_from_elsewhere = True
            serving.runtime.expiry_config = ExpiryConfig(enable=enable)
            suspension = (await server_info(serving)).expiry_suspension
            assert suspension.reason == reason
            assert not suspension.HasField("end_time")
        await serving.commit("g", 1)
    serving.clock.advance(30 * DAY_MS)
    async with serving_node(files=serving.files, clock=serving.clock) as serving:
        serving.runtime.expiry_config = ExpiryConfig(enable="true")
        suspension = (await server_info(serving)).expiry_suspension
        assert suspension.reason == "long_stop"
        assert suspension.end_time.ToMilliseconds() == serving.clock.now_ms() + DAY_MS


async def test_while_loading_a_server_tells_who_it_is_and_nothing_of_its_log() -> None:
    node = Node(node_id="n1", address="127.0.0.1:7171", start_ms=5)
    service = AdminService(node)
    info = admin_service_pb2.GetServerInfoResponse.FromString(await service.get_server_info(b""))
    assert (info.state, info.node_id) == (admin_service_pb2.SERVER_STATE_LOADING, "n1")
    with pytest.raises(errors.CoordinatorLoadInProgress):
        await service.find_coordinator(b"\x0a\x01g")
    for answer in (
        LogAdmin(node).describe_log,
        LogAdmin(node).compact_log,
        LogAdmin(node).retry_partition,
        LogAdmin(node).delete_records,
        ConfigAdmin(node).describe_config,
        ConfigAdmin(node).update_config,
    ):
        with pytest.raises(errors.CoordinatorLoadInProgress):
            await answer(b"")
    node.partitions = 50
    found = admin_service_pb2.FindCoordinatorResponse.FromString(
        await service.find_coordinator(b"\x0a\x01g")
    )
    assert found.log_partition == partition_of("g", 50)
    assert (found.node_id, found.address) == ("n1", "127.0.0.1:7171")


async def test_a_disk_without_room_is_told() -> None:
    async with serving_node() as node:
        node.runtime.disk = node.upkeep.disk
        node.runtime.disk.note_full(StorageFull("full"))
        answer = await AdminService(node.node).get_server_info(b"")
        [problem] = admin_service_pb2.GetServerInfoResponse.FromString(answer).problems
        assert "commits are refused" in problem
