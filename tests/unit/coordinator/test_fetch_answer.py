"""The answer to a fetch, encoded bit by bit."""

from __future__ import annotations

import pytest
from offsetd.v1 import offset_service_pb2
from offsetd_coordinator.errors import ResponseTooLarge
from offsetd_coordinator.requests import CommittedOffset
from offsetd_coordinator.service.fetch_answer import FetchAnswer
from offsetd_coordinator.service.turns import ITEMS_PER_TURN, Turns


def offsets(count: int) -> list[CommittedOffset]:
    """Offsets of one group."""
    return [
        CommittedOffset(b"orders", number, 2**40 + number, -1, b"m", 1000, -1, number, -1)
        for number in range(count)
    ]


COUNTS = [0, 1, ITEMS_PER_TURN - 1, ITEMS_PER_TURN, ITEMS_PER_TURN + 1, 3 * ITEMS_PER_TURN]


async def test_what_is_encoded_in_parts_is_one_answer() -> None:
    answer = FetchAnswer(Turns())
    for number, count in enumerate(COUNTS):
        await answer.add(f"g{number}".encode(), number, offsets(count))
    response = offset_service_pb2.FetchOffsetsResponse.FromString(answer.encoded())
    assert [group.group_id for group in response.groups] == [f"g{n}" for n in range(len(COUNTS))]
    assert [group.log_partition for group in response.groups] == list(range(len(COUNTS)))
    for group, count in zip(response.groups, COUNTS, strict=True):
        assert [each.partition for each in group.offsets] == list(range(count))
        assert [each.offset for each in group.offsets] == [2**40 + n for n in range(count)]
    assert response.ByteSize() == len(answer.encoded())


@pytest.mark.parametrize("counts", [[50, 50], [100], [0] * 100])
async def test_an_answer_of_more_bytes_than_there_may_be_is_refused(counts: list[int]) -> None:
    async def answered(bytes_max: int) -> bytes:
        answer = FetchAnswer(Turns(), bytes_max=bytes_max)
        for count in counts:
            await answer.add(b"group", 0, offsets(count))
        return answer.encoded()

    framed = len(await answered(1 << 20))
    # The few bytes before each group are not counted.
    assert len(await answered(framed)) == framed
    with pytest.raises(ResponseTooLarge) as caught:
        await answered(framed - 6 * len(counts))
    assert caught.value.variables == {"bytes_max": str(framed - 6 * len(counts))}
