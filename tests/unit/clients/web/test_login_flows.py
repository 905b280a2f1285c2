"""The logins that viewers have begun at the provider: what is kept, and for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("authlib", reason="the extra oidc is not installed")

import httpx2
from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.web.application import Site
from offsetd_clients.web.login_flows import FLOW_S, LoginFlows, TooManyFlows
from offsetd_clients.web.oidc_pages import OidcPages
from offsetd_clients.web.oidc_settings import OidcSettings
from offsetd_clients.web.openid import Provider
from offsetd_clients.web.options import START_PATH, WebOptions
from starlette.applications import Starlette
from starlette.routing import Route
from web.oidc_provider import CLIENT_ID, provided

if TYPE_CHECKING:
    from collections.abc import Callable

FLOWS_MAX = 20


class Clock:
    """A clock that tests set."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def _full(clock: Callable[[], float]) -> LoginFlows:
    flows = LoginFlows(clock, FLOWS_MAX)
    for number in range(FLOWS_MAX):
        flows.keep(f"browser-{number}", "state", flows.begun(f"/{number}", None))
    return flows


def test_no_login_makes_way_for_those_of_other_browsers() -> None:
    flows = _full(Clock())
    with pytest.raises(TooManyFlows, match="try again"):
        flows.keep("another", "state", flows.begun("/", None))
    for number in range(FLOWS_MAX):
        flow = flows.take(f"browser-{number}", "state")
        assert flow is not None
        assert flow.following == f"/{number}"


def test_a_login_that_ends_and_one_whose_time_is_over_leave_room() -> None:
    clock = Clock()
    flows = _full(clock)
    assert flows.take("browser-3", "state")
    clock.now_s += 1
    flows.keep("another", "state", flows.begun("/", None))
    clock.now_s += FLOW_S
    flows.keep("one more", "state", flows.begun("/", None))
    assert flows.take("browser-0", "state") is None, "its time is over"
    assert flows.take("another", "state")


def test_a_login_cannot_end_after_its_time() -> None:
    clock = Clock()
    flows = _full(clock)
    clock.now_s += FLOW_S + 1
    assert flows.take("browser-0", "state") is None


def test_the_oldest_login_of_a_browser_makes_way_for_its_next() -> None:
    flows = LoginFlows(Clock(), FLOWS_MAX)
    flows.keep("other", "state", flows.begun("/", None))
    for number in range(FLOWS_MAX * 2):
        flows.keep("one", str(number), flows.begun("/", None))
    assert flows.take("one", "0") is None
    assert flows.take("one", str(FLOWS_MAX * 2 - 1))
    assert flows.take("other", "state")


async def test_a_viewer_is_told_that_no_login_can_begin() -> None:
    with provided() as provider:
        options = WebOptions(
            host_names=("localhost",), port=1, has_login=True, login_issuer=provider.issuer
        )
        made = Provider(OidcSettings(provider.issuer, CLIENT_ID))
        site = Site(_client, options, made)
        site._oidc = OidcPages(made, options, _full(Clock()))
        app = Starlette(routes=[Route(START_PATH, site.passing("begin"))], lifespan=site.lifespan)
        transport = httpx2.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://localhost") as browser,
        ):
            answer = await browser.get(START_PATH)
    assert answer.status_code == 503
    assert "too many logins have begun" in answer.text
    assert "set-cookie" not in answer.headers


def _client(token: Any = None) -> AsyncOffsetClient:
    return AsyncOffsetClient("127.0.0.1:1", token=token)
