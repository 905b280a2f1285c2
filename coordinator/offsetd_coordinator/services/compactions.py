"""Compactions that operators request: a retry joins the same rounds; a preview changes nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.request_dedup import RememberedRequests

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetd_storage.cleaner.cleaning_round import CleanReport
    from offsetd_storage.topic_partition import TopicPartition

    from offsetd_coordinator.node import Node

    Outcome = CleanReport | BaseException | None
    Rounds = dict[TopicPartition, asyncio.Future[CleanReport | None]]

_REQUESTS_MAX: Final = 100


class Compactions:
    """Runs and remembers requested compactions. For the event loop's thread.

    An outcome is a report, None if there was nothing to clean, or the exception.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._rounds: RememberedRequests[str, Rounds] = RememberedRequests(
            window_ms=None, count_max=_REQUESTS_MAX
        )
        self._previewing = asyncio.Lock()

    async def compact(
        self, partitions: Sequence[TopicPartition], rolls_active: bool, *, request_id: str
    ) -> Mapping[TopicPartition, Outcome]:
        """Has each partition cleaned once, and waits for the outcomes.

        If the request id is known and its request had these partitions, the call waits for the same
        rounds.
        """
        rounds = self._rounds.find(request_id) if request_id else None
        if rounds is None or not set(partitions) <= rounds.keys():
            upkeep = self._node.serving().upkeep
            assert upkeep is not None, "a node that serves cleans"
            answers = upkeep.cleaner.compact(partitions, rolls_active=rolls_active)
            rounds = {each: asyncio.wrap_future(answer) for each, answer in answers.items()}
            for each in rounds.values():
                each.add_done_callback(_outcome)  # Retrieves a failure even if no call waits.
            if request_id:
                self._rounds.remember(request_id, rounds)
        # Not `gather`: a cancelled call must not cancel rounds that other calls wait for.
        await asyncio.wait(rounds.values())
        return {each: _outcome(rounds[each]) for each in partitions}

    async def preview(
        self, partitions: Sequence[TopicPartition], rolls_active: bool
    ) -> Mapping[TopicPartition, Outcome]:
        """The report of a round over each partition, without any change.

        One preview runs at a time, because each needs memory for a map of keys.
        """
        preview = self._node.administering().preview
        outcomes: dict[TopicPartition, Outcome] = {}
        for topic_partition in partitions:
            async with self._previewing:
                try:
                    outcomes[topic_partition] = await asyncio.to_thread(
                        preview, topic_partition, rolls_active
                    )
                except Exception as error:  # noqa: BLE001  The caller reports it.
                    outcomes[topic_partition] = error
        return outcomes


def _outcome(finished: asyncio.Future[CleanReport | None]) -> Outcome:
    if finished.cancelled():
        return asyncio.CancelledError("the round was abandoned")
    return finished.exception() or finished.result()
