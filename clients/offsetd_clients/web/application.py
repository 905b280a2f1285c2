"""The Starlette application: addresses of pages, and what a page says when a call fails."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlencode

import attrs
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    GroupNotFound,
    InvalidRequest,
    OffsetdError,
)
from offsetd_clients.web.changes.done_changes import DoneChanges
from offsetd_clients.web.changes.pages import ChangePages
from offsetd_clients.web.changes.wizards import OF_A_GROUP
from offsetd_clients.web.csv_download import groups_csv
from offsetd_clients.web.login_pages import LoginPages
from offsetd_clients.web.logins import Logins
from offsetd_clients.web.names import UnknownName
from offsetd_clients.web.options import (
    CALLBACK_PATH,
    CHANGE_PATH,
    LOGIN_PATH,
    LOGOUT_PATH,
    START_PATH,
    WebOptions,
)
from offsetd_clients.web.pages import acls, audit, cluster, group, groups, log, overview, settings
from offsetd_clients.web.protection import Protection
from offsetd_clients.web.rendering import environment
from offsetd_clients.web.served_parts import LOST, Pulse
from offsetd_clients.web.sessions import SessionCookie

if TYPE_CHECKING:
    from offsetd_clients.web.oidc_pages import OidcPages
    from offsetd_clients.web.openid import Provider

View: TypeAlias = Callable[[AsyncOffsetClient, Mapping[str, str]], Awaitable[dict[str, Any]]]
MakeClient: TypeAlias = Callable[..., AsyncOffsetClient]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
_STATIC = Path(__file__).parent / "static"
# The names of parts of the navigation, with their addresses.
SECTIONS = (
    ("Overview", "/"),
    ("Groups", "/groups"),
    ("Log", "/log"),
    ("Cluster", "/cluster"),
    ("Audit", "/audit"),
    ("Settings", "/settings"),
    ("ACLs", "/acls"),
)
VIEWS: Mapping[str, tuple[str, View]] = {
    "/": ("overview.html", overview.view),
    "/groups": ("groups.html", groups.view),
    "/group": ("group.html", group.view),
    "/log": ("log.html", log.view),
    "/cluster": ("cluster.html", cluster.view),
    "/audit": ("audit.html", audit.view),
    "/settings": ("settings.html", settings.view),
    "/acls": ("acls.html", acls.view),
}


@attrs.frozen
class Failure:
    """What a page says about a failed call."""

    kind: type[Exception] | tuple[type[Exception], ...]
    status: int
    title: str
    advice: str = ""


# The first that fits counts.
_FAILURES = (
    Failure(
        AuthorizationFailed,
        403,
        "You may not see this",
        "An administrator grants rights with `offsetd acls add`.",
    ),
    Failure(
        AuthenticationFailed,
        403,
        "The server does not know the identity of this page",
        "Start `offsetd web` with OFFSETD_TOKEN, with a client certificate, or with --login.",
    ),
    Failure(
        (GroupNotFound, UnknownName), 404, "There is no such group", "It may have been deleted."
    ),
    Failure((InvalidRequest, ValueError), 400, "This address is not understood"),
    Failure(LOST, 503, "The server does not answer"),
    Failure(Exception, 502, "The server could not answer this"),
)


@attrs.frozen
class Pages:
    """Renders pages for one client."""

    client: AsyncOffsetClient
    pulse: Pulse
    templates: Any
    options: WebOptions
    # The token of the form that logs the viewer out, and how they logged in; empty without a login.
    logout: str = ""
    logged_in: str = ""

    async def page(self, request: Request) -> Response:
        """One of the views, or what is wrong."""
        path = request.url.path
        template, view = VIEWS[path]
        try:
            shown = await view(self.client, dict(request.query_params))
        except LOST as error:
            if "hx-request" in request.headers:
                return Response(status_code=204)  # The page keeps what it shows.
            return self.rendered(request, "lost.html", {"told": str(error)}, 503)
        except (OffsetdError, UnknownName, ValueError) as error:
            return self._failed(request, error)
        return self.rendered(request, template, shown)

    async def status(self, request: Request) -> Response:
        """Whether the server answers, for the corner of every page."""
        state = await self.pulse.state()
        return self.rendered(request, "status.html", {"state": state})

    async def history(self, request: Request) -> Response:
        """The history of a group's partition, as columns for the plot."""
        try:
            shown = await group.history(self.client, dict(request.query_params))
        except (OffsetdError, UnknownName, ValueError) as error:
            return JSONResponse({"problem": str(error)})
        return JSONResponse(shown)

    async def csv(self, request: Request) -> Response:
        """The list of groups, all pages of it."""
        try:
            return await groups_csv(self.client, dict(request.query_params))
        except (OffsetdError, ValueError) as error:
            return self._failed(request, error)

    def _failed(self, request: Request, error: Exception) -> Response:
        failure = next(each for each in _FAILURES if isinstance(error, each.kind))
        again = ""
        if self.options.has_login and isinstance(error, AuthenticationFailed):
            query = request.url.query
            here = request.url.path + (f"?{query}" if query else "")
            again = f"{LOGIN_PATH}?{urlencode({'next': here})}"
        shown = {
            "failure": failure.title,
            "told": str(error),
            "advice": "" if again else failure.advice,
            "login_again": again,
        }
        return self.rendered(request, "failure.html", shown, failure.status)

    def rendered(
        self, request: Request, template: str, shown: Mapping[str, Any], status: int = 200
    ) -> HTMLResponse:
        """A page of a template, within the frame of all pages."""
        query = request.url.query
        path = request.url.path
        frame = {
            "sections": SECTIONS,
            "path": "/groups" if path == "/group" else path,
            "here": path + (f"?{query}" if query else ""),
            "server": self.client.address,
            "version": version("offsetd"),
            "logout": self.logout,
            "logged_in": self.logged_in,
            "changes": OF_A_GROUP if self.options.allows_changes else (),
            "login_again": "",
        }
        text = self.templates.get_template(template).render({**frame, **shown})
        return HTMLResponse(text, status)


