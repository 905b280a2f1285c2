"""Planted bugs of consumers of a Kafka cluster with offsets here, and of moves of its groups."""

from __future__ import annotations

from mutants.planted import Mutant

_KAFKA = "clients/offsetd_clients/kafka"
_MIGRATION = "clients/offsetd_clients/migration/kafka"
_KAFKA_TESTS = "tests/unit/clients/kafka"
_MIGRATION_TESTS = "tests/unit/clients/migration/kafka"
_FOLDER_TESTS = "tests/unit/coordinator/test_offset_folders.py"

KAFKA_MUTANTS = (
    Mutant(
        name="a position at the end of a partition counts as gone",
        file=f"{_KAFKA}/resets.py",
        replace="    elif position > latest:\n",
        by="    elif position >= latest:\n",
        caught_by=f"{_KAFKA_TESTS}/test_resets.py",
    ),
    Mutant(
        name="librdkafka resets positions by itself",
        file=f"{_KAFKA}/resets.py",
        replace='        "auto.offset.reset": "error",\n',
        by='        "auto.offset.reset": "earliest",\n',
        caught_by=f"{_KAFKA_TESTS}/test_resets.py",
    ),
    Mutant(
        name="leader epochs are not compared",
        file=f"{_KAFKA}/source.py",
        replace="        if committed == offset and first is not None and first < leader_epoch:\n",
        by="        if committed == offset and first is not None and False:\n",
        caught_by=f"{_KAFKA_TESTS}/test_source.py",
    ),
    Mutant(
        name="a busy partition fills the memory",
        file=f"{_KAFKA}/source.py",
        replace="self._buffered_count < items_max:\n",
        by="self._buffered_count < 1 << 40:\n",
        caught_by=f"{_KAFKA_TESTS}/test_source.py",
    ),
    Mutant(
        name="a position that is gone is not asked for again",
        file=f"{_KAFKA}/source.py",
        replace="                if topic_partition in self._next:\n"
        "                    self._gone[topic_partition] = message.offset()\n",
        by="                pass\n",
        caught_by=f"{_KAFKA_TESTS}/test_source.py",
    ),
    Mutant(
        name="a group whose coordinator loads is asked for its offsets",
        file=f"{_MIGRATION}/cluster.py",
        replace="            readable = [each for each in some if not described[each].problem]\n",
        by="            readable = list(some)\n",
        caught_by=f"{_MIGRATION_TESTS}/test_cluster.py",
    ),
    Mutant(
        name="a listing that a broker has no part in is taken for all",
        file=f"{_MIGRATION}/cluster.py",
        replace="        if listed.errors:\n",
        by="        if listed.errors and not listed.valid:\n",
        caught_by=f"{_MIGRATION_TESTS}/test_cluster.py",
    ),
    Mutant(
        name="a group that rebalances has no members",
        file=f"{_MIGRATION}/cluster.py",
        replace="    if not members and description.state not in _WITHOUT_MEMBERS:\n",
        by="    if not members and description.state is None:\n",
        caught_by=f"{_MIGRATION_TESTS}/test_cluster.py",
    ),
    Mutant(
        name="a rollback writes over what moved at the cluster",
        file=f"{_MIGRATION}/back.py",
        replace="            if where in there and there[where] != move.expected.get(where)\n",
        by="            if where in there and move.expected.get(where) is None\n",
        caught_by=f"{_MIGRATION_TESTS}/test_back.py",
    ),
    Mutant(
        name="what a broker refused counts as written",
        file=f"{_MIGRATION}/back.py",
        replace="        if group.problem or not missing:\n",
        by="        if group.problem or missing:\n",
        caught_by=f"{_MIGRATION_TESTS}/test_back.py",
    ),
    Mutant(
        name="a rollback to what a partition has not",
        file=f"{_MIGRATION}/back.py",
        replace="            if not is_within(to_write[where].offset, has)\n",
        by="            if has is None\n",
        caught_by=f"{_MIGRATION_TESTS}/test_back.py",
    ),
    Mutant(
        name="a group that moved on since the plan is moved as planned",
        file=f"{_MIGRATION}/targets.py",
        replace="        if now.get(each.topic_partition) != each.offset\n",
        by="        if each.topic_partition not in now\n",
        caught_by=f"{_MIGRATION_TESTS}/test_targets.py",
    ),
    Mutant(
        name="the first of several copies of a folder counts",
        file="coordinator/offsetd_coordinator/offline/offset_folders.py",
        replace="        if furthest is None or state.offset_next > furthest.offset_next:\n",
        by="        if furthest is None:\n",
        caught_by=_FOLDER_TESTS,
    ),
    Mutant(
        name="damage of a folder is not told",
        file="coordinator/offsetd_coordinator/offline/offset_folders.py",
        replace='            problem(f"{each.view.folder}: ',
        by='            str(f"{each.view.folder}: ',
        caught_by=_FOLDER_TESTS,
    ),
)
