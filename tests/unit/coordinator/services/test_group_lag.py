"""The lag of groups as GetGroup tells it: the verdict on the group, and pages of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd.v1 import group_service_pb2
from offsetd_coordinator import cooperative_scheduling, errors
from offsetd_coordinator.configuration.dynamic_settings import CommitGuardConfig, ExpiryConfig
from offsetd_coordinator.configuration.lag_config import LagConfig
from offsetd_coordinator.large_groups import lag_reading
from offsetd_coordinator.services.group_calls import GroupService
from serving_nodes import ServingNode, serving_node

if TYPE_CHECKING:
    from collections.abc import Callable

LagVerdict = group_service_pb2.LagVerdict


def configure(serving: ServingNode, window_ms: int = 600_000) -> None:
    lag = LagConfig(window_ms=window_ms)
    serving.runtime.configure(CommitGuardConfig(), ExpiryConfig(), lag)


async def commit(
    serving: ServingNode, partitions: int, offset_of: Callable[[int], int], end: int
) -> None:
    places = [{"topic": f"t{part % 3}", "partition": part} for part in range(partitions)]
    await serving.commit_offsets(
        "g",
        *(
            {**place, "offset": offset_of(part), "end_offset": end}
            for part, place in enumerate(places)
        ),
    )


async def get(
    serving: ServingNode, page_token: str = "", **fields: object
) -> group_service_pb2.GetGroupResponse:
    request = group_service_pb2.GetGroupRequest(
        group_id="g",
        page_token=page_token,
        **fields,  # type: ignore[arg-type]
    )
    answer = await GroupService(serving.node).get_group(request.SerializeToString())
    return group_service_pb2.GetGroupResponse.FromString(answer)


@pytest.mark.parametrize("slice_rows", [cooperative_scheduling.SLICE_ROWS, 64])
async def test_the_verdict_on_a_group_is_that_of_its_worst_partition(
    slice_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lag_reading, "SLICE_ROWS", slice_rows)
    async with serving_node() as serving:
        configure(serving)
        for minute in range(10):
            await commit(serving, 300, lambda part, at=minute: 5 if part == 201 else at, 9)
            serving.clock.advance(60_000)
        assert (await get(serving)).group.lag_verdict == LagVerdict.LAG_VERDICT_ERR
        [listing] = (await list_page(serving, include_lag_verdicts=True)).groups
        assert listing.lag_verdict == LagVerdict.LAG_VERDICT_ERR
        assert listing.lag == 4
        await commit(serving, 300, lambda _: 9, 9)
        assert (await get(serving)).group.lag_verdict == LagVerdict.LAG_VERDICT_OK


@pytest.mark.parametrize("page_size", [1, 7, 0])
async def test_pages_have_the_lag_of_each_partition_once(page_size: int) -> None:
    async with serving_node() as serving:
        configure(serving)
        await commit(serving, 30, lambda part: part, 100)
        await serving.commit("g", 1, topic="silent")
        found, token = dict[tuple[str, int], tuple[int, int, int]](), ""
        while True:
            page = await get(serving, token, include_lags=True, page_size=page_size)
            assert not page.offsets
            for lag in page.lags:
                assert (lag.topic, lag.partition) not in found
                assert lag.verdict == LagVerdict.LAG_VERDICT_OK
                found[lag.topic, lag.partition] = lag.offset, lag.end_offset, lag.lag
            token = page.next_page_token
            if not token:
                break
        both = await get(serving, include_lags=True, include_offsets=True)
        plain = await get(serving)
    assert found == {(f"t{part % 3}", part): (part, 100, 100 - part) for part in range(30)}
    assert (len(both.offsets), len(both.lags)) == (31, 30)
    assert not plain.lags


async def test_with_the_window_off_there_is_no_lag_and_no_verdict() -> None:
    async with serving_node() as serving:
        configure(serving, 0)
        await commit(serving, 3, lambda part: part, 100)
        page = await get(serving, include_lags=True)
        assert page.group.lag_verdict == LagVerdict.LAG_VERDICT_UNSPECIFIED
        assert not page.lags
        configure(serving)
        assert (await get(serving)).group.lag_verdict == LagVerdict.LAG_VERDICT_UNSPECIFIED
        await commit(serving, 3, lambda part: part, 100)
        assert (await get(serving)).group.lag_verdict == LagVerdict.LAG_VERDICT_OK


async def test_a_list_is_filtered_by_verdict_and_its_pages_too() -> None:
    async with serving_node() as serving:
        configure(serving)
        moving, stuck, silent = (
            {f"{kind}-{number}" for number in range(5)} for kind in ("moving", "stuck", "silent")
        )
        for minute in range(10):
            for name in sorted(moving | stuck):
                offset = 5 if name in stuck else minute
                place = {"topic": "t", "partition": 0, "offset": offset}
                await serving.commit_offsets(
                    name, {**place, "end_offset": offset + 9 - minute // 2}
                )
            serving.clock.advance(60_000)
        for name in sorted(silent):
            await serving.commit(name, 1)
        of = LagVerdict
        assert await listed(serving, of.LAG_VERDICT_ERR) == stuck
        assert await listed(serving, of.LAG_VERDICT_OK) == moving
        assert await listed(serving, of.LAG_VERDICT_WARN) == set()
        assert await listed(serving, of.LAG_VERDICT_UNSPECIFIED) == silent
        assert await listed(serving, of.LAG_VERDICT_OK, of.LAG_VERDICT_ERR) == moving | stuck
        assert await listed(serving) == moving | stuck | silent


async def test_a_list_has_the_verdicts_if_it_is_asked_for_them() -> None:
    async with serving_node() as serving:
        configure(serving)
        place = {"topic": "t", "partition": 0, "offset": 5}
        await serving.commit_offsets("judged", {**place, "end_offset": 9})
        await serving.commit("silent", 1)
        ok, none = LagVerdict.LAG_VERDICT_OK, LagVerdict.LAG_VERDICT_UNSPECIFIED
        for asked in ({"include_lag_verdicts": True}, {"lag_verdicts": [ok, none]}):
            page = await list_page(serving, **asked)
            found = {each.group_id: each.lag_verdict for each in page.groups}
            assert found == {"judged": ok, "silent": none}
            lags = {each.group_id: each.lag for each in page.groups if each.HasField("lag")}
            assert lags == {"judged": 4}
        page = await list_page(serving)
        assert {each.lag_verdict for each in page.groups} == {none}, "it was not asked for"
        assert not any(each.HasField("lag") for each in page.groups)


async def test_the_lag_of_a_group_is_summed_as_far_as_a_number_goes() -> None:
    async with serving_node() as serving:
        configure(serving)
        largest = (1 << 63) - 1
        end = largest - 1
        await commit(serving, 3, lambda part: end - 5 * part, end)
        await serving.commit("g", 1, topic="silent")
        assert (await list_page(serving, include_lag_verdicts=True)).groups[0].lag == 15
        await commit(serving, 3, lambda _: 0, end)
        assert (await list_page(serving, include_lag_verdicts=True)).groups[0].lag == largest


async def test_without_verdicts_a_list_by_verdict_is_refused() -> None:
    async with serving_node() as serving:
        await serving.commit("a", 1)
        configure(serving, window_ms=0)
        with pytest.raises(errors.PolicyViolation, match=r"by lag.window.ms=0"):
            await listed(serving, LagVerdict.LAG_VERDICT_ERR)
        assert await listed(serving, 0, LagVerdict.LAG_VERDICT_OK) == {"a"}
        page = await list_page(serving, include_lag_verdicts=True)
        assert page.groups[0].lag_verdict == LagVerdict.LAG_VERDICT_UNSPECIFIED


async def test_a_verdict_that_no_group_has_and_a_token_of_another_verdict_are_refused() -> None:
    async with serving_node() as serving:
        for name in ("a", "b"):
            await serving.commit(name, 1)
        for number in (LagVerdict.LAG_VERDICT_STOP, 99):
            with pytest.raises(errors.InvalidRequest, match="a group is OK, WARN or ERR"):
                await listed(serving, number)
        page = await list_page(serving, page_size=1, lag_verdicts=[0])
        with pytest.raises(errors.InvalidPageToken):
            await list_page(serving, page_token=page.next_page_token, lag_verdicts=[0, 1])


async def list_page(serving: ServingNode, **fields: object) -> group_service_pb2.ListGroupsResponse:
    request = group_service_pb2.ListGroupsRequest(**fields)  # type: ignore[arg-type]
    answer = await GroupService(serving.node).list_groups(request.SerializeToString())
    return group_service_pb2.ListGroupsResponse.FromString(answer)


async def listed(serving: ServingNode, *verdicts: int) -> set[str]:
    """The groups of all pages, of two groups each."""
    found, token = list[str](), ""
    while True:
        page = await list_page(serving, page_size=2, page_token=token, lag_verdicts=verdicts)
        found += [each.group_id for each in page.groups]
        token = page.next_page_token
        if not token:
            assert len(found) == len(set(found))
            return set(found)
