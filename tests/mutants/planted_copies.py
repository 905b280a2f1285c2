"""Planted bugs of the thread that reads the topic into the copies, and which test notices each."""

from __future__ import annotations

from mutants.planted import Mutant

_FOLLOWS = "offsetd_coordinator.cluster.copy_follower:CopyFollower"
_TESTS = "tests/unit/coordinator/cluster/test_copy_follower.py"

COPIES_MUTANTS = (
    Mutant(
        name="a copy is said to reach into a batch that it has not",
        where="offsetd_coordinator.cluster.copy_follower:_Followed.position",
        replace="self.records_position if self.records else self.reached",
        by="self.reached",
        caught_by=f"{_TESTS}::test_half_a_batch_is_no_part_of_a_copy",
    ),
    Mutant(
        name="each record that is read is appended as a batch",
        where=f"{_FOLLOWS}._note_message",
        replace="followed.records[-1].batch_offset != placed.batch_offset",
        by="True",
        caught_by=f"{_TESTS}::test_half_a_batch_is_no_part_of_a_copy",
    ),
    Mutant(
        name="a copy of what the node owns is followed",
        where=f"{_FOLLOWS}.follow",
        replace="set(partitions) - set(owned)",
        by="set(partitions)",
        caught_by=f"{_TESTS}::test_it_reads_what_is_followed_but_not_what_the_node_owns",
    ),
    Mutant(
        name="a partition that is taken over is left when others are followed",
        where=f"{_FOLLOWS}.follow",
        replace="self._followed.keys() - wanted - self._targets.keys()",
        by="self._followed.keys() - wanted",
        caught_by=f"{_TESTS}::test_a_takeover_reads_up_to_its_end_and_then_leaves_the_partition",
    ),
    Mutant(
        name="a takeover ends one record too early",
        where=f"{_FOLLOWS}._check_targets",
        replace="followed.reached < end",
        by="followed.reached < end - 1",
        caught_by=f"{_TESTS}::test_a_takeover_whose_end_is_no_end_of_the_topic_has_the_last_batch",
    ),
    Mutant(
        name="a takeover goes on without the last batch",
        where=f"{_FOLLOWS}._check_targets",
        replace="self._append(partition, followed)",
        by="pass",
        caught_by=f"{_TESTS}::test_a_takeover_whose_end_is_no_end_of_the_topic_has_the_last_batch",
    ),
    Mutant(
        name="a record that was fetched before its partition was left is appended",
        where=f"{_FOLLOWS}._note_message",
        replace="self._followed.get(partition)",
        by="self._followed.setdefault(partition, _Followed(0))",
        caught_by=f"{_TESTS}::test_what_is_released_is_not_read_any_more",
    ),
    Mutant(
        name="a takeover that is released is never answered",
        where=f"{_FOLLOWS}.release",
        replace="target[1].cancel()",
        by="pass",
        caught_by=f"{_TESTS}::test_what_is_released_is_not_read_any_more",
    ),
    Mutant(
        name="log offsets that were never given out count as cleaned away",
        where=f"{_FOLLOWS}._note_claim",
        replace="skip_unused(self._store, TopicPartition(OFFSETS_TOPIC, partition), claim)",
        by="pass",
        caught_by=f"{_TESTS}::test_the_log_offsets_that_a_claim_left_out_are_no_loss",
    ),
    Mutant(
        name="positions are saved before the copies are durable",
        where=f"{_FOLLOWS}.save",
        replace="self._store.flush()",
        by="pass",
        caught_by=f"{_TESTS}::test_what_is_saved_says_no_more_than_the_copies_hold",
    ),
    Mutant(
        name="a fatal error of the consumer is only logged",
        where=f"{_FOLLOWS}._read",
        replace="error.fatal()",
        by="False",
        caught_by=f"{_TESTS}::test_only_a_fatal_error_of_the_consumer_ends_the_reading",
    ),
)
