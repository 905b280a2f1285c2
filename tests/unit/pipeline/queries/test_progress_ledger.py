"""The ledger, and the commits of a query, driven as the thread does, against groups in memory."""

from __future__ import annotations

import json
import random

import pytest
from groups_in_memory import GroupsInMemory, unavailable
from offsetd_clients import CommitConflict, TopicPartition, Unavailable
from offsetd_pipeline.queries.kafka_progress import BatchProgress, batch_progress
from offsetd_pipeline.queries.progress_ledger import RETRY_S_MAX, GroupTaken, ProgressLedger
from offsetd_pipeline.queries.query_commits import PART_OFFSETS_MAX, Rewinds
from spark_events import LATER_RUN, OTHER_QUERY, QUERY, RUN, batch, recorded

REFRESH_S = 100.0
AT = ("t", 0)


class Committing:
    """A ledger whose work is done when a test says so."""

    def __init__(self, rewinds: Rewinds = Rewinds.REFUSE) -> None:
        self.ledger = ProgressLedger(rewinds=rewinds, refresh_s=REFRESH_S)
        self.groups = GroupsInMemory()
        self.now_s = 0.0

    def put(self, *batches: BatchProgress, group_id: str = "g") -> None:
        for each in batches:
            self.ledger.put(group_id, each)

    def commit_one(self) -> bool:
        work = self.ledger.next_part(self.now_s)
        if work is None:
            return False
        commits, part = work
        try:
            unknown = commits.unknown(part)
            if unknown:
                commits.learn(unknown, self.groups.fetch(commits.group_id, unknown))
            revision = self.groups.commit(
                commits.group_id, commits.offsets_of(part), request_id=part.request_id
            )
        except CommitConflict as error:
            self.ledger.refused(commits, part, error, self.now_s)
        except Unavailable as error:
            self.ledger.failed(commits, error, self.now_s)
        else:
            self.ledger.committed(commits, part, revision, self.now_s)
        return True

    def commit_all(self) -> dict[tuple[str, int], int]:
        while self.commit_one():
            pass
        return self.groups.offsets("g")


@pytest.fixture
def committing() -> Committing:
    return Committing()


@pytest.fixture
def following() -> Committing:
    return Committing(Rewinds.FOLLOW)


def billing() -> list[BatchProgress]:
    return [found for each in recorded("billing") if (found := batch_progress(each.progress))]


NEWEST = {
    ("orders", 0): 10,
    ("orders", 1): 18,
    ("orders", 2): 15,
    ("payments", 0): 5,
    ("payments", 1): 5,
}


def test_each_batch_commits_what_it_changed(committing: Committing) -> None:
    changed = []
    for each in billing():
        committing.put(each)
        committing.commit_all()
        changed.append(sorted(str(at) for at in committing.groups.commits[-1].offsets))
    assert committing.groups.offsets("g") == NEWEST
    assert changed == [
        ["orders:0", "orders:1", "orders:2", "payments:0", "payments:1"],
        ["orders:0", "orders:1", "orders:2"],
        ["orders:1"],
        ["orders:2"],
    ]
    assert committing.ledger.counts.batches_committed == 4
    assert committing.ledger.counts.behind == 0


def test_an_offset_says_which_query_and_batch_it_is_of_and_where_the_end_was(
    committing: Committing,
) -> None:
    committing.put(billing()[0])
    committing.commit_all()
    stored = committing.groups.stored["g"][TopicPartition("orders", 2)]
    assert json.loads(stored.metadata) == {"spark_query": QUERY, "batch": 0}
    assert (stored.offset, stored.end_offset) == (7, 12)


def test_a_commit_is_named_by_its_run_and_batch(committing: Committing) -> None:
    committing.put(*billing())
    committing.commit_all()
    [commit] = committing.groups.commits
    assert commit.request_id.startswith(f"{RUN.replace('-', '')}:3:")
    assert len(commit.request_id) <= 64  # What the server takes.


def test_of_batches_that_wait_the_newest_is_committed(committing: Committing) -> None:
    committing.put(*billing())
    assert committing.ledger.counts.behind == 4
    assert committing.commit_all() == NEWEST
    counts = committing.ledger.counts
    assert (counts.batches_committed, counts.batches_skipped, counts.behind) == (1, 3, 0)


@pytest.mark.parametrize("rewinds", Rewinds)
def test_in_any_order_and_however_often_events_come_the_newest_batch_counts(
    rewinds: Rewinds,
) -> None:
    seed = random.randrange(2**32)
    print(f"seed={seed}")
    rng = random.Random(seed)
    for _ in range(50):
        committing = Committing(rewinds)
        events = [each for each in billing() for _ in range(rng.randint(1, 2))]
        rng.shuffle(events)
        before: dict[tuple[str, int], int] = {}
        for each in events:
            committing.put(each)
            committing.groups.error = unavailable() if rng.random() < 0.3 else None
            committing.groups.loses_answers = rng.random() < 0.5
            for _ in range(rng.randint(0, 2)):
                committing.commit_one()
            now = committing.groups.offsets("g")
            assert all(now[at] >= offset for at, offset in before.items())
            before = now
        committing.groups.error = None
        committing.now_s += RETRY_S_MAX
        assert committing.commit_all() == NEWEST


