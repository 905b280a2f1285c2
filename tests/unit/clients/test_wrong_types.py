"""What is no text, or no number, is refused with words that name it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from offsetd_clients import OffsetClient, OffsetToCommit, RetryPolicy, TopicPartition
from offsetd_clients.change_values import ToOffset
from offsetd_clients.messages.change_messages import reset_offsets_request
from offsetd_clients.messages.conversions import get_group_request, partition_messages
from offsetd_clients.messages.offset_messages import commit_request, fetch_request

if TYPE_CHECKING:
    from collections.abc import Callable

P0 = TopicPartition("t", 0)
SOME_BYTES: Any = b"x"
NOTHING: Any = None
FIVE: Any = 5
BYTES = TopicPartition(SOME_BYTES, 0)


def reset(group: Any, offset: Any) -> Any:
    return reset_offsets_request(
        group,
        ToOffset(offset),
        partitions=(),
        topics=(),
        bounds={},
        force=False,
        request_id="r",
        validate_only=False,
        reason="",
    )


def commit(group: Any, offset: Any = 1, epoch: Any = None, where: TopicPartition = P0) -> Any:
    return commit_request(group, {where: offset}, request_id="r", epoch=epoch)


WRONG: tuple[tuple[Callable[[], Any], str], ...] = (
    (lambda: commit("g", offset=True), "True is not a whole number"),
    (lambda: commit("g", epoch=True), "True is not a whole number"),
    (lambda: reset("g", offset=True), "True is not a whole number"),
    (lambda: OffsetToCommit(True), "True is not a whole number"),
    (lambda: OffsetToCommit(1, end_offset=False), "False is not a whole number"),
    (lambda: TopicPartition("t", True), "True is not a whole number"),
    (lambda: commit("g", where=BYTES), "topic: b'x' is not a string"),
    (lambda: partition_messages([BYTES]), "topic: b'x' is not a string"),
    (lambda: OffsetToCommit(1, metadata=SOME_BYTES), "metadata: b'x' is not a string"),
    (lambda: OffsetToCommit(1, metadata=NOTHING), "metadata: None is not a string"),
    (lambda: commit(5), "group_id: 5 is not a string"),
    (lambda: commit(b"g"), "group_id: b'g' is not a string"),
    (lambda: reset(5, 1), "group_id: 5 is not a string"),
    (lambda: get_group_request(FIVE), "group_id: 5 is not a string"),
    (lambda: fetch_request({FIVE: ()}, require_stable=False), "group_id: 5"),
    (lambda: RetryPolicy(timeout_s=NOTHING), "timeout_s = None: must be a number"),
    (lambda: RetryPolicy(wait_max_s=SOME_BYTES), "wait_max_s = b'x': must be a number"),
    (lambda: RetryPolicy(timeout_s=True), "timeout_s = True: must be a number"),
    (lambda: OffsetClient(FIVE), "an address is a string, HOST:PORT, not 5"),
    (lambda: OffsetClient(token=SOME_BYTES), "token: a text is expected, not bytes"),
)


@pytest.mark.parametrize(("call", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_is_of_another_type_is_named(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(TypeError) as raised:
        call()
    assert words in str(raised.value)


@pytest.mark.parametrize("token", ["secret\n", "secret\r\n", "", "größe", "a\nb"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ValueError, match="token: it ") as raised:
        OffsetClient(token=token)
    assert "secret" not in str(raised.value)
