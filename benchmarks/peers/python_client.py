"""The interface that the load needs of a system's Python client: commit and fetch."""

from __future__ import annotations

import abc
from typing import Self

TOPIC = "orders"


def group_name(number: int, partitions: int) -> str:
    """The name of a group; both generators use the same names."""
    return f"group-{partitions}-{number:06}"


class PythonClient(abc.ABC):
    """A client for asyncio. Callers 0, 1, ... share it; each has at most one call open."""

    @classmethod
    @abc.abstractmethod
    async def connect(cls, address: str, callers: int) -> Self:
        """Returns a client that is connected to HOST:PORT."""

    @abc.abstractmethod
    async def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        """Stores the offset for partitions 0 to `partitions` - 1, or raises."""

    @abc.abstractmethod
    async def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        """The offsets of those partitions, in any order."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Releases its connections."""


class BlockingClient(abc.ABC):
    """A client for callers that run in one thread each."""

    @classmethod
    @abc.abstractmethod
    def connect(cls, address: str, callers: int, partitions: int) -> Self:
        """Connects to HOST:PORT, for commits of `partitions` offsets; returns the client."""

    @abc.abstractmethod
    def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        """Does what `PythonClient.commit` does."""

    @abc.abstractmethod
    def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        """Does what `PythonClient.fetch` does."""

    @abc.abstractmethod
    def close(self) -> None:
        """Releases its connections."""
