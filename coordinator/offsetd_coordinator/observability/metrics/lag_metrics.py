"""Metrics of the lag of groups, from the last survey."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from offsetd_coordinator.observability.metrics.families import gauge, gauges, labelled_gauges
from offsetd_coordinator.state.lag_judge import LagVerdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import Metric

    from offsetd_coordinator.background.lag_survey import GroupLag, LagReport

_PARTITION: Final = ("group", "topic", "partition")
_EXPORTER_GROUP: Final = "consumergroup"
_EXPORTER_TOPIC: Final = (_EXPORTER_GROUP, "topic")
_EXPORTER_PARTITION: Final = (_EXPORTER_GROUP, "topic", "partition")


def lag_families(report: LagReport) -> Iterator[Metric]:
    """Metrics of all verdicts, and of the groups that are shown."""
    yield gauges(
        "offsetd_groups_by_verdict",
        "Groups by the verdict on their lag: OK, WARN or ERR.",
        "verdict",
        ((each.name, report.groups[each]) for each in LagVerdict if 0 < each <= LagVerdict.ERR),
    )
    yield gauges(
        "offsetd_partitions_by_verdict",
        "Partitions of groups by the verdict on their lag: OK, WARN, STOP, STALL or REWIND.",
        "verdict",
        (
            (each.name, count)
            for each, count in report.partitions.items()
            if each is not LagVerdict.ERR
        ),
    )
    yield gauge("offsetd_lag_check_seconds", "Duration of the last survey of lag.", report.seconds)
    yield gauge(
        "offsetd_lag_groups_left_out",
        "Groups whose lag has no metrics, because of metrics.lag.partitions.max.",
        report.left_out,
    )
    yield from _shown_families(report.shown)
    if report.compatibility == "kafka_exporter":
        yield from _exporter_families(report.shown)


def _shown_families(shown: Sequence[GroupLag]) -> Iterator[Metric]:
    yield gauges(
        "offsetd_group_verdict",
        "The verdict on the lag of a group: 1 is OK, 2 WARN, 3 ERR.",
        "group",
        ((_text(each.group_id), each.verdict or None) for each in shown),
    )
    yield gauges("offsetd_group_members", "Members of a group.", "group", _members(shown))
    yield labelled_gauges(
        "offsetd_group_committed_offset", "The committed offset.", _PARTITION, _offsets(shown)
    )
    yield labelled_gauges(
        "offsetd_group_lag_records",
        "Records between the committed offset and the end that commits reported last.",
        _PARTITION,
        _lags(shown),
    )


def _exporter_families(shown: Sequence[GroupLag]) -> Iterator[Metric]:
    """The metrics of danielqsj/kafka_exporter on groups, with its names and labels."""
    yield gauges(
        "kafka_consumergroup_members",
        "As offsetd_group_members.",
        _EXPORTER_GROUP,
        _members(shown),
    )
    for name, values in (
        ("kafka_consumergroup_current_offset", list(_offsets(shown))),
        ("kafka_consumergroup_lag", list(_lags(shown))),
    ):
        yield labelled_gauges(name, "By partition.", _EXPORTER_PARTITION, values)
        sums = Counter[tuple[str, ...]]()
        for (group, topic, _), value in values:
            sums[group, topic] += int(value)
        yield labelled_gauges(
            f"{name}_sum", "Over the partitions of a topic.", _EXPORTER_TOPIC, sums.items()
        )


def _members(shown: Sequence[GroupLag]) -> Iterator[tuple[str, float]]:
    return ((_text(each.group_id), each.member_count) for each in shown)


def _offsets(shown: Sequence[GroupLag]) -> Iterator[tuple[tuple[str, str, str], float]]:
    for group in shown:
        group_id = _text(group.group_id)
        for each in group.partitions:
            yield (group_id, _text(each.topic), str(each.partition)), each.offset


def _lags(shown: Sequence[GroupLag]) -> Iterator[tuple[tuple[str, str, str], float]]:
    """Partitions whose end is not known have no lag."""
    for group in shown:
        group_id = _text(group.group_id)
        for each in group.partitions:
            if each.lag >= 0:
                yield (group_id, _text(each.topic), str(each.partition)), each.lag


def _text(name: bytes) -> str:
    return name.decode(errors="backslashreplace")
