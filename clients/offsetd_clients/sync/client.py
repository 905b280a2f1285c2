# Made from aio/client.py by .ci/sync_from_aio: change that, then run `make sync`.
"""OffsetClient: the client with all its calls."""

import copy
import logging
from types import TracebackType
from typing import Self

from offsetd_clients.calling.connection import address_of, addresses_in
from offsetd_clients.calling.retry import RetryPolicy
from offsetd_clients.calling.security import Security, TlsOptions, Token
from offsetd_clients.calling.tracing import Tracing
from offsetd_clients.errors import CommitsUnanswered
from offsetd_clients.sync.acls import AclCalls
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
    """The lifetime of a client and of the copies that share its connection."""


class OffsetClient(
    OffsetCalls,
    GroupCalls,
    MembershipCalls,
    LeaseCalls,
    ChangeCalls,
    HistoryCalls,
    AdminCalls,
    AclCalls,
):
    """Commits, fetches and deletes the offsets of consumer groups.

    A call that returns has its change on the server's disk. Concurrent callers may share a client;
    a forked child process must make its own.

    While the server is unavailable, a call is retried within the deadline of the retry policy. Each
    write carries a request id, so a retry after a lost answer is not applied twice.

    Every call may raise `OffsetdError`, and TypeError for an argument of the wrong type. Whole
    numbers may be numpy's. Leaving the `with` block waits for commits, as `close` does.
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
        client_id: str | None = None,
        tracing: bool = False,
    ) -> None:
        """The client connects when it is first used.

        `address` is `host:port`, or one of gRPC's schemes (`unix:…`). If it is None, the variable
        `OFFSETD_ADDRESS` has it, else it is 127.0.0.1:7171. Raises ValueError for another form. It
        may be a list with commas, of some nodes of one cluster: if one of them cannot be reached,
        the client tries the next one.

        `stream_commits`: commits share a stream if the server supports it; otherwise each commit is
        a separate call.

        `token` is sent with each call (`authorization: Bearer …`); a stream counts as one call. A
        function is called for each call; with asyncio it may be `async`. Raises `InsecureToken` if
        the token would go to another machine without TLS, unless `token_without_tls` is set.

        `client_id` is sent with each call; the server may have quotas for this name. Raises
        ValueError if it is not printable ASCII.

        `tracing`: calls have spans of OpenTelemetry, made with the application's tracer provider,
        and the server's spans are in the same trace. Raises ModuleNotFoundError without the extra
        `otel`.
        """
        self.address = address_of(address)
        self._retry = retry or RetryPolicy()
        traced = self._tracing = Tracing() if tracing else None
        security = Security(
            tls=tls, token=token, token_without_tls=token_without_tls, client_id=client_id
        )
        self._servers = Servers(
            addresses_in(self.address),
            self._retry,
            lambda at: Channel(at, security, traced),
            stream_commits=stream_commits,
        )
        self._lifetime = Lifetime()
        when_gone(self._lifetime, self._servers.retire)

    def with_retry(self, retry: RetryPolicy) -> Self:
        """Returns this client over the same connection, with another policy for its calls.

        For commits on the stream only the deadline changes: they share the stream and its retries.
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

        It waits at most `timeout_s` seconds, or the timeout of the retry policy if it is None.
        Raises `CommitsUnanswered` if commits are then without an answer, or ran out of their own
        time before. If the server refused a commit, the future of that commit has the error.
        """
        self._servers.flush(self._retry.timeout_s if timeout_s is None else timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Waits as `flush` does, then closes the connection. With `timeout_s` 0 it does not wait.

        All other calls in flight, and all later ones, raise `ClientClosed`; so do the futures of
        commits that it gives up. If there are such commits, it raises `CommitsUnanswered` after it
        has closed the connection.
        """
        self._servers.close(self._retry.timeout_s if timeout_s is None else timeout_s)
