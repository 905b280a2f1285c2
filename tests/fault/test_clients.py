"""Both clients with a real server: killed under them, behind TLS, and with the oldest libraries."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from certificates import Authority
from fake_server import EitherClient, outcome
from offsetd_clients import (
    AsyncOffsetClient,
    ClientClosed,
    OffsetClient,
    OffsetFormat,
    RetryPolicy,
    TlsOptions,
    TopicPartition,
    Unavailable,
)
from server_process import ServerProcess
from tls_proxy import tls_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from certificates import Issued

pytestmark = pytest.mark.long(minutes=1)

WAIT_S = 120
WHERE = TopicPartition("orders", 0)
KINDS = [OffsetClient, AsyncOffsetClient]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server")) as server:
        yield server.wait_until_serving()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stream_commits", [True, False])
async def test_a_commit_and_its_revision_are_what_a_fetch_tells(
    server: ServerProcess, group: str, kind: Any, stream_commits: bool
) -> None:
    async with EitherClient(kind(server.address, stream_commits=stream_commits)) as client:
        revision = await client.commit(group, {WHERE: 42})
        (committed,) = (await client.fetch(group)).values()
        assert (committed.offset, committed.revision) == (42, revision.log_offset)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_thousand_commits_at_once_are_all_there(
    server: ServerProcess, group: str, kind: Any
) -> None:
    async with EitherClient(kind(server.address)) as client:
        futures = [
            await client.commit_soon(f"{group}-{each % 50}", {TopicPartition("t", each): each})
            for each in range(1000)
        ]
        await asyncio.gather(*map(outcome, futures))
        found = await client.fetch_many([f"{group}-{each}" for each in range(50)])
    stored = {
        where.partition: c.offset for offsets in found.values() for where, c in offsets.items()
    }
    assert stored == {each: each for each in range(1000)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [1, 1000])
async def test_commits_that_nobody_waits_for_are_stored_when_the_client_is_left(
    server: ServerProcess, group: str, kind: Any, count: int
) -> None:
    async with EitherClient(kind(server.address)) as client:
        for offset in range(count):
            await client.commit_soon(group, {WHERE: offset})
    async with EitherClient(kind(server.address)) as client:
        assert (await client.fetch(group))[WHERE].offset == count - 1


@pytest.mark.single_server
async def test_a_server_that_is_killed_under_streams_has_all_that_was_answered(
    tmp_path: Path,
) -> None:
    """And the clients go on with the next one, at the same address; in order, to the last."""
    policy = RetryPolicy(timeout_s=WAIT_S, try_timeout_s=WAIT_S)
    first = ServerProcess(tmp_path / "folder").wait_until_serving()
    clients = {kind.__name__: EitherClient(kind(first.address, retry=policy)) for kind in KINDS}
    acknowledged = dict.fromkeys(clients, -1)

    async def commit_all(group: str) -> None:
        for offset in itertools.count(step=10):
            futures = [
                await clients[group].commit_soon(group, {WHERE: offset + n}) for n in range(10)
            ]
            await asyncio.gather(*map(outcome, futures))
            acknowledged[group] = offset + 9
            if over:
                return

    async def until_all_have(count: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while min(acknowledged.values()) < count:  # noqa: ASYNC110  # There is no event for it.
                await asyncio.sleep(0.001)

    over = False
    committing = [asyncio.ensure_future(commit_all(group)) for group in clients]
    await until_all_have(100)
    first.kill()
    known = max(acknowledged.values())
    second = ServerProcess(tmp_path / "folder", settings={"listen.address": first.address})
    with second:
        second.wait_until_serving()
        await until_all_have(known + 100)
        over = True
        await asyncio.gather(*committing)
        for group, client in clients.items():
            assert (await client.fetch(group))[WHERE].offset == acknowledged[group]
            await client.close()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # There is no event for it.
            await asyncio.sleep(0.001)


async def test_a_watch_of_asyncio_tells_commits_until_it_is_cancelled(
    server: ServerProcess, group: str
) -> None:
    seen = []
    async with AsyncOffsetClient(server.address) as client:
        watch = client.watch_offsets([group])

        async def follow() -> None:
            seen.extend([event.offset async for event in watch])

        following = asyncio.ensure_future(follow())
        await until(lambda: watch.token)
        before = watch.token
        for offset in range(3):
            await client.commit(group, {WHERE: offset})
        await until(lambda: watch.token != before)
        watch.cancel()
        async with asyncio.timeout(WAIT_S):
            await following
        again = client.watch_offsets([group], token=before)
        async for event in again:
            seen.append(event.offset)
            if len(seen) >= 3 and event.offset == 2:
                break
        again.cancel()
    assert seen[-3:] == [0, 1, 2]


async def test_a_watch_of_asyncio_says_that_its_client_was_closed(
    server: ServerProcess, group: str
) -> None:
    client = AsyncOffsetClient(server.address)
    watch = client.watch_offsets([group])
    following = asyncio.ensure_future(anext(watch.__aiter__()))
    await until(lambda: watch.token)
    await client.close()
    with pytest.raises(ClientClosed):
        await following


async def test_what_comes_in_pieces_comes_to_asyncio_too(server: ServerProcess, group: str) -> None:
    async with AsyncOffsetClient(server.address) as client:
        for offset in (5, 6):
            await client.commit(group, {WHERE: offset})
        pieces = [piece async for piece in client.export_offsets(OffsetFormat.KAFKA_CSV, [group])]
        copy = f"{group}-copy"
        text = b"".join(pieces)
        (imported,) = await client.import_offsets(text, OffsetFormat.KAFKA_CSV, group_id=copy)
        assert (imported.group_id, imported.error) == (copy, None)
        assert (await client.fetch(copy))[WHERE].offset == 6
        history = [event.offset async for event in client.list_offset_history(group)]
        assert history == [6, 5]
        listed = [each.group_id async for each in client.list_groups(group_id_prefix=group)]
        assert {group, copy} <= set(listed)
        (event, *_) = [each async for each in client.list_audit_events(group_id=copy)]
        assert event.method == "ImportOffsets"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("ours")


def for_host(authority: Authority, host: str) -> Issued:
    """A server's certificate, for one name only."""
    is_ip = host[0].isdigit()
    return authority.issue(host, dns=() if is_ip else (host,), ips=(host,) if is_ip else ())


