"""Conversions of values to messages, without IO: the lag of groups."""

from typing import Final

from offsetd.v1 import group_service_pb2

from offsetd_clients.values import LagVerdict, PartitionLag, TopicPartition

_VERDICTS: Final = {
    group_service_pb2.LagVerdict.Value(f"LAG_VERDICT_{verdict.name}"): verdict
    for verdict in LagVerdict
}


def verdict_of(number: int) -> LagVerdict | None:
    """A verdict; None without one, or if a newer server gives another one."""
    return _VERDICTS.get(number)


def lags_of(response: group_service_pb2.GetGroupResponse) -> dict[TopicPartition, PartitionLag]:
    """The lag by partition of one page."""
    return {
        TopicPartition(lag.topic, lag.partition): PartitionLag(
            offset=lag.offset,
            end_offset=lag.end_offset,
            lag=lag.lag,
            verdict=verdict_of(lag.verdict),
        )
        for lag in response.lags
    }
