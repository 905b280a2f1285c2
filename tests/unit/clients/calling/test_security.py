"""offsetd_clients.calling.security, and what the transports make of it."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio
import pytest
from certificates import Authority
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from fake_server import FakeServer, outcome
from offsetd.v1 import offset_service_pb2, types_pb2
from offsetd_clients import (
    AsyncOffsetClient,
    InsecureToken,
    NotCoordinator,
    OffsetClient,
    OffsetdError,
    RetryPolicy,
    Revision,
    TlsOptions,
    TokenUnavailable,
    TopicPartition,
)
from offsetd_clients.calling.security import Security, is_loopback, is_loopback_host
from patience import PATIENCE_SECONDS

WHERE = TopicPartition("orders", 0)
PEM = b"-----BEGIN CERTIFICATE-----\n"
COMMITTED = offset_service_pb2.CommitOffsetsResponse(
    revision=types_pb2.Revision(log_partition=7, log_offset=1)
)
Connect = Callable[..., Any]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:7171", True),
        ("127.8.9.1:7171", True),
        ("[::1]:7171", True),
        ("localhost:7171", True),
        ("ipv4:127.0.0.1:7171", True),
        ("ipv6:[::1]:7171", True),
        ("dns:localhost:7171", True),
        ("dns:///localhost:7171", True),
        ("unix:/run/offsetd", True),
        ("10.0.0.2:7171", False),
        ("0.0.0.0:7171", False),
        ("offsets:7171", False),
        ("localhost.example.org:7171", False),
        ("dns:///offsets:7171", False),
        ("ipv4:127.0.0.1:1,10.0.0.2:7171", False),
        ("", False),
    ],
)
def test_what_stays_on_this_machine(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


@pytest.mark.parametrize("token", ["secret", lambda: "secret"])
async def test_a_token_is_not_sent_where_others_could_read_it(connect: Connect, token: Any) -> None:
    with pytest.raises(InsecureToken, match="not sent to offsets:1 without TLS"):
        connect("offsets:1", token=token)
    for options in ({"token_without_tls": True}, {"tls": TlsOptions()}):
        await connect("offsets:1", token=token, **options).close()


async def test_nor_does_it_follow_an_owner_there(
    fake_server: FakeServer, connect: Connect, failed: Callable[..., Any]
) -> None:
    elsewhere = failed("UNAVAILABLE", "NOT_COORDINATOR", address="offsets:1", retry_after_ms=90_000)
    fake_server.will_answer("CommitOffsets", elsewhere)
    async with connect(fake_server.address, token="secret", stream_commits=False) as client:
        with pytest.raises((InsecureToken, NotCoordinator)):
            await client.commit("g", {WHERE: 1})


def test_tls_needs_a_certificate_with_its_key_in_pem() -> None:
    for options in ({"certificate": PEM}, {"key": PEM}):
        with pytest.raises(ValueError, match="go together"):
            TlsOptions(**options)
    with pytest.raises(ValueError, match="ca: these 3 bytes are not PEM"):
        TlsOptions(ca=b"der")
    with pytest.raises(ValueError, match="ca: it has no certificate in PEM"):
        TlsOptions(ca=Authority("an authority").issue("one").key_pem)


def encrypted(key_pem: bytes) -> bytes:
    key = load_pem_private_key(key_pem, None)
    form = Encoding.PEM, PrivateFormat.PKCS8
    return key.private_bytes(*form, BestAvailableEncryption(b"secret"))


def test_a_key_has_to_fit_its_certificate_before_a_channel_is_made() -> None:
    authority = Authority("an authority")
    one, other = authority.issue("one"), authority.issue("other")
    ed25519 = Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    for certificate, key, told in (
        (one.certificate_pem, other.key_pem, "key: it is not the key of the certificate"),
        (one.certificate_pem, ed25519, "key: it is not the key of the certificate"),
        (one.certificate_pem, one.certificate_pem, "key: it has no key in PEM"),
        (one.certificate_pem, PEM, "key: it has no key in PEM"),
        (one.certificate_pem, encrypted(one.key_pem), "key: it has a password"),
        (PEM, one.key_pem, "certificate: it has no certificate in PEM"),
        (one.key_pem, one.key_pem, "certificate: it has no certificate in PEM"),
    ):
        with pytest.raises(ValueError, match=f"^{told}$") as raised:
            TlsOptions(certificate=certificate, key=key)
        assert b"BEGIN" not in str(raised.value).encode()
    chain = one.certificate_pem + authority.pem
    assert TlsOptions(certificate=chain, key=one.key_pem).key == one.key_pem


def test_neither_token_nor_key_is_shown() -> None:
    issued = Authority("an authority").issue("owner")
    options = TlsOptions(certificate=issued.certificate_pem, key=issued.key_pem)
    assert "PRIVATE" not in repr(Security(tls=options, token="secret"))
    assert "secret" not in repr(Security(tls=options, token="secret"))


class Guarded:
    """A bare server that takes who knows the word of the day."""

    def __init__(self) -> None:
        self.word = "one"
        self.told: list[str] = []

    async def check(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        told = dict(context.invocation_metadata() or ()).get("authorization", "")
        self.told.append(told)
        if told != f"Bearer {self.word}":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "who are you?")

    async def commit(self, _: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        await self.check(context)
        return COMMITTED

    async def stream(
        self, messages: AsyncIterator[Any], context: grpc.aio.ServicerContext[Any, Any]
    ) -> AsyncIterator[Any]:
        await self.check(context)
        async for message in messages:
            yield offset_service_pb2.StreamCommitsResponse(
                results=[
                    {"sequence": each.sequence, "committed": COMMITTED} for each in message.commits
                ]
            )


@pytest.fixture
async def guarded() -> AsyncIterator[tuple[Guarded, str]]:
    fake = Guarded()
    handlers: dict[str, Any] = {
        "CommitOffsets": grpc.unary_unary_rpc_method_handler(
            fake.commit,
            offset_service_pb2.CommitOffsetsRequest.FromString,
            offset_service_pb2.CommitOffsetsResponse.SerializeToString,
        ),
        "StreamCommits": grpc.stream_stream_rpc_method_handler(
            fake.stream,
            offset_service_pb2.StreamCommitsRequest.FromString,
            offset_service_pb2.StreamCommitsResponse.SerializeToString,
        ),
    }
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    service = grpc.method_handlers_generic_handler("offsetd.v1.OffsetService", handlers)
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield fake, f"127.0.0.1:{port}"
    await server.stop(None)


async def test_a_token_goes_with_a_call_and_with_a_stream(
    guarded: tuple[Guarded, str], connect: Connect
) -> None:
    fake, address = guarded
    words = iter(["one", "one"])
    async with connect(address, token=lambda: next(words), stream_commits=False) as client:
        for _ in range(2):
            assert await client.commit("g", {WHERE: 1}) == Revision(7, 1)
    async with connect(address, token="one") as client:
        for _ in range(3):
            assert await client.commit("g", {WHERE: 1}) == Revision(7, 1)
    assert fake.told == ["Bearer one"] * 3


async def test_who_has_no_token_or_an_old_one_is_told(
    guarded: tuple[Guarded, str], connect: Connect
) -> None:
    fake, address = guarded
    for options in ({}, {"token": "two"}):
        async with connect(address, retry=RetryPolicy(timeout_s=60), **options) as client:
            future = await client.commit_soon("g", {WHERE: 1})
            for failing in (client.commit("g", {WHERE: 1}), outcome(future)):
                with pytest.raises(OffsetdError, match="who are you") as raised:
                    await failing
                assert raised.value.code == "UNAUTHENTICATED"
    fake.word = "two"
    async with connect(address, token="two") as client:
        assert await client.commit("g", {WHERE: 1}) == Revision(7, 1)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_token_that_was_not_there_once_is_asked_for_again(
    guarded: tuple[Guarded, str], connect: Connect, streams: bool
) -> None:
    fake, address = guarded
    failures = iter([OSError("no route to the issuer")])

    def token() -> str:
        for failure in failures:
            raise failure
        return "one"

    async with connect(address, token=token, stream_commits=streams) as client:
        future = await client.commit_soon("g", {WHERE: 1})
        assert await outcome(future) == Revision(7, 1)
        assert await client.commit("g", {WHERE: 1}) == Revision(7, 1)
    assert set(fake.told) == {"Bearer one"}


@pytest.mark.parametrize("streams", [True, False])
async def test_an_async_function_for_tokens_does_not_hold_the_loop(
    guarded: tuple[Guarded, str], streams: bool
) -> None:
    fake, address = guarded
    issued = asyncio.Event()

    async def token() -> str:
        await issued.wait()
        return "one"

    async with AsyncOffsetClient(address, token=token, stream_commits=streams) as client:
        committing = asyncio.create_task(client.commit("g", {WHERE: 1}))
        await asyncio.sleep(0)  # The loop goes on, and the test with it.
        assert not committing.done()
        issued.set()
        assert await committing == Revision(7, 1)
    assert fake.told == ["Bearer one"]


async def test_a_token_that_is_awaited_for_too_long_is_the_callers_error(
    guarded: tuple[Guarded, str],
) -> None:
    fake, address = guarded

    async def token() -> str:
        await asyncio.Event().wait()
        raise AssertionError

    policy = RetryPolicy(timeout_s=0.2, try_timeout_s=0.1)
    async with AsyncOffsetClient(address, retry=policy, token=token) as client:
        with pytest.raises(TokenUnavailable, match="TimeoutError"):
            await asyncio.wait_for(client.fetch("g"), PATIENCE_SECONDS)
    assert fake.told == []


def test_the_client_for_threads_takes_no_async_function() -> None:
    async def token() -> str:
        return "one"

    with pytest.raises(TypeError, match="for the client for asyncio"):
        OffsetClient("127.0.0.1:1", token=token)  # type: ignore[arg-type]


@pytest.mark.parametrize("streams", [True, False])
async def test_a_token_that_is_never_there_is_the_callers_error(
    guarded: tuple[Guarded, str], connect: Connect, streams: bool
) -> None:
    fake, address = guarded
    seconds = itertools.count(step=10)
    now_s = [next(seconds)]

    def token() -> str:
        now_s.append(next(seconds))
        raise KeyError("TOKEN")

    policy = RetryPolicy(
        timeout_s=30, wait_initial_s=0.001, wait_max_s=0.01, monotonic_s=lambda: now_s[-1]
    )
    async with connect(address, retry=policy, token=token, stream_commits=streams) as client:
        for is_soon in (True, False):
            committed = await client.commit_soon("g", {WHERE: 1}) if is_soon else None
            with pytest.raises(TokenUnavailable, match="TOKEN") as raised:
                await (outcome(committed) if committed else client.commit("g", {WHERE: 1}))
            assert isinstance(raised.value.__cause__, KeyError)
            assert raised.value.retriable
            assert not raised.value.outcome_unknown
    assert fake.told == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"])
def test_hosts_of_this_machine(host: str) -> None:
    assert is_loopback_host(host)
    assert is_loopback(f"{host}:1")


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "unix"])
def test_any_other_host_may_be_another_machine(host: str) -> None:
    assert not is_loopback_host(host)
