"""The audit log listed through the service."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from offsetd.v1 import admin_service_pb2, group_service_pb2, offset_service_pb2
from offsetd_coordinator import errors
from offsetd_coordinator.administration import audit_reader
from offsetd_coordinator.services.audit_admin import AuditAdmin
from offsetd_coordinator.services.group_calls import GroupService
from offsetd_coordinator.services.reset_calls import ResetCalls
from serving_nodes import METADATA_UNITS_MAX, WAIT_SECONDS, ServingNode, serving_node

Event = admin_service_pb2.AuditEvent


async def listed(serving: ServingNode, **fields: Any) -> admin_service_pb2.ListAuditEventsResponse:
    request = admin_service_pb2.ListAuditEventsRequest(**fields)
    answer = AuditAdmin(serving.node).list_audit_events(request.SerializeToString())
    return admin_service_pb2.ListAuditEventsResponse.FromString(
        await asyncio.wait_for(answer, WAIT_SECONDS)
    )


async def all_pages(serving: ServingNode, **fields: Any) -> list[Event]:
    events: list[Event] = []
    token = ""
    while True:
        page = await listed(serving, page_token=token, **fields)
        events += page.events
        token = page.next_page_token
        if not token:
            return events


async def shift(serving: ServingNode, group_id: str, by: int) -> None:
    request = offset_service_pb2.ResetOffsetsRequest(
        group_id=group_id, shift_by=by, reason=f"by {by}"
    )
    answer = ResetCalls(serving.node, None, metadata_units_max=METADATA_UNITS_MAX).reset_offsets(
        request.SerializeToString()
    )
    await asyncio.wait_for(answer, WAIT_SECONDS)


async def filled(serving: ServingNode, count: int) -> None:
    """Resets of two groups in turn, one a second, and then one of them is deleted."""
    for group_id in ("g", "h"):
        await serving.commit(group_id, 0)
    for number in range(count):
        await shift(serving, "gh"[number % 2], number)
        serving.clock.advance(1000)
    await delete(serving, "h")


async def delete(serving: ServingNode, group_id: str) -> None:
    request = group_service_pb2.DeleteGroupRequest(group_id=group_id, request_id="d")
    answer = GroupService(serving.node).delete_group(request.SerializeToString())
    await asyncio.wait_for(answer, WAIT_SECONDS)


async def test_the_newest_comes_first_with_all_that_was_recorded() -> None:
    async with serving_node() as serving:
        begun_ms = serving.clock.now_ms()
        await filled(serving, 3)
        events = (await listed(serving)).events
        assert [event.method for event in events] == ["DeleteGroup", *["ResetOffsets"] * 3]
        assert [event.reason for event in events] == ["", "by 2", "by 1", "by 0"]
        assert [event.revision.log_offset for event in events] == [3, 2, 1, 0]
        assert [event.time.ToMilliseconds() - begun_ms for event in events] == [3000, 2000, 1000, 0]
        assert json.loads(events[0].what) == {"group": "h", "offset_count": 1}
        assert events[0].request_id == "d"
        assert json.loads(events[1].what) == {
            "group": "g",
            "target": "shift_by",
            "value": 2,
            "force": False,
            "offset_count": 1,
            "changes": {"orders": {"0": [0, 2]}},
        }


@pytest.mark.parametrize("page_size", [1, 2, 7, 8, 0])
@pytest.mark.parametrize("stretch", [1, 3, 500])
async def test_pages_hold_every_event_once(
    page_size: int, stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_reader, "_STRETCH", stretch)
    monkeypatch.setattr(audit_reader, "RECORDS_MAX", 4)
    async with serving_node() as serving:
        await filled(serving, 7)
        events = await all_pages(serving, page_size=page_size)
        assert [event.revision.log_offset for event in events] == list(range(7, -1, -1))


def at(time_ms: int) -> Timestamp:
    time = Timestamp()
    time.FromMilliseconds(time_ms)
    return time


async def test_events_are_chosen_by_method_group_and_time() -> None:
    async with serving_node() as serving:
        begun_ms = serving.clock.now_ms()
        await filled(serving, 6)
        for fields, expected in [
            ({"methods": ["DeleteGroup"]}, [6]),
            ({"methods": ["DeleteGroup", "ResetOffsets"], "group_id": "h"}, [6, 5, 3, 1]),
            ({"group_id": "g"}, [4, 2, 0]),
            ({"group_id": "none"}, []),
            ({"start_time": at(begun_ms + 4000)}, [6, 5, 4]),
            ({"start_time": at(begun_ms + 1000), "end_time": at(begun_ms + 3000)}, [2, 1]),
        ]:
            for page_size in (1, 100):
                events = await all_pages(serving, page_size=page_size, **fields)
                assert [event.revision.log_offset for event in events] == expected, fields


async def test_a_token_is_good_for_its_question_alone() -> None:
    async with serving_node() as serving:
        await filled(serving, 3)
        token = (await listed(serving, page_size=1)).next_page_token
        assert len((await listed(serving, page_size=5, page_token=token)).events) == 3
        cut = base64.urlsafe_b64encode(base64.urlsafe_b64decode(token)[:-1]).decode()
        for fields in (
            {"page_token": token, "group_id": "g"},
            {"page_token": "x" + token},
            {"page_token": cut},
            {"page_token": "?"},
        ):
            with pytest.raises(errors.InvalidPageToken):
                await listed(serving, **fields)
        with pytest.raises(errors.InvalidRequest):
            await listed(serving, page_size=-1)


async def test_nothing_is_listed_where_nothing_was_done() -> None:
    async with serving_node() as serving:
        page = await listed(serving)
        assert (list(page.events), page.next_page_token) == ([], "")


async def test_deleted_offsets_are_told_and_nothing_is_where_nothing_was_deleted() -> None:
    async with serving_node() as serving:
        await serving.commit("g", 7, partitions=2)
        for topic in ("orders", "none"):
            request = offset_service_pb2.DeleteOffsetsRequest(
                group_id="g", topics=[topic], reason="gone"
            )
            answer = serving.offsets.delete_offsets(request.SerializeToString())
            await asyncio.wait_for(answer, WAIT_SECONDS)
        [event] = (await listed(serving)).events
        assert (event.method, event.reason) == ("DeleteOffsets", "gone")
        assert json.loads(event.what) == {
            "group": "g",
            "offset_count": 2,
            "deleted": {"orders": [0, 1]},
        }
