"""The way of a viewer to the provider of their login, and back."""

import time
from collections import OrderedDict
from typing import Final
from urllib.parse import parse_qs, urlsplit

import attrs
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from offsetd_clients.errors import OffsetdError
from offsetd_clients.web.login_pages import LoginPages, own_path
from offsetd_clients.web.logins import TokenRefused
from offsetd_clients.web.openid import Provider, ProviderRefused, ProviderSilent
from offsetd_clients.web.options import CALLBACK_PATH, WebOptions
from offsetd_clients.web.sessions import SessionCookie, new_session

_FLOW_S: Final = 600
_FLOWS_MAX: Final = 10_000
_FLOWS_OF_BROWSER_MAX: Final = 10
_BEGIN_AGAIN = "this login was begun in another browser, or too long ago: begin again"


@attrs.frozen
class Flow:
    """A login that was begun: what Authlib keeps of it, and where the viewer wants to go."""

    following: str
    began_s: float
    before: str | None
    """The session that the viewer has already, which the new one replaces."""
    kept: dict[str, object] = attrs.field(factory=dict)


class OidcPages:
    """Two addresses: the one that leads to the provider, and the one that it leads back to.

    The browser that comes back must be the one that went. A cookie says so, with `SameSite=Lax`:
    the provider is another site, and browsers send no strict cookie with what it leads to.
    """

    def __init__(self, provider: Provider, options: WebOptions) -> None:
        self._provider = provider
        self._options = options
        self._cookie = SessionCookie(options.port, options.is_https, "login-", "lax", _FLOW_S)
        # By the cookie of the browser and by the state: each tab may begin a login.
        self._flows: OrderedDict[tuple[str, str], Flow] = OrderedDict()

    async def begin(self, request: Request, pages: LoginPages) -> Response:
        """Leads to the provider."""
        following = own_path(request.query_params.get("next", "/"))
        flow = Flow(following, time.monotonic(), pages.cookie.session_of(request))
        request.scope["session"] = flow.kept
        redirect_uri = self._options.origin(request.headers["host"]) + CALLBACK_PATH
        try:
            address = await self._provider.begin(request, redirect_uri)
        except ProviderSilent as error:
            return pages.ask_again(request, flow.following, _silent(error), 503)
        except ProviderRefused as error:
            return pages.ask_again(request, flow.following, _refused(error), 502)
        browser = self._cookie.session_of(request) or new_session()
        self._keep(browser, parse_qs(urlsplit(address).query)["state"][0], flow)
        answer = RedirectResponse(address, 303)
        self._cookie.set_on(answer, browser)
        return answer

    async def finish(self, request: Request, pages: LoginPages) -> Response:
        """Logs in a viewer who comes back from the provider."""
        browser = self._cookie.session_of(request) or ""
        flow = self._flows.pop((browser, request.query_params.get("state", "")), None)
        if flow is None or time.monotonic() - flow.began_s > _FLOW_S:
            return pages.ask_again(request, "/", _BEGIN_AGAIN, 403)
        request.scope["session"] = flow.kept
        try:
            token = await self._provider.finish(request)
            session = await pages.logins.begin(token.text, token)
        except ProviderSilent as error:
            return pages.ask_again(request, flow.following, _silent(error), 503)
        except ProviderRefused as error:
            return pages.ask_again(request, flow.following, _refused(error), 403)
        except TokenRefused as error:
            return pages.ask_again(request, flow.following, str(error), 403)
        except OffsetdError as error:
            return pages.ask_again(request, flow.following, str(error), 503)
        if flow.before is not None:
            pages.logins.end(flow.before)
        # A redirect would still come from the provider, so without the strict cookie of the
        # session. A page of our own leads on with it.
        answer = pages.render(request, "logged_in.html", {"next": flow.following}, 200)
        if not self._flows_of(browser):
            self._cookie.remove_from(answer)
        pages.cookie.set_on(answer, session)
        return answer

    def _keep(self, browser: str, state: str, flow: Flow) -> None:
        """Keeps a flow; the oldest ones give way, first those of the same browser."""
        for each in self._flows_of(browser)[: 1 - _FLOWS_OF_BROWSER_MAX]:
            del self._flows[each]
        while len(self._flows) >= _FLOWS_MAX:
            self._flows.popitem(last=False)
        self._flows[browser, state] = flow

    def _flows_of(self, browser: str) -> list[tuple[str, str]]:
        return [each for each in self._flows if each[0] == browser]


def _silent(error: Exception) -> str:
    return f"the provider of logins does not answer: {error}"


def _refused(error: Exception) -> str:
    return f"the provider of logins did not log you in: {error}"
