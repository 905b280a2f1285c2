"""Planted bugs of the clients' calls."""

from __future__ import annotations

from mutants.planted import Mutant

_CLIENTS = "clients/offsetd_clients"
_TESTS = "tests/unit/clients"

CLIENT_MUTANTS = (
    Mutant(
        name="what was sent on a stream that broke goes behind what waits",
        file=f"{_CLIENTS}/commit_queue.py",
        replace="        self._waiting.extendleft(reversed(sent))\n",
        by="        self._waiting.extend(sent)\n",
        caught_by=f"{_TESTS}/test_commit_queue.py",
    ),
    Mutant(
        name="a commit that lost a comparison is sent again",
        file=f"{_CLIENTS}/commit_queue.py",
        replace="        if not is_tried_again(error) or due_s >= commit.deadline_s:\n",
        by="        if due_s >= commit.deadline_s:\n",
        caught_by=f"{_TESTS}/test_commit_queue.py",
    ),
    Mutant(
        name="what an earlier stream may have done is forgotten",
        file=f"{_CLIENTS}/commit_queue.py",
        replace="            error.earlier_outcome_unknown = True\n",
        by="            pass\n",
        caught_by=f"{_TESTS}/test_commits.py",
    ),
    Mutant(
        name="a stream that answers nothing is waited for until the deadline",
        file=f"{_CLIENTS}/commit_queue.py",
        replace="            is_stuck = next_s[-1] <= now_s\n",
        by="            is_stuck = False\n",
        caught_by=f"{_TESTS}/test_commit_queue.py",
    ),
    Mutant(
        name="commits wait without end in front of a server that refuses the stream",
        file=f"{_CLIENTS}/commit_queue.py",
        replace="            if not sent:\n",
        by="            if False:\n",
        caught_by=f"{_TESTS}/test_commit_queue.py",
    ),
    Mutant(
        name="a client that is left gives up the commits that were handed in",
        file=f"{_CLIENTS}/aio/client.py",
        replace="_servers.close(self._retry.timeout_s if timeout_s is None else timeout_s)\n",
        by="_servers.close(0.0)\n",
        caught_by=f"{_TESTS}/test_commits_flushed.py",
    ),
    Mutant(
        name="commits that are given up are not said",
        file=f"{_CLIENTS}/aio/servers.py",
        replace="            raise\n        if left := await self._ended(commits):\n",
        by="            raise\n        if not await self._ended(commits) and (left := []):\n",
        caught_by=f"{_TESTS}/test_commits_flushed.py",
    ),
    Mutant(
        name="what cannot be understood of TLS means plain text",
        file=f"{_CLIENTS}/connection.py",
        replace="        return _FLAGS[text.lower()]\n",
        by="        return _FLAGS.get(text.lower(), False)\n",
        caught_by=f"{_TESTS}/test_cli_connection.py",
    ),
    Mutant(
        name="an owner that cannot be reached is asked for ever",
        file=f"{_CLIENTS}/aio/servers.py",
        replace="                    self._owners.forget(group_id)\n",
        by="                    pass\n",
        caught_by=f"{_TESTS}/test_servers.py",
    ),
    Mutant(
        name="a token goes to another machine without TLS",
        file=f"{_CLIENTS}/security.py",
        replace="        if self.token is not None and is_open:\n",
        by="        if self.token is not None and is_open and callable(self.token):\n",
        caught_by=f"{_TESTS}/test_security.py",
    ),
    Mutant(
        name="a forked child speaks over its parent's connection",
        file=f"{_CLIENTS}/sync/transport.py",
        replace="        if os.getpid() != self._process:\n            raise",
        by="        if False:\n            raise",
        caught_by=f"{_TESTS}/test_servers.py",
    ),
    Mutant(
        name="a commit's bytes have the length of another",
        file=f"{_CLIENTS}/offset_messages.py",
        replace='    return b"\\x0a" + _varint(len(head) + len(commit)) + head + commit\n',
        by='    return b"\\x0a" + _varint(len(commit)) + head + commit\n',
        caught_by=f"{_TESTS}/test_offset_messages.py",
    ),
    Mutant(
        name="the last commits of an answer are told to nobody",
        file=f"{_CLIENTS}/commit_queue.py",
        replace="        if size >= _PORTION_BYTES or end == len(outcomes):\n",
        by="        if size >= _PORTION_BYTES:\n",
        caught_by=f"{_TESTS}/test_commit_queue.py",
    ),
    Mutant(
        name="what is wrong with one group is told to all who share its call",
        file=f"{_CLIENTS}/aio/shared_fetches.py",
        replace="isinstance(error, OffsetdError) and _is_of_all(error) else None\n",
        by="isinstance(error, OffsetdError) else None\n",
        caught_by=f"{_TESTS}/test_shared_fetches.py",
    ),
    Mutant(
        name="a second call has all the time of the first",
        file=f"{_CLIENTS}/aio/shared_fetches.py",
        replace="self._call(request, max(deadline_s - monotonic_s(), 0.0))\n",
        by="self._call(request, timeout_s)\n",
        caught_by=f"{_TESTS}/test_shared_fetches.py",
    ),
    Mutant(
        name="the first try's failure is not counted as a try",
        file=f"{_CLIENTS}/retry.py",
        replace="        self._first = error\n",
        by="        pass\n",
        caught_by=f"{_TESTS}/test_retry.py",
    ),
    Mutant(
        name="all commits of an answer are told before anybody goes on",
        file=f"{_CLIENTS}/aio/commits.py",
        replace="                    await others_go_on()  # They make their next commits.\n",
        by="                    pass\n",
        caught_by=f"{_TESTS}/test_commits.py",
    ),
    Mutant(
        name="a stream is opened though nothing is for it",
        file=f"{_CLIENTS}/aio/commits.py",
        replace="            if self._queue.streams and self._queue.has_work:\n",
        by="            if self._queue.streams:\n",
        caught_by=f"{_TESTS}/test_commits_alone.py",
    ),
)
