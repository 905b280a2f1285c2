"""What a system's Python client has to do for the load: commit and fetch."""

from __future__ import annotations

import abc
from typing import Self

TOPIC = "orders"


def group_name(number: int, partitions: int) -> str:
    """Of the groups that both generators commit for."""
    return f"group-{partitions}-{number:06}"


class PythonClient(abc.ABC):
    """For asyncio. Callers 0, 1, ... share it; each has at most one call open."""

    @classmethod
    @abc.abstractmethod
    async def connect(cls, address: str, callers: int) -> Self:
        """Connected to HOST:PORT."""

    @abc.abstractmethod
    async def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        """Stores the offset for partitions 0 to `partitions` - 1, or raises."""

    @abc.abstractmethod
    async def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        """The offsets of those partitions, in any order."""

    @abc.abstractmethod
    async def close(self) -> None:
        """Lets go of what it holds."""


class BlockingClient(abc.ABC):
    """The same for callers that are a thread each."""

    @classmethod
    @abc.abstractmethod
    def connect(cls, address: str, callers: int, partitions: int) -> Self:
        """Connected to HOST:PORT, for so many partitions a commit."""

    @abc.abstractmethod
    def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        """As `PythonClient.commit`."""

    @abc.abstractmethod
    def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        """As `PythonClient.fetch`."""

    @abc.abstractmethod
    def close(self) -> None:
        """Lets go of what it holds."""
