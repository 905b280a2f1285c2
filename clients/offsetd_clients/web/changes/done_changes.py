"""The latest changes, by session and request id: a form that is sent twice acts once."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import datetime

import attrs

from offsetd_clients.web.changes.change import Change, Outcome, Wizard

KEPT_MAX = 500
ROWS_KEPT_MAX = 200


@attrs.frozen(kw_only=True)
class Done:
    """A change that was made. `has_moved`: something changed between the look and the change."""

    wizard: Wizard
    change: Change
    outcome: Outcome
    row_count: int
    reason: str
    request_id: str
    began: datetime
    has_moved: bool


class DoneChanges:
    """The latest changes of all sessions, in memory."""

    def __init__(self) -> None:
        self._tasks: OrderedDict[tuple[str, str], asyncio.Task[Done]] = OrderedDict()

    async def once(
        self, session: str, request_id: str, make: Callable[[], Awaitable[Done]]
    ) -> Done:
        """The change of a request id: made now, or by an earlier or a concurrent call.

        A call that fails is forgotten, so that the form may be sent again.
        """
        key = (session, request_id)
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(make())
            while len(self._tasks) > KEPT_MAX:
                self._tasks.popitem(last=False)
        try:
            # A browser that leaves must not stop a change half-way.
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            raise
        except BaseException:
            if self._tasks.get(key) is task:
                del self._tasks[key]
            raise

    def of(self, session: str | None, request_id: str) -> Done | None:
        """A change that this session has made; None if it is not known (any more)."""
        task = self._tasks.get((session or "", request_id))
        if task is None or not task.done() or task.cancelled() or task.exception():
            return None
        return task.result()
