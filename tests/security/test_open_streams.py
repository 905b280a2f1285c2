"""Streams and watchers that are open while rights, tokens and certificates change."""

from __future__ import annotations

import os
import queue
import ssl
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from offsetd.v1 import acl_service_pb2 as acls
from offsetd.v1 import history_pb2, offset_service_pb2
from security.secured_server import GROUP, SUPER_USER, TOPIC, SecuredFiles, called, request_of
from server_process import ServerProcess, Stubs, poll
from token_files import TokenFile, wall_ms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from certificates import Authority

STREAMS = 4  # And as many watchers.
SECONDS_MAX = 60
LIVES_MS = (4_000, 15_000, 60_000)
COMMITTED, REFUSED = "committed", "refused"


class Tokens:
    """A server with rules that can be changed, its file of tokens, and a super user's token."""

    def __init__(self, server: ServerProcess, file: TokenFile, root: str) -> None:
        self.server = server
        self.file = file
        self.root = bearer(root)

    def create(self, principal: str) -> tuple[Any, str]:
        """The metadata with a new token, and the token's id. Returns once the server knows it."""
        token, token_id = self.file.create(principal)
        metadata = bearer(token)
        with grpc.insecure_channel(self.server.address) as channel:
            poll(
                lambda: (
                    called(channel, "ListGroups", request_of("ListGroups"), metadata).code
                    is grpc.StatusCode.OK
                ),
                SECONDS_MAX,
            )
        return metadata, token_id


def bearer(token: str) -> Any:
    return [("authorization", f"Bearer {token}")]


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[Tokens]:
    file = TokenFile(tmp_path / "tokens.toml")
    root, _ = file.create(SUPER_USER)
    settings = {
        "security.tokens.file": file.path,
        "security.acl.enable": "true",
        "super.users": SUPER_USER,
        "history.ms": 3_600_000,
    }
    with ServerProcess(tmp_path / "data", settings=settings) as server:
        server.wait_until_serving()
        yield Tokens(server, file, root)


def acl(name: str, resource_type: int, operation: int = acls.ACL_OPERATION_READ) -> Any:
    return acls.Acl(
        principal="User:writer",
        host="*",
        permission=acls.ACL_PERMISSION_ALLOW,
        operation=operation,
        resource_type=resource_type,
        name=name,
        pattern_type=acls.PATTERN_TYPE_LITERAL,
    )


GROUP_RIGHT = acl(GROUP, acls.RESOURCE_TYPE_GROUP)
TOPIC_RIGHT = acl(TOPIC, acls.RESOURCE_TYPE_TOPIC)


class Answers(threading.Thread):
    """A call that goes on: what it answers, and when; and how it ends."""

    def __init__(self, stack: ExitStack, tokens: Tokens, metadata: Any) -> None:
        super().__init__(daemon=True)
        self.channel = stack.enter_context(grpc.insecure_channel(tokens.server.address))
        self.stubs = Stubs(self.channel)
        self.metadata = metadata
        self.answers: list[tuple[float, str]] = []
        self.code: grpc.StatusCode | None = None
        self.start()

    def run(self) -> None:
        try:
            for answer in self.called():
                self.answers.append((time.monotonic(), answer))
            self.code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            status: Any = error
            self.code = status.code()

    def called(self) -> Iterator[str]:
        raise NotImplementedError

    def after(self, moment: float) -> list[str]:
        return [answer for when, answer in self.answers if when > moment and answer == COMMITTED]


class Stream(Answers):
    """Commits one after the other, each after the answer to the one before."""

    def called(self) -> Iterator[str]:
        sent: queue.SimpleQueue[Any] = queue.SimpleQueue()
        calls = self.stubs.offsets.StreamCommits(iter(sent.get, None), metadata=self.metadata)
        sequence = 0
        while True:
            sequence += 1
            request = offset_service_pb2.StreamCommitsRequest()
            # Two commits are read by the kernel, one alone in another way: both ways are tried.
            for each in range(1 + sequence % 2):
                commit = request.commits.add(sequence=2 * sequence + each).commit
                commit.CopyFrom(request_of("CommitOffsets"))
            sent.put(request)
            for result in next(calls).results:
                yield COMMITTED if result.HasField("committed") else REFUSED


class Watcher(Answers):
    """Watches the group."""

    def called(self) -> Iterator[str]:
        request = history_pb2.WatchOffsetsRequest(group_ids=[GROUP])
        for answer in self.stubs.offsets.WatchOffsets(request, metadata=self.metadata):
            if answer.events:
                yield COMMITTED


def test_a_right_that_is_taken_away_ends_at_once(tokens: Tokens) -> None:
    with ExitStack() as stack:
        metadata, _ = tokens.create("User:writer")
        root = Stubs(stack.enter_context(grpc.insecure_channel(tokens.server.address)))
        added = acls.AddAclsRequest(acls=[GROUP_RIGHT, TOPIC_RIGHT])
        root.acls.AddAcls(added, metadata=tokens.root)
        streams = [Stream(stack, tokens, metadata) for _ in range(STREAMS)]
        watchers = [Watcher(stack, tokens, metadata) for _ in range(STREAMS)]
        everybody: list[Answers] = [*streams, *watchers]
        poll(lambda: all(len(each.after(0)) > 5 for each in everybody), SECONDS_MAX)
        removed = acls.RemoveAclsRequest(acls=[GROUP_RIGHT])
        root.acls.RemoveAcls(removed, metadata=tokens.root)
        moment = time.monotonic()
        poll(lambda: all(each.code is not None for each in watchers), SECONDS_MAX)
        poll(lambda: all(each.answers[-1][1] == REFUSED for each in streams), SECONDS_MAX)
        assert {each.code for each in watchers} == {grpc.StatusCode.PERMISSION_DENIED}
        assert {each.code for each in streams} == {None}, "the streams themselves go on"
        # One message may have been on its way; a message of a stream has up to two results.
        assert max(len(each.after(moment)) for each in watchers) <= 1
        assert max(len(each.after(moment)) for each in streams) <= 2
        root.acls.AddAcls(added, metadata=tokens.root)
        poll(lambda: all(each.answers[-1][1] == COMMITTED for each in streams), SECONDS_MAX)


