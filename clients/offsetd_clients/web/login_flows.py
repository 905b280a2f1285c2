"""The logins that viewers have begun at the provider, and not yet ended."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import attrs

FLOW_S: Final = 600
_FLOWS_MAX: Final = 10_000
_FLOWS_OF_BROWSER_MAX: Final = 10


class TooManyFlows(Exception):
    """No login can begin until others have ended."""


@attrs.frozen
class Flow:
    """A login that was begun: what Authlib keeps of it, and where the viewer wants to go."""

    following: str
    began_s: float
    before: str | None
    """The session that the viewer has already, which the new one replaces."""
    kept: dict[str, object] = attrs.field(factory=dict)


class LoginFlows:
    """Flows by the cookie of the browser and by the state: each tab may begin a login."""

    def __init__(
        self, monotonic_s: Callable[[], float] = time.monotonic, flows_max: int = _FLOWS_MAX
    ) -> None:
        self._monotonic_s = monotonic_s
        self._flows_max = flows_max
        self._flows: OrderedDict[tuple[str, str], Flow] = OrderedDict()

    def begun(self, following: str, before: str | None) -> Flow:
        """A flow that begins now. It is not kept yet."""
        return Flow(following, self._monotonic_s(), before)

    def keep(self, browser: str, state: str, flow: Flow) -> None:
        """Keeps a flow. Raises TooManyFlows: everyone may begin one, so none makes way.

        Only the oldest flow of the same browser does.
        """
        for each in self._of(browser)[: 1 - _FLOWS_OF_BROWSER_MAX]:
            del self._flows[each]
        self._forget_what_is_over()
        if len(self._flows) >= self._flows_max:
            raise TooManyFlows("too many logins have begun and not ended: try again in 10 minutes")
        self._flows[browser, state] = flow

    def take(self, browser: str, state: str) -> Flow | None:
        """The flow that this browser began with this state. It can be taken once."""
        flow = self._flows.pop((browser, state), None)
        return None if flow is None or self._is_over(flow) else flow

    def replace_session(self, browser: str, session: str) -> bool:
        """Lets the other flows of a browser end its new session. Returns whether there are any."""
        others = self._of(browser)
        for each in others:
            self._flows[each] = attrs.evolve(self._flows[each], before=session)
        return bool(others)

    def _of(self, browser: str) -> list[tuple[str, str]]:
        return [each for each in self._flows if each[0] == browser]

    def _is_over(self, flow: Flow) -> bool:
        return self._monotonic_s() - flow.began_s > FLOW_S

    def _forget_what_is_over(self) -> None:
        while self._flows and self._is_over(next(iter(self._flows.values()))):
            self._flows.popitem(last=False)
