"""ZooKeeper: a node a partition, `/consumers/GROUP/offsets/TOPIC/PARTITION`, like Kafka 0.8.

A commit of one partition is a set, and a commit of several is a multi of sets. A fetch gets every
node of the group, all at the same time. The nodes are created before. The settings are those of its
`zoo_sample.cfg`, with the heap of its start script: it syncs its log before it answers.

From Go, go-zookeeper is used on 4 connections. From Python, kazoo's asynchronous calls are used on
one connection, and their answers wake an asyncio loop; a thread for each caller was slower.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

from benchmarks.peers.python_client import TOPIC, PythonClient
from benchmarks.peers.server import Server, Unavailable

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from kazoo.interfaces import IAsyncResult

SESSION_S = 30
CONFIG = """tickTime=2000
initLimit=10
syncLimit=5
dataDir={folder}
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
"""
JAVA_OPTIONS = ("-Xmx1000m", "-Dzookeeper.log.level=WARN")


class ZooKeeperServer(Server):
    """ZooKeeper's jars from Maven Central, run by the installed Java."""

    name = "zookeeper"
    acknowledged = "fsynced"
    is_java = True

    @classmethod
    def find(cls) -> str:
        from interop.zookeeper_server import ZOOKEEPER_VERSION

        cls._jars()
        return f"ZooKeeper {ZOOKEEPER_VERSION}"

    @staticmethod
    def _jars() -> str:
        from interop.zookeeper_server import ARTIFACTS, ZOOKEEPER_VERSION

        from deploy.kafka.maven_jars import JavaUnavailable, fetched_jars

        try:
            return str(fetched_jars(f"zookeeper-{ZOOKEEPER_VERSION}", ARTIFACTS))
        except JavaUnavailable as unavailable:
            raise Unavailable(str(unavailable)) from None

    def make(self) -> None:
        config = CONFIG.format(folder=self.folder, port=self.port)
        config += "".join(f"{name}={value}\n" for name, value in self.settings.items())
        (self.folder / "zoo.cfg").write_text(config)

    def command(self) -> list[str]:
        from interop.zookeeper_server import MAIN_CLASS

        jars = f"{self._jars()}/*"
        return ["java", *JAVA_OPTIONS, "-cp", jars, MAIN_CLASS, str(self.folder / "zoo.cfg")]


class ZooKeeperClient(PythonClient):
    """The client with kazoo."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, address: str, callers: int) -> Self:
        from kazoo.client import KazooClient

        client = KazooClient(address, timeout=SESSION_S)
        client.start(timeout=SESSION_S)
        return cls(client)

    async def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        value = b"%d" % offset
        if partitions == 1:
            await self._answer(self._client.set_async(_path(group, 0), value))
            return
        transaction = self._client.transaction()
        for partition in range(partitions):
            transaction.set_data(_path(group, partition), value)
        for answer in await self._answer(transaction.commit_async()):
            if isinstance(answer, Exception):
                raise answer

    async def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        asked = [self._client.get_async(_path(group, each)) for each in range(partitions)]
        return [int(value) for value, _ in [await self._answer(each) for each in asked]]

    async def close(self) -> None:
        self._client.stop()
        self._client.close()

    def _answer(self, result: IAsyncResult) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        result.rawlink(lambda done: self._loop.call_soon_threadsafe(_settle, future, done))
        return future


def _settle(future: asyncio.Future[Any], done: IAsyncResult) -> None:
    if future.cancelled():
        return
    if done.successful():
        future.set_result(done.value)
    else:
        future.set_exception(done.exception)


def _path(group: str, partition: int) -> str:
    return f"/consumers/{group}/offsets/{TOPIC}/{partition}"
