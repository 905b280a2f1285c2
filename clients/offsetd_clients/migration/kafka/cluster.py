"""A running Kafka cluster: its groups and their offsets, through librdkafka's admin client.

That client has limits, which this module reports and does not work around: it takes one group in a
call, has no commit times, deletes no offsets, and reads past the end of metadata if another client
than librdkafka wrote it. It also crashes if a coordinator is just loading (librdkafka's issue
5040). So every group is described first: this call reports in time if the group's coordinator does
not answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
)
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from offsetd_clients import Bounds, OffsetToCommit, TopicPartition
from offsetd_clients.migration.values import SourceFailed
from offsetd_clients.plurals import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from concurrent.futures import Future

CALLS_MAX: Final = 64
"""The number of concurrent calls."""

PARTITIONS_MAX: Final = 1000
"""The number of partitions in one call."""

TIMEOUT_S_DEFAULT: Final = 30.0
# librdkafka has its own timeout; this one applies if librdkafka does not keep it.
_SLACK_S: Final = 10.0
# The most attempts to read metadata that cannot be decoded: the bytes after its end change.
_READS_MAX: Final = 10
_EARLIEST: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_WITHOUT_MEMBERS: Final = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)


# Errors which mean that the cluster does not answer any request.
_UNREACHABLE: Final = (
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
)
_NOT_THERE: Final = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._NOENT,  # Nothing exists for any of the requested partitions.
)


class ClusterFailed(SourceFailed):
    """The cluster does not answer, or its answer to this request is an error."""

    def __init__(
        self, text: str, *, is_unreachable: bool = False, is_about_nothing: bool = False
    ) -> None:
        """`is_about_nothing`: the subject of the request does not exist."""
        super().__init__(text)
        self.is_unreachable = is_unreachable
        self.is_about_nothing = is_about_nothing


@attrs.frozen(kw_only=True)
class ClusterOffset:
    """An offset of the cluster.

    Do not trust `metadata`: if another client wrote it, random bytes may follow it.
    """

    topic_partition: TopicPartition
    offset: int
    leader_epoch: int | None
    metadata: str


@attrs.frozen(kw_only=True)
class ClusterGroup:
    """A group and its sorted offsets. `members` describes its members, if any.

    `problem` says why it could not be read, in whole or in part.
    """

    group_id: str
    members: tuple[str, ...] = ()
    offsets: tuple[ClusterOffset, ...] = ()
    problem: str = ""


class KafkaCluster:
    """A cluster. `config` has librdkafka's settings. A call fails after `timeout_s` seconds."""

    def __init__(self, config: Mapping[str, Any], *, timeout_s: float = TIMEOUT_S_DEFAULT) -> None:
        """The client connects when it is first used.

        Raises ClusterFailed if `config` is invalid.
        """
        self.address = str(config.get("bootstrap.servers", ""))
        self._timeout_s = timeout_s
        self._is_connected = False
        try:
            self._admin = AdminClient({"log_level": 0, **config})
        except KafkaException as error:
            raise ClusterFailed(f"librdkafka: {error.args[0].str()}") from error

    def group_ids(self) -> list[str]:
        """All consumer groups, sorted. Raises ClusterFailed, also if only one broker is silent."""
        listed = self._result(self._admin.list_consumer_groups(request_timeout=self._timeout_s))
        if listed.errors:
            errors = sorted({each.str() for each in listed.errors})
            raise ClusterFailed(
                f"{self.address}: not all groups are told of: {', '.join(errors)}"
                f" ({len(listed.errors)} brokers)"
            )
        return sorted(each.group_id for each in listed.valid)

    def read(self, group_ids: Iterable[str]) -> Iterator[ClusterGroup]:
        """Yields each of the groups, in their order. A group that does not exist has no offsets.

        It asks for up to `CALLS_MAX` groups at once. Raises ClusterFailed if the cluster does not
        answer.
        """
        count = 0
        for some in _batches(group_ids, CALLS_MAX):
            described = self._described(some, count)
            count += len(some)
            readable = [each for each in some if not described[each].problem]
            offsets = self._offsets(readable)
            for group_id in some:
                group = described[group_id]
                if group_id in offsets:
                    found, problem = offsets[group_id]
                    group = attrs.evolve(group, offsets=tuple(found), problem=problem)
                yield group

    def set_offsets(self, group_id: str, offsets: Mapping[TopicPartition, OffsetToCommit]) -> None:
        """Commits for a group without members.

        Raises ClusterFailed; some offsets may then be written.

        Kafka takes offsets one by one, so the caller must read them afterwards.
        """
        to_commit = [
            KafkaTopicPartition(
                where.topic,
                where.partition,
                each.offset,
                each.metadata,
                -1 if each.leader_epoch is None else each.leader_epoch,
            )
            for where, each in offsets.items()
        ]
        request = ConsumerGroupTopicPartitions(group_id, to_commit)
        futures = self._admin.alter_consumer_group_offsets(
            [request], request_timeout=self._timeout_s
        )
        answered = self._result(futures[group_id])
        refused = [each for each in answered.topic_partitions if each.error]
        if refused:
            first = refused[0]
            raise ClusterFailed(
                f"offsets that are refused: {len(refused)} of {len(to_commit)}, first that of"
                f" {first.topic}:{first.partition}: {first.error.str()}"
            )

    def bounds(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, Bounds], set[TopicPartition]]:
        """The bounds of each partition, and the partitions that do not exist.

        Raises ClusterFailed.
        """
        if not self._is_connected:
            # If leaders are requested before librdkafka is connected, it repeats the request only
            # after seconds.
            self._result(self._admin.describe_cluster(request_timeout=self._timeout_s))
            self._is_connected = True
        bounds: dict[TopicPartition, Bounds] = {}
        gone: set[TopicPartition] = set()
        for some in _batches(partitions, PARTITIONS_MAX):
            earliest, latest = (self._offsets_at(some, spec, gone) for spec in (_EARLIEST, _LATEST))
            bounds |= {
                each: Bounds(earliest[each], latest[each])
                for each in some
                if each in earliest and each in latest
            }
        return bounds, gone

    def _offsets_at(
        self, partitions: Sequence[TopicPartition], spec: OffsetSpec, gone: set[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The offset of each partition at `spec`. Partitions without one are added to `gone`."""
        wanted = {KafkaTopicPartition(each.topic, each.partition): spec for each in partitions}
        found: dict[TopicPartition, int] = {}
        answers = self._admin.list_offsets(wanted, request_timeout=self._timeout_s)
        for at, future in answers.items():
            where = TopicPartition(at.topic, at.partition)
            try:
                found[where] = self._result(future).offset
            except ClusterFailed as error:
                if not error.is_about_nothing:
                    raise
                gone.add(where)
        return found

    def _described(self, group_ids: Sequence[str], count: int) -> dict[str, ClusterGroup]:
        """The groups without their offsets. `count` is the number of groups read before."""
        futures = self._admin.describe_consumer_groups(
            list(group_ids), request_timeout=self._timeout_s
        )
        groups: dict[str, ClusterGroup] = {}
        unreachable: list[ClusterFailed] = []
        for group_id, future in futures.items():
            try:
                groups[group_id] = _described(group_id, self._result(future))
            except ClusterFailed as error:
                groups[group_id] = ClusterGroup(group_id=group_id, problem=str(error))
                unreachable += [error] if error.is_unreachable else []
        if len(unreachable) == len(groups):
            raise ClusterFailed(f"{unreachable[0]}; groups that were read before: {count}")
        return groups

    def _offsets(self, group_ids: Sequence[str]) -> dict[str, tuple[list[ClusterOffset], str]]:
        """The stored offsets of each group, and why some could not be read."""
        found: dict[str, tuple[list[ClusterOffset], str]] = {}
        left = list(group_ids)
        for _ in range(_READS_MAX):
            futures = {each: self._ask_for_offsets(each) for each in left}
            left = []
            for group_id, future in futures.items():
                try:
                    found[group_id] = _stored(self._result(future).topic_partitions)
                except ClusterFailed as error:
                    found[group_id] = [], str(error)
                except UnicodeDecodeError:
                    left.append(group_id)
        for group_id in left:
            found[group_id] = (
                [],
                "librdkafka cannot read its metadata; a copy of its folders can be",
            )
        return found

    def _ask_for_offsets(self, group_id: str) -> Future[Any]:
        futures: dict[str, Future[Any]] = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group_id)], request_timeout=self._timeout_s
        )
        return futures[group_id]

    def _result(self, future: Future[Any]) -> Any:
        try:
            return future.result(self._timeout_s + _SLACK_S)
        except TimeoutError as error:
            raise ClusterFailed(f"{self.address}: no answer", is_unreachable=True) from error
        except KafkaException as error:
            raise self._failure(error) from error

    def _failure(self, error: KafkaException) -> ClusterFailed:
        found = error.args[0]
        return ClusterFailed(
            f"{self.address}: {found.name()}: {found.str()}",
            is_unreachable=found.code() in _UNREACHABLE,
            is_about_nothing=found.code() in _NOT_THERE,
        )


def _described(group_id: str, description: Any) -> ClusterGroup:
    members = tuple(f"{each.client_id} at {each.host}" for each in description.members)
    if not members and description.state not in _WITHOUT_MEMBERS:
        members = (f"members: the group is {description.state.name}",)
    return ClusterGroup(group_id=group_id, members=members)


def _stored(answered: Sequence[KafkaTopicPartition]) -> tuple[list[ClusterOffset], str]:
    refused = [each for each in answered if each.error]
    offsets = [
        ClusterOffset(
            topic_partition=TopicPartition(each.topic, each.partition),
            offset=each.offset,
            leader_epoch=each.leader_epoch,
            metadata=each.metadata or "",
        )
        for each in answered
        if not each.error and each.offset >= 0
    ]
    problem = ""
    if refused:
        where = f"{refused[0].topic}:{refused[0].partition}"
        problem = f"{counted(len(refused), 'offset')} cannot be read, first that of {where}"
    return sorted(offsets, key=lambda each: each.topic_partition), problem


def _batches(values: Iterable[Any], size: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for value in values:
        batch.append(value)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
