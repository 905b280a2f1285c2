"""The Starlette application: addresses of pages, and what a page says when a call fails."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import attrs
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    GroupNotFound,
    InvalidRequest,
    OffsetdError,
)
from offsetd_clients.web.csv_download import groups_csv
from offsetd_clients.web.names import UnknownName
from offsetd_clients.web.pages import acls, audit, cluster, group, groups, log, overview, settings
from offsetd_clients.web.protection import Protection
from offsetd_clients.web.rendering import environment
from offsetd_clients.web.served_parts import LOST, Pulse

View: TypeAlias = Callable[[AsyncOffsetClient, Mapping[str, str]], Awaitable[dict[str, Any]]]
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
        "Start `offsetd web` with OFFSETD_TOKEN, or with a client certificate.",
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

    async def page(self, request: Request) -> Response:
        """One of the views, or what is wrong."""
        path = request.url.path
        template, view = VIEWS[path]
        try:
            shown = await view(self.client, dict(request.query_params))
        except LOST as error:
            if "hx-request" in request.headers:
                return Response(status_code=204)  # The page keeps what it shows.
            return self._rendered(request, "lost.html", {"told": str(error)}, 503)
        except (OffsetdError, UnknownName, ValueError) as error:
            return self._failed(request, error)
        return self._rendered(request, template, shown)

    async def status(self, request: Request) -> Response:
        """Whether the server answers, for the corner of every page."""
        state = await self.pulse.state()
        return self._rendered(request, "status.html", {"state": state})

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
        shown = {"failure": failure.title, "told": str(error), "advice": failure.advice}
        return self._rendered(request, "failure.html", shown, failure.status)

    def _rendered(
        self, request: Request, template: str, shown: Mapping[str, Any], status: int = 200
    ) -> HTMLResponse:
        query = request.url.query
        path = request.url.path
        frame = {
            "sections": SECTIONS,
            "path": "/groups" if path == "/group" else path,
            "here": path + (f"?{query}" if query else ""),
            "server": self.client.address,
            "version": version("offsetd"),
        }
        text = self.templates.get_template(template).render(**frame, **shown)
        return HTMLResponse(text, status)


def application(
    make_client: Callable[[], AsyncOffsetClient], host_names: Iterable[str]
) -> Starlette:
    """The pages. The client is made, and closed, in the event loop that serves them."""
    pages: list[Pages] = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with make_client() as client:
            pages.append(Pages(client, Pulse(client), environment()))
            yield
            pages.clear()

    def served(name: str) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            answer: Response = await getattr(pages[0], name)(request)
            return answer

        return endpoint

    routes = [
        *(Route(path, served("page"), methods=["GET"]) for path in VIEWS),
        Route("/status", served("status"), methods=["GET"]),
        Route("/group/history", served("history"), methods=["GET"]),
        Route("/groups.csv", served("csv"), methods=["GET"]),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]
    protection = Middleware(Protection, host_names=tuple(host_names))
    return Starlette(routes=routes, middleware=[protection], lifespan=lifespan)
