"""The clients' call about quotas."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from google.protobuf.duration_pb2 import Duration
from offsetd.v1 import admin_service_pb2 as pb
from offsetd_clients import QuotaUse

if TYPE_CHECKING:
    from collections.abc import Callable

    from fake_server import EitherClient, FakeServer


def message(quota: str) -> pb.QuotaUse:
    return pb.QuotaUse(
        principal="User:a",
        client_id="app",
        quota=quota,
        limit=9,
        in_use=12,
        refusal_count=3,
        delay=Duration(seconds=1, nanos=500_000_000),
    )


def use(quota: str) -> QuotaUse:
    return QuotaUse(
        principal="User:a",
        client_id="app",
        quota=quota,
        limit=9,
        in_use=12,
        refusals=3,
        delay=timedelta(seconds=1.5),
    )


async def test_quotas_of_all_pages_are_described(
    fake_server: FakeServer, connect: Callable[..., EitherClient]
) -> None:
    fake_server.will_answer(
        "DescribeQuotas",
        pb.DescribeQuotasResponse(quotas=[message("call_rate")], next_page_token="n"),
        pb.DescribeQuotasResponse(quotas=[message("commit_rate")], in_force=True),
    )
    async with connect(fake_server.address) as client:
        listing = await client.describe_quotas("User:a")
    assert listing.quotas == (use("call_rate"), use("commit_rate"))
    assert listing.in_force
    assert fake_server.requests == [
        pb.DescribeQuotasRequest(principal="User:a"),
        pb.DescribeQuotasRequest(principal="User:a", page_token="n"),
    ]
