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
    """For the event loop's thread. Outcomes are a report, None (nothing to clean), or a failure."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._rounds: RememberedRequests[str, Rounds] = RememberedRequests(
            window_ms=None, count_max=_REQUESTS_MAX
        )
        self._previewing = asyncio.Lock()

    async def compact(
        self, partitions: Sequence[TopicPartition], rolls_active: bool, *, request_id: str
    ) -> Mapping[TopicPartition, Outcome]:
        """Has each cleaned once, and waits for that."""
        rounds = self._rounds.find(request_id) if request_id else None
        if rounds is None or not set(partitions) <= rounds.keys():
            upkeep = self._node.serving().upkeep
            assert upkeep is not None, "a node that serves cleans"
            answers = upkeep.cleaner.compact(partitions, rolls_active=rolls_active)
            rounds = {each: asyncio.wrap_future(answer) for each, answer in answers.items()}
            for each in rounds.values():
                each.add_done_callback(_outcome)  # A failure is looked at, also if nobody waits.
            if request_id:
                self._rounds.remember(request_id, rounds)
        # Not `gather`: who no longer waits must not cancel what others wait for.
        await asyncio.wait(rounds.values())
        return {each: _outcome(rounds[each]) for each in partitions}

    async def preview(
        self, partitions: Sequence[TopicPartition], rolls_active: bool
    ) -> Mapping[TopicPartition, Outcome]:
        """What a round over each would leave; one after the other: each takes a map of keys."""
        preview = self._node.administering().preview
        outcomes: dict[TopicPartition, Outcome] = {}
        for topic_partition in partitions:
            async with self._previewing:
                try:
                    outcomes[topic_partition] = await asyncio.to_thread(
                        preview, topic_partition, rolls_active
                    )
                except Exception as error:  # noqa: BLE001  It is for the caller to tell.
                    outcomes[topic_partition] = error
        return outcomes


def _outcome(finished: asyncio.Future[CleanReport | None]) -> Outcome:
    if finished.cancelled():
        return asyncio.CancelledError("the round was given up")
    return finished.exception() or finished.result()
