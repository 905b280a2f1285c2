# Made from aio/client.py by .ci/sync_from_aio: change that, then run `make sync`.
"""OffsetClient: every call."""

import copy
import logging
from types import TracebackType
from typing import Self

from offsetd_clients.connection import address_of
from offsetd_clients.errors import CommitsUnanswered
from offsetd_clients.retry import RetryPolicy
from offsetd_clients.security import Security, TlsOptions, Token
from offsetd_clients.sync.admin import AdminCalls
from offsetd_clients.sync.changes import ChangeCalls
from offsetd_clients.sync.concurrency import when_gone
from offsetd_clients.sync.groups import GroupCalls
from offsetd_clients.sync.history import HistoryCalls
from offsetd_clients.sync.leases import LeaseCalls
from offsetd_clients.sync.membership import MembershipCalls
from offsetd_clients.sync.offsets import OffsetCalls
from offsetd_clients.sync.servers import Servers
from offsetd_clients.sync.transport import Channel

log = logging.getLogger("offsetd_clients")


class Lifetime:
    """Of a client, and of those that share its connection."""


class OffsetClient(
    OffsetCalls, GroupCalls, MembershipCalls, LeaseCalls, ChangeCalls, HistoryCalls, AdminCalls
):
    """Commits, fetches and deletes the offsets of consumer groups; every OK is on the disk.

    Safe to share between all that run beside each other, not across a fork. Each call makes as
    many tries as fit into the retry policy's deadline while the server is unavailable; a write
    carries a request id, so that a try whose answer was lost is not applied twice. Every call may
    raise `OffsetdError`, and TypeError for an argument that is none of its kind. Whole numbers may
    be numpy's. Leaving its `with` waits for commits, as `close` does.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        stream_commits: bool = True,
        tls: TlsOptions | None = None,
        token: Token | None = None,
        token_without_tls: bool = False,
    ) -> None:
        """Connects when first used. `address`: `host:port`, or what `OFFSETD_ADDRESS` says.
        Raises ValueError for what is neither, nor one of gRPC's names for others (`unix:…`).

        `stream_commits`: commits share a stream, as far as the server knows such; else each is a
        call of its own. `token` goes with each call (`authorization: Bearer …`), where a stream is
        one; a function is asked for it each time. Raises `InsecureToken` if it were to go to
        another machine without TLS.
        """
        self.address = address_of(address)
        self._retry = retry or RetryPolicy()
        security = Security(tls=tls, token=token, token_without_tls=token_without_tls)
        self._servers = Servers(
            self.address,
            self._retry,
            lambda at: Channel(at, security),
            stream_commits=stream_commits,
        )
        self._lifetime = Lifetime()
        when_gone(self._lifetime, self._servers.retire)

    def with_retry(self, retry: RetryPolicy) -> Self:
        """This client over the same connection, with another policy for its calls.

        Of commits it is another deadline alone: they share the stream, and its tries.
        """
        other = copy.copy(self)
        other._retry = retry
        return other

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except CommitsUnanswered as unanswered:
            if error is None:
                raise
            error.add_note(f"while the client was closed: {unanswered}")
            log.warning("while the client was closed: %s", unanswered)

    def flush(self, timeout_s: float | None = None) -> None:
        """Waits until the server has answered all commits that were handed in before this call.

        It waits at the longest `timeout_s`, or as the retry policy says. Raises `CommitsUnanswered`
        if commits have no answer then, or none in their own time. What the server has refused is
        said by the future of the commit.
        """
        self._servers.flush(self._retry.timeout_s if timeout_s is None else timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Waits as `flush` does, and closes the connection; 0: it waits for nothing.

        All other calls in flight, and all later ones, raise `ClientClosed`, as do the futures of
        commits that it gives up. Raises `CommitsUnanswered` if there are such, when all is closed.
        """
        self._servers.close(self._retry.timeout_s if timeout_s is None else timeout_s)
