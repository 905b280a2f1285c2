"""Logs that an operator wants cleaned now, in the order of the requests; a future answers each."""

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
    """One log, and all who wait for it."""

    topic_partition: TopicPartition
    answers: tuple[Answer, ...]
    rolls_active: bool  # Its active segment first, so that all it holds can be cleaned.

    def answer(self, report: CleanReport | None) -> None:
        """It is cleaned; None: it has no closed segment."""
        for each in self.answers:
            if each.set_running_or_notify_cancel():
                each.set_result(report)

    def fail(self, error: Exception) -> None:
        """It is not, and why."""
        for each in self.answers:
            if each.set_running_or_notify_cancel():
                each.set_exception(error)


class CompactionRequests:
    """Those that wait. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[TopicPartition, CompactionRequest] = {}

    def add(self, topic_partition: TopicPartition, *, rolls_active: bool) -> Answer:
        """Puts a log in; where it waits already, for both."""
        answer: Answer = Future()
        with self._lock:
            self._put(
                CompactionRequest(
                    topic_partition=topic_partition, answers=(answer,), rolls_active=rolls_active
                )
            )
        return answer

    def put_back(self, request: CompactionRequest) -> None:
        """What was taken could not be done yet."""
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
        """The logs that are to be rolled first; the caller does it before the next `take`."""
        with self._lock:
            found = [each for each in self._waiting.values() if each.rolls_active]
            for each in found:
                self._waiting[each.topic_partition] = attrs.evolve(each, rolls_active=False)
        return [each.topic_partition for each in found]

    def take(self, begin: Callable[[TopicPartition], bool]) -> CompactionRequest | None:
        """Takes out the first log that lets itself be begun."""
        with self._lock:
            for topic_partition in self._waiting:
                if begin(topic_partition):
                    return self._waiting.pop(topic_partition)
        return None

    @property
    def are_waiting(self) -> bool:
        """Whether there are any."""
        return bool(self._waiting)

    def fail_all(self, error: Exception) -> None:
        """Nobody will do them."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            each.fail(error)
