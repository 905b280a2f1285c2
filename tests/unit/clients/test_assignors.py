"""offsetd_clients.assignors"""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsetd_clients import TopicPartition
from offsetd_clients.assignors import (
    ASSIGNORS,
    Assignment,
    Subscription,
    range_assignor,
    round_robin_assignor,
    sticky_assignor,
)

TOPICS = ["a", "b", "c", "d"]
MEMBERS = [f"m{number}" for number in range(6)]

counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9))
topics = st.sets(st.sampled_from(TOPICS))
instances = st.none() | st.sampled_from(["i-1", "i-2", "i-3"])
groups = st.dictionaries(
    st.sampled_from(MEMBERS),
    st.builds(Subscription, topics=topics),
    min_size=1,
)


def parts(topic: str, *numbers: int) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in numbers]


def reads(*names: str, **more: object) -> Subscription:
    return Subscription(topics=names, **more)  # type: ignore[arg-type]


def all_to_assign(
    subscriptions: dict[str, Subscription], partition_counts: dict[str, int]
) -> set[TopicPartition]:
    read = {topic for each in subscriptions.values() for topic in each.topics}
    return {
        TopicPartition(topic, number)
        for topic in read
        for number in range(partition_counts.get(topic, 0))
    }


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(subscriptions=groups, partition_counts=counts)
def test_every_partition_that_somebody_reads_goes_to_exactly_one_of_its_readers(
    name: str, subscriptions: dict[str, Subscription], partition_counts: dict[str, int]
) -> None:
    assignment = ASSIGNORS[name](subscriptions, partition_counts)
    assert assignment.keys() == subscriptions.keys()
    given_out = Counter(each for partitions in assignment.values() for each in partitions)
    assert set(given_out) == all_to_assign(subscriptions, partition_counts)
    assert set(given_out.values()) <= {1}
    for member_id, partitions in assignment.items():
        assert {each.topic for each in partitions} <= set(subscriptions[member_id].topics)
        assert partitions == sorted(partitions, key=lambda each: (each.topic, each.partition))


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(subscriptions=groups, partition_counts=counts, random=st.randoms())
def test_the_order_in_which_members_and_topics_come_changes_nothing(
    name: str,
    subscriptions: dict[str, Subscription],
    partition_counts: dict[str, int],
    random: object,
) -> None:
    members, named = list(subscriptions.items()), list(partition_counts.items())
    random.shuffle(members)  # type: ignore[attr-defined]
    random.shuffle(named)  # type: ignore[attr-defined]
    assert ASSIGNORS[name](dict(members), dict(named)) == ASSIGNORS[name](
        subscriptions, partition_counts
    )


@given(subscriptions=groups, partition_counts=counts)
def test_range_gives_runs_of_each_topic_that_differ_by_one_at_most(
    subscriptions: dict[str, Subscription], partition_counts: dict[str, int]
) -> None:
    assignment = range_assignor(subscriptions, partition_counts)
    for topic, count in partition_counts.items():
        readers = sorted(each for each in subscriptions if topic in subscriptions[each].topics)
        runs = [
            [each.partition for each in assignment[reader] if each.topic == topic]
            for reader in readers
        ]
        assert [number for run in runs for number in run] == list(range(count if readers else 0))
        sizes = [len(run) for run in runs]
        assert all(0 <= first - second <= 1 for first, second in pairwise(sizes))
        assert not sizes or sizes[0] - sizes[-1] <= 1


@given(members=st.sets(st.sampled_from(MEMBERS), min_size=1), partition_counts=counts)
def test_with_equal_subscriptions_round_robin_and_sticky_differ_by_one_at_most(
    members: set[str], partition_counts: dict[str, int]
) -> None:
    subscriptions = {member_id: reads(*TOPICS) for member_id in members}
    for assignor in (round_robin_assignor, sticky_assignor):
        sizes = [len(each) for each in assignor(subscriptions, partition_counts).values()]
        assert max(sizes) - min(sizes) <= 1


@given(subscriptions=groups, partition_counts=counts)
def test_nobody_could_take_a_partition_from_a_sticky_member_that_has_two_more(
    subscriptions: dict[str, Subscription], partition_counts: dict[str, int]
) -> None:
    assignment = sticky_assignor(subscriptions, partition_counts)
    for giver, partitions in assignment.items():
        for taker, taken in assignment.items():
            if len(partitions) - len(taken) >= 2:
                assert not {each.topic for each in partitions} & set(subscriptions[taker].topics), (
                    giver,
                    taker,
                )


