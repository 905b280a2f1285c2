"""What a client is told if its connection is refused before its first call."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from certificates import Authority
from fake_server import EitherClient
from offsetd_clients import AsyncOffsetClient, OffsetClient, RetryPolicy, TlsOptions
from offsetd_clients.errors import Unavailable
from security.secured_server import GROUP

if TYPE_CHECKING:
    from server_process import ServerProcess

GUIDE: Final = Path(__file__).parents[2] / "docs" / "guides" / "security.md"
SECONDS_MAX: Final = 0.5
OTHER: Final = Authority("another authority")


def of(authority: Authority, **how: Any) -> dict[str, bytes]:
    issued = authority.issue("owner", **how)
    return {"certificate": issued.certificate_pem, "key": issued.key_pem}


def not_accepted(ours: Authority) -> list[dict[str, Any]]:
    past = datetime.now(UTC) - timedelta(minutes=1)
    shown = [of(OTHER), of(ours, not_after=past), of(ours, usages=("server",))]
    return [{"ca": ours.pem, **each} for each in shown]


CASES: Final[dict[str, Any]] = {
    "hung up, as a TLS port does on a client without TLS": lambda _: [None],
    "asks for certificates: this client has none": lambda ours: [{"ca": ours.pem}],
    "does not accept the client's certificate": not_accepted,
    "is of no authority that the client trusts": lambda ours: [{"ca": OTHER.pem, **of(ours)}],
    "is for other names": lambda ours: [{"ca": ours.pem, "server_name": "other", **of(ours)}],
}
"""What the error says, and TLS settings that make it."""


@pytest.mark.single_server
@pytest.mark.parametrize("kind", [OffsetClient, AsyncOffsetClient])
@pytest.mark.parametrize("told", CASES)
async def test_the_error_says_what_is_probably_wrong(
    mtls_server: ServerProcess, authority: Authority, told: str, kind: Any
) -> None:
    retry = RetryPolicy(timeout_s=SECONDS_MAX)
    for given in CASES[told](authority):
        tls = None if given is None else TlsOptions(**given)
        async with EitherClient(kind(mtls_server.address, tls=tls, retry=retry)) as client:
            with pytest.raises(Unavailable, match=told) as raised:
                await client.fetch(GROUP)
        assert mtls_server.address in str(raised.value)
        assert "failed to connect" in str(raised.value), "gRPC's own words are there, too"


def test_the_guide_has_a_row_for_each_error() -> None:
    text = GUIDE.read_text("utf-8")
    rows = re.findall(r"^\| `… (.*?)` \|", text, re.MULTILINE)
    assert [told for told in CASES if told not in rows] == []
