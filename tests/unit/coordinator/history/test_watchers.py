"""What watchers watch, and their tokens."""

from __future__ import annotations

import base64

import pytest
from offsetd_coordinator.errors import InvalidRequest
from offsetd_coordinator.history.offset_events import Change
from offsetd_coordinator.history.watchers import Filter, decode_token, encode_token
from offsetd_coordinator.kernels.records.change_records import DELETED

DIGEST = b"12345678"


def change(group: str, topic: str = "t") -> Change:
    return Change(0, 0, group.encode(), topic.encode(), 0, DELETED)


@pytest.mark.parametrize(
    ("chosen", "taken"),
    [
        (Filter(), ["a", "ab", "b"]),
        (Filter(group_ids=frozenset({b"a"})), ["a"]),
        (Filter(group_ids=frozenset({b""})), []),
        (Filter(prefix=b"a"), ["a", "ab"]),
        (Filter(group_ids=frozenset({b"b"}), prefix=b"a"), ["a", "ab", "b"]),
        (Filter(topics=frozenset({b"t"})), ["a", "ab", "b"]),
        (Filter(topics=frozenset({b"u"})), []),
    ],
)
def test_a_filter_takes_named_groups_prefixes_and_topics(chosen: Filter, taken: list[str]) -> None:
    assert [each for each in ("a", "ab", "b") if chosen.takes(change(each))] == taken


def test_filters_and_folders_have_digests_of_their_own() -> None:
    filters = [
        Filter(),
        Filter(prefix=b"a"),
        Filter(group_ids=frozenset({b"a"})),
        Filter(group_ids=frozenset({b"a", b"b"})),
        Filter(group_ids=frozenset({b"ab"})),
        Filter(topics=frozenset({b"a"})),
    ]
    digests = {each.digest(folder) for each in filters for folder in ("f", "g")}
    assert len(digests) == 2 * len(filters)
    same = Filter(group_ids=frozenset({b"b", b"a"}))
    assert same.digest("f") == filters[3].digest("f")


@pytest.mark.parametrize(
    "positions", [{}, {0: 0}, {0: 127, 49: 128}, {7: 2**62}, dict.fromkeys(range(50), 2**40)]
)
def test_a_token_holds_a_position_for_each_partition(positions: dict[int, int]) -> None:
    assert decode_token(encode_token(positions, DIGEST), DIGEST) == positions


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("ä", "not one that a server made"),
        ("A", "not one that a server made"),
        ("", "this server's version"),
        (base64.urlsafe_b64encode(b"\x02" + DIGEST).decode(), "this server's version"),
        (base64.urlsafe_b64encode(b"\x01" + b"x" * 8).decode(), "other groups or topics"),
        (base64.urlsafe_b64encode(b"\x01" + DIGEST + b"\x01").decode(), "this server's version"),
        (base64.urlsafe_b64encode(b"\x01" + DIGEST + b"\x80").decode(), "not one that a server"),
        (base64.urlsafe_b64encode(b"\x01" + DIGEST + b"\x80" * 20).decode(), "not one that"),
    ],
)
def test_what_is_no_token_is_refused(token: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        decode_token(token, DIGEST)
