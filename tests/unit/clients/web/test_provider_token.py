"""The access token of a viewer's login: how it renews itself beside the calls that it goes with."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("authlib", reason="the extra oidc is not installed")

import httpx2
from authlib.integrations.base_client import OAuthError
from offsetd_clients.web.openid import ProviderToken
from patience import PATIENCE_SECONDS

LIFE_S = 300


class Issuer:
    """A token endpoint. It answers once `opens` is set, and takes each refresh token once."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.opens = asyncio.Event()
        self.opens.set()
        self.asked: list[str] = []
        self.answers: list[Any] = []
        self._valid = "refresh-0"

    def token(self) -> ProviderToken:
        return ProviderToken.of(self, self._answer(0), lambda: self.now_s)  # type: ignore[arg-type]

    async def renewed(self, refresh_token: str) -> Any:
        self.asked.append(refresh_token)
        await self.opens.wait()
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        if refresh_token != self._valid:
            raise OAuthError("invalid_grant")
        number = len(self.asked)
        self._valid = f"refresh-{number}"
        return self._answer(number)

    def _answer(self, number: int) -> dict[str, Any]:
        return {
            "access_token": f"access-{number}",
            "refresh_token": f"refresh-{number}",
            "expires_at": self.now_s + LIFE_S,
        }


async def _until(token: ProviderToken, text: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await token() != text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_renewal_goes_on_when_the_call_that_began_it_is_cancelled() -> None:
    issuer = Issuer()
    token = issuer.token()
    issuer.now_s += LIFE_S
    issuer.opens.clear()
    call = asyncio.create_task(token())  # type: ignore[arg-type]
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not issuer.asked:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    issuer.opens.set()
    await _until(token, "access-1")
    assert issuer.asked == ["refresh-0"], "one refresh token is shown once"


async def test_a_token_that_still_holds_is_sent_while_it_is_renewed() -> None:
    issuer = Issuer()
    token = issuer.token()
    issuer.now_s += LIFE_S - 1
    issuer.opens.clear()
    assert [await token() for _ in range(3)] == ["access-0"] * 3
    await asyncio.sleep(0)
    assert issuer.asked == ["refresh-0"]
    issuer.opens.set()
    await _until(token, "access-1")


async def test_a_provider_that_hangs_lets_the_server_refuse_the_token() -> None:
    issuer = Issuer()
    token = issuer.token()
    issuer.now_s += LIFE_S
    issuer.opens.clear()
    assert await token() == "access-0"
    issuer.opens.set()
    await _until(token, "access-1")


@pytest.mark.parametrize(
    "failure",
    [
        OAuthError("temporarily_unavailable"),
        OAuthError("slow_down"),
        httpx2.ConnectError("refused"),
        ValueError("<html>"),
        {},
        {"access_token": "x", "expires_at": "soon"},
        {"access_token": None},
        {"access_token": ""},
        {"access_token": "two\nlines"},
    ],
    ids=str,
)
async def test_what_may_pass_does_not_end_the_login(failure: Any) -> None:
    issuer = Issuer()
    token = issuer.token()
    issuer.answers.append(failure)
    issuer.now_s += LIFE_S
    assert await token() == "access-0"
    await _until(token, "access-2")


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_client", "unauthorized_client"])
async def test_a_refresh_token_that_is_refused_is_not_shown_again(error: str) -> None:
    issuer = Issuer()
    token = issuer.token()
    issuer.answers.append(OAuthError(error))
    issuer.now_s += LIFE_S
    for _ in range(3):
        assert await token() == "access-0"
    assert issuer.asked == ["refresh-0"]
