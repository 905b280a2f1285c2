"""Planted bugs of nodes whose log is on Kafka, and which test notices each.

Those of `ON_BROKERS_MUTANTS` need real brokers.
"""

from __future__ import annotations

from mutants.planted import Mutant

_UNIT = "tests/unit/coordinator"
_TRANSACTIONS = f"{_UNIT}/cluster/test_transactions.py"
_STUCK = f"{_UNIT}/cluster/test_stuck_producers.py"
_TAKEOVER = f"{_UNIT}/cluster/test_takeover.py"
_LOST_READS = f"{_UNIT}/cluster/test_lost_reads.py"
_COMMIT_LOG = f"{_UNIT}/cluster/test_kafka_commit_log.py"
_MEMBER = f"{_UNIT}/cluster/test_partition_assignment.py"
_COPIES = f"{_UNIT}/cluster/test_copy_checkpoint.py"
_RULES = f"{_UNIT}/cluster/test_shared_rules.py"
_SENDS = "offsetd_coordinator.cluster.transactions:Transactions"
_TAKES = "offsetd_coordinator.cluster.takeover:Takeovers"
_LOG = "offsetd_coordinator.cluster.kafka_commit_log:KafkaCommitLog"

CLUSTER_LOG_MUTANTS = (
    Mutant(
        name="no offset is taken for an empty partition",
        where="offsetd_coordinator.cluster.topic_reading:ask_ends",
        replace="if end < 0",
        by="if end < -2000",
        caught_by=f"{_TAKEOVER}::test_no_offset_is_no_end",
    ),
    Mutant(
        name="what was sent is refused as not done",
        where=f"{_LOG}.lose",
        replace="may_be_committed=is_sent or is_committed",
        by="may_be_committed=is_committed",
        caught_by=_COMMIT_LOG,
    ),
    Mutant(
        name="what is committed is refused as not done",
        where=f"{_LOG}.lose",
        replace="may_be_committed=is_sent or is_committed",
        by="may_be_committed=is_sent",
        caught_by=_COMMIT_LOG,
    ),
    Mutant(
        name="a read is answered after a loss if writes came behind it",
        where=f"{_LOG}.lose",
        replace="self._refuse_unprovable()",
        by="",
        caught_by=_LOST_READS,
    ),
    Mutant(
        name="a read that waits for its proof after a loss is answered",
        where=f"{_LOG}.durable",
        replace="elif self._is_from_before_loss(ticket, partition):",
        by="elif False:",
        caught_by=_LOST_READS,
    ),
    Mutant(
        name="a loss refuses the reads of all partitions",
        where=f"{_LOG}._is_from_before_loss",
        replace="if partition < 0:",
        by="if True:",
        caught_by=_LOST_READS,
    ),
    Mutant(
        name="a later frame proves that the node had a partition that it lost",
        where=f"{_LOG}._answer",
        replace="if not is_proved:",
        by="if False:",
        caught_by=_LOST_READS,
    ),
    Mutant(
        name="a read behind a slow write needs no proof",
        where=f"{_LOG}._answer",
        replace="is_proved or wait.ticket in self._lost",
        by="True",
        caught_by=_COMMIT_LOG,
    ),
    Mutant(
        name="a frame is sent again without a look when its abort was refused after the commit",
        where=f"{_SENDS}._attempt",
        replace="if self._is_stuck and is_commit_asked:",
        by="if False:",
        caught_by=(
            f"{_STUCK}::test_a_commit_that_happened_is_not_sent_again_when_its_abort_is_refused"
        ),
    ),
    Mutant(
        name="a node ends at any fatal error of a producer",
        where="offsetd_coordinator.cluster.transactions:_raise_if_fenced",
        replace="if is_fenced or (",
        by="if known.fatal() or (",
        caught_by=f"{_STUCK}::test_a_fatal_error_that_is_no_fencing_replaces_the_producers",
    ),
    Mutant(
        name="a frame whose outcome was unknown is sent again although it was committed",
        where=f"{_SENDS}._decided",
        replace="return doubtful if any(each.metadata == mark for each in found) else None",
        by="return None",
        caught_by=(
            f"{_STUCK}::test_a_commit_that_happened_without_an_answer_is_found_and_not_sent_again"
        ),
    ),
    Mutant(
        name="a frame whose outcome was unknown is taken for committed",
        where=f"{_SENDS}._decided",
        replace="return doubtful if any(each.metadata == mark for each in found) else None",
        by="return doubtful",
        caught_by=f"{_STUCK}::test_a_commit_that_did_not_happen_is_sent_again",
    ),
    Mutant(
        name="the outcome of a frame is looked up before the producers are new",
        where=f"{_SENDS}._committed",
        replace="if self._is_stuck and not self._replace_producers():",
        by="if self._is_stuck and not self._doubtful and not self._replace_producers():",
        caught_by=(
            f"{_STUCK}::test_a_commit_that_happened_without_an_answer_is_found_and_not_sent_again"
        ),
    ),
    Mutant(
        name="two processes of a node mark their frames alike",
        where=f"{_SENDS}.__init__",
        replace='f"{node_id} {uuid.uuid4().hex}"',
        by="node_id",
        caught_by=f"{_STUCK}::test_frames_of_two_processes_of_a_node_have_different_marks",
    ),
    Mutant(
        name="a transaction without the generation of the node",
        where=f"{_SENDS}._send_offsets",
        replace="if not owned:",
        by="if True:",
        caught_by=(
            f"{_TRANSACTIONS}::test_a_frame_is_one_transaction_with_the_generation_of_the_node"
        ),
    ),
    Mutant(
        name="a transaction with a generation that came after its records were chosen",
        where=f"{_SENDS}._attempt",
        replace="self._send_offsets(producer, frame, kept, owned, generation)",
        by="self._send_offsets(producer, frame, kept, owned, self._member.generation())",
        caught_by=(
            f"{_TRANSACTIONS}::test_the_generation_is_that_from_before_the_records_were_chosen"
        ),
    ),
    Mutant(
        name="entries of a partition that was lost are sent when the node owns it again",
        where=f"{_SENDS}._attempt",
        replace="if is_owned and not self._frames.is_dropped(each) else lost",
        by="if is_owned else lost",
        caught_by=(
            f"{_TRANSACTIONS}"
            "::test_entries_from_before_a_partition_was_lost_are_not_sent_when_it_came_back"
        ),
    ),
    Mutant(
        name="entries that wait are not dropped with their partition",
        where=f"{_LOG}.lose",
        replace="self._frames.drop(partitions)",
        by="",
        caught_by=f"{_COMMIT_LOG}::test_what_waits_when_a_partition_is_lost_is_dropped",
    ),
    Mutant(
        name="entries of a partition that went are sent all the same",
        where=f"{_SENDS}._attempt",
        replace="is_owned = each.topic_partition.partition in owned",
        by="is_owned = True",
        caught_by=(f"{_TRANSACTIONS}::test_entries_of_a_partition_that_went_meanwhile_are_dropped"),
    ),
    Mutant(
        name="an answer before its commit",
        where=f"{_SENDS}._guard",
        replace="self._on_committed(self._committed(frame))",
        by=(
            "self._on_committed(CommittedFrame(frame, (), {}, time.monotonic()))\n"
            "self._committed(frame)"
        ),
        caught_by=f"{_TRANSACTIONS}::test_an_answer_is_given_only_after_the_commit",
    ),
    Mutant(
        name="an aborted frame is sent again with new log offsets",
        where=f"{_SENDS}._committed",
        replace="if done is not None:\n    return done",
        by=(
            "if done is not None:\n"
            "    return done\n"
            "count = sum(e.last_offset - int.from_bytes(e.batch[:8]) + 1 for e in frame.entries)\n"
            "frame.entries[:] = [\n"
            "    e._replace(\n"
            "        batch=(int.from_bytes(e.batch[:8]) + count).to_bytes(8) + e.batch[8:],\n"
            "        last_offset=e.last_offset + count,\n"
            "    )\n"
            "    for e in frame.entries\n"
            "]"
        ),
        caught_by=(
            f"{_TRANSACTIONS}::test_an_aborted_frame_is_sent_again_with_the_same_log_offsets"
        ),
    ),
    Mutant(
        name="a commit whose outcome is not known is given up",
        where="offsetd_coordinator.cluster.transactional_producers:",
        replace="or not known.retriable()",
        by="or known.retriable()",
        caught_by=f"{_TRANSACTIONS}::test_a_commit_whose_outcome_is_not_known_is_asked_again",
    ),
    Mutant(
        name="a frame does not wait for the callers of the last one",
        where="offsetd_coordinator.cluster.frames:OpenFrame._note_ended",
        replace="self._taken_count + len(self._frame.entries)",
        by="0",
        caught_by=f"{_UNIT}/cluster/test_frames.py::test_a_frame_waits_for_callers_of_the_last_one",
    ),
    Mutant(
        name="records that wait for a refused transaction are waited for",
        where="offsetd_coordinator.cluster.transactions:flush",
        replace="sending.done() and sending.exception() is not None",
        by="False",
        caught_by=f"{_TRANSACTIONS}::test_a_flush_ends_when_the_offsets_are_refused",
    ),
    Mutant(
        name="a partition is given up while a transaction with it is running",
        where="offsetd_coordinator.cluster.partition_assignment:PartitionAssignment._note_revoked",
        replace="self.turn",
        by="threading.Lock()",
        caught_by=(
            f"{_MEMBER}"
            "::test_a_partition_is_given_up_after_its_release_and_after_the_running_attempt"
        ),
    ),
    Mutant(
        name="a term that has ended allows writes when the partition came back",
        where="offsetd_coordinator.cluster.partition_assignment:PartitionAssignment.still_assigned",
        replace="assigned.get(each) == term",
        by="each in assigned",
        caught_by=(
            f"{_MEMBER}::test_a_term_that_has_ended_allows_nothing_though_the_partition_came_back"
        ),
    ),
    Mutant(
        name="producers that hang are not replaced",
        where=f"{_SENDS}._replace_producers",
        replace="self._producers.replace()",
        by="None",
        caught_by=(f"{_STUCK}::test_producers_that_hang_are_replaced_and_the_frame_is_sent_once"),
    ),
    Mutant(
        name="a node serves before its claim",
        where=f"{_TAKES}._take",
        replace="self._commit_claims({each: claims[each] for each in owned})",
        by="",
        caught_by=(
            f"{_TAKEOVER}"
            "::test_the_steps_come_in_order_and_a_claim_is_committed_before_the_partition_serves"
        ),
    ),
    Mutant(
        name="a node serves before the last stable offset is at the end",
        where=f"{_TAKES}._take",
        replace="self._ends(self._member.still_assigned(terms), committed_only=False)",
        by="self._ends(self._member.still_assigned(terms), committed_only=True)",
        caught_by=(
            f"{_TAKEOVER}::test_it_reads_to_the_end_and_not_only_to_what_was_decided_already"
        ),
    ),
    Mutant(
        name="a node takes the end while offsets of a former owner are pending",
        where=f"{_TAKES}._take",
        replace="self._wait_for_offsets(terms)",
        by="",
        caught_by=(
            f"{_TAKEOVER}::test_it_waits_until_no_offsets_are_pending_before_it_takes_the_end"
        ),
    ),
    Mutant(
        name="a new owner does not wait for the read lease of the former one",
        where=f"{_TAKES}._take",
        replace="max(leases_s, default=0.0)",
        by="0.0",
        caught_by=(
            f"{_TAKEOVER}::test_it_waits_for_the_read_lease_of_a_former_owner_that_did_not_release"
        ),
    ),
    Mutant(
        name="a new owner waits for its own read lease although the former one has a longer one",
        where=f"{_TAKES}._take",
        replace="max(self._lease_s, former.read_lease_ms / 1000)",
        by="self._lease_s",
        caught_by=(
            f"{_TAKEOVER}::test_it_waits_for_the_read_lease_of_a_former_owner_that_did_not_release"
        ),
    ),
    Mutant(
        name="log offsets begin anew after compaction",
        where=f"{_TAKES}._claim",
        replace="first_offset=max(end + shift, log.offset_next),",
        by="first_offset=log.offset_next,",
        caught_by=(
            f"{_TAKEOVER}"
            "::test_log_offsets_go_on_above_all_that_were_given_out_whatever_compaction_left"
        ),
    ),
    Mutant(
        name="a read without a lease",
        where=f"{_LOG}.durable",
        replace="is_proved = time.monotonic() < self._proved_until_s",
        by="is_proved = True",
        caught_by=(
            f"{_COMMIT_LOG}"
            "::test_a_read_within_the_lease_is_answered_and_after_it_waits_for_a_proof"
        ),
    ),
    Mutant(
        name="a lease that counts from the end of its transaction",
        where=f"{_LOG}.note_committed",
        replace="self._proved_until_s = done.begun_s + self._lease_s",
        by="self._proved_until_s = time.monotonic() + self._lease_s",
        caught_by=(
            f"{_COMMIT_LOG}"
            "::test_the_lease_counts_from_the_begin_of_the_transaction_not_from_its_end"
        ),
    ),
    Mutant(
        name="a transaction that ran already is a proof for a later read",
        where=f"{_LOG}.durable",
        replace="self._proofs.append(_Wait(ticket, future, partition, self._frames.want()))",
        by="self._proofs.append(_Wait(ticket, future, partition, self._frames.want() - 1))",
        caught_by=(
            f"{_COMMIT_LOG}::test_a_transaction_that_had_begun_before_a_read_is_no_proof_for_it"
        ),
    ),
    Mutant(
        name="a frame without a transaction ends the waits for a proof",
        where=f"{_LOG}.note_committed",
        replace="if not done.begun_s:",
        by="if False:",
        caught_by=f"{_COMMIT_LOG}::test_a_frame_without_a_transaction_proves_nothing",
    ),
    Mutant(
        name="a partition that was given up is still answered",
        where=f"{_LOG}.lose",
        replace="self._note_lost(ticket, partition, may_be_committed=is_sent or is_committed)",
        by="pass",
        caught_by=(
            f"{_COMMIT_LOG}"
            "::test_what_was_committed_is_not_answered_either_once_its_partition_is_gone"
        ),
    ),
    Mutant(
        name="a partition that was given up is still written to",
        where=f"{_LOG}.leave",
        replace="self._states[partition] = PartitionState.RELEASED",
        by="",
        caught_by=(
            f"{_COMMIT_LOG}"
            "::test_a_partition_that_is_left_answers_what_is_committed_and_appends_nothing"
        ),
    ),
    Mutant(
        name="a frame of a partition that was given up enters the copy",
        where=f"{_LOG}._copy",
        replace="if is_served and entry.ticket not in lost:",
        by="if True:",
        caught_by=(
            f"{_COMMIT_LOG}"
            "::test_what_was_not_committed_ends_with_its_partition_and_the_others_wait_on"
        ),
    ),
    Mutant(
        name="an old local copy is trusted",
        where="offsetd_coordinator.cluster.copy_checkpoint:CopyCheckpoint",
        replace='or not 0 <= now_ms - document["time_ms"] <= _AGE_MS_MAX',
        by="",
        caught_by=(
            f"{_COPIES}::test_copies_older_than_half_of_the_retention_of_tombstones_are_not_used"
        ),
    ),
    Mutant(
        name="copies are deleted while their file still says that they are whole",
        where="offsetd_coordinator.cluster.copy_checkpoint:begin_copies",
        replace="write_copies(files, folder, copies.encode(now_ms=0))",
        by="",
        caught_by=(
            f"{_COPIES}::test_copies_that_were_deleted_in_part_are_neither_used_nor_foreign"
        ),
    ),
    Mutant(
        name="rules of two nodes at the same place are taken for one change",
        where="offsetd_coordinator.cluster.shared_rules:replay_rules",
        replace="key=lambda each: each[:2]",
        by="key=lambda each: (None, each[1])",
        caught_by=_RULES,
    ),
    Mutant(
        name="a rule in a node's own log is a rule of all nodes",
        where="offsetd_coordinator.cluster.shared_rules:_rule_record",
        replace=" or not key.startswith(_OF_NO_NODE)",
        by="",
        caught_by=_RULES,
    ),
)

