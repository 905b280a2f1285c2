"""The network between processes of a test, which can be cut: a TCP proxy in front of each server.

A server's *door* is a port of its proxy. The proxy asks /proc which process is at the other end of
a connection. So processes that use the same door can be cut off one by one.

The proxies are in a process of their own, so that a test that computes does not slow them down.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import multiprocessing
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from multiprocessing.connection import Connection as Pipe

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
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._lock = threading.Lock()
        self._is_whole = True
        self._process = context.Process(target=_serve_proxies, args=(theirs,), daemon=True)
        self._process.start()

    def register(self, party: str, argument: str) -> None:
        """Says which process is a party, now and after each start: an argument of its command."""
        self._ask("register", party, argument)

    def forget(self, party: str) -> None:
        """A party that is gone for good."""
        self._ask("forget", party)

    def door(self, party: str, target_port: int) -> int:
        """A port that leads to a port of that party's, which need not be open yet."""
        [port] = free_ports(1)
        self._ask("listen", party, port, target_port)
        return port

    def cut(self, one: str, other: str, how: Cut = Cut.HOLD) -> None:
        """Cuts two parties off from each other."""
        self._is_whole = False
        self._ask("cut", one, other, how)

    def cut_one_way(self, source: str, target: str) -> None:
        """What the first sends to the second waits; the other direction works."""
        self._is_whole = False
        self._ask("hold", source, target)

    def heal(self) -> None:
        """No party is cut off any longer."""
        self._ask("heal")
        self._is_whole = True

    @property
    def is_whole(self) -> bool:
        """Whether nobody is cut off."""
        return self._is_whole

    def connected(self, one: str, other: str) -> int:
        """How many connections are open between two parties."""
        return int(self._ask("connected", one, other))

    def close(self) -> None:
        """Closes all doors and connections."""
        self._pipe.send(None)
        self._process.join(CALL_S_MAX)
        self._process.kill()

    def _ask(self, what: str, *arguments: object) -> Any:
        with self._lock:
            self._pipe.send((what, *arguments))
            assert self._pipe.poll(CALL_S_MAX), f"the proxies do not answer: {what}"
            answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer


def _serve_proxies(pipe: Pipe) -> None:
    """The process of the proxies: does what it is asked for, until it is told to end."""
    proxies = Proxies()
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)  # Resets are what this is for.
    threading.Thread(target=loop.run_forever, daemon=True).start()

    async def done(what: str, arguments: Iterable[Any]) -> Any:
        answer = getattr(proxies, what)(*arguments)
        return await answer if asyncio.iscoroutine(answer) else answer

    with contextlib.suppress(EOFError):  # The test has ended.
        while (asked := pipe.recv()) is not None:
            what, *arguments = asked
            try:
                answer = asyncio.run_coroutine_threadsafe(done(what, arguments), loop)
                pipe.send(answer.result(CALL_S_MAX))
            except Exception as error:  # noqa: BLE001  Raised in the test.
                pipe.send(error)


class Proxies:
    """The doors, within one event loop."""

    def __init__(self) -> None:
        self._processes = Processes()
        self._closed: set[frozenset[str]] = set()
        self._held: dict[tuple[str, str], asyncio.Event] = {}  # Set when bytes may go on.
        self._connections: set[Connection] = set()
        self._servers: list[asyncio.Server] = []
        self._asked: dict[int, asyncio.Future[str]] = {}  # By port: whose it is.
        self._looking: asyncio.Task[None] | None = None

    def register(self, party: str, argument: str) -> None:
        self._processes.arguments[party] = argument

    def forget(self, party: str) -> None:
        self._processes.arguments.pop(party, None)

    def connected(self, one: str, other: str) -> int:
        return sum(each.is_between(one, other) for each in self._connections)

    async def listen(self, party: str, port: int, target_port: int) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                await self._serve(party, target_port, reader, writer)
            writer.transport.abort()

        self._servers.append(await asyncio.start_server(serve, HOST, port))

    def cut(self, one: str, other: str, how: Cut) -> None:
        if how is Cut.HOLD:
            self.hold(one, other)
            self.hold(other, one)
            return
        self._closed.add(frozenset([one, other]))
        for connection in [*self._connections]:
            if connection.is_between(one, other):
                connection.reset()

    def hold(self, source: str, target: str) -> None:
        self._held.setdefault((source, target), asyncio.Event())

    def heal(self) -> None:
        self._closed.clear()
        held = [*self._held.values()]
        self._held.clear()
        for event in held:
            event.set()

    async def _serve(
        self,
        server: str,
        target_port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        own_port = writer.get_extra_info("peername")[1]
        client = await self._party_at(own_port)
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

    async def _party_at(self, port: int) -> str:
        """Who has a connection with that port of its own; an empty string for any other process."""
        asked = self._asked.setdefault(port, asyncio.get_running_loop().create_future())
        if self._looking is None:
            self._looking = asyncio.create_task(self._look_up())
        return await asked

    async def _look_up(self) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked, {}
                try:
                    parties = await asyncio.to_thread(self._processes.parties_at, [*asked])
                except OSError:  # A process ended under the look.
                    parties = {}
                for port, future in asked.items():
                    if not future.done():  # Else its connection was given up.
                        future.set_result(parties.get(port, ""))
        finally:
            self._looking = None

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


class Processes:
    """Which process is which party, and who has a connection."""

    def __init__(self) -> None:
        self.arguments: dict[str, str] = {}  # One of each party's command, by party.
        self._parties: dict[int, str] = {}  # By process id, as they were at the last look.

    def parties_at(self, ports: Collection[int]) -> dict[int, str]:
        """Who has a connection with these ports of its own. A port of any other process is absent.

        One look at all sockets serves all that ask: many connections are opened at once when a
        cut heals.
        """
        sockets = sockets_of_ports(ports)
        found = self._owners(sockets)
        if len(found) < len(ports):  # A process that has started since.
            self._look()
            found = self._owners(sockets)
        return found

    def _owners(self, sockets: Mapping[str, int]) -> dict[int, str]:
        return {
            sockets[each]: party
            for pid, party in self._parties.items()
            for each in descriptors(pid)
            if each in sockets
        }

    def _look(self) -> None:
        wanted = {argument.encode(): party for party, argument in [*self.arguments.items()]}
        self._parties = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # It may have ended.
                for argument in path.read_bytes().split(b"\0"):
                    if argument in wanted:
                        self._parties[int(path.parent.name)] = wanted[argument]


def sockets_of_ports(ports: Collection[int]) -> dict[str, int]:
    """By socket, as /proc names it: its own port of loopback, of those that are given."""
    wanted = {f"{port:04X}": port for port in ports}
    rows = [
        line.split()
        for table in ("tcp", "tcp6")
        if (path := Path("/proc/net", table)).exists()
        for line in path.read_text().splitlines()[1:]
    ]
    return {
        f"socket:[{row[9]}]": wanted[own]
        for row in rows
        if (own := row[1].rpartition(":")[2]) in wanted
    }


def descriptors(pid: int) -> list[str]:
    """What the process has open, as /proc names it."""
    folder, found = f"/proc/{pid}/fd", []
    with contextlib.suppress(OSError):  # It may have ended.
        for descriptor in os.listdir(folder):
            with contextlib.suppress(OSError):  # It may be closed by now.
                found.append(os.readlink(f"{folder}/{descriptor}"))
    return found
