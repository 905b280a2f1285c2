"""Random rules, given to a real broker and to us: both allow the same to each of many users."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest
from chance import session_seed
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
)
from confluent_kafka.admin import ResourceType as KafkaResourceType
from offsetd_coordinator.security.acl import (
    CLUSTER_NAME,
    EVERYONE,
    OPERATIONS_OF,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from offsetd_coordinator.security.acl_index import AclIndex
from ports import free_ports
from server_process import poll

from deploy.kafka.kafka_cluster import (
    BROKERS,
    CLIENTS,
    CONTROLLERS,
    HOST,
    NODES,
    BrokerPorts,
    KafkaCluster,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from deploy.kafka.kafka_runtime import Runtime

pytestmark = pytest.mark.kafka

LISTENERS: Final = (CLIENTS, NODES, BROKERS, CONTROLLERS)
USERS: Final = [f"user-{number}" for number in range(40)]
PASSWORD: Final = "sesame"
NAMES: Final = ["a", "ab", "abc", "b", "b-1"]
RULE_NAMES: Final = [*NAMES, "*", "x", "b-"]
SETTINGS: Final = {
    "listener.security.protocol.map": ",".join(
        f"{each}:{'SASL_PLAINTEXT' if each == NODES else 'PLAINTEXT'}" for each in LISTENERS
    ),
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.nodes.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        + "".join(f' user_{user}="{PASSWORD}"' for user in USERS)
        + ";"
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
}
KINDS: Final = {
    ResourceType.GROUP: KafkaResourceType.GROUP,
    ResourceType.TOPIC: KafkaResourceType.TOPIC,
    ResourceType.CLUSTER: KafkaResourceType.BROKER,
}
PATTERNS: Final = {
    PatternType.LITERAL: ResourcePatternType.LITERAL,
    PatternType.PREFIXED: ResourcePatternType.PREFIXED,
}
OPERATIONS: Final = {
    Operation.READ: AclOperation.READ,
    Operation.DELETE: AclOperation.DELETE,
    Operation.ALTER: AclOperation.ALTER,
    Operation.DESCRIBE: AclOperation.DESCRIBE,
    Operation.CLUSTER_ACTION: AclOperation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS: AclOperation.ALTER_CONFIGS,
    Operation.ALL: AclOperation.ALL,
}
REFUSED: Final = (
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)
# A broker says of a resource which of its operations are allowed. Groups have no Alter there.
TOLD: Final = {
    resource_type: operations
    - {Operation.ALL}
    - ({Operation.ALTER} if resource_type is ResourceType.GROUP else set())
    for resource_type, operations in OPERATIONS_OF.items()
}


@pytest.fixture(scope="module")
def broker(
    kafka_runtime: Runtime, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster]:
    ports = BrokerPorts(listens=dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True)))
    cluster = KafkaCluster(
        kafka_runtime, tmp_path_factory.mktemp("rules"), [ports], settings=SETTINGS
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()


def make_groups_and_topics(addresses: str) -> None:
    """Makes a group and a topic of each name."""
    admin = AdminClient({"bootstrap.servers": addresses})
    for future in admin.create_topics([NewTopic(name, 1, 1) for name in NAMES]).values():
        future.result(30)
    for name in NAMES:
        consumer = Consumer({"bootstrap.servers": addresses, "group.id": name})
        consumer.commit(offsets=[TopicPartition("a", 0, 1)], asynchronous=False)
        consumer.close()


def random_acl(chance: random.Random, principal: str) -> Acl:
    resource_type = chance.choice([*ResourceType])
    is_cluster = resource_type is ResourceType.CLUSTER
    operations = sorted(OPERATIONS_OF[resource_type], key=lambda each: each.value)
    return Acl(
        principal=principal,
        host=chance.choice(["*", "*", HOST, "10.0.0.9"]),
        permission=chance.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
        operation=chance.choice(operations),
        resource_type=resource_type,
        name=CLUSTER_NAME if is_cluster else chance.choice(RULE_NAMES),
        pattern=PatternType.LITERAL if is_cluster else chance.choice([*PatternType]),
    )


def random_acls(chance: random.Random) -> list[Acl]:
    """A few for everyone, and for each user so many that they meet."""
    acls = [random_acl(chance, EVERYONE) for _ in range(3)]
    for user in USERS:
        acls += [random_acl(chance, f"User:{user}") for _ in range(chance.randint(0, 16))]
    return [*dict.fromkeys(acls)]


def give(admin: AdminClient, acls: list[Acl]) -> None:
    """Gives the rules to the broker; returns when they are in force."""
    bindings = [
        AclBinding(
            KINDS[acl.resource_type],
            acl.name,
            PATTERNS[acl.pattern],
            acl.principal,
            acl.host,
            OPERATIONS[acl.operation],
            getattr(AclPermissionType, acl.permission.name),
        )
        for acl in acls
    ]
    for future in admin.create_acls(bindings).values():
        future.result(30)
    anything: Any = None
    every = AclBindingFilter(
        KafkaResourceType.ANY,
        anything,
        ResourcePatternType.ANY,
        anything,
        anything,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    poll(lambda: len(admin.describe_acls(every).result(30)) == len(acls), 30)


@attrs.frozen
class BrokerSays:
    """What a broker tells a user of its rights: nothing of what it may not describe."""

    admin: AdminClient

    def groups(self) -> dict[str, set[AclOperation]]:
        described = self.admin.describe_consumer_groups(NAMES, include_authorized_operations=True)
        return {name: _operations(future.result) for name, future in described.items()}

    def topics(self) -> dict[str, set[AclOperation]]:
        described = self.admin.describe_topics(
            TopicCollection(NAMES), include_authorized_operations=True
        )
        return {name: _operations(future.result) for name, future in described.items()}

    def cluster(self) -> dict[str, set[AclOperation]]:
        described = self.admin.describe_cluster(include_authorized_operations=True)
        return {CLUSTER_NAME: _operations(described.result)}


def _operations(described: Callable[[float], Any]) -> set[AclOperation]:
    try:
        return set(described(30).authorized_operations or ())
    except KafkaException as error:
        if error.args[0].code() in REFUSED:
            return set()
        raise


def our_operations(
    index: AclIndex, user: str, resource_type: ResourceType, name: str
) -> set[AclOperation]:
    allowed = {
        OPERATIONS[operation]
        for operation in TOLD[resource_type]
        if index.decide(f"User:{user}", HOST, operation, resource_type, name).is_allowed
    }
    return allowed if AclOperation.DESCRIBE in allowed else set()


def test_a_broker_allows_the_same_by_the_same_rules(broker: KafkaCluster) -> None:
    chance = random.Random(session_seed())
    admin = AdminClient({"bootstrap.servers": broker.addresses})
    make_groups_and_topics(broker.addresses)
    acls = random_acls(chance)
    give(admin, acls)
    index = AclIndex(acls)
    address = broker.brokers[0].ports.reached(NODES)
    compared, allowed = 0, 0
    for user in USERS:
        says = BrokerSays(
            AdminClient(
                {
                    "bootstrap.servers": address,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": user,
                    "sasl.password": PASSWORD,
                }
            )
        )
        for resource_type, told in (
            (ResourceType.GROUP, says.groups()),
            (ResourceType.TOPIC, says.topics()),
            (ResourceType.CLUSTER, says.cluster()),
        ):
            meant = {OPERATIONS[operation] for operation in TOLD[resource_type]}
            for name, operations in told.items():
                ours = our_operations(index, user, resource_type, name)
                rules = [str(acl) for acl in acls if acl.principal in (f"User:{user}", EVERYONE)]
                assert ours == operations & meant, (user, resource_type, name, rules)
                compared += 1
                allowed += bool(ours)
    assert compared == len(USERS) * (2 * len(NAMES) + 1)
    assert compared // 10 < allowed < compared
