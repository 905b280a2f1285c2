"""The way of a viewer to the provider of their login, and back."""

from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from offsetd_clients.errors import OffsetdError
from offsetd_clients.web.login_flows import FLOW_S, LoginFlows, TooManyFlows
from offsetd_clients.web.login_pages import LoginPages, own_path
from offsetd_clients.web.logins import TokenRefused
from offsetd_clients.web.openid import Provider, ProviderRefused, ProviderSilent
from offsetd_clients.web.options import CALLBACK_PATH, WebOptions
from offsetd_clients.web.sessions import SessionCookie, new_session

_BEGIN_AGAIN = "this login was begun in another browser, or too long ago: begin again"


class OidcPages:
    """Two addresses: the one that leads to the provider, and the one that it leads back to.

    The browser that comes back must be the one that went. A cookie says so, with `SameSite=Lax`:
    the provider is another site, and browsers send no strict cookie with what it leads to.
    """

    def __init__(
        self, provider: Provider, options: WebOptions, flows: LoginFlows | None = None
    ) -> None:
        self._provider = provider
        self._options = options
        self._cookie = SessionCookie(options.port, options.is_https, "login-", "lax", FLOW_S)
        self._flows = flows or LoginFlows()

    async def begin(self, request: Request, pages: LoginPages) -> Response:
        """Leads to the provider."""
        following = own_path(request.query_params.get("next", "/"))
        flow = self._flows.begun(following, pages.cookie.session_of(request))
        request.scope["session"] = flow.kept
        redirect_uri = self._options.origin(request.headers["host"]) + CALLBACK_PATH
        try:
            address = await self._provider.begin(request, redirect_uri)
        except ProviderSilent as error:
            return pages.ask_again(request, flow.following, _silent(error), 503)
        except ProviderRefused as error:
            return pages.ask_again(request, flow.following, _refused(error), 502)
        browser = self._cookie.session_of(request) or new_session()
        try:
            self._flows.keep(browser, parse_qs(urlsplit(address).query)["state"][0], flow)
        except TooManyFlows as error:
            return pages.ask_again(request, flow.following, str(error), 503)
        answer = RedirectResponse(address, 303)
        self._cookie.set_on(answer, browser)
        return answer

    async def finish(self, request: Request, pages: LoginPages) -> Response:
        """Logs in a viewer who comes back from the provider."""
        browser = self._cookie.session_of(request) or ""
        flow = self._flows.take(browser, request.query_params.get("state", ""))
        if flow is None:
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
        # A redirect would still come from the provider, so without the session's strict cookie.
        answer = pages.lead_on(request, flow.following, "You are logged in.")
        if not self._flows.replace_session(browser, session):
            self._cookie.remove_from(answer)
        pages.cookie.set_on(answer, session)
        return answer


def _silent(error: Exception) -> str:
    return f"the provider of logins does not answer: {error}"


def _refused(error: Exception) -> str:
    return f"the provider of logins did not log you in: {error}"