def trusting(authority: Authority, issued: Issued | None = None, **more: Any) -> TlsOptions:
    certificate, key = (issued.certificate_pem, issued.key_pem) if issued else (None, None)
    return TlsOptions(ca=authority.pem, certificate=certificate, key=key, **more)


@pytest.mark.single_server
@pytest.mark.parametrize("kind", KINDS)
async def test_commits_go_through_tls(
    server: ServerProcess, group: str, authority: Authority, kind: Any
) -> None:
    for host, options in (
        ("127.0.0.1", trusting(authority)),
        ("offsets.example.org", trusting(authority, server_name="offsets.example.org")),
    ):
        with tls_proxy(server.address, for_host(authority, host)) as address:
            async with EitherClient(kind(address, tls=options, token="unread")) as client:
                await client.commit(group, {WHERE: 42})
                assert (await client.fetch(group))[WHERE].offset == 42


@pytest.mark.single_server
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_somebody_else_vouches_for_is_not_spoken_with(
    server: ServerProcess, group: str, authority: Authority, kind: Any
) -> None:
    other = Authority("another")
    cases = [
        (for_host(other, "127.0.0.1"), trusting(authority), "CERTIFICATE_VERIFY_FAILED"),
        (for_host(authority, "offsets.example.org"), trusting(authority), "127.0.0.1"),
    ]
    for issued, options, complaint in cases:
        with tls_proxy(server.address, issued) as address:
            async with EitherClient(
                kind(address, tls=options, retry=RetryPolicy(timeout_s=1))
            ) as client:
                with pytest.raises(Unavailable, match=complaint):
                    await client.commit(group, {WHERE: 42})


@pytest.mark.single_server
@pytest.mark.parametrize("kind", KINDS)
async def test_tls_to_a_port_without_it_is_told_in_plain_words(
    server: ServerProcess, group: str, kind: Any
) -> None:
    retry = RetryPolicy(timeout_s=1)
    async with EitherClient(kind(server.address, tls=TlsOptions(), retry=retry)) as client:
        with pytest.raises(Unavailable, match=f"{server.address} does not speak TLS"):
            await client.fetch(group)


@pytest.mark.parametrize("imported", ["grpc", "offsetd_clients"])
def test_a_connection_that_fails_writes_nothing_by_itself(
    server: ServerProcess, imported: str
) -> None:
    """Whichever a program imports first, if the environment says so; else the client's package."""
    environment = {key: value for key, value in os.environ.items() if key != "GRPC_VERBOSITY"}
    if imported == "grpc":
        environment["GRPC_VERBOSITY"] = "NONE"
    program = f"""
import {imported}
from offsetd_clients import OffsetClient, OffsetdError, RetryPolicy, TlsOptions
with OffsetClient("{server.address}", tls=TlsOptions(), retry=RetryPolicy(timeout_s=1)) as client:
    try:
        client.fetch("group")
    except OffsetdError as error:
        print(error)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.count("does not speak TLS") == 1
    assert ended.stderr == ""


@pytest.mark.single_server
@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_shows_its_certificate_and_without_one_is_refused(
    server: ServerProcess, group: str, authority: Authority, kind: Any
) -> None:
    clients_of = Authority("clients")
    issued = for_host(authority, "127.0.0.1")
    with tls_proxy(server.address, issued, clients_of=clients_of) as address:
        with_certificate = trusting(authority, clients_of.issue("worker"))
        async with EitherClient(kind(address, tls=with_certificate)) as client:
            await client.commit(group, {WHERE: 42})
        for options in (trusting(authority), trusting(authority, authority.issue("worker"))):
            async with EitherClient(
                kind(address, tls=options, retry=RetryPolicy(timeout_s=1))
            ) as client:
                with pytest.raises(Unavailable):
                    await client.commit(group, {WHERE: 43})
    async with EitherClient(kind(server.address)) as client:
        assert (await client.fetch(group))[WHERE].offset == 42
