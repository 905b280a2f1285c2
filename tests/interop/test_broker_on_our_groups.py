"""A real broker and Kafka's own command line, on folders in which groups lived with us."""

import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from interop.kafka_broker import KafkaBroker
from interop.served_folder import ServedFolder
from offsetd_clients import (
    Group,
    GroupState,
    JoinedGroup,
    Membership,
    MemberToRemove,
    OffsetClient,
    TopicPartition,
)
from offsetd_clients.assignors import Subscription, range_assignor
from offsetd_clients.errors import IllegalGeneration, RebalanceInProgress

from deploy.kafka.kafka_runtime import Runtime

pytestmark = [pytest.mark.kafka, pytest.mark.long(minutes=1)]

COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
SETTINGS = (
    "group.initial.rebalance.delay.ms=200",
    "group.min.session.timeout.ms=100",
    "offsets.retention.check.interval.ms=100",
)
TOPIC, PARTITIONS = "orders", 3  # As the broker has it.
LONG_S, SHORT_S = 1800.0, 2.0  # Sessions: longer than the test, and over before it is.
S_MAX = 60
SOON = timedelta(milliseconds=1)

LISTED = {
    "grown": GroupState.STABLE,
    "static": GroupState.STABLE,
    "shrunk": GroupState.STABLE,
    "left": GroupState.EMPTY,
    "deserted": GroupState.EMPTY,
    "simple": GroupState.EMPTY,
}
GONE = ("expired", "deleted")


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def subscription() -> bytes:
    """To the topic; of version 0, without user data."""
    return struct.pack(">hi", 0, 1) + text(TOPIC) + struct.pack(">i", -1)


def assignment(partitions: Sequence[TopicPartition]) -> bytes:
    """Of partitions of the topic; of version 0, without user data."""
    numbers = [each.partition for each in partitions]
    topics = text(TOPIC) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return struct.pack(">hi", 0, bool(numbers)) + topics * bool(numbers) + struct.pack(">i", -1)


@attrs.frozen
class Members:
    """Clients of a group that join, sync and commit together."""

    client: OffsetClient
    group_id: str

    def settle(
        self,
        *known: Membership,
        new: Mapping[str, float] | None = None,
        static: bool = False,
    ) -> list[Membership]:
        """Known members, and new ones by client id with their sessions, alone in a generation."""
        joins = [
            partial(self._join, member_id=each.member_id, instance_id=each.instance_id)
            for each in known
        ] + [
            partial(
                self._join,
                client_id=name,
                instance_id=name if static else None,
                session_timeout_s=session_s,
            )
            for name, session_s in (new or {}).items()
        ]
        with ThreadPoolExecutor(len(joins)) as threads:
            follow = partial(self._follow, count=len(joins))
            return list(threads.map(follow, joins))

    def commit(self, member: Membership, *, retention: timedelta | None = None) -> None:
        """Offsets of all partitions but the last."""
        offsets = {TopicPartition(TOPIC, number): 10 + number for number in range(PARTITIONS - 1)}
        self.client.commit(self.group_id, offsets, membership=member, retention=retention)

    def leave(self, *members: Membership) -> None:
        leaving = [MemberToRemove(member_id=each.member_id) for each in members]
        assert self.client.leave_group(self.group_id, leaving) == {}

    def _follow(self, join: Callable[..., JoinedGroup], count: int) -> Membership:
        """A member's life until a generation of so many members is stable."""
        deadline = time.monotonic() + S_MAX
        joined = join()
        while True:
            assert time.monotonic() < deadline, f"{self.group_id} does not settle"
            member = joined.membership
            try:
                self.client.sync_group(member, _assigned(joined) if joined.is_leader else None)
                while not self._is_stable(member, count):
                    assert time.monotonic() < deadline, f"{self.group_id} does not settle"
                    self.client.heartbeat(member)
                    time.sleep(0.02)
            except (RebalanceInProgress, IllegalGeneration):
                joined = join(member_id=member.member_id)
            else:
                return member

    def _is_stable(self, member: Membership, count: int) -> bool:
        group = self.client.get_group(self.group_id)
        return (group.state, group.generation, len(group.members)) == (
            GroupState.STABLE,
            member.generation_id,
            count,
        )

    def _join(self, **fields: Any) -> JoinedGroup:
        fields = {"session_timeout_s": LONG_S, "rebalance_timeout_s": S_MAX, **fields}
        return self.client.join_group(self.group_id, {"range": subscription()}, **fields)


def _assigned(leader: JoinedGroup) -> Mapping[str, bytes]:
    subscriptions = {each.member_id: Subscription(topics=[TOPIC]) for each in leader.members}
    partitions = range_assignor(subscriptions, {TOPIC: PARTITIONS})
    return {member_id: assignment(each) for member_id, each in partitions.items()}


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + S_MAX
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def live(client: OffsetClient) -> None:
    """Groups that form, grow, shrink, are left and deserted, expire and are deleted."""
    grown = Members(client, "grown")
    first = grown.settle(new={"a": LONG_S, "b": LONG_S})
    grown.commit(grown.settle(*first, new={"c": LONG_S})[2])

    static = Members(client, "static")
    static.commit(static.settle(new={"one": LONG_S, "two": LONG_S}, static=True)[0])

    shrunk = Members(client, "shrunk")
    lasting, _short = shrunk.settle(new={"lasting": LONG_S, "short": SHORT_S})
    shrunk.commit(*shrunk.settle(lasting))

    left = Members(client, "left")
    members = left.settle(new={"a": LONG_S, "b": LONG_S})
    left.commit(members[1])
    left.leave(*members)

    deserted = Members(client, "deserted")
    deserted.commit(*deserted.settle(new={"a": SHORT_S}))

    client.commit("simple", {TopicPartition(TOPIC, 1): 7})

    for group_id in GONE:
        gone = Members(client, group_id)
        (member,) = gone.settle(new={"a": LONG_S})
        gone.commit(member, retention=SOON if group_id == "expired" else None)
        gone.leave(member)
    client.delete_group("deleted")
    wait_until(lambda: states(client) == LISTED, "sessions end, and offsets expire")