def test_a_topic_is_refused_commit_by_commit(tokens: Tokens) -> None:
    metadata, _ = tokens.create("User:writer")
    with grpc.insecure_channel(tokens.server.address) as channel:
        stubs = Stubs(channel)
        added = acls.AddAclsRequest(acls=[GROUP_RIGHT, TOPIC_RIGHT])
        stubs.acls.AddAcls(added, metadata=tokens.root)
        # The second message has what is known to be allowed, and a topic that looks like it.
        messages, topics = [], [TOPIC, TOPIC, TOPIC, "secret", TOPIC]
        assert len(topics[3]) == len(TOPIC)
        for places in (range(2), range(2, 5)):
            messages.append(offset_service_pb2.StreamCommitsRequest())
            for place in places:
                commit = messages[-1].commits.add(sequence=place).commit
                commit.CopyFrom(request_of("CommitOffsets", topic=topics[place]))
        answers = stubs.offsets.StreamCommits(iter(messages), metadata=metadata)
        results = {each.sequence: each for answer in answers for each in answer.results}
        assert [results[place].HasField("committed") for place in range(5)] == [
            topic == TOPIC for topic in topics
        ]
        assert results[3].error.code == grpc.StatusCode.PERMISSION_DENIED.value[0]
        fetched = called(channel, "FetchOffsets", request_of("FetchOffsets"), tokens.root)
        assert [each.topic for each in fetched.answers[0].groups[0].offsets] == [TOPIC]


def test_the_streams_of_a_revoked_token_end(tokens: Tokens) -> None:
    with ExitStack() as stack:
        metadata, token_id = tokens.create("User:writer")
        root = Stubs(stack.enter_context(grpc.insecure_channel(tokens.server.address)))
        added = acls.AddAclsRequest(acls=[GROUP_RIGHT, TOPIC_RIGHT])
        root.acls.AddAcls(added, metadata=tokens.root)
        everybody = [Stream(stack, tokens, metadata), Watcher(stack, tokens, metadata)]
        poll(lambda: all(len(each.after(0)) > 5 for each in everybody), SECONDS_MAX)
        tokens.file.revoke(token_id)
        poll(lambda: all(each.code is not None for each in everybody), SECONDS_MAX)
        # A client opens them again, and is refused then, unless it has a new token.
        assert {each.code for each in everybody} == {grpc.StatusCode.UNAVAILABLE}
        again = called(everybody[0].channel, "ListGroups", request_of("ListGroups"), metadata)
        assert again.code is grpc.StatusCode.UNAUTHENTICATED


def test_an_idle_watch_ends_when_its_token_expires(tokens: Tokens) -> None:
    request = history_pb2.WatchOffsetsRequest(group_ids=[GROUP])
    request.progress_interval.FromSeconds(3600)
    with grpc.insecure_channel(tokens.server.address) as channel:
        for life_ms in LIVES_MS:  # A slow machine needs a longer one to begin with.
            end_ms = wall_ms() + life_ms
            token, _ = tokens.file.create(SUPER_USER, life_ms=life_ms)
            while wall_ms() < end_ms:
                watch = Stubs(channel).offsets.WatchOffsets(
                    request, metadata=bearer(token), timeout=SECONDS_MAX
                )
                try:
                    next(watch)
                except grpc.RpcError:  # The server does not know the token yet.
                    continue
                with pytest.raises(grpc.RpcError, match="the token has expired"):
                    next(watch)
                return
    pytest.fail("no token was known before its end")


def test_a_certificate_is_exchanged_under_an_open_connection(
    tmp_path: Path, authority: Authority
) -> None:
    files = SecuredFiles(tmp_path, authority)
    with ServerProcess(tmp_path / "data", settings=files.tls_settings) as server:
        server.wait_until_serving()
        host, _, port = server.address.rpartition(":")
        before = ssl.get_server_certificate((host, int(port)))
        assert before.encode().strip() in (tmp_path / "server.pem").read_bytes()
        with files.channel(server.address) as channel:
            assert called(channel, "CommitOffsets", request_of("CommitOffsets")).code.name == "OK"
            new = authority.issue("server-new")
            # The new certificate comes without its key at first: the old pair stays in use.
            replace(tmp_path / "server.pem", new.certificate_pem)
            server.wait_for_event("the old certificate stays in use")
            assert ssl.get_server_certificate((host, int(port))) == before
            replace(tmp_path / "server.key", new.key_pem)
            poll(lambda: ssl.get_server_certificate((host, int(port))) != before, SECONDS_MAX)
            assert called(channel, "CommitOffsets", request_of("CommitOffsets")).code.name == "OK"
        with files.channel(server.address) as channel:
            assert called(channel, "CommitOffsets", request_of("CommitOffsets")).code.name == "OK"


def replace(path: Path, content: bytes) -> None:
    beside = path.with_suffix(".part")
    beside.write_bytes(content)
    os.replace(beside, path)
