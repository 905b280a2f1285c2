"""etcd: a key a partition, `/offsets/GROUP/TOPIC/PARTITION`, with the offset as text.

A commit of one partition is a put, of many a transaction of puts; a fetch is a range over the
group's keys. By default, it syncs its log before it answers. Two settings are not the defaults: it
drops old revisions every five minutes, as in Kubernetes, and its quota is 8 GiB, the most that etcd
recommends. Without these it refuses writes after 2 GB of revisions.

From Go, its own client is used, on one connection. From Python, aetcd for asyncio is used; etcd3
has had no release since 2020, and cannot be loaded with a present protobuf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ports import free_ports

from benchmarks.peers.python_client import TOPIC, PythonClient
from benchmarks.peers.server import Server, program, version_of

if TYPE_CHECKING:
    import aetcd

_GIB = 1 << 30


class EtcdServer(Server):
    """`etcd` of Debian's or Ubuntu's package `etcd-server`."""

    name = "etcd"
    acknowledged = "fsynced"

    @classmethod
    def find(cls) -> str:
        version = version_of(program("etcd", "etcd-server"), "--version")
        return f"etcd {version}"

    def command(self) -> list[str]:
        client = f"http://{self.address}"
        peer = f"http://127.0.0.1:{free_ports(1)[0]}"
        command = [program("etcd", "etcd-server"), "--data-dir", str(self.folder / "default.etcd")]
        command += ["--listen-client-urls", client, "--advertise-client-urls", client]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"default={peer}"]
        command += ["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "5m"]
        return [*command, "--quota-backend-bytes", str(8 * _GIB)]


class EtcdClient(PythonClient):
    """The client with aetcd."""

    def __init__(self, client: aetcd.Client) -> None:
        self._client = client

    @classmethod
    async def connect(cls, address: str, callers: int) -> Self:
        import aetcd

        host, _, port = address.partition(":")
        client = aetcd.Client(host=host, port=int(port))
        await client.connect()
        return cls(client)

    async def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        keys = [_folder(group) + str(partition).encode() for partition in range(partitions)]
        value = str(offset).encode()
        if partitions == 1:
            await self._client.put(keys[0], value)
            return
        put = self._client.transactions.put
        await self._client.transaction(
            compare=[], success=[put(key, value) for key in keys], failure=[]
        )

    async def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        return [int(pair.value) for pair in await self._client.get_prefix(_folder(group))]

    async def close(self) -> None:
        await self._client.close()


def _folder(group: str) -> bytes:
    return f"/offsets/{group}/{TOPIC}/".encode()
