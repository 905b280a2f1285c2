"""A watcher that notes all events, and what must be true of them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, NamedTuple

from history_checker import Commit, Written
from offsetd_clients import OffsetdError
from server_process import poll

if TYPE_CHECKING:
    from history_checker import Operation
    from offsetd_clients import OffsetClient

SECONDS_MAX = 240


class Seen(NamedTuple):
    """An offset that was committed, as an event says it."""

    group_id: str
    revision: int
    partition: int
    value: int


class Watcher:
    """Watches the groups whose ids begin with `prefix`, which nobody has used before."""

    def __init__(self, client: OffsetClient, prefix: str) -> None:
        self.seen: list[Seen] = []
        self.revisions: list[tuple[str, int]] = []  # Of deletions too.
        self._client = client
        self._prefix = prefix
        self._is_stopping = threading.Event()
        self._watch = client.watch_offsets(group_id_prefix=prefix, from_oldest=True)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the watch."""
        self._is_stopping.set()
        self._watch.cancel()
        self._thread.join(SECONDS_MAX)
        assert not self._thread.is_alive(), "the watcher hangs"

    def check(self, histories: dict[str, list[Operation]]) -> None:
        """Waits until it has seen all that was acknowledged, each once, in order."""
        due = {
            seen
            for group_id, history in histories.items()
            for seen in due_events(group_id, history)
        }
        poll(lambda: due <= {*self.seen}, SECONDS_MAX, f"unseen: {[*due - {*self.seen}][:10]}")
        called = {
            (group_id, *each)
            for group_id, history in histories.items()
            for operation in history
            if isinstance(operation.call, Commit)
            for each in operation.call.values
        }
        for each in self.seen:
            assert (each.group_id, each.partition, each.value) in called, f"nobody wrote {each}"
        for group_id in histories:
            own = [revision for group, revision in self.revisions if group == group_id]
            assert own == sorted(set(own)), f"{group_id}: events out of order, or twice"

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            try:
                self._take_all()
            except OffsetdError:
                if self._is_stopping.wait(0.2):
                    return
                self._watch = self._client.watch_offsets(
                    group_id_prefix=self._prefix,
                    token=self._watch.token,
                    from_oldest=not self._watch.token,
                )

    def _take_all(self) -> None:
        for event in self._watch:
            revision = event.revision.log_offset
            self.revisions.append((event.group_id, revision))
            if event.offset is not None:
                where = event.topic_partition.partition
                self.seen.append(Seen(event.group_id, revision, where, event.offset))


def due_events(group_id: str, history: list[Operation]) -> set[Seen]:
    """The events of the commits of a group that were acknowledged."""
    return {
        Seen(group_id, operation.outcome.revision - len(operation.call.values) + 1 + index, *each)
        for operation in history
        if isinstance(operation.call, Commit) and isinstance(operation.outcome, Written)
        for index, each in enumerate(operation.call.values)
    }
