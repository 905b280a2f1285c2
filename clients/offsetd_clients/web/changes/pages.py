"""The pages of a change: a form, what it would do, and what it did."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from urllib.parse import quote, unquote, urlencode
from uuid import UUID, uuid4

import attrs
import typer
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from offsetd_clients.aio.client import AsyncOffsetClient
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.change_values import AuditEvent
from offsetd_clients.errors import (
    AuthenticationFailed,
    AuthorizationFailed,
    GroupNotEmpty,
    GroupNotFound,
    InvalidRequest,
    LeaseHeld,
    OffsetdError,
)
from offsetd_clients.web.changes.change import Change, Fields, Outcome, Terms, Wizard
from offsetd_clients.web.changes.command_line import command_line
from offsetd_clients.web.changes.done_changes import ROWS_KEPT_MAX, Done, DoneChanges
from offsetd_clients.web.changes.wizards import WIZARDS
from offsetd_clients.web.forms import fields_of, form_of
from offsetd_clients.web.names import GroupName, UnknownName, is_short, name_parameters
from offsetd_clients.web.pages.group import first
from offsetd_clients.web.served_parts import LOST, part
from offsetd_clients.web.sessions import SessionCookie, new_session

Render: TypeAlias = Callable[[Request, str, Mapping[str, Any], int], Response]
_TIMEOUT_S = 30.0
_CODED = "coded_"
_EVENTS_SEARCHED = 50
_MILLISECOND = timedelta(milliseconds=1)
# The clocks of the server and of this program may differ.
_CLOCKS_DIFFER = timedelta(minutes=10)
_IN_USE = (GroupNotEmpty, LeaseHeld)
WRONG = (OffsetdError, UnknownName, ValueError, typer.BadParameter)
# The first that fits counts: what a refusal is called, and its HTTP status.
_TITLES: tuple[tuple[Any, int, str], ...] = (
    (AuthorizationFailed, 403, "You may not do this"),
    (AuthenticationFailed, 403, "The server does not know the identity of this page"),
    ((GroupNotFound, UnknownName), 404, "There is no such group"),
    (LOST, 503, "The server does not answer"),
    ((InvalidRequest, ValueError, typer.BadParameter), 400, "This is not understood"),
    (Exception, 409, "The server refuses this"),
)


class ForeignForm(Exception):
    """A form that was not made for the session of the browser that sends it."""


class HasMoved(Exception):
    """What a change would do is not what its viewer has seen."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__("what it would do has changed since you looked")
        self.outcome = outcome


@attrs.frozen(kw_only=True)
class Look:
    """What a page says about a chosen change: its outcome, or what is wrong."""

    outcome: Outcome | None = None
    command: str = ""
    problem: str = ""
    title: str = ""
    advice: str = ""
    status: int = 200
    has_moved: bool = False

    @property
    def rows(self) -> tuple[Any, ...]:
        """As many rows as a page shows."""
        return self.outcome.rows[:ROWS_KEPT_MAX] if self.outcome else ()


def refusal(error: Exception, wizard: Wizard | None = None) -> Look:
    """What a page says about a call that failed."""
    _, status, title = next(each for each in _TITLES if isinstance(error, each[0]))
    advice = ""
    if isinstance(error, OffsetdError) and error.outcome_unknown:
        title = "It is not known whether this was done"
        advice = "Look at the group or at the audit. Sending this form again does it once."
    elif isinstance(error, _IN_USE) and wizard is not None and "force" in wizard.fields:
        advice = "Tick “also while the group has members, or its lease is held” to do it anyway."
    return Look(problem=str(error), title=title, advice=advice, status=status)