def test_a_commit_whose_answer_was_lost_is_not_written_twice(committing: Committing) -> None:
    committing.groups.error, committing.groups.loses_answers = unavailable(), True
    committing.put(billing()[0])
    committing.commit_all()
    assert committing.ledger.counts.failures == 1
    assert committing.ledger.counts.behind == 1
    committing.groups.error, committing.now_s = None, RETRY_S_MAX
    committing.commit_all()
    assert len(committing.groups.commits) == 1
    assert committing.groups.tries == 2
    assert committing.ledger.counts.behind == 0


def test_who_is_refused_waits_longer_each_time(committing: Committing) -> None:
    committing.groups.error = unavailable()
    committing.put(batch(0, {AT: 1}))
    waits = []
    for _ in range(9):
        committing.commit_all()
        due_s = committing.ledger.next_due_s()
        assert due_s is not None
        waits.append(due_s - committing.now_s)
        committing.now_s = due_s
    assert waits == [0.5, 1, 2, 4, 8, 16, RETRY_S_MAX, RETRY_S_MAX, RETRY_S_MAX]
    assert "away" in committing.ledger.counts.last_error


def test_progress_of_an_earlier_run_that_comes_late_is_passed_over(following: Committing) -> None:
    # As Spark did it: the start of the later run is told before what the earlier one came to.
    following.ledger.start(QUERY, RUN)
    following.ledger.start(QUERY, LATER_RUN)
    following.put(batch(7, {AT: 50}))
    following.commit_all()
    following.put(batch(7, {AT: 40}, run_id=LATER_RUN))
    following.put(batch(8, {AT: 45}, run_id=RUN))
    following.ledger.end(RUN)
    assert following.commit_all() == {AT: 40}
    assert following.ledger.counts.batches_out_of_order == 1


def test_by_refuse_a_group_waits_until_its_query_is_there_again(committing: Committing) -> None:
    committing.groups.put("g", "t", 0, 100)
    committing.put(batch(0, {AT: 10, ("t", 1): 7}))
    assert committing.commit_all() == {AT: 100, ("t", 1): 7}
    counts = committing.ledger.counts
    assert (counts.held_back, counts.behind, counts.failures) == (1, 0, 0)
    committing.put(batch(1, {AT: 101, ("t", 1): 7}))
    assert committing.commit_all() == {AT: 101, ("t", 1): 7}
    assert committing.ledger.counts.held_back == 0


def test_by_refuse_a_group_that_was_reset_is_where_its_query_is_with_the_next_batch(
    committing: Committing,
) -> None:
    committing.put(batch(0, {AT: 100}))
    committing.commit_all()
    committing.groups.put("g", "t", 0, 3)
    committing.put(batch(1, {AT: 101}))
    assert committing.commit_all() == {AT: 101}


def test_by_follow_a_group_goes_back_with_its_query(following: Committing) -> None:
    following.groups.put("g", "t", 0, 100)
    following.put(batch(0, {AT: 10}))
    assert following.commit_all() == {AT: 10}
    following.put(batch(1, {AT: 20}))
    following.groups.put("g", "t", 0, 5)  # By somebody else; seen by its revision.
    assert following.commit_all() == {AT: 20}
    assert following.ledger.counts.held_back == 0


def test_by_follow_an_older_batch_that_the_server_gets_late_is_not_stored(
    following: Committing,
) -> None:
    following.put(batch(0, {AT: 10}))
    work = following.ledger.next_part(0)
    assert work is not None
    commits, part = work
    commits.learn(part.positions, {})
    late = commits.offsets_of(part)
    following.put(batch(1, {AT: 20}))
    following.commit_all()
    with pytest.raises(CommitConflict):
        following.groups.commit("g", late, request_id=part.request_id)
    assert following.groups.offsets("g") == {AT: 20}


def test_by_follow_two_who_overwrite_each_other_do_not_turn_for_ever(
    following: Committing,
) -> None:
    following.put(batch(0, {AT: 10}))
    for number in range(100):
        work = following.ledger.next_part(0)
        if work is None:
            break
        following.groups.put("g", "t", 0, number)
        commits, part = work
        commits.learn(commits.unknown(part), {})
        with pytest.raises(CommitConflict) as refused:
            following.groups.commit("g", commits.offsets_of(part), request_id=part.request_id)
        following.groups.put("g", "t", 0, number)
        following.ledger.refused(commits, part, refused.value, 0)
    assert following.ledger.counts.failures == 1
    following.now_s = RETRY_S_MAX
    assert following.commit_all() == {AT: 10}


