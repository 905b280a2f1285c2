"""Writes several znodes in one transaction, each only if it did not change."""

from collections.abc import Mapping, Sequence

import attrs
from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from offsetd_clients.migration.zookeeper.kazoo_tree import answered

_OPERATIONS_MAX = 2000  # The limit of one transaction: ZooKeeper accepts at most a megabyte.


class WriteRefused(Exception):
    """A znode has changed. The transaction did nothing."""


@attrs.frozen
class Write:
    """A change of a znode. `version` is None for a new one. `value` is None for a deletion."""

    path: str
    version: int | None
    value: bytes | None


def transaction(
    client: KazooClient, writes: Sequence[Write], *, checks: Mapping[str, int | None] | None = None
) -> None:
    """Writes all or nothing.

    More than about 2,000 operations are split. The parts before the last one are then separate
    transactions.

    `checks` are versions that other znodes must have. At the end, only the versions that the last
    part checks are certain. Raises WriteRefused, SourceFailed, KazooException.
    """
    checked = [(path, version) for path, version in (checks or {}).items() if version is not None]
    while len(checked) + len(writes) > _OPERATIONS_MAX:
        if checked:
            _commit(client, (), checked[:_OPERATIONS_MAX])
            checked = checked[_OPERATIONS_MAX:]
        else:
            _commit(client, writes[:_OPERATIONS_MAX], ())
            writes = writes[_OPERATIONS_MAX:]
    _commit(client, writes, checked)


def _commit(
    client: KazooClient, writes: Sequence[Write], checks: Sequence[tuple[str, int]]
) -> None:
    if not (writes or checks):
        return
    request = client.transaction()
    paths = []
    for path, version in checks:
        request.check(path, version)
        paths.append(path)
    for write in writes:
        if write.value is None:
            request.delete(write.path, -1 if write.version is None else write.version)
        elif write.version is None:
            request.create(write.path, write.value)
        else:
            request.set_data(write.path, write.value, write.version)
        paths.append(write.path)
    results = answered(request.commit_async())
    for path, result in zip(paths, results, strict=True):
        if isinstance(result, RolledBackError | RuntimeInconsistency):
            continue
        if isinstance(result, BadVersionError):
            raise WriteRefused(f"{path} was written meanwhile")
        if isinstance(result, NoNodeError):
            raise WriteRefused(f"{path} is gone")
        if isinstance(result, NodeExistsError):
            raise WriteRefused(f"{path} is there by now")
        if isinstance(result, NoAuthError):
            raise WriteRefused(f"{path} may not be written by us")
        if isinstance(result, KazooException):
            raise result