@attrs.frozen(kw_only=True)
class ChangePages:
    """Renders the pages of changes for one client."""

    client: AsyncOffsetClient
    render: Render
    cookie: SessionCookie
    done: DoneChanges

    async def wizard(self, request: Request) -> Response:
        """The form of a change. With `look`, also what it would do; this changes nothing."""
        wizard = WIZARDS.get(request.path_params["kind"])
        if wizard is None:
            return self._failed(request, refusal(ValueError("there is no such change")), 404)
        look = None
        try:
            fields = _decoded(fields_of(request.query_params.multi_items()))
            group_id = await self._group(wizard, fields)
            if fields.get("look") == "yes":
                look = await self._look(wizard, group_id, fields)
            return await self._page(request, wizard, group_id, fields, look)
        except WRONG as error:
            return self._failed(request, refusal(error))

    async def make(self, request: Request) -> Response:
        """Makes the change of a form that was sent, and leads to its result."""
        wizard = WIZARDS.get(request.path_params["kind"])
        if wizard is None:
            return self._failed(request, refusal(ValueError("there is no such change")), 404)
        try:
            session, form = await self._own_form(request)
            request_id = str(UUID(form.get("request_id", "")))
        except ForeignForm as error:
            title = "This form is not of your session"
            return self._failed(request, Look(problem=str(error), title=title, status=403))
        except ValueError as error:
            return self._failed(request, refusal(error))
        try:
            group_id = "" if self.done.of(session, request_id) else await self._group(wizard, form)
            await self.done.once(
                session, request_id, lambda: self._made(wizard, group_id, form, request_id)
            )
        except HasMoved as moved:
            change = await wizard.read(self.client, group_id, form)
            look = self._seen(change, moved.outcome, has_moved=True)
            return await self._page(request, wizard, group_id, form, look)
        except WRONG as error:
            look = refusal(error, wizard)
            try:
                return await self._page(request, wizard, group_id, form, look)
            except WRONG:
                return self._failed(request, look)
        return RedirectResponse(f"/change/done?{urlencode({'request': request_id})}", 303)

    async def result(self, request: Request) -> Response:
        """What a change did, for the session that made it."""
        request_id = request.query_params.get("request", "")
        done = self.done.of(self.cookie.session_of(request), request_id)
        if done is None:
            told = "the result is not kept any more, or another session has it; the audit has it"
            title = "This result is not here"
            return self._failed(request, Look(problem=told, title=title, status=404))
        try:
            found = await part(self._audited(done))
        except LOST:
            found = None
        event = found.value if found else None
        shown = {
            "done": done,
            "command": command_line(done.change, self.client.address, done.reason),
            "event": event,
            "audit": _audit_link(done, event),
        }
        return self.render(request, "changes/done.html", shown, 200)

    async def _own_form(self, request: Request) -> tuple[str, dict[str, str]]:
        """The session and the form of a request. Raises ForeignForm and ValueError."""
        form = await form_of(request)
        session = self.cookie.session_of(request)
        if session is None or not self.cookie.is_form_token(session, form.get("csrf", "")):
            raise ForeignForm("load the form again, and send it from there")
        return session, _decoded(form)

    async def _group(self, wizard: Wizard, fields: Fields) -> str:
        return await GroupName(fields).found(self.client) if wizard.is_of_group else ""

    async def _look(self, wizard: Wizard, group_id: str, fields: Fields) -> Look:
        try:
            change = await wizard.read(self.client, group_id, fields)
            return self._seen(change, await change.carry_out(self._patient(), Terms()))
        except WRONG as error:
            return refusal(error, wizard)

    def _seen(self, change: Change, outcome: Outcome, *, has_moved: bool = False) -> Look:
        command = command_line(change, self.client.address, "")
        status = 409 if has_moved else 200
        return Look(outcome=outcome, command=command, has_moved=has_moved, status=status)

    def _patient(self) -> AsyncOffsetClient:
        """A change may take longer than a page may wait for what it shows."""
        return self.client.with_retry(RetryPolicy(timeout_s=_TIMEOUT_S))

    async def _made(self, wizard: Wizard, group_id: str, form: Fields, request_id: str) -> Done:
        reason = form.get("reason", "").strip()
        if not reason:
            raise ValueError("say why: the audit keeps the reason")
        client = self._patient()
        change = await wizard.read(client, group_id, form)
        looked = await change.carry_out(client, Terms())
        if looked.digest != form.get("seen") and form.get("anyway") != "yes":
            raise HasMoved(looked)
        began = datetime.now(UTC)
        terms = Terms(validate_only=False, reason=reason, request_id=request_id)
        outcome = await change.carry_out(client, terms)
        return Done(
            wizard=wizard,
            change=change,
            outcome=attrs.evolve(outcome, rows=outcome.rows[:ROWS_KEPT_MAX]),
            row_count=len(outcome.rows),
            reason=reason,
            request_id=request_id,
            began=began,
            has_moved=outcome.digest != looked.digest,
        )

    async def _page(
        self,
        request: Request,
        wizard: Wizard,
        group_id: str,
        fields: Fields,
        look: Look | None,
    ) -> Response:
        session = self.cookie.session_of(request)
        made = session or new_session()
        named = name_parameters(group_id) if wizard.is_of_group else {}
        shown = {
            "wizard": wizard,
            "group_id": group_id,
            "named": {_CODED + name: quote(value, safe="") for name, value in named.items()},
            "fields": {name: fields.get(name, "") for name in wizard.fields},
            "look": look,
            "reason": fields.get("reason", ""),
            "csrf": self.cookie.form_token(made),
            # The same id as long as it is the same form: a change whose end is not known is not
            # made twice.
            "request_id": fields.get("request_id") or str(uuid4()),
            **await wizard.choices(self.client, group_id, fields),
        }
        status = look.status if look else 200
        answer = self.render(request, "changes/wizard.html", shown, status)
        if session is None:
            self.cookie.set_on(answer, made)
        return answer

    def _failed(self, request: Request, look: Look, status: int | None = None) -> Response:
        shown = {"failure": look.title, "told": look.problem, "advice": look.advice}
        return self.render(request, "failure.html", shown, status or look.status)

    async def _audited(self, done: Done) -> AuditEvent | None:
        """The audit entry of a change, if the viewer may see it."""
        events = self.client.list_audit_events(
            methods=[done.wizard.method],
            start_time=done.began - _CLOCKS_DIFFER,
            page_size=_EVENTS_SEARCHED,
        )
        newest = await first(events, _EVENTS_SEARCHED)
        return next((each for each in newest if each.request_id == done.request_id), None)


def _decoded(fields: Mapping[str, str]) -> dict[str, str]:
    """Fields of a form: what names a group comes percent-encoded.

    Otherwise a browser would change the line breaks in it.
    """
    coded = {name: value for name, value in fields.items() if name.startswith(_CODED)}
    names = {
        name.removeprefix(_CODED): unquote(value, errors="strict") for name, value in coded.items()
    }
    return {name: value for name, value in fields.items() if name not in coded} | names


def _audit_link(done: Done, event: AuditEvent | None) -> str:
    """The address of the audit page with this change, as close as it can be told."""
    chosen = {"method": done.wizard.method}
    if done.change.group_id and is_short(done.change.group_id):
        chosen["group"] = done.change.group_id
    if event is not None:
        chosen["since"] = event.time.isoformat(timespec="milliseconds")
        chosen["until"] = (event.time + _MILLISECOND).isoformat(timespec="milliseconds")
    return f"/audit?{urlencode(chosen)}"
