"""Who calls: by token, else by certificate; never by another header."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from offsetd_coordinator.calls.caller import Caller
from offsetd_coordinator.calls.identities import Identities
from offsetd_coordinator.security.acl import ANONYMOUS
from offsetd_coordinator.security.security_errors import AuthenticationFailed
from offsetd_coordinator.security.token_file import parse_token_file
from offsetd_coordinator.security.watched_file import WatchedFile
from token_files import TokenFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

NOW_MS = 1_800_000_000_000
DAY_MS = 86_400_000


class FakeContext:
    """A call with this metadata, on a connection with this certificate."""

    def __init__(
        self, *metadata: tuple[str, str | bytes], certificate: bytes | None = None
    ) -> None:
        self._metadata = metadata
        self._certificate = certificate

    def peer(self) -> str:
        return "ipv4:10.0.0.1:5000"

    def invocation_metadata(self) -> Iterable[tuple[str, str | bytes]]:
        return self._metadata

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        return {} if self._certificate is None else {"x509_pem_cert": [self._certificate]}

    def time_remaining(self) -> float | None:
        return None


class Tokens(TokenFile):
    """A file of tokens, and the identities that it makes."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, lambda: self.now_ms)
        self.now_ms = NOW_MS
        self.alice, self.alice_id = self.create("User:alice")
        self.file = WatchedFile(path, parse_token_file, "tokens")
        self.identities = Identities(
            now_ms=lambda: self.now_ms,
            principal_of={b"bob": "User:bob"}.get,
            tokens=self.file,
        )

    async def principal(self, context: FakeContext) -> str:
        return (await self.identities.identify(context)).principal


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path / "tokens.toml")


def bearer(token: str) -> tuple[str, str]:
    return "authorization", f"Bearer {token}"


async def test_a_token_wins_over_a_certificate(tokens: Tokens) -> None:
    context = FakeContext(bearer(tokens.alice), certificate=b"bob")
    assert await tokens.principal(context) == "User:alice"


async def test_without_a_token_the_certificate_counts(tokens: Tokens) -> None:
    assert await tokens.principal(FakeContext(certificate=b"bob")) == "User:bob"


async def test_without_both_the_caller_is_anonymous(tokens: Tokens) -> None:
    named = FakeContext(("principal", "User:alice"), ("x-forwarded-user", "alice"))
    assert await tokens.principal(named) == ANONYMOUS


@pytest.mark.parametrize(
    "metadata",
    [
        [("authorization", "Basic YWxpY2U6eA==")],
        [("authorization", "Bearer")],
        [("authorization", "Bearer ")],
        [bearer("offsetd_0000000000000000_" + "A" * 43)],
        [bearer("x" * 100_000)],
        [bearer("one"), bearer("two")],
    ],
)
async def test_a_bad_token_is_refused_even_with_a_good_certificate(
    tokens: Tokens, metadata: list[tuple[str, str]]
) -> None:
    with pytest.raises(AuthenticationFailed):
        await tokens.principal(FakeContext(*metadata, certificate=b"bob"))


async def test_a_certificate_without_a_mapping_rule_is_refused(tokens: Tokens) -> None:
    with pytest.raises(AuthenticationFailed, match="no mapping rule"):
        await tokens.principal(FakeContext(certificate=b"eve"))


async def test_a_certificate_that_cannot_be_read_is_refused() -> None:
    def unreadable(_: bytes) -> str:
        raise ValueError("bad DER")

    identities = Identities(now_ms=lambda: NOW_MS, principal_of=unreadable)
    with pytest.raises(AuthenticationFailed, match="cannot be read"):
        await identities.identify(FakeContext(certificate=b"odd"))


async def test_an_identity_ends_with_its_token(tokens: Tokens) -> None:
    identity = await tokens.identities.identify(FakeContext(bearer(tokens.alice)))
    assert tokens.identities.is_valid(identity)
    tokens.revoke(tokens.alice_id)
    assert tokens.file.refresh()
    assert not tokens.identities.is_valid(identity)
    with pytest.raises(AuthenticationFailed):
        await tokens.principal(FakeContext(bearer(tokens.alice)))


async def test_an_identity_ends_when_its_token_expires(tokens: Tokens) -> None:
    short, _ = tokens.create("User:carol", life_ms=DAY_MS)
    assert tokens.file.refresh()
    identity = await tokens.identities.identify(FakeContext(bearer(short)))
    tokens.now_ms = NOW_MS + DAY_MS - 1
    assert tokens.identities.is_valid(identity)
    tokens.now_ms += 1
    assert not tokens.identities.is_valid(identity)


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("ipv4:10.0.0.1:5000", "10.0.0.1"),
        ("ipv6:%5B::1%5D:5000", "::1"),
        ("ipv6:[2001:db8::7]:5000", "2001:db8::7"),
        ("unix:/run/offsetd.sock", "unix"),
        ("", ""),
    ],
)
def test_the_host_of_a_caller_has_no_port(address: str, host: str) -> None:
    assert Caller(address=address).host == host
