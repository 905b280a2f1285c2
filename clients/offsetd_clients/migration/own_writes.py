"""Finds the stored offsets that the migration itself has written.

The journal keeps their revisions. An offset stored at another revision was written by someone else,
even if its offset is smaller or its commit time is earlier.
"""

from collections.abc import Iterator, Sequence

from offsetd_clients import CommitConflict, Revision, TopicPartition
from offsetd_clients.migration.followed_writes import OwnWrite, OwnWrites
from offsetd_clients.migration.migration_journal import Entry, Journal, Step
from offsetd_clients.migration.run_entries import retention_of, written_by
from offsetd_clients.migration.target import Put, Stored, Target


def own_writes(journal: Journal, group_id: str, stored: Stored) -> OwnWrites:
    """The migration's newest write of each offset of a group.

    An offset that already had the planned value counts as a write of the migration. So does an
    offset that a rollback has written back to the source.
    """
    own: OwnWrites = {}
    ran = journal.latest(Step.RUN, group_id)
    back = journal.latest(Step.ROLLBACK, group_id)
    found = [*_of_run(ran, stored)] if ran else []
    found += _of_rollback(back) if back else ()
    for where, each in (*found, *journal.followed.of(group_id, stored).items()):
        if where not in own or own[where].revision < each.revision:
            own[where] = each
    return own


def put_followed(
    journal: Journal,
    target: Target,
    group_id: str,
    puts: Sequence[Put],
    *,
    is_first: bool,
    is_audited: bool,
) -> None:
    """Stores offsets, in order of topic and partition, and notes them as the migration's own.

    `is_first`: whether the group has no offsets in offsetd. If someone deleted the group, its
    retention was deleted too, so the retention that the run has set is set again. Raises the errors
    of `Target.put`.
    """
    request_id = journal.begin_following(group_id, [each.found for each in puts])
    if is_first:
        _set_retention_again(journal, target, group_id, request_id)
    revision: Revision | None
    try:
        revision = target.put(group_id, puts, request_id=request_id, is_audited=is_audited)
    except CommitConflict:
        journal.finish_following(group_id, None)
        raise
    assert revision is not None, "something was stored"
    journal.finish_following(group_id, revision.log_offset)


def _set_retention_again(journal: Journal, target: Target, group_id: str, request_id: str) -> None:
    ran = journal.latest(Step.RUN, group_id)
    was_set = None if ran is None else ran.details.get("set")
    if was_set is None:
        return
    here = target.group(group_id)
    if here is None or here.retention is None:
        target.set_retention(group_id, retention_of(was_set["retention"]), request_id)


def _of_run(entry: Entry, stored: Stored) -> Iterator[tuple[TopicPartition, OwnWrite]]:
    orders = {
        TopicPartition(topic, partition): order
        for (topic, partition, *_), order in zip(
            entry.details["puts"], entry.details.get("orders", ()), strict=False
        )
    }
    for each in written_by(entry, stored):
        if each.revision is not None:
            yield each.partition, OwnWrite(each.revision, orders.get(each.partition))
    for topic, partition, revision, order in entry.details.get("equal", ()):
        yield TopicPartition(topic, partition), OwnWrite(revision, order)


def _of_rollback(entry: Entry) -> Iterator[tuple[TopicPartition, OwnWrite]]:
    if entry.is_done:
        for topic, partition, revision in entry.details.get("here", ()):
            yield TopicPartition(topic, partition), OwnWrite(revision, None)
