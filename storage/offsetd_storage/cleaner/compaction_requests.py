"""Logs that an operator wants cleaned now, in the order of the requests. Each has a future."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.topic_partition import TopicPartition

    Answer = Future[CleanReport | None]


@attrs.frozen(kw_only=True)
class CompactionRequest:
    """A request for one log, with the futures of all callers that wait for it."""

    topic_partition: TopicPartition
    answers: tuple[Answer, ...]
    rolls_active: bool  # Rolls its active segment first, so that all of it can be cleaned.

    def answer(self, report: CleanReport | None) -> None:
        """Answers with the report of the round, or with None if the log has no closed segment."""
        for each in self.answers:
            if each.set_running_or_notify_cancel():
                each.set_result(report)

    def fail(self, error: Exception) -> None:
        """Answers with an error."""
        for each in self.answers:
            if each.set_running_or_notify_cancel():
                each.set_exception(error)


class CompactionRequests:
    """The requests that wait. Any thread may use them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[TopicPartition, CompactionRequest] = {}

    def add(self, topic_partition: TopicPartition, *, rolls_active: bool) -> Answer:
        """Adds a request. If the log has one already, the two are joined."""
        answer: Answer = Future()
        with self._lock:
            self._put(
                CompactionRequest(
                    topic_partition=topic_partition, answers=(answer,), rolls_active=rolls_active
                )
            )
        return answer

    def put_back(self, request: CompactionRequest) -> None:
        """Puts back a request that was taken and could not be done yet."""
        with self._lock:
            self._put(request)

    def _put(self, request: CompactionRequest) -> None:
        earlier = self._waiting.get(request.topic_partition)
        if earlier is not None:
            request = attrs.evolve(
                request,
                answers=earlier.answers + request.answers,
                rolls_active=earlier.rolls_active or request.rolls_active,
            )
        self._waiting[request.topic_partition] = request

    def take_rolls(self) -> list[TopicPartition]:
        """The logs to roll first. The caller rolls them before the next `take`."""
        with self._lock:
            found = [each for each in self._waiting.values() if each.rolls_active]
            for each in found:
                self._waiting[each.topic_partition] = attrs.evolve(each, rolls_active=False)
        return [each.topic_partition for each in found]

    def take(self, begin: Callable[[TopicPartition], bool]) -> CompactionRequest | None:
        """Takes the first request that has a log for which `begin` returns True."""
        with self._lock:
            for topic_partition in self._waiting:
                if begin(topic_partition):
                    return self._waiting.pop(topic_partition)
        return None

    @property
    def are_waiting(self) -> bool:
        """Whether any request waits."""
        return bool(self._waiting)

    def fail_all(self, error: Exception) -> None:
        """Answers all requests with an error."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.fail(error)