class Site:
    """All that is served, for one viewer or for many with tokens of their own."""

    def __init__(
        self, make_client: MakeClient, options: WebOptions, provider: "Provider | None"
    ) -> None:
        self._make_client = make_client
        self._options = options
        self._templates = environment()
        self._cookie = SessionCookie(options.port, options.is_https)
        self._form_cookie = SessionCookie(options.port, options.is_https, "form-")
        self._done = DoneChanges()
        self._only: Pages | None = None
        self._logins = Logins(make_client, monotonic_s=time.monotonic)
        self._oidc = _oidc_pages(provider, options)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Makes the client, and closes it and those of the viewers, in the loop that serves."""
        async with self._make_client() as client:
            self._only = self._pages(client, Pulse(client))
            yield
            await self._logins.close()

    def _pages(self, client: AsyncOffsetClient, pulse: Pulse, *viewer: str) -> Pages:
        return Pages(client, pulse, self._templates, self._options, *viewer)

    def _login_pages(self) -> LoginPages:
        assert self._only is not None, "within the lifespan"
        return LoginPages(
            logins=self._logins,
            cookie=self._cookie,
            form_cookie=self._form_cookie,
            render=self._only.rendered,
            issuer=self._options.login_issuer,
        )

    def _viewed(self, request: Request) -> Pages | None:
        """The pages of the viewer who asks; None if there is a login, and they have none."""
        if not self._options.has_login:
            return self._only
        session = self._cookie.session_of(request)
        viewer = self._logins.of(session, is_use="hx-request" not in request.headers)
        if viewer is None or session is None:
            return None
        form_token = self._cookie.form_token(session)
        return self._pages(viewer.client, viewer.pulse, form_token, viewer.named)

    def showing(self, name: str) -> Endpoint:
        """An endpoint of Pages."""

        async def endpoint(request: Request) -> Response:
            pages = self._viewed(request)
            if pages is None:
                return self._login_pages().ask(request)
            answer: Response = await getattr(pages, name)(request)
            return answer

        return endpoint

    async def nothing(self, request: Request, _: Exception) -> Response:
        """What an address without a page gets."""
        pages = None if request.url.path.startswith("/static/") else self._viewed(request)
        if pages is None:
            return PlainTextResponse("There is no such page.\n", 404)
        shown = {"failure": "There is no such page", "told": request.url.path, "advice": ""}
        return pages.rendered(request, "failure.html", shown, 404)

    def changing(self, name: str) -> Endpoint:
        """An endpoint of ChangePages."""

        async def endpoint(request: Request) -> Response:
            pages = self._viewed(request)
            if pages is None:
                return self._login_pages().ask(request)
            made = ChangePages(
                client=pages.client, render=pages.rendered, cookie=self._cookie, done=self._done
            )
            answer: Response = await getattr(made, name)(request)
            return answer

        return endpoint

    def logging(self, name: str) -> Endpoint:
        """An endpoint of LoginPages."""

        async def endpoint(request: Request) -> Response:
            answer: Response = await getattr(self._login_pages(), name)(request)
            return answer

        return endpoint

    def passing(self, name: str) -> Endpoint:
        """An endpoint of OidcPages."""

        async def endpoint(request: Request) -> Response:
            answer: Response = await getattr(self._oidc, name)(request, self._login_pages())
            return answer

        return endpoint


def _oidc_pages(provider: "Provider | None", options: WebOptions) -> "OidcPages | None":
    if provider is None:
        return None
    from offsetd_clients.web.oidc_pages import OidcPages  # noqa: PLC0415  # It needs an extra.

    return OidcPages(provider, options)


def application(
    make_client: MakeClient, options: WebOptions, provider: "Provider | None" = None
) -> Protection:
    """The pages. With a login, `make_client` is called with the token of each viewer."""
    site = Site(make_client, options, provider)
    routes: list[BaseRoute] = [
        *(Route(path, site.showing("page"), methods=["GET"]) for path in VIEWS),
        Route("/status", site.showing("status"), methods=["GET"]),
        Route("/group/history", site.showing("history"), methods=["GET"]),
        Route("/groups.csv", site.showing("csv"), methods=["GET"]),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    if options.allows_changes:
        routes += [
            Route(f"{CHANGE_PATH}done", site.changing("result"), methods=["GET"]),
            Route(f"{CHANGE_PATH}{{kind}}", site.changing("wizard"), methods=["GET"]),
            Route(f"{CHANGE_PATH}{{kind}}", site.changing("make"), methods=["POST"]),
        ]
    if options.has_login:
        routes += [
            Route(LOGIN_PATH, site.logging("show"), methods=["GET"]),
            Route(LOGIN_PATH, site.logging("begin"), methods=["POST"]),
            Route(LOGOUT_PATH, site.logging("end"), methods=["POST"]),
        ]
    if provider is not None:
        routes += [
            Route(START_PATH, site.passing("begin"), methods=["GET"]),
            Route(CALLBACK_PATH, site.passing("finish"), methods=["GET"]),
        ]
    pages = Starlette(routes=routes, lifespan=site.lifespan, exception_handlers={404: site.nothing})
    # Starlette answers a defect outside of its middleware. So the protection is around it all.
    return Protection(pages, options=options)
