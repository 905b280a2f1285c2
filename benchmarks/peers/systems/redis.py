"""Redis: a hash a group, `offsets:GROUP`, with a field for each partition (`orders:7`).

A commit is one HSET of its fields, which is all or nothing; a fetch is one HGETALL. The server
appends every change to its log and syncs the log before it answers (`appendfsync always`, which is
not the default). Snapshots and rewrites of the log have the default settings.

From Go, go-redis is used in two ways, with as many connections as callers, up to 64: by default,
with one command at a time on each connection (`redis`); and with its automatic pipelines, which
send the commands of many callers together (`redis-pipelined`). From Python, redis-py for asyncio is
used over hiredis, with the same number of connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from benchmarks.peers.python_client import TOPIC, PythonClient
from benchmarks.peers.server import Server, program, version_of

if TYPE_CHECKING:
    import redis.asyncio
    from redis.typing import EncodableT, FieldT

CONNECTIONS_MAX = 64


class RedisServer(Server):
    """`redis-server` of Debian's or Ubuntu's package."""

    name = "redis"
    acknowledged = "fsynced (appendfsync always)"

    @classmethod
    def find(cls) -> str:
        version = version_of(program("redis-server", "redis-server"), "--version")
        return f"Redis {version}"

    def command(self) -> list[str]:
        command = [program("redis-server", "redis-server"), "--bind", "127.0.0.1"]
        command += ["--port", str(self.port), "--dir", str(self.folder)]
        return [*command, "--appendonly", "yes", "--appendfsync", "always"]


class RedisClient(PythonClient):
    """The client with redis-py."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client = client

    @classmethod
    async def connect(cls, address: str, callers: int) -> Self:
        import redis.asyncio

        pool = redis.asyncio.BlockingConnectionPool.from_url(
            f"redis://{address}", max_connections=min(callers, CONNECTIONS_MAX), timeout=None
        )
        return cls(redis.asyncio.Redis.from_pool(pool))

    async def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        fields: dict[FieldT, EncodableT] = {
            f"{TOPIC}:{partition}": offset for partition in range(partitions)
        }
        await self._client.hset(f"offsets:{group}", mapping=fields)

    async def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        stored = await self._client.hgetall(f"offsets:{group}")
        return [int(value) for value in stored.values()]

    async def close(self) -> None:
        await self._client.aclose()
