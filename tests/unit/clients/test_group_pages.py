"""Pages of groups and of a group's offsets: every item once, and tokens that are checked."""

from __future__ import annotations

import base64
import json

import pytest
from offsetd_clients.cluster_parts import Part, parts_of, token_of

PARTS = [Part((3, 4), "server-token"), Part((7,)), Part()]


def test_a_token_holds_what_remains_of_a_list() -> None:
    assert parts_of(token_of(PARTS)) == PARTS
    assert token_of([]) == ""
    assert parts_of("") == [Part()]


@pytest.mark.parametrize(
    "places",
    [
        "text",
        7,
        None,
        {},
        [],
        [1],
        [[1, 2, 3]],
        [[["x"], ""]],
        [[[1], 2]],
        [["1", ""]],
        [[[1.5], ""]],
    ],
)
def test_another_token_is_refused(places: object) -> None:
    token = base64.urlsafe_b64encode(json.dumps(places).encode()).decode()
    with pytest.raises(ValueError, match="page token"):
        parts_of(token)


@pytest.mark.parametrize("token", ["rubbish", "é", "=", "W1tbMV0sIiJdXQ= =", "[" * 100_000])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="page token"):
        parts_of(token)
