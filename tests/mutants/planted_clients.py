"""Planted bugs of the clients' calls."""

from __future__ import annotations

from mutants.planted import Mutant

_TESTS = "tests/unit/clients"

CLIENT_MUTANTS = (
    Mutant(
        name="a key that does not fit its certificate is left to gRPC",
        where="offsetd_clients.calling.key_pair_check:check_key_pair",
        replace="if error.reason in _OTHER_KEY:",
        by="if False:",
        caught_by=f"{_TESTS}/calling/test_security.py",
    ),
    Mutant(
        name="a client without a certificate is told that its certificate is wrong",
        where="offsetd_clients.calling.handshakes:_hint",
        replace="_NO_CERTIFICATE if tls.certificate is None else _CERTIFICATE",
        by="_CERTIFICATE",
        caught_by="tests/security/test_failed_handshakes.py",
    ),
    Mutant(
        name="a token is awaited for ever",
        where="offsetd_clients.calling.security:Security.metadata_async",
        replace="await asyncio.wait_for(token, timeout_s or _TOKEN_TIMEOUT_S)",
        by="await token",
        caught_by=f"{_TESTS}/calling/test_security.py",
    ),
    Mutant(
        name="what was sent on a stream that broke goes behind what waits",
        where="offsetd_clients.calling.commit_queue:CommitQueue.stream_ended",
        replace="self._waiting.extendleft(reversed(sent))",
        by="self._waiting.extend(sent)",
        caught_by=f"{_TESTS}/calling/test_commit_queue.py",
    ),
    Mutant(
        name="a commit that lost a comparison is sent again",
        where="offsetd_clients.calling.commit_queue:CommitQueue.put_off",
        replace="if not is_tried_again(error) or due_s >= commit.deadline_s:",
        by="if due_s >= commit.deadline_s:",
        caught_by=f"{_TESTS}/calling/test_commit_queue.py",
    ),
    Mutant(
        name="what an earlier stream may have done is forgotten",
        where="offsetd_clients.calling.commit_queue:HandedIn.failed",
        replace="error.earlier_outcome_unknown = True",
        by="pass",
        caught_by=f"{_TESTS}/aio/test_commits.py",
    ),
    Mutant(
        name="a stream that answers nothing is waited for until the deadline",
        where="offsetd_clients.calling.commit_queue:CommitQueue.sweep",
        replace="is_stuck = next_s[-1] <= now_s",
        by="is_stuck = False",
        caught_by=f"{_TESTS}/calling/test_commit_queue.py",
    ),
    Mutant(
        name="commits wait without end in front of a server that refuses the stream",
        where="offsetd_clients.calling.commit_queue:CommitQueue.stream_ended",
        replace="if not sent:",
        by="if False:",
        caught_by=f"{_TESTS}/calling/test_commit_queue.py",
    ),
    Mutant(
        name="a client that is left gives up the commits that were handed in",
        where="offsetd_clients.aio.client:AsyncOffsetClient.close",
        replace="_servers.close(self._retry.timeout_s if timeout_s is None else timeout_s)",
        by="_servers.close(0.0)",
        caught_by=f"{_TESTS}/aio/test_commits_flushed.py",
    ),
    Mutant(
        name="commits that are given up are not said",
        where="offsetd_clients.aio.servers:Servers.close",
        replace="    raise\nif left := await self._ended(commits):",
        by="    raise\nif not await self._ended(commits) and (left := []):",
        caught_by=f"{_TESTS}/aio/test_commits_flushed.py",
    ),
    Mutant(
        name="what cannot be understood of TLS means plain text",
        where="offsetd_clients.calling.connection:flag_of",
        replace="return _FLAGS[text.lower()]",
        by="return _FLAGS.get(text.lower(), False)",
        caught_by=f"{_TESTS}/cli/test_connection.py",
    ),
    Mutant(
        name="an owner that cannot be reached is asked for ever",
        where="offsetd_clients.aio.servers:Servers.asked.attempt",
        replace="self._owners.leave(sought, channel.address)",
        by="pass",
        caught_by=f"{_TESTS}/aio/test_servers.py",
    ),
    Mutant(
        name="a token goes to another machine without TLS",
        where="offsetd_clients.calling.security:Security.check",
        replace="if self.token is not None and is_open:",
        by="if self.token is not None and is_open and callable(self.token):",
        caught_by=f"{_TESTS}/calling/test_security.py",
    ),
    Mutant(
        name="a forked child speaks over its parent's connection",
        where="offsetd_clients.sync.transport:Channel.check_process",
        replace="if os.getpid() != self._process:\n    raise",
        by="if False:\n    raise",
        caught_by=f"{_TESTS}/aio/test_servers.py",
    ),
    Mutant(
        name="a commit's bytes have the length of another",
        where="offsetd_clients.messages.offset_messages:sequenced_commit",
        replace='return b"\\x0a" + varint(len(head) + len(commit)) + head + commit',
        by='return b"\\x0a" + varint(len(commit)) + head + commit',
        caught_by=f"{_TESTS}/messages/test_offset_messages.py",
    ),
    Mutant(
        name="the last commits of an answer are told to nobody",
        where="offsetd_clients.calling.commit_queue:portions",
        replace="if size >= _PORTION_BYTES or end == len(outcomes):",
        by="if size >= _PORTION_BYTES:",
        caught_by=f"{_TESTS}/calling/test_commit_queue.py",
    ),
    Mutant(
        name="what is wrong with one group is told to all who share its call",
        where="offsetd_clients.aio.shared_fetches:SharedFetches._share",
        replace="isinstance(error, OffsetdError) and _is_of_all(error) else None",
        by="isinstance(error, OffsetdError) else None",
        caught_by=f"{_TESTS}/aio/test_shared_fetches.py",
    ),
    Mutant(
        name="a second call has all the time of the first",
        where="offsetd_clients.aio.shared_fetches:SharedFetches.fetch",
        replace="self._call(request, max(deadline_s - monotonic_s(), 0.0))",
        by="self._call(request, timeout_s)",
        caught_by=f"{_TESTS}/aio/test_shared_fetches.py",
    ),
    Mutant(
        name="the first try's failure is not counted as a try",
        where="offsetd_clients.calling.retry:Tries.will_go_on",
        replace="self._first = error",
        by="pass",
        caught_by=f"{_TESTS}/calling/test_retry.py",
    ),
    Mutant(
        name="all commits of an answer are told before anybody goes on",
        where="offsetd_clients.aio.commits:Commits._stream",
        replace="await others_go_on()",
        by="pass",
        caught_by=f"{_TESTS}/aio/test_commits.py",
    ),
    Mutant(
        name="a stream is opened though nothing is for it",
        where="offsetd_clients.aio.commits:Commits._send",
        replace="if self._queue.streams and self._queue.has_work:",
        by="if self._queue.streams:",
        caught_by=f"{_TESTS}/aio/test_commits_alone.py",
    ),
)
