"""Conversions between values and messages, without IO: quotas."""

from collections.abc import Sequence

from offsetd.v1 import admin_service_pb2

from offsetd_clients.messages.conversions import building, text_of
from offsetd_clients.quota_values import QuotaListing, QuotaUse


def describe_quotas_request(principal: str) -> admin_service_pb2.DescribeQuotasRequest:
    """A DescribeQuotasRequest for the first page."""
    with building("describe quotas"):
        return admin_service_pb2.DescribeQuotasRequest(principal=text_of("principal", principal))


def described_quotas(
    pages: Sequence[admin_service_pb2.DescribeQuotasResponse],
) -> QuotaListing:
    """The quotas of all pages."""
    return QuotaListing(
        quotas=tuple(_quota(each) for page in pages for each in page.quotas),
        in_force=pages[-1].in_force,
    )


def _quota(message: admin_service_pb2.QuotaUse) -> QuotaUse:
    return QuotaUse(
        principal=message.principal,
        client_id=message.client_id,
        quota=message.quota,
        limit=message.limit,
        in_use=message.in_use,
        refusals=message.refusal_count,
        delay=message.delay.ToTimedelta(),
    )