def states(client: OffsetClient) -> dict[str, GroupState]:
    return {group.group_id: group.state for group in client.list_groups()}


@attrs.frozen
class Known:
    """What we say of the groups."""

    groups: dict[str, Group]
    offsets: dict[str, dict[TopicPartition, int]]

    @classmethod
    def of(cls, client: OffsetClient) -> "Known":
        stored = client.fetch_many(LISTED)
        return cls(
            {group_id: client.get_group(group_id) for group_id in states(client)},
            {
                group_id: {key: each.offset for key, each in offsets.items()}
                for group_id, offsets in stored.items()
            },
        )


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Known]:
    """A data folder, and what a server that was started anew says of it."""
    folder = tmp_path_factory.mktemp("ours") / "data"
    server = ServedFolder(folder, settings=SETTINGS)
    with server.running() as client:
        live(client)
        before = Known.of(client)
    with server.running() as client:
        assert states(client) == LISTED
        assert Known.of(client) == before
    return folder, before


@pytest.fixture(scope="module")
def broker(
    used_broker: KafkaBroker,
    lived: tuple[Path, Known],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KafkaBroker]:
    """Running on our partition folders."""
    broker = used_broker.copy_to(tmp_path_factory.mktemp("kafka") / "broker")
    broker.take_offsets_topic(lived[0])
    with broker.running():
        yield broker


Rows = list[dict[str, str]]


@pytest.fixture
def ask(kafka_runtime: Runtime, broker: KafkaBroker) -> Callable[..., Rows]:
    """Kafka's command line: the rows of all tables that it prints, by their headings."""

    def run(*arguments: str) -> Rows:
        options = ["--bootstrap-server", broker.address, *arguments]
        said = kafka_runtime.run(COMMAND, options, broker.folder).stdout
        rows: Rows = []
        headings: list[str] = []
        for line in said.replace("COORDINATOR (ID)", "COORDINATOR ID").splitlines():
            words = line.split()
            if words[:1] == ["GROUP"]:
                headings = words
            elif words and not line.startswith("Consumer group"):  # "… has no active members."
                rows.append(dict(zip(headings, words, strict=True)))
        return rows

    return run


def test_it_lists_the_groups_in_the_same_states_and_none_that_is_gone(
    ask: Callable[..., Rows],
) -> None:
    listed = {row["GROUP"]: row["STATE"].lower() for row in ask("--list", "--state")}
    assert listed == {group_id: str(state) for group_id, state in LISTED.items()}


def test_it_describes_the_same_members_and_assignments(
    ask: Callable[..., Rows], lived: tuple[Path, Known]
) -> None:
    rows = ask("--describe", "--all-groups", "--members", "--verbose")
    described = sorted(
        (
            row["GROUP"],
            row["CONSUMER-ID"],
            row.get("GROUP-INSTANCE-ID", ""),
            row["CLIENT-ID"],
            row["HOST"],
            row["CURRENT-ASSIGNMENT"],
        )
        for row in rows
    )
    assert described == sorted(
        (
            group_id,
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            f"{TOPIC}:" + ",".join(str(each.partition) for each in member.assignment),
        )
        for group_id, group in lived[1].groups.items()
        for member in group.members
    )
    assert len(described) == 3 + 2 + 1


def test_it_describes_the_same_states_assignors_and_counts_of_members(
    ask: Callable[..., Rows], lived: tuple[Path, Known]
) -> None:
    described = {
        row["GROUP"]: (row["STATE"].lower(), row["ASSIGNMENT-STRATEGY"], row["#MEMBERS"])
        for row in ask("--describe", "--all-groups", "--state")
    }
    assert described == {
        group_id: (str(group.state), group.protocol or "-", str(len(group.members)))
        for group_id, group in lived[1].groups.items()
    }


def test_it_describes_the_same_offsets_and_who_reads_them(
    ask: Callable[..., Rows], lived: tuple[Path, Known]
) -> None:
    described = {
        (row["GROUP"], int(row["PARTITION"])): (row["CURRENT-OFFSET"], row["CONSUMER-ID"])
        for row in ask("--describe", "--all-groups", "--offsets")
    }
    expected = {}
    for group_id, group in lived[1].groups.items():
        readers = {key: each.member_id for each in group.members for key in each.assignment}
        offsets = lived[1].offsets[group_id]
        for key in readers.keys() | offsets.keys():
            shown = (str(offsets.get(key, "-")), readers.get(key, "-"))
            expected[group_id, key.partition] = shown
    assert described == expected
