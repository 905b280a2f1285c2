"""What holds for partitions of a log in memory holds for the commit log on Kafka, too."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import memory_nodes
import pytest
from chance import seed_of
from kafka_logs_in_memory import KafkaLogInMemory
from unit.coordinator import test_partition_ownership as ownership

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# A log on Kafka is never damaged: a damaged copy is read again.
ENDINGS = {name: each for name, each in ownership.ENDINGS.items() if name != "damaged"}
WITH_AN_ENDING = (
    ownership.test_a_partition_that_does_not_serve_refuses_and_the_others_serve,
    ownership.test_over_grpc_each_state_has_its_status,
)
ALONE = (
    ownership.test_a_commit_and_a_read_of_it_wait_for_the_flush,
    ownership.test_what_was_not_durable_is_gone_when_the_partition_is_taken_again,
    ownership.test_another_node_goes_on_where_the_first_one_was_released,
    ownership.test_commits_of_a_message_go_together_after_a_partition_came_back,
    ownership.test_a_stream_with_commits_of_a_lost_partition_ends_and_another_goes_on,
    ownership.test_a_large_read_ends_when_its_partition_goes,
    ownership.test_history_is_read_up_to_what_is_durable,
    ownership.test_when_the_whole_log_fails_nothing_is_acknowledged,
)


@pytest.fixture(autouse=True)
def nodes_on_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_nodes, "MemoryCommitLog", KafkaLogInMemory)


@pytest.mark.parametrize("test", ALONE, ids=lambda test: test.__name__.removeprefix("test_"))
async def test_it_holds_on_kafka(test: Callable[[], Awaitable[None]]) -> None:
    await test()


@pytest.mark.parametrize("test", WITH_AN_ENDING, ids=lambda test: test.__name__[5:])
@pytest.mark.parametrize("ending", ENDINGS.values(), ids=list(ENDINGS))
async def test_it_holds_on_kafka_however_the_partition_ends(test: Any, ending: Any) -> None:
    await test(*ending)


@pytest.mark.parametrize("ending", ["lost", "loading"])
async def test_what_waits_ends_with_its_partition_and_the_others_wait_on(ending: str) -> None:
    """After a release, too, reads are refused that did not leave before."""
    test = ownership.test_what_waits_ends_with_its_partition_and_the_others_wait_on
    await test(*ENDINGS[ending])


@pytest.mark.parametrize("number", range(10))
async def test_nothing_acknowledged_is_lost_while_partitions_go_and_come(number: int) -> None:
    cluster = ownership.Cluster(Random(seed_of("partition ownership on Kafka", number)))
    for _ in range(150):
        await cluster.step()
    await cluster.end()
    assert any(cluster.acknowledged.values())
