"""Kafka's assignors range, round robin and sticky, as pure functions.

Each takes the members' subscriptions and the number of partitions of each topic. Each partition of
a subscribed topic goes to exactly one member that subscribes to the topic. The assignment does not
depend on the order of the input. A topic with no partitions, or with an unknown number, is skipped.
"""

from collections.abc import Collection, Mapping
from itertools import cycle

import attrs

from offsetd_clients.values import TopicPartition

Assignment = dict[str, list[TopicPartition]]
"""The partitions by member id, sorted by topic and partition. Every member has an entry."""


@attrs.frozen(kw_only=True)
class Subscription:
    """The values of a member that an assignor needs.

    `owned` are the partitions that the member had in generation `generation_id`, for `sticky`. If
    two members claim the same partition, the later generation has it. `instance_id` is that of a
    static member. The order of static members depends on it, not on their member ids.
    """

    topics: Collection[str]
    owned: Collection[TopicPartition] = ()
    generation_id: int = -1
    instance_id: str | None = None


def range_assignor(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Splits each topic into runs of partitions, one for each subscriber.

    The first runs have one partition more, if the topic cannot be split evenly. Topics with the
    same subscribers and the same number of partitions are thus split alike.
    """
    assignment: Assignment = {member_id: [] for member_id in subscriptions}
    for topic, readers in _readers(subscriptions, partition_counts).items():
        share, rest = divmod(partition_counts[topic], len(readers))
        first = 0
        for index, member_id in enumerate(readers):
            count = share + (index < rest)
            assignment[member_id] += (
                TopicPartition(topic, partition) for partition in range(first, first + count)
            )
            first += count
    return _sorted(assignment)


def round_robin_assignor(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Deals out all partitions in order, each to the next member that subscribes to its topic."""
    assignment: Assignment = {member_id: [] for member_id in subscriptions}
    readers = _readers(subscriptions, partition_counts)
    turns = cycle(_in_order(subscriptions))
    for topic in sorted(readers):
        for partition in range(partition_counts[topic]):
            reader = next(member_id for member_id in turns if member_id in readers[topic])
            assignment[reader].append(TopicPartition(topic, partition))
    return _sorted(assignment)


def sticky_assignor(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> Assignment:
    """Assigns as evenly as the subscriptions allow, and keeps the present owners if possible.

    In the result, no member could take a partition from a member that has at least two more. If all
    members subscribe to the same topics, they differ by at most one partition, and no more
    partitions move than balance requires.
    """
    assignment: Assignment = {member_id: [] for member_id in subscriptions}
    readers = _readers(subscriptions, partition_counts)
    for partition, owner in _kept(subscriptions, readers, partition_counts).items():
        assignment[owner].append(partition)
    place = {member_id: index for index, member_id in enumerate(_in_order(subscriptions))}
    owned = {partition for partitions in assignment.values() for partition in partitions}
    unowned = [
        TopicPartition(topic, partition)
        for topic in sorted(readers)
        for partition in range(partition_counts[topic])
    ]
    # Assign the partitions that few members can take first.
    for partition in sorted(unowned, key=lambda each: len(readers[each.topic])):
        if partition not in owned:
            taker = min(
                readers[partition.topic], key=lambda each: (len(assignment[each]), place[each])
            )
            assignment[taker].append(partition)
    _balance(assignment, readers, place)
    return _sorted(assignment)


ASSIGNORS = {"range": range_assignor, "roundrobin": round_robin_assignor, "sticky": sticky_assignor}
"""The assignors, by their names in Kafka's consumers."""


def _kept(
    subscriptions: Mapping[str, Subscription],
    readers: Mapping[str, list[str]],
    partition_counts: Mapping[str, int],
) -> dict[TopicPartition, str]:
    """The partitions that members own and may keep.

    Such a partition exists, its owner still subscribes to it, and no other member owned it later.
    """
    owners: dict[TopicPartition, str] = {}
    disputed: set[TopicPartition] = set()
    for member_id in _in_order(subscriptions):
        subscription = subscriptions[member_id]
        for partition in subscription.owned:
            topic = partition.topic
            if member_id not in readers.get(topic, ()):
                continue
            if not 0 <= partition.partition < partition_counts[topic]:
                continue
            other = owners.get(partition)
            generation = subscription.generation_id
            if other is None or generation > subscriptions[other].generation_id:
                owners[partition] = member_id
                disputed.discard(partition)
            elif other != member_id and generation == subscriptions[other].generation_id:
                disputed.add(partition)  # Only one claim can be right: assign it again.
    return {partition: owner for partition, owner in owners.items() if partition not in disputed}


def _balance(
    assignment: Assignment, readers: Mapping[str, list[str]], place: Mapping[str, int]
) -> None:
    """Moves partitions from the members with the most to those with the fewest, until balanced.

    It moves one partition at a time: if a member gave up its whole surplus at once, it could give
    more than others need. Each move narrows the difference of two members, so the sum of squares
    falls, and the loop ends.
    """

    def load(member_id: str) -> tuple[int, int]:
        return (len(assignment[member_id]), place[member_id])

    is_moving = True
    while is_moving:
        is_moving = False
        least = min(map(len, assignment.values()), default=0)
        for giver in sorted(assignment, key=lambda each: (-len(assignment[each]), place[each])):
            has = len(assignment[giver])
            if has - least < 2:
                break
            takers = {topic: min(readers[topic], key=load) for topic in _topics(assignment[giver])}
            movable = [
                partition
                for partition in assignment[giver]
                if has - len(assignment[takers[partition.topic]]) >= 2
            ]
            if movable:
                moved = min(movable, key=lambda each: (*load(takers[each.topic]), *_reversed(each)))
                assignment[giver].remove(moved)
                assignment[takers[moved.topic]].append(moved)
                is_moving = True
                break


def _topics(partitions: Collection[TopicPartition]) -> set[str]:
    return {each.topic for each in partitions}


def _reversed(partition: TopicPartition) -> tuple[str, int]:
    """Sort key: within a topic, the last partition comes first."""
    return (partition.topic, -partition.partition)


def _readers(
    subscriptions: Mapping[str, Subscription], partition_counts: Mapping[str, int]
) -> dict[str, list[str]]:
    """The subscribers of each topic that has partitions, in the order of members."""
    readers: dict[str, list[str]] = {}
    for member_id in _in_order(subscriptions):
        for topic in set(subscriptions[member_id].topics):
            if partition_counts.get(topic, 0) > 0:
                readers.setdefault(topic, []).append(member_id)
    return readers


def _in_order(subscriptions: Mapping[str, Subscription]) -> list[str]:
    """Static members by instance id, then the others by member id."""

    def key(member_id: str) -> tuple[bool, str]:
        instance_id = subscriptions[member_id].instance_id
        return (instance_id is None, member_id if instance_id is None else instance_id)

    return sorted(subscriptions, key=key)


def _key(partition: TopicPartition) -> tuple[str, int]:
    return (partition.topic, partition.partition)


def _sorted(assignment: Assignment) -> Assignment:
    for partitions in assignment.values():
        partitions.sort(key=_key)
    return assignment
