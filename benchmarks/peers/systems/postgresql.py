"""PostgreSQL: a row a partition, in a table whose primary key is (group, topic, partition).

A commit is one upsert of all its rows, from arrays; a fetch selects the group's rows. The settings
are those of `initdb`: it syncs its log before it answers.

From Go, pgx is used with a pool of as many connections as callers, up to 64 (the server accepts
100). From Python, psycopg 3 for asyncio is used with its C part, and a pool of the same size.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks.peers.python_client import TOPIC, PythonClient
from benchmarks.peers.server import Server, Unavailable, program, version_of

if TYPE_CHECKING:
    import psycopg_pool

CONNECTIONS_MAX = 64
PACKAGE = "postgresql"
USER = "postgres"
_UPSERT = """INSERT INTO committed_offsets (group_id, topic, partition, "offset")
SELECT %s, %s, * FROM unnest(%s::integer[], %s::bigint[])
ON CONFLICT (group_id, topic, partition) DO UPDATE SET "offset" = excluded."offset" """
_SELECTION = 'SELECT "offset" FROM committed_offsets WHERE group_id = %s'


class PostgreSQLServer(Server):
    """`postgres` of Debian's or Ubuntu's package. Root runs it as that package's user."""

    name = "postgresql"
    acknowledged = "fsynced"
    stop_signal = signal.SIGINT  # SIGTERM waits for its clients.

    @classmethod
    def find(cls) -> str:
        version = version_of(_program("postgres"), "--version")
        return f"PostgreSQL {version}"

    @property
    def user(self) -> str | None:
        return USER if os.geteuid() == 0 else None

    def make(self) -> None:
        if self.user is not None:
            _let_through(self.folder, self.user)
        command = [_program("initdb"), "--pgdata", str(self.folder / "base"), "--auth", "trust"]
        made = subprocess.run(
            [*command, "--username", USER],
            cwd=self.folder,
            user=self.user,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode != 0:
            raise RuntimeError(f"initdb: {made.stderr[-500:]}")

    def command(self) -> list[str]:
        command = [_program("postgres"), "-D", str(self.folder / "base"), "-p", str(self.port)]
        for name, value in {"listen_addresses": "127.0.0.1", **self.settings}.items():
            command += ["-c", f"{name}={value}"]
        return [*command, "-c", f"unix_socket_directories={self.folder}"]


class PostgreSQLClient(PythonClient):
    """The client with psycopg 3."""

    def __init__(self, pool: psycopg_pool.AsyncConnectionPool) -> None:
        self._pool = pool

    @classmethod
    async def connect(cls, address: str, callers: int) -> Self:
        import psycopg_pool

        count = min(callers, CONNECTIONS_MAX)
        pool = psycopg_pool.AsyncConnectionPool(
            f"postgresql://{USER}@{address}/postgres?sslmode=disable",
            min_size=count,
            max_size=count,
            kwargs={"autocommit": True},
            open=False,
            timeout=600,
        )
        await pool.open(wait=True)
        return cls(pool)

    async def commit(self, caller: int, group: str, partitions: int, offset: int) -> None:
        rows = (group, TOPIC, list(range(partitions)), [offset] * partitions)
        async with self._pool.connection() as connection:
            await connection.execute(_UPSERT, rows)

    async def fetch(self, caller: int, group: str, partitions: int) -> list[int]:
        async with self._pool.connection() as connection:
            cursor = await connection.execute(_SELECTION, (group,))
            return [offset for (offset,) in await cursor.fetchall()]

    async def close(self) -> None:
        await self._pool.close()


def _program(name: str) -> str:
    versions = Path("/usr/lib/postgresql")
    folders = sorted(map(str, versions.glob("*/bin")), reverse=True) if versions.exists() else []
    return program(name, PACKAGE, folders=tuple(folders))


def _let_through(folder: Path, user: str) -> None:
    """Gives the folder to the user, and lets the user pass through its parent folders."""
    os.chown(folder, *_ids(user))
    for above in folder.parents:
        if not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)


def _ids(user: str) -> tuple[int, int]:
    import pwd

    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise Unavailable(f"no user {user}, and root cannot run it: install {PACKAGE}") from None
    return entry.pw_uid, entry.pw_gid
