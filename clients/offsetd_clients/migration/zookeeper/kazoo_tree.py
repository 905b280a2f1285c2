"""Reads many znodes at a time with kazoo."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError

from offsetd_clients.migration.values import Problem, ProblemKind, SourceFailed
from offsetd_clients.migration.zookeeper.tree import Node

Watch = Callable[[Any], None]

_WINDOW = 1024  # The number of concurrent requests. They share the time of a round trip.
_TRIES = 5
ANSWER_S_MAX = 30.0
_LOST = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, SessionExpiredError)


class KazooTree:
    """The tree of a ZooKeeper, below its chroot.

    `watch` is called once for the next change of each path that was read, and when the connection
    is lost.
    """

    def __init__(
        self, client: KazooClient, *, wait_s: float = ANSWER_S_MAX, watch: Watch | None = None
    ) -> None:
        self.client = client
        self._wait_s = wait_s
        self._watch = watch

    def watched_by(self, watch: Watch) -> "KazooTree":
        """The same tree, in which each read sets `watch`."""
        return KazooTree(self.client, wait_s=self._wait_s, watch=watch)

    def children(self, paths: Iterable[str]) -> dict[str, list[str] | Problem]:
        found = self._read(list(paths), self.client.get_children_async)
        return {
            path: answer if isinstance(answer, Problem) else sorted(answer)
            for path, answer in found
        }

    def nodes(self, paths: Iterable[str]) -> dict[str, Node | Problem]:
        found = self._read(list(paths), self.client.get_async)
        return {
            path: answer if isinstance(answer, Problem) else _node(*answer)
            for path, answer in found
        }

    def _read(
        self, paths: Sequence[str], ask: Callable[..., Any]
    ) -> Iterator[tuple[str, Any | Problem]]:
        for start in range(0, len(paths), _WINDOW):
            yield from self._read_window(paths[start : start + _WINDOW], ask)

    def _watch_for(self, path: str) -> None:
        """Sets a watch on a missing znode: only an existence check can do that."""
        if self._watch is not None:
            self.client.exists_async(path, watch=self._watch)

    def _read_window(
        self, paths: Sequence[str], ask: Callable[..., Any]
    ) -> Iterator[tuple[str, Any | Problem]]:
        """Reads a window of znodes. After a lost connection, it repeats unanswered requests."""
        for attempt in range(_TRIES):
            left: list[str] = []
            lost: Exception | None = None
            asked = [(path, ask(path, watch=self._watch)) for path in paths]
            # Answers come in order. A wake-up for each answer would cost more than its read.
            if asked:
                asked[-1][1].wait(self._wait_s)
            for path, answer in asked:
                try:
                    yield path, answer.get(timeout=self._wait_s)
                except NoNodeError:
                    self._watch_for(path)
                    yield (
                        path,
                        Problem(
                            kind=ProblemKind.VANISHED, where=path, detail="there is no such znode"
                        ),
                    )
                except NoAuthError:
                    yield (
                        path,
                        Problem(
                            kind=ProblemKind.UNREADABLE,
                            where=path,
                            detail="its access list does not let us read it",
                        ),
                    )
                except (*_LOST, KazooTimeoutError) as error:
                    left.append(path)
                    lost = error
                except KazooException as error:
                    raise SourceFailed(f"{path}: {type(error).__name__}: {error}") from error
            if lost is None:
                return
            if attempt == _TRIES - 1 or not is_connected(self.client, self._wait_s):
                raise SourceFailed(
                    f"ZooKeeper does not answer ({type(lost).__name__}): {len(left)} znodes were "
                    f"not read, the first is {left[0]}"
                ) from lost
            paths = left


def is_lost(error: BaseException | None) -> bool:
    """Whether an error means that the connection was lost."""
    return isinstance(error, (*_LOST, KazooTimeoutError))


def answered(result: Any) -> Any:
    """The result of an asynchronous call. A client without a connection would wait for ever.

    Raises SourceFailed, and ZooKeeper's refusals.
    """
    try:
        return result.get(timeout=ANSWER_S_MAX)
    except (*_LOST, KazooTimeoutError) as error:
        raise SourceFailed(f"ZooKeeper does not answer ({type(error).__name__})") from error


def is_connected(client: KazooClient, wait_s: float) -> bool:
    """Whether there is a connection now, or within `wait_s` seconds."""
    if client.connected:
        return True
    event = client.handler.event_object()

    def note(_state: Any) -> None:
        if client.connected:
            event.set()

    client.add_listener(note)
    try:
        if not client.connected:
            event.wait(wait_s)
    finally:
        client.remove_listener(note)
    return bool(client.connected)


def _node(value: bytes | None, stat: Any) -> Node:
    return Node(value or b"", stat.mtime, stat.mzxid, stat.version)