_BROKERS = "tests/cluster/test_takeovers.py"
_ON_NODES = "tests/cluster/test_rules_of_nodes.py"

ON_BROKERS_MUTANTS = (
    Mutant(
        name="on brokers, a node serves before the last stable offset is at the end",
        where=f"{_TAKES}._take",
        replace="self._ends(self._member.still_assigned(terms), committed_only=False)",
        by="self._ends(self._member.still_assigned(terms), committed_only=True)",
        caught_by=(
            f"{_BROKERS}::test_a_node_serves_only_once_all_that_was_written_before_is_decided"
        ),
    ),
    Mutant(
        name="on brokers, log offsets begin anew behind a transaction that was ended",
        where=f"{_TAKES}._claim",
        replace="first_offset=max(end + shift, log.offset_next),",
        by="first_offset=log.offset_next,",
        caught_by=(
            f"{_BROKERS}::test_the_open_transaction_of_a_killed_node_is_ended_without_effect"
        ),
    ),
    Mutant(
        name="on brokers, a filter of rules does not look for what other nodes have added",
        where="offsetd_coordinator.administration.administration:Administration.newest_acls",
        replace="await self._shared_rules.catch_up()",
        by="pass",
        caught_by=f"{_ON_NODES}::test_a_change_at_one_node_counts_on_all_and_after_starts",
    ),
)
