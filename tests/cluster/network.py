"""The network between processes of a test, which can be cut: a TCP proxy in front of each server.

A server's *door* is a port of its proxy. The proxy asks /proc which process is at the other end of
a connection. So processes that use the same door can be cut off one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
from ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

T = TypeVar("T")

HOST = "127.0.0.1"
CHUNK_BYTES = 65_536
CALL_S_MAX = 60


class Cut(enum.Enum):
    """What becomes of a connection that is cut."""

    CLOSE = "its ends are told: it is reset, and so is each new one"
    HOLD = "bytes wait until the cut heals; then they arrive, however old"


@attrs.define(eq=False)
class Connection:
    """One that goes through a door: who opened it, and to whom."""

    client: str
    server: str
    writers: list[asyncio.StreamWriter]

    def is_between(self, one: str, other: str) -> bool:
        """In either direction."""
        return {self.client, self.server} == {one, other}

    def reset(self) -> None:
        """Both ends lose it at once."""
        for writer in self.writers:
            writer.transport.abort()


class Network:
    """All doors, and the cuts. Parties have names, such as `broker-1`."""

    def __init__(self) -> None:
        self._process_ids: dict[str, Callable[[], int | None]] = {}
        self._closed: set[frozenset[str]] = set()
        self._held: dict[tuple[str, str], asyncio.Event] = {}  # Set when bytes may go on.
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda *_: None)  # Resets are what this is for.
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def register(self, party: str, process_id: Callable[[], int | None]) -> None:
        """Says which process is a party, now and after each of its starts."""
        self._process_ids[party] = process_id

    def forget(self, party: str) -> None:
        """A party that is gone for good."""
        self._process_ids.pop(party, None)

    def door(self, party: str, target_port: int) -> int:
        """A port that leads to a port of that party's, which need not be open yet."""
        [port] = free_ports(1)
        self._run(self._listen(party, port, target_port))
        return port

    def cut(self, one: str, other: str, how: Cut = Cut.HOLD) -> None:
        """Cuts two parties off from each other."""
        self._run(self._cut(one, other, how))

    def cut_one_way(self, source: str, target: str) -> None:
        """What the first sends to the second waits; the other direction works."""
        self._run(self._hold([(source, target)]))

    def heal(self) -> None:
        """No party is cut off any longer."""
        self._run(self._heal())

    @property
    def is_whole(self) -> bool:
        """Whether nobody is cut off."""
        return not self._closed and not self._held

    def connected(self, one: str, other: str) -> int:
        """How many connections are open between two parties."""
        return sum(each.is_between(one, other) for each in [*self._connections])

    def close(self) -> None:
        """Closes all doors and connections."""
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S_MAX)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S_MAX)

    async def _listen(self, party: str, port: int, target_port: int) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None, "a server runs this in a task"
            self._tasks.add(task)
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._serve(party, target_port, reader, writer)
            writer.transport.abort()
            self._tasks.discard(task)

        self._servers.append(await asyncio.start_server(serve, HOST, port))

    async def _serve(
        self,
        server: str,
        target_port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        client = self._party_at(writer.get_extra_info("peername")[1])
        if frozenset([client, server]) in self._closed:
            return
        far_reader, far_writer = await asyncio.open_connection(HOST, target_port)
        connection = Connection(client, server, [writer, far_writer])
        self._connections.add(connection)
        try:
            await asyncio.gather(
                self._carry(reader, far_writer, (client, server)),
                self._carry(far_reader, writer, (server, client)),
            )
        finally:
            self._connections.discard(connection)
            connection.reset()

    async def _carry(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, way: tuple[str, str]
    ) -> None:
        while True:
            carried = await source.read(CHUNK_BYTES)
            while (held := self._held.get(way)) is not None:
                await held.wait()
            if not carried:  # That too has to arrive.
                target.close()
                return
            target.write(carried)
            await target.drain()

    async def _cut(self, one: str, other: str, how: Cut) -> None:
        if how is Cut.HOLD:
            await self._hold([(one, other), (other, one)])
            return
        self._closed.add(frozenset([one, other]))
        for connection in [*self._connections]:
            if connection.is_between(one, other):
                connection.reset()

    async def _hold(self, ways: Iterable[tuple[str, str]]) -> None:
        for way in ways:
            self._held.setdefault(way, asyncio.Event())

    async def _heal(self) -> None:
        self._closed.clear()
        held = [*self._held.values()]
        self._held.clear()
        for event in held:
            event.set()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in [*self._tasks]:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _party_at(self, port: int) -> str:
        """Who has a connection with that port of its own; an empty string for any other process."""
        inodes = inodes_of_port(port)
        for party, process_id in [*self._process_ids.items()]:
            if (pid := process_id()) is not None and has_any_socket(pid, inodes):
                return party
        return ""


def inodes_of_port(port: int) -> set[str]:
    """The sockets whose own end is that port of loopback."""
    ending = f":{port:04X}"
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        if (path := Path("/proc/net", table)).exists()
        for line in path.read_text().splitlines()[1:]
    ]
    return {row[9] for row in rows if row[1].endswith(ending)}


def has_any_socket(pid: int, inodes: set[str]) -> bool:
    """Whether a process has one of these sockets open."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for descriptor in os.listdir(folder):
            with contextlib.suppress(OSError):  # It may be closed by now.
                if os.readlink(f"{folder}/{descriptor}") in wanted:
                    return True
    return False
