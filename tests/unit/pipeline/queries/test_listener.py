"""The listener with its thread, told events as Spark tells them, without a Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from fake_server import serving
from groups_in_memory import GroupsInMemory, unavailable
from offsetd.v1.offset_service_pb2 import CommitOffsetsResponse
from offsetd_pipeline import OffsetCommitListener, ReadingQuery
from patience import PATIENCE_SECONDS
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)
from server_process import poll
from spark_events import EVENTS, QUERY, RUN, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

NEWEST = {("orders", 0): 10, ("orders", 1): 18, ("orders", 2): 15}
WAIT_S = 0.05  # For what is not to come.


@pytest.fixture
def groups() -> GroupsInMemory:
    return GroupsInMemory()


@pytest.fixture
def listener(groups: GroupsInMemory) -> Iterator[OffsetCommitListener]:
    found = listening(groups, "g", queries=["billing"])
    yield found
    groups.error = None
    found.close()


def listening(groups: GroupsInMemory, group: Any, **options: Any) -> OffsetCommitListener:
    client: Any = groups
    return OffsetCommitListener(client, group, **options)


class Ended:
    """A query that has ended, as Spark's `StreamingQuery` tells it."""

    runId = RUN  # noqa: N815
    isActive = False  # noqa: N815


def tell_all(listener: OffsetCommitListener) -> None:
    """All that Spark told, in its order."""
    for kind, *rest in EVENTS:
        if kind == "progress":
            listener.onQueryProgress(QueryProgressEvent.fromJson({"progress": rest[0]}))
            continue
        query_id, run_id = uuid.UUID(rest[0]), uuid.UUID(rest[1])
        if kind == "started":
            listener.onQueryStarted(QueryStartedEvent(query_id, run_id, rest[2], "", set()))
        elif kind == "idle":
            listener.onQueryIdle(QueryIdleEvent(query_id, run_id, ""))
        else:
            listener.onQueryTerminated(QueryTerminatedEvent(query_id, run_id, rest[2], None))


def test_what_spark_told_is_committed(
    listener: OffsetCommitListener, groups: GroupsInMemory
) -> None:
    tell_all(listener)
    assert listener.flush(timeout_s=PATIENCE_SECONDS)
    assert groups.offsets("g").items() >= NEWEST.items()
    counts = listener.counts
    assert counts.batches_committed + counts.batches_skipped == 4
    assert (counts.failures, counts.last_error, counts.behind) == (0, "", 0)


def test_each_query_has_the_group_that_a_function_names(groups: GroupsInMemory) -> None:
    asked = []

    def group_of(query: ReadingQuery) -> str | None:
        asked.append((query.name, sorted(query.topics)))
        return query.name and f"spark-{query.name}"

    with listening(groups, group_of) as listener:
        tell_all(listener)
        assert listener.flush(timeout_s=PATIENCE_SECONDS)
    assert sorted(groups.stored) == [
        "spark-again",
        "spark-async progress",
        "spark-billing",
        "spark-v2",
    ]
    assert groups.offsets("spark-async progress") == {**NEWEST, ("orders", 0): 16}
    assert asked.count(("billing", ["orders", "payments"])) == 1  # Once a run.
    assert (None, ["orders", "payments"]) in asked


def test_a_query_may_be_chosen_by_its_id(groups: GroupsInMemory) -> None:
    with listening(groups, "g", queries=[QUERY]) as listener:
        tell_all(listener)
        assert listener.flush(timeout_s=PATIENCE_SECONDS)
        assert listener.counts.failures == 0
    assert groups.offsets("g").items() >= NEWEST.items()


def test_a_server_that_was_away_has_the_newest_progress_afterwards(
    listener: OffsetCommitListener, groups: GroupsInMemory
) -> None:
    groups.error = unavailable()
    tell_all(listener)  # It returns, all the same.
    poll(lambda: listener.counts.failures, PATIENCE_SECONDS)
    assert groups.offsets("g") == {}
    assert not listener.flush(timeout_s=WAIT_S)
    assert listener.counts.behind > 0
    assert "the server is away" in listener.counts.last_error
    groups.error = None
    assert listener.flush(timeout_s=PATIENCE_SECONDS)
    assert groups.offsets("g").items() >= NEWEST.items()
    assert listener.counts.behind == 0


