"""Outcomes of a command for each partition: a failure of one does not stop the others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import attrs
from offsetd_storage.errors import StorageError, StorageFailed, words_of
from offsetd_storage.recovery.quarantine import DamageFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsetd_storage.topic_partition import TopicPartition

_DoneT = TypeVar("_DoneT")


@attrs.frozen(kw_only=True)
class PartitionOutcome(Generic[_DoneT]):
    """The work done on a partition, or the problem. Neither is set if there was nothing to do."""

    topic_partition: TopicPartition
    done: _DoneT | None = None
    problem: str | None = None


def outcome_of(
    topic_partition: TopicPartition, do: Callable[[], _DoneT | None]
) -> PartitionOutcome[_DoneT]:
    """Calls `do`. Returns its result, or the problem that it raised. Raises StorageFailed."""
    try:
        return PartitionOutcome(topic_partition=topic_partition, done=do())
    except StorageFailed:
        raise
    except DamageFound as found:
        problem = str(found.of(topic_partition))
    except (StorageError, OSError) as error:
        problem = words_of(error)
    return PartitionOutcome(topic_partition=topic_partition, problem=problem)