def owning(
    subscriptions: dict[str, Subscription], assignment: Assignment, generation_id: int = 1
) -> dict[str, Subscription]:
    """The members as they join again."""
    return {
        member_id: Subscription(
            topics=each.topics,
            owned=assignment.get(member_id, ()),
            generation_id=generation_id if member_id in assignment else -1,
        )
        for member_id, each in subscriptions.items()
    }


@given(subscriptions=groups, partition_counts=counts)
def test_sticky_moves_nothing_while_nothing_changes(
    subscriptions: dict[str, Subscription], partition_counts: dict[str, int]
) -> None:
    assignment = sticky_assignor(subscriptions, partition_counts)
    assert sticky_assignor(owning(subscriptions, assignment), partition_counts) == assignment


@given(
    before=st.sets(st.sampled_from(MEMBERS), min_size=1),
    after=st.sets(st.sampled_from(MEMBERS), min_size=1),
    partition_counts=counts,
)
def test_sticky_moves_no_more_than_balance_takes(
    before: set[str], after: set[str], partition_counts: dict[str, int]
) -> None:
    old = sticky_assignor({each: reads(*TOPICS) for each in before}, partition_counts)
    new = sticky_assignor(owning({each: reads(*TOPICS) for each in after}, old), partition_counts)
    stayed = sum(len(set(old.get(each, ())) & set(new[each])) for each in after)
    sizes = sorted((len(old.get(each, ())) for each in after), reverse=True)
    share, rest = divmod(sum(partition_counts.values()), len(after))
    most = sum(min(size, share + (place < rest)) for place, size in enumerate(sizes))
    assert stayed == most


def test_who_has_too_much_gives_no_more_than_others_need() -> None:
    """Four and four, and a newcomer: two partitions move, not three."""
    subscriptions = {
        "m0": reads("a", owned=parts("a", 0, 1, 2, 3), generation_id=1),
        "m1": reads("a", owned=parts("a", 4, 5, 6, 7), generation_id=1),
        "m2": reads("a"),
    }
    assert sticky_assignor(subscriptions, {"a": 8}) == {
        "m0": parts("a", 0, 1, 2),
        "m1": parts("a", 4, 5, 6),
        "m2": parts("a", 3, 7),
    }


def test_of_two_who_claim_a_partition_the_later_generation_has_it() -> None:
    subscriptions = {
        "m0": reads("a", owned=parts("a", 0, 1), generation_id=4),
        "m1": reads("a", owned=parts("a", 0), generation_id=5),
    }
    assert sticky_assignor(subscriptions, {"a": 2}) == {
        "m0": parts("a", 1),
        "m1": parts("a", 0),
    }


def test_what_is_owned_no_more_or_is_gone_is_not_kept() -> None:
    subscriptions = {
        "m0": reads("b", owned=parts("a", 0), generation_id=1),
        "m1": reads("a", "b", owned=parts("a", 7), generation_id=1),
    }
    assert sticky_assignor(subscriptions, {"a": 2, "b": 2}) == {
        "m0": parts("b", 0, 1),
        "m1": parts("a", 0, 1),
    }


# Two topics of three partitions, two members: the examples of Kafka's documentation.
EXAMPLES = [
    ("range", {"m0": parts("a", 0, 1) + parts("b", 0, 1), "m1": parts("a", 2) + parts("b", 2)}),
    (
        "roundrobin",
        {"m0": parts("a", 0, 2) + parts("b", 1), "m1": parts("a", 1) + parts("b", 0, 2)},
    ),
    (
        "sticky",
        {"m0": parts("a", 0, 2) + parts("b", 1), "m1": parts("a", 1) + parts("b", 0, 2)},
    ),
]


@pytest.mark.parametrize(("name", "expected"), EXAMPLES)
def test_two_topics_of_three_partitions_between_two(name: str, expected: Assignment) -> None:
    subscriptions = {"m0": reads("a", "b"), "m1": reads("a", "b")}
    assert ASSIGNORS[name](subscriptions, {"a": 3, "b": 3}) == expected


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_a_static_member_has_its_place_whatever_its_member_id_is(name: str) -> None:
    first = {"z-1": reads("a", instance_id="i-1"), "b": reads("a")}
    again = {"c-9": reads("a", instance_id="i-1"), "b": reads("a")}
    assigned = ASSIGNORS[name](first, {"a": 3})
    assert assigned["z-1"] == ASSIGNORS[name](again, {"a": 3})["c-9"]
    assert len(assigned["z-1"]) == 2
