"""Tokens and their file, with random content: nothing is lost, nothing wrong is an identity."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from offsetd_clients.cli.arguments.time_spans import parse_duration
from offsetd_coordinator.commands.token_commands import _expiry_ms
from offsetd_coordinator.security.token_file import (
    InvalidTokenFile,
    parse_token_file,
    token_file_content,
)
from offsetd_coordinator.security.tokens import StoredToken, TokenTable, new_token

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy
    from offsetd_clients.cli.printing.terminal import Terminal

NIGHTLY = bool(os.environ.get("OFFSETD_NIGHTLY"))
FUZZED = settings(max_examples=50_000 if NIGHTLY else 300)
NOW_MS = 1_795_208_775_341
YEAR_9999_MS = 253_402_300_799_999
TOKEN, STORED = new_token("User:alice", now_ms=NOW_MS)
OTHER, OTHERS = new_token("User:bob", now_ms=NOW_MS)
TABLE = TokenTable([STORED, OTHERS])
CONTENT = token_file_content(TABLE.tokens)


def texts() -> SearchStrategy[str]:
    """All that UTF-8 can say."""
    return st.text(st.characters(exclude_categories=["Cs"]))


@st.composite
def stored_tokens(draw: DrawFn) -> StoredToken:
    times = st.integers(0, YEAR_9999_MS)
    return StoredToken(
        token_id=draw(st.binary(min_size=8, max_size=8)).hex(),
        principal="User:" + draw(texts().filter(lambda name: name not in ("", "*", "ANONYMOUS"))),
        salt=draw(st.binary(min_size=16, max_size=16)),
        secret_hash=draw(st.binary(min_size=32, max_size=32)),
        created_ms=draw(times),
        expires_ms=draw(st.none() | times),
        note=draw(texts()),
    )


@given(st.lists(stored_tokens(), max_size=3, unique_by=lambda token: token.token_id))
def test_what_is_written_is_read_again(tokens: list[StoredToken]) -> None:
    assert parse_token_file(token_file_content(tokens)).tokens == tuple(tokens)


@st.composite
def altered(draw: DrawFn, whole: str) -> str:
    """The text with some characters taken out, put in or exchanged."""
    text = whole
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(text)))
        until = draw(st.integers(place, min(len(text), place + 3)))
        new = draw(st.text(st.sampled_from("aA0_-=. \n\x00é\uff10") | st.characters(), max_size=3))
        text = text[:place] + new + text[until:]
    return text


@FUZZED
@given(st.one_of(st.text(), altered(TOKEN), st.binary().map(lambda raw: raw.decode("latin-1"))))
def test_only_the_token_itself_is_an_identity(text: str) -> None:
    found = TABLE.identify(text, NOW_MS)
    assert (found is not None) == (text in (TOKEN, OTHER))


@st.composite
def well_formed(draw: DrawFn) -> str:
    """What looks like a token; half of them have the id of one."""
    ids = st.sampled_from([STORED.token_id, OTHERS.token_id])
    drawn = st.binary(min_size=8, max_size=8).map(bytes.hex)
    secret = base64.urlsafe_b64encode(draw(st.binary(min_size=33, max_size=60)))
    return f"offsetd_{draw(ids | drawn)}_{secret.decode().rstrip('=')}"


@FUZZED
@given(well_formed())
def test_a_token_that_looks_right_is_nobodys(guess: str) -> None:
    assert TABLE.identify(guess, NOW_MS) is None


def contents() -> SearchStrategy[bytes]:
    """Any bytes, or a file in which some characters are wrong."""
    files = altered(CONTENT.decode())
    return st.binary() | files.map(lambda text: text.encode("utf-8", "surrogatepass"))


def problem_of(content: bytes) -> str:
    """The error; empty if it is a file of tokens."""
    try:
        parse_token_file(content)
    except InvalidTokenFile as error:
        return str(error)
    return ""


def test_no_error_of_a_content_has_a_hash() -> None:
    lines = CONTENT.splitlines(keepends=True)
    for place, line in enumerate(lines):
        half = line[: len(line) // 2]
        for new in (b"", half, half + b"\n", line * 2, line.replace(b"=", b" ")):
            told = problem_of(b"".join([*lines[:place], new, *lines[place + 1 :]]))
            for stored in TABLE.tokens:
                assert stored.secret_hash.hex() not in told


@settings(max_examples=10_000 if NIGHTLY else 300)
@given(contents())
def test_a_content_is_tokens_or_an_error(content: bytes) -> None:
    if problem_of(content):
        return
    table = parse_token_file(content)
    for token in table.tokens:
        assert token.principal.startswith("User:")
        assert (len(token.salt), len(token.secret_hash)) == (16, 32)
    assert parse_token_file(token_file_content(table.tokens)).tokens == table.tokens


@given(
    st.lists(
        st.tuples(st.sampled_from(["make", "revoke"]), st.integers(0, 9), st.integers(-3, 3)),
        max_size=20,
    )
)
def test_a_token_is_valid_if_it_is_there_and_has_time_left(
    steps: list[tuple[str, int, int]],
) -> None:
    kept: list[tuple[str, StoredToken]] = []
    revoked: list[str] = []
    for step, number, left_ms in steps:
        if step == "make":
            expires_ms = NOW_MS + left_ms if number else None
            kept.append(new_token(f"User:{number}", now_ms=NOW_MS, expires_ms=expires_ms))
        elif kept:
            revoked.append(kept.pop(number % len(kept))[0])
    table = parse_token_file(token_file_content(stored for _, stored in kept))
    assert [table.identify(token, NOW_MS) for token in revoked] == [None] * len(revoked)
    for token, stored in kept:
        is_valid = stored.expires_ms is None or stored.expires_ms > NOW_MS
        identity = (stored.principal, stored.token_id, stored.expires_ms)
        assert table.identify(token, NOW_MS) == (identity if is_valid else None)
        assert table.holds(stored.token_id)


@given(
    st.one_of(
        st.text(max_size=8),
        st.builds(
            "{}{}".format,
            st.integers(0, 10**16) | st.integers(0, 400),
            st.sampled_from(["ms", "s", "m", "h", "d", "w", "y", "", " d", "D"]),
        ),
    )
)
def test_a_time_to_live_is_written_as_the_other_durations(text: str) -> None:
    class Failing:
        def fail(self, _text: str, code: int) -> None:
            raise SystemExit(code)

    terminal: Terminal = Failing()  # type: ignore[assignment]
    try:
        duration = parse_duration(text)
    except ValueError:
        duration = None
    milliseconds = 0 if duration is None else round(duration.total_seconds() * 1000)
    if 0 < milliseconds <= YEAR_9999_MS - NOW_MS:
        assert _expiry_ms(terminal, text, NOW_MS) == NOW_MS + milliseconds
    else:
        with pytest.raises(SystemExit) as ended:
            _expiry_ms(terminal, text, NOW_MS)
        assert ended.value.code == 2
