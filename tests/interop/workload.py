"""Groups that a test writes through offsetd, and what must be stored after."""

from random import Random

import attrs
from interop.kafka_broker import OFFSETS_PARTITIONS
from interop.kafka_protocol import KafkaOffset
from offsetd_clients import OffsetClient, OffsetToCommit, TopicPartition
from offsetd_storage.offsets_topic.placement import partition_of

TOPICS = ("orders", "payments", "clicks.v2", "sensor-readings_eu", "a" * 249)
METADATA = ("", "", "host-7", "größe 🚀", "m" * 300, "{}[]\"\\/\t\n'", "🚀" * 2048)
GROUPS = ("polygenelubricants", "etl/nightly", "группа", "日本", "🚀", "g" * 1000)
OFFSETS = (0, 1, 2**31, 2**53 + 1, 2**63 - 1)

Offsets = dict[tuple[str, int], KafkaOffset]


@attrs.define
class Workload:
    """Writes through `client`; `stored` is what is to be there, `deleted` the groups that are not.

    `batches` counts the writes: each is one record batch.
    Metadata holds no NUL: librdkafka, with which a broker is asked, takes that for its end.
    """

    client: OffsetClient
    random: Random
    stored: dict[str, Offsets] = attrs.field(factory=dict)
    deleted: set[str] = attrs.field(factory=set)
    batches: int = 0

    def write_all(self) -> None:
        """Groups over all partitions with commits, deletions, and commits of 5,000 offsets."""
        groups = [*GROUPS, *_groups_over_all_partitions()]
        for group in groups:
            for _ in range(self.random.randint(1, 5)):
                self.commit(group)
        for first in (0, 10**6, 10**12):
            large = {("orders", n): offset_of(first + n) for n in range(5000)}
            self.write("large", large)
        for group in self.random.sample(groups, len(groups) // 3):
            self.random.choice([self.delete_offsets, self.delete_topic, self.delete_group])(group)
        for group in self.random.sample(sorted(self.deleted), len(self.deleted) // 2):
            self.commit(group)  # One that was deleted comes back.

    def commit(self, group: str) -> None:
        """Commits a few offsets of a group."""
        offsets: Offsets = {}
        for _ in range(self.random.randint(1, 8)):
            key = (self.random.choice(TOPICS), self.random.randrange(12))
            offsets[key] = KafkaOffset(
                offset=self.random.choice([*OFFSETS, self.random.randrange(10**6)]),
                leader_epoch=self.random.choice([None, 0, 7]),
                metadata=self.random.choice(METADATA),
            )
        self.write(group, offsets)

    def write(self, group: str, offsets: Offsets) -> None:
        """Commits these."""
        self.client.commit(
            group,
            {
                TopicPartition(*key): OffsetToCommit(
                    value.offset, leader_epoch=value.leader_epoch, metadata=value.metadata
                )
                for key, value in offsets.items()
            },
        )
        self.batches += 1
        self.stored.setdefault(group, {}).update(offsets)
        self.deleted.discard(group)

    def delete_offsets(self, group: str) -> None:
        """Deletes one offset of a group that has more than one."""
        stored = self.stored[group]
        if len(stored) > 1:
            key = self.random.choice(sorted(stored))
            self.client.delete_offsets(group, [TopicPartition(*key)])
            self.batches += 1
            del stored[key]

    def delete_topic(self, group: str) -> None:
        """Deletes a topic's offsets of a group that has more than one topic."""
        stored = self.stored[group]
        topics = sorted({topic for topic, _ in stored})
        if len(topics) > 1:
            topic = self.random.choice(topics)
            self.client.delete_offsets(group, topics=[topic])
            self.batches += 1
            self.stored[group] = {k: value for k, value in stored.items() if k[0] != topic}

    def delete_group(self, group: str) -> None:
        """Deletes a group with all that it has."""
        self.client.delete_group(group)
        self.batches += 1
        del self.stored[group]
        self.deleted.add(group)


def offset_of(offset: int) -> KafkaOffset:
    """An offset that comes with a little metadata."""
    return KafkaOffset(offset=offset, leader_epoch=None, metadata="x" * 50)


def fetch_all(client: OffsetClient) -> dict[str, Offsets]:
    """Every group that offsetd lists, with its offsets."""
    groups = [listing.group_id for listing in client.list_groups(page_size=7)]
    assert len(groups) == len(set(groups)), "every group is listed once"
    return {
        group: {
            (partition.topic, partition.partition): KafkaOffset(
                offset=stored.offset, leader_epoch=stored.leader_epoch, metadata=stored.metadata
            )
            for partition, stored in offsets.items()
        }
        for group, offsets in client.fetch_many(groups).items()
    }


def _groups_over_all_partitions() -> list[str]:
    groups: list[str] = []
    covered: set[int] = set()
    while len(covered) < OFFSETS_PARTITIONS:
        groups.append(f"app-{len(groups)}")
        covered.add(partition_of(groups[-1], OFFSETS_PARTITIONS))
    return groups
