"""Rules that are changed by command at one node of a cluster count on all nodes."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import pytest
from cluster.test_moving_in_and_out import wait_for_coordinators
from cluster.test_nodes import GROUPS, RETRY, Nodes
from offsetd_clients import OffsetClient, RetryPolicy
from offsetd_clients.acl_values import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    ResourceType,
)
from offsetd_clients.errors import AuthorizationFailed, OffsetdError
from server_process import poll
from token_files import TokenFile

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.node_process import NodeProcess
    from cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=3)]

SECONDS_MAX: Final = 60
SHORT: Final = RetryPolicy(timeout_s=5, try_timeout_s=2)


class RuledNodes(Nodes):
    """Nodes with rules, an administrator, and User:reader, whose token is another."""

    def __init__(self, cluster: RealCluster, folder: Path, cluster_id: str) -> None:
        super().__init__(cluster, folder, cluster_id)
        self.tokens = TokenFile(folder / "tokens")
        self.admin_token, _ = self.tokens.create("User:admin")
        self.reader_token, _ = self.tokens.create("User:reader")

    def settings(self, **more: object) -> dict[str, object]:
        return super().settings(
            **{
                "security.tokens.file": self.tokens.path,
                "security.acl.enable": "true",
                "security.allow.insecure": "true",
                "super.users": "User:admin",
                **more,
            }
        )

    def client(self, node: NodeProcess | None = None) -> OffsetClient:
        return self.connect(node or self.nodes[0], self.admin_token)

    def connect(self, node: NodeProcess, token: str, retry: RetryPolicy = RETRY) -> OffsetClient:
        return OffsetClient(node.address, retry=retry, token=token)

    def decides(self, node: NodeProcess, group_id: str) -> bool:
        """What the rules of this very node say of a reader."""
        with self.client(node) as client:
            return client.test_acl(
                "User:reader", AclOperation.DESCRIBE, ResourceType.GROUP, group_id
            ).allowed

    def may_read(self, group_id: str) -> bool:
        """By a call of the reader to the owner of the group."""
        with self.connect(self.nodes[0], self.reader_token) as client:
            try:
                client.fetch(group_id)
            except AuthorizationFailed:
                return False
            return True

    def wait_until_decided(self, node: NodeProcess, group_id: str, *, is_allowed: bool) -> None:
        poll(
            lambda: self.decides(node, group_id) == is_allowed,
            SECONDS_MAX,
            lambda: node.output[-3000:],
        )


def rule(
    name: str,
    permission: AclPermission = AclPermission.ALLOW,
    resource_type: ResourceType = ResourceType.GROUP,
) -> Acl:
    return Acl(
        principal="User:reader",
        permission=permission,
        operation=AclOperation.READ,
        resource_type=resource_type,
        name=name,
    )


ALL_TOPICS: Final = rule("*", resource_type=ResourceType.TOPIC)


@pytest.fixture
def nodes(real_cluster: RealCluster, tmp_path: Path, cluster_id: str) -> RuledNodes:
    wait_for_coordinators(real_cluster.addresses)
    return RuledNodes(real_cluster, tmp_path, cluster_id)


def test_a_change_at_one_node_counts_on_all_and_after_starts(nodes: RuledNodes) -> None:
    first, second, third = nodes.start(3)
    nodes.wait_until_shared("n1", "n2", "n3")
    assert not any(map(nodes.may_read, GROUPS[:6]))
    with nodes.client(first) as client:
        added = client.add_acls([rule(each) for each in GROUPS] + [ALL_TOPICS], reason="why")
        assert len(added.acls) == len(GROUPS) + 1
        assert nodes.decides(first, GROUPS[0])
        assert [each.method for each in client.list_audit_events()].count("AddAcls") == 1
    for node in (second, third):
        nodes.wait_until_decided(node, GROUPS[0], is_allowed=True)
    assert all(map(nodes.may_read, GROUPS))
    # A filter finds what another node has just added.
    with nodes.client(third) as client:
        assert client.add_acls([rule("late")]).acls
        with nodes.client(second) as other:
            assert other.remove_acls([AclFilter(name="late")]).acls == (rule("late"),)
            assert other.remove_acls([rule(GROUPS[0])]).acls == (rule(GROUPS[0]),)
    for node in (first, third):
        nodes.wait_until_decided(node, GROUPS[0], is_allowed=False)
    assert not nodes.may_read(GROUPS[0])
    third.kill()
    third.start()
    assert second.stop() == 0
    shutil.rmtree(second.data_folder)
    second.start()
    for node in nodes.nodes:
        assert not nodes.decides(node, GROUPS[0])
        assert nodes.decides(node, GROUPS[1])


def test_changes_by_several_nodes_at_once_are_all_kept(nodes: RuledNodes) -> None:
    started = nodes.start(3)
    rounds = 5

    def change(node: NodeProcess) -> None:
        with nodes.client(node) as client:
            for number in range(rounds):
                client.add_acls([rule(f"{node.name}-{number}"), rule("of all")])
                client.add_acls([rule(f"{node.name}-gone")])
                client.remove_acls([rule(f"{node.name}-gone")])

    with ThreadPoolExecutor(len(started)) as pool:
        list(pool.map(change, started))
    kept = {f"{node.name}-{number}" for node in started for number in range(rounds)}

    def listed(node: NodeProcess) -> set[str]:
        with nodes.client(node) as client:
            return {each.name for each in client.list_acls().acls}

    for node in started:
        poll(lambda node=node: listed(node) == kept | {"of all"}, SECONDS_MAX)


def test_a_node_that_is_cut_off_keeps_its_rules_and_serves_no_group(nodes: RuledNodes) -> None:
    first, second = nodes.start(2)
    nodes.wait_until_shared("n1", "n2")
    with nodes.client(first) as client:
        client.add_acls([rule(each) for each in GROUPS] + [ALL_TOPICS])
    nodes.wait_until_decided(second, GROUPS[0], is_allowed=True)
    nodes.cluster.cut_off("n2")
    with nodes.connect(second, nodes.admin_token, SHORT) as client, pytest.raises(OffsetdError):
        client.add_acls([rule("not written")])
    nodes.wait_until_shared("n1")
    with nodes.client(first) as client:
        client.remove_acls([rule(GROUPS[0])])
    assert nodes.decides(second, GROUPS[0])
    with (
        nodes.connect(second, nodes.reader_token, SHORT) as client,
        pytest.raises(OffsetdError),
    ):
        client.fetch(GROUPS[0])

    def told(node: NodeProcess) -> list[str]:
        with nodes.client(node) as client:
            problems = client.describe_cluster().problems
        return [each for each in problems if "the access rules may have been outdated" in each]

    poll(lambda: [each for each in told(second) if each.startswith("node n2: ")], SECONDS_MAX)
    nodes.cluster.network.heal()
    nodes.wait_until_decided(second, GROUPS[0], is_allowed=False)
