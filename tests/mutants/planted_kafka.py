"""Planted bugs of consumers of a Kafka cluster with offsets here, and of moves of its groups."""

from __future__ import annotations

from mutants.planted import Mutant

_KAFKA_TESTS = "tests/unit/clients/kafka"
_MIGRATION_TESTS = "tests/unit/clients/migration/kafka"
_FOLDER_TESTS = "tests/unit/coordinator/offline/test_copied_offsets.py"

KAFKA_MUTANTS = (
    Mutant(
        name="a position at the end of a partition counts as gone",
        where="offsetd_clients.kafka.out_of_range:reset_of",
        replace="elif position > latest:",
        by="elif position >= latest:",
        caught_by=f"{_KAFKA_TESTS}/test_out_of_range.py",
    ),
    Mutant(
        name="librdkafka resets positions by itself",
        where="offsetd_clients.kafka.out_of_range:librdkafka_config",
        replace='"auto.offset.reset": "error"',
        by='"auto.offset.reset": "earliest"',
        caught_by=f"{_KAFKA_TESTS}/test_out_of_range.py",
    ),
    Mutant(
        name="leader epochs are not compared",
        where="offsetd_clients.kafka.source:KafkaSource._is_older_than_committed",
        replace="if committed == offset and first is not None and first < leader_epoch:",
        by="if committed == offset and first is not None and False:",
        caught_by=f"{_KAFKA_TESTS}/test_source.py",
    ),
    Mutant(
        name="a busy partition fills the memory",
        where="offsetd_clients.kafka.source:KafkaSource.read",
        replace="self._buffered_count < items_max:",
        by="self._buffered_count < 1 << 40:",
        caught_by=f"{_KAFKA_TESTS}/test_source.py",
    ),
    Mutant(
        name="a position that is gone is not asked for again",
        where="offsetd_clients.kafka.source:KafkaSource._noted",
        replace=(
            "if topic_partition in self._next:\n    self._gone[topic_partition] = message.offset()"
        ),
        by="pass",
        caught_by=f"{_KAFKA_TESTS}/test_source.py",
    ),
    Mutant(
        name="a group whose coordinator loads is asked for its offsets",
        where="offsetd_clients.migration.kafka.cluster:KafkaCluster.read",
        replace="readable = [each for each in some if not described[each].problem]",
        by="readable = list(some)",
        caught_by=f"{_MIGRATION_TESTS}/test_cluster.py",
    ),
    Mutant(
        name="a listing that a broker has no part in is taken for all",
        where="offsetd_clients.migration.kafka.cluster:KafkaCluster.group_ids",
        replace="if listed.errors:",
        by="if listed.errors and not listed.valid:",
        caught_by=f"{_MIGRATION_TESTS}/test_cluster.py",
    ),
    Mutant(
        name="a group that rebalances has no members",
        where="offsetd_clients.migration.kafka.cluster:_described",
        replace="if not members and description.state not in _WITHOUT_MEMBERS:",
        by="if not members and description.state is None:",
        caught_by=f"{_MIGRATION_TESTS}/test_cluster.py",
    ),
    Mutant(
        name="a rollback writes over what moved at the cluster",
        where="offsetd_clients.migration.kafka.kafka_writes:_Writer._refusal",
        replace="if where in there and there[where] != move.expected.get(where)",
        by="if where in there and move.expected.get(where) is None",
        caught_by=f"{_MIGRATION_TESTS}/test_kafka_writes.py",
    ),
    Mutant(
        name="what a broker refused counts as written",
        where="offsetd_clients.migration.kafka.kafka_writes:_Writer._written",
        replace="if group.problem or not missing:",
        by="if group.problem or missing:",
        caught_by=f"{_MIGRATION_TESTS}/test_kafka_writes.py",
    ),
    Mutant(
        name="a rollback to what a partition has not",
        where="offsetd_clients.migration.kafka.kafka_writes:_Writer._refusal",
        replace="if not is_within(to_write[where].offset, has)",
        by="if has is None",
        caught_by=f"{_MIGRATION_TESTS}/test_kafka_writes.py",
    ),
    Mutant(
        name="a group that moved on since the plan is moved as planned",
        where="offsetd_clients.migration.kafka.targets:moved_on",
        replace="if now.get(each.topic_partition) != each.offset",
        by="if each.topic_partition not in now",
        caught_by=f"{_MIGRATION_TESTS}/test_targets.py",
    ),
    Mutant(
        name="the first of several copies of a folder counts",
        where="offsetd_coordinator.offline.copied_offsets:_furthest",
        replace="if furthest is None or state.offset_next > furthest.offset_next:",
        by="if furthest is None:",
        caught_by=_FOLDER_TESTS,
    ),
    Mutant(
        name="damage of a folder is not told",
        where="offsetd_coordinator.offline.copied_offsets:_furthest",
        replace='problem(f"{each.view.folder}: {damage.of(each.log.topic_partition)}"',
        by='str(f"{each.view.folder}: {damage.of(each.log.topic_partition)}"',
        caught_by=_FOLDER_TESTS,
    ),
)