def test_spark_does_not_wait_for_a_server_that_does_not_answer(groups: GroupsInMemory) -> None:
    answering = threading.Event()
    commit = groups.commit

    def commit_late(*given: Any, **named: Any) -> Any:
        assert answering.wait(PATIENCE_SECONDS)
        return commit(*given, **named)

    groups.commit = commit_late  # type: ignore[method-assign]
    with listening(groups, "g", queries=["billing"]) as listener:
        tell_all(listener)
        assert groups.offsets("g") == {}
        assert not listener.flush(timeout_s=WAIT_S)
        answering.set()
        assert listener.flush(timeout_s=PATIENCE_SECONDS)
    assert groups.offsets("g").items() >= NEWEST.items()


def test_close_returns_after_its_timeout(groups: GroupsInMemory) -> None:
    groups.error = unavailable()
    listener = listening(groups, "g", queries=["billing"])
    tell_all(listener)
    assert not listener.close(timeout_s=WAIT_S)
    groups.error = None
    tell_all(listener)
    assert not listener.close(timeout_s=WAIT_S)
    assert groups.offsets("g") == {}


def test_the_end_commits_what_is_left(groups: GroupsInMemory) -> None:
    listener = listening(groups, "g", queries=["billing"])
    tell_all(listener)
    assert listener.close(timeout_s=PATIENCE_SECONDS)
    assert groups.offsets("g").items() >= NEWEST.items()
    assert listener.close()


def test_a_listener_that_was_told_nothing_ends_at_once(groups: GroupsInMemory) -> None:
    assert listening(groups, "g").close(timeout_s=0)


@pytest.mark.parametrize("what", ["group", "progress", "thread"])
def test_nothing_is_raised_into_spark(what: str, groups: GroupsInMemory) -> None:
    def fail(*_: object) -> Any:
        raise RuntimeError("no such thing")

    event: Any = recorded("billing")[0]
    listener = listening(groups, fail if what == "group" else "g")
    if what == "progress":
        event = object()
    if what == "thread":
        listener._thread._ledger.put = fail  # type: ignore[method-assign]
    listener.onQueryProgress(event)
    counts = listener.counts
    assert counts.failures == 1
    assert ("no such thing" in counts.last_error) == (what != "progress")
    listener.close()


def test_what_is_committed_of_a_query_that_ended_is_waited_for(groups: GroupsInMemory) -> None:
    listener = listening(groups, "g", queries=["billing"])
    begun = QueryStartedEvent(uuid.UUID(QUERY), uuid.UUID(RUN), "billing", "", set())
    listener.onQueryStarted(begun)
    ended: Any = Ended()
    assert not listener.flush(ended, timeout_s=WAIT_S)  # Spark has still to tell its progress.
    telling = threading.Timer(WAIT_S, tell_all, [listener])
    telling.start()
    assert listener.flush(ended, timeout_s=PATIENCE_SECONDS)
    assert groups.offsets("g").items() >= NEWEST.items()
    telling.join()
    listener.close()


def test_queries_are_named_in_a_list(groups: GroupsInMemory) -> None:
    with pytest.raises(TypeError, match="one text where several are expected"):
        listening(groups, "g", queries="billing")
    with pytest.raises(ValueError, match="back"):
        listening(groups, "g", rewinds="back")


@pytest.mark.parametrize("group", [None, "", 7, ["g"]])
def test_a_group_is_named_or_said_by_a_function(group: Any, groups: GroupsInMemory) -> None:
    with pytest.raises(ValueError, match="group is a name, or a function"):
        listening(groups, group)


EXITING = """
import json, sys
from offsetd.v1.offset_service_pb2 import CommitOffsetsResponse
from offsetd_pipeline import OffsetCommitListener
from pyspark.sql.streaming.listener import QueryProgressEvent

listener = OffsetCommitListener(sys.argv[1], "g")
listener.onQueryProgress(QueryProgressEvent.fromJson({"progress": json.loads(sys.argv[2])}))
"""


def test_a_program_that_ends_without_a_close_commits_what_it_was_told() -> None:
    told = next(each[1] for each in EVENTS if each[0] == "progress")
    with serving() as server:
        server.answer_each = lambda _request: CommitOffsetsResponse()
        subprocess.run(
            [sys.executable, "-c", EXITING, server.address, json.dumps(told)],
            check=True,
            timeout=2 * PATIENCE_SECONDS,
        )
        [request] = server.requests
    assert (request.group_id, len(request.offsets)) == ("g", 5)
    assert all(each.monotonic for each in request.offsets)