def test_what_does_not_change_is_committed_again_before_it_expires(committing: Committing) -> None:
    committing.put(batch(0, {AT: 1}))
    committing.commit_all()
    for now_s, count in ((REFRESH_S - 1, 1), (REFRESH_S, 2), (REFRESH_S + 1, 2)):
        committing.now_s = now_s
        committing.ledger.put_idle("g", batch(0, {AT: 1}), now_s)
        committing.commit_all()
        assert len(committing.groups.commits) == count
    assert len({each.request_id for each in committing.groups.commits}) == 2
    assert committing.ledger.counts.batches_committed == 1


def test_a_batch_without_news_commits_nothing(committing: Committing) -> None:
    committing.put(batch(0, {AT: 1}))
    committing.commit_all()
    committing.put(batch(1, {AT: 1}))
    committing.commit_all()
    assert len(committing.groups.commits) == 1
    assert committing.ledger.counts.batches_committed == 2
    committing.put(batch(2, {AT: 1}, end_offset=5))  # Further behind is news.
    committing.commit_all()
    assert len(committing.groups.commits) == 2


@pytest.mark.parametrize("rewinds", Rewinds)
def test_many_partitions_are_several_commits(rewinds: Rewinds) -> None:
    committing = Committing(rewinds)
    wide = {("t", partition): partition for partition in range(2 * PART_OFFSETS_MAX + 1)}
    committing.put(batch(0, wide))
    committing.commit_one()
    committing.groups.error = unavailable()
    committing.commit_one()
    committing.groups.error, committing.now_s = None, RETRY_S_MAX
    assert committing.commit_all() == wide
    assert [len(each.offsets) for each in committing.groups.commits] == [
        PART_OFFSETS_MAX,
        PART_OFFSETS_MAX,
        1,
    ]
    assert len({each.request_id for each in committing.groups.commits}) == 3


def test_two_running_queries_of_one_group_may_not_read_one_topic(committing: Committing) -> None:
    committing.put(batch(0, {AT: 1}))
    with pytest.raises(GroupTaken, match=r"both read t; give each a group of its own"):
        committing.put(batch(0, {AT: 9}, query_id=OTHER_QUERY, run_id=LATER_RUN))
    committing.put(batch(0, {("u", 0): 9}, query_id=OTHER_QUERY, run_id=LATER_RUN))
    assert committing.commit_all() == {AT: 1, ("u", 0): 9}


@pytest.mark.parametrize(
    ("rewinds", "offset", "skipped"), [(Rewinds.REFUSE, 9, 0), (Rewinds.FOLLOW, 4, 1)]
)
def test_a_query_may_take_the_place_of_one_that_has_ended(
    rewinds: Rewinds, offset: int, skipped: int
) -> None:
    committing = Committing(rewinds)
    committing.put(batch(5, {AT: 9}))
    committing.ledger.end(RUN)  # Before anything was committed.
    committing.put(batch(0, {AT: 4}, query_id=OTHER_QUERY, run_id=LATER_RUN))
    assert committing.commit_all() == {AT: offset}
    assert committing.ledger.counts.batches_skipped == skipped


def test_what_an_ended_query_came_to_is_committed_and_then_forgotten(
    committing: Committing,
) -> None:
    committing.put(batch(0, {AT: 1}))
    committing.ledger.end(RUN)
    assert committing.ledger.is_behind
    assert not committing.ledger.runs(RUN)
    assert committing.commit_all() == {AT: 1}
    assert committing.ledger.counts.behind == 0


def test_queries_take_turns_when_one_of_them_fails(committing: Committing) -> None:
    committing.put(batch(0, {AT: 1}), group_id="a")
    committing.put(batch(0, {AT: 2}, query_id=OTHER_QUERY, run_id=LATER_RUN), group_id="g")
    committing.groups.error = unavailable()
    committing.commit_one()
    committing.groups.error = None
    assert committing.commit_all() == {AT: 2}
    assert committing.groups.offsets("a") == {}


def test_queries_take_turns_when_one_of_them_always_has_something(committing: Committing) -> None:
    committing.put(batch(0, {AT: 1}), group_id="a")
    committing.put(batch(0, {AT: 2}, query_id=OTHER_QUERY, run_id=LATER_RUN), group_id="g")
    for number in (1, 2):
        committing.commit_one()
        committing.put(batch(number, {AT: 1 + number}), group_id="a")
    assert committing.groups.offsets("g") == {AT: 2}


def test_what_an_idle_query_had_not_told_is_committed(committing: Committing) -> None:
    committing.put(batch(3, {AT: 4}))
    committing.commit_all()
    committing.ledger.put_idle("g", batch(4, {AT: 6}, run_id=LATER_RUN), 0)
    assert committing.commit_all() == {AT: 6}
    committing.put(batch(5, {AT: 7}, run_id=LATER_RUN))
    assert committing.commit_all() == {AT: 7}
    committing.ledger.put_idle("g", batch(4, {AT: 6}, run_id=LATER_RUN), 0)
    assert committing.commit_all() == {AT: 7}
    assert committing.ledger.counts.batches_out_of_order == 0
