"""Both clients and the command line with certificates and tokens, on a real server."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import AsyncOffsetClient, OffsetClient, TlsOptions, TopicPartition
from offsetd_clients.errors import AuthenticationFailed, AuthorizationFailed
from security.secured_server import ACLS, GROUP, TOPIC, SecuredFiles
from server_process import ServerProcess, poll
from token_files import TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from certificates import Authority

P0 = TopicPartition(TOPIC, 0)
SECONDS_MAX = 60


class Tokens(TokenFile):
    """A file of tokens, of which the clients use the newest of `User:owner`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.current, self.current_id = self.create("User:owner")
        self.nobody, _ = self.create("User:nobody")

    def __call__(self) -> str:
        return self.current

    def renew(self, is_known: Callable[[], object]) -> None:
        """A new token, and then no more of the old one."""
        former = self.current_id
        self.current, self.current_id = self.create("User:owner")
        poll(is_known, SECONDS_MAX)
        self.revoke(former)


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[tuple[ServerProcess, SecuredFiles, Tokens]]:
    folder: Path = tmp_path_factory.mktemp("clients")
    files = SecuredFiles(folder, authority)
    tokens = Tokens(folder / "tokens.toml")
    (folder / "acls.toml").write_text(ACLS)
    settings = {
        **files.tls_settings,
        "security.acl.file": folder / "acls.toml",
        "security.tokens.file": tokens.path,
    }
    with ServerProcess(folder / "data", settings=settings) as server:
        yield server.wait_until_serving(), files, tokens


def options(secured: tuple[ServerProcess, SecuredFiles, Tokens], token: Any) -> dict[str, Any]:
    server, files, _ = secured
    return {
        "address": f"localhost:{server.address.rpartition(':')[2]}",
        "tls": TlsOptions(ca=files.authority.pem),
        "token": token,
    }


async def is_let_in(client: AsyncOffsetClient) -> bool:
    try:
        await client.fetch(GROUP)
    except AuthenticationFailed:
        return False
    return True


def test_a_renewed_token_keeps_the_client_for_threads_going(
    secured: tuple[ServerProcess, SecuredFiles, Tokens],
) -> None:
    tokens, done, errors = secured[2], threading.Event(), list[BaseException]()
    committed = 0

    def commit() -> None:
        nonlocal committed
        try:
            while not done.is_set():
                client.commit(GROUP, {P0: committed + 1})
                committed += 1
        except BaseException as error:  # noqa: BLE001  The test looks at it.
            errors.append(error)

    def is_known() -> bool:
        with OffsetClient(**options(secured, tokens.current)) as other:
            try:
                other.fetch(GROUP)
            except AuthenticationFailed:
                return False
            return True

    with OffsetClient(**options(secured, tokens)) as client:
        thread = threading.Thread(target=commit)
        thread.start()
        poll(lambda: committed > 20 or errors, SECONDS_MAX)
        tokens.renew(is_known)
        time.sleep(3)  # The server looks at the file each second.
        reached = committed
        poll(lambda: committed > reached + 20 or errors, SECONDS_MAX)
        done.set()
        thread.join()
        assert not errors
        assert client.fetch(GROUP)[P0].offset == committed


async def test_a_renewed_token_keeps_the_client_for_asyncio_going(
    secured: tuple[ServerProcess, SecuredFiles, Tokens],
) -> None:
    tokens = secured[2]
    async with AsyncOffsetClient(**options(secured, tokens)) as client:

        async def commit(value: int) -> None:
            """Many at a time, so that they share a stream."""
            await asyncio.gather(
                *(client.commit(GROUP, {TopicPartition(TOPIC, each): value}) for each in range(50))
            )

        for value in range(1, 21):
            await commit(value)
        former = tokens.current_id
        tokens.current, tokens.current_id = tokens.create("User:owner")
        while not await is_let_in(client):  # noqa: ASYNC110  Only the server knows.
            await asyncio.sleep(0.05)
        tokens.revoke(former)
        end = time.monotonic() + 4
        value = 20
        while time.monotonic() < end:
            value += 1
            await commit(value)
        assert (await client.fetch(GROUP))[P0].offset == value


def test_refusals_are_errors_of_their_own(
    secured: tuple[ServerProcess, SecuredFiles, Tokens],
) -> None:
    with OffsetClient(**options(secured, secured[2].nobody)) as client:
        with pytest.raises(AuthorizationFailed, match="User:nobody has no right to Read Group"):
            client.commit(GROUP, {P0: 1})
        with pytest.raises(AuthorizationFailed):
            client.fetch(GROUP)
        assert list(client.list_groups()) == []
    with (
        OffsetClient(**options(secured, "offsetd_unknown")) as client,
        pytest.raises(AuthenticationFailed),
    ):
        client.fetch(GROUP)


async def test_a_watcher_goes_on_with_a_renewed_token(
    secured: tuple[ServerProcess, SecuredFiles, Tokens],
) -> None:
    tokens, seen = secured[2], list[int]()
    async with AsyncOffsetClient(**options(secured, tokens)) as client:

        async def watch() -> None:
            async for event in client.watch_offsets([GROUP]):
                assert event.offset is not None
                seen.append(event.offset)

        watching = asyncio.create_task(watch())
        former, value = tokens.current_id, 1000
        new, new_id = tokens.create("User:owner")
        async with AsyncOffsetClient(**options(secured, new)) as other:
            while not await is_let_in(other):  # noqa: ASYNC110  Only the server knows.
                await asyncio.sleep(0.05)
        tokens.current, tokens.current_id = new, new_id
        end = time.monotonic() + 1
        is_revoked = False
        while time.monotonic() < end + 4:
            value += 1
            await client.commit(GROUP, {P0: value})
            if not is_revoked and time.monotonic() > end:
                tokens.revoke(former)
                is_revoked = True
            assert not watching.done(), watching
            await asyncio.sleep(0.02)
        poll_end = time.monotonic() + SECONDS_MAX
        while value not in seen:
            assert time.monotonic() < poll_end
            assert not watching.done(), watching
            await asyncio.sleep(0.05)
        watching.cancel()
    assert seen == sorted(set(seen)), "each event came once, in order"
