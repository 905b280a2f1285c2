"""A ZooKeeper in memory, as far as migrations use kazoo's client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
)
from migrations import T0_MS, KillSwitch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@attrs.define
class _Stat:
    mzxid: int
    mtime: int
    version: int


@attrs.frozen
class _Answer:
    """What an asynchronous call comes to."""

    call: Callable[[], Any]

    def wait(self, _timeout: float | None = None) -> bool:
        return True

    def get(self, timeout: float | None = None) -> Any:
        del timeout
        return self.call()


class FakeZooKeeper:
    """Znodes by path; each write takes a millisecond."""

    connected = True

    def __init__(
        self, nodes: Mapping[str, bytes | str] | None = None, kills: KillSwitch | None = None
    ) -> None:
        self.kills = kills or KillSwitch()
        self.unreadable: set[str] = set()
        self.vanishing: set[str] = set()
        """Listed, and gone when they are read."""
        self.reads = 0
        self._nodes: dict[str, tuple[bytes, _Stat]] = {}
        self._zxid = 0
        self._watches: dict[str, list[Any]] = {}
        for path, value in (nodes or {}).items():
            self.set(path, value)

    def set(self, path: str, value: bytes | str) -> None:
        """Somebody writes."""
        self.ensure_path(path.rpartition("/")[0])
        self._write(path, value.encode() if isinstance(value, str) else value)
        self._fire(path)

    def delete(self, path: str) -> None:
        """Somebody deletes."""
        del self._nodes[path]
        self._fire(path)

    def remove(self, path: str) -> None:
        """Somebody deletes it with all below."""
        for each in sorted(self._nodes, reverse=True):
            if each == path or each.startswith(f"{path}/"):
                self.delete(each)

    def value(self, path: str) -> bytes | None:
        """What is there."""
        return self._nodes[path][0] if path in self._nodes else None

    def values(self) -> dict[str, bytes]:
        """All that has a value."""
        return {path: value for path, (value, _) in sorted(self._nodes.items()) if value}

    def version(self, path: str) -> int:
        """Of a znode."""
        return self._nodes[path][1].version

    def ensure_path(self, path: str) -> None:
        parts = path.strip("/").split("/")
        for end in range(1, len(parts) + 1):
            parent = "/" + "/".join(parts[:end])
            if parent != "/" and parent not in self._nodes:
                self._write(parent, b"")
                self._fire(parent)

    def ensure_path_async(self, path: str) -> _Answer:
        return _Answer(lambda: self.ensure_path(path))

    def sync_async(self, _path: str) -> _Answer:
        return _Answer(lambda: None)  # Nothing is ever behind.

    def get_async(self, path: str, watch: Any = None) -> _Answer:
        def read() -> tuple[bytes, _Stat]:
            self.reads += 1
            self._check(path, watch)
            value, stat = self._nodes[path]
            return value, attrs.evolve(stat)

        return _Answer(read)

    def get_children_async(self, path: str, watch: Any = None) -> _Answer:
        def read() -> list[str]:
            self.reads += 1
            self._check(path, watch)
            prefix = path.rstrip("/") + "/"
            return [
                each.removeprefix(prefix)
                for each in self._nodes
                if each.startswith(prefix) and "/" not in each.removeprefix(prefix)
            ]

        return _Answer(read)

    def transaction(self) -> _Transaction:
        return _Transaction(self)

    def commit(self, operations: list[tuple[str, str, bytes, int]]) -> list[Any]:
        """All or none, as ZooKeeper answers."""
        self.kills.point()
        results: list[Any] = [self._problem(*each) for each in operations]
        if any(results):
            return [each or RolledBackError() for each in results]
        for kind, path, value, _ in operations:
            if kind in ("create", "set"):
                self._write(path, value)
            elif kind == "delete":
                del self._nodes[path]
        self.kills.point()
        return [True] * len(operations)

    def _problem(self, kind: str, path: str, _value: bytes, version: int) -> Exception | None:
        if kind == "create":
            return NodeExistsError() if path in self._nodes else None
        if path not in self._nodes:
            return NoNodeError()
        return BadVersionError() if version not in (-1, self.version(path)) else None

    def exists_async(self, path: str, watch: Any = None) -> _Answer:
        self._leave_watch(path, watch)
        return _Answer(lambda: path in self._nodes)

    def _check(self, path: str, watch: Any) -> None:
        if path in self.unreadable:
            raise NoAuthError
        if path != "/" and (path not in self._nodes or path in self.vanishing):
            raise NoNodeError  # As ZooKeeper does: what is not there leaves no watch.
        self._leave_watch(path, watch)

    def _leave_watch(self, path: str, watch: Any) -> None:
        if watch is not None and watch not in self._watches.setdefault(path, []):
            self._watches[path].append(watch)

    def _write(self, path: str, value: bytes) -> None:
        self._zxid += 1
        version = self._nodes[path][1].version + 1 if path in self._nodes else 0
        self._nodes[path] = (value, _Stat(self._zxid, T0_MS + self._zxid, version))

    def _fire(self, path: str) -> None:
        for each in (path, path.rpartition("/")[0]):
            for watch in self._watches.pop(each, []):
                watch(None)


@attrs.define
class _Transaction:
    zookeeper: FakeZooKeeper
    operations: list[tuple[str, str, bytes, int]] = attrs.field(factory=list)

    def check(self, path: str, version: int) -> None:
        self.operations.append(("check", path, b"", version))

    def create(self, path: str, value: bytes = b"") -> None:
        self.operations.append(("create", path, value, -1))

    def _set(self, path: str, value: bytes, version: int) -> None:
        self.operations.append(("set", path, value, version))

    def __getattr__(self, name: str) -> Any:
        if name == f"set_{'data'}":  # kazoo's name for it.
            return self._set
        raise AttributeError(name)

    def delete(self, path: str, version: int) -> None:
        self.operations.append(("delete", path, b"", version))

    def commit_async(self) -> _Answer:
        return _Answer(lambda: self.zookeeper.commit(self.operations))
